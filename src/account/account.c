/* SPDX-License-Identifier: MIT */
#include "account/account.h"

#include "account/straight.h"
#include "account/trace.h"
#include "base/context.h"
#include "base/report.h"
#include "page/large.h"
#include "slab/column.h"
#include "slab/slab.h"

#include <errno.h>

/* Charges and counts of neighbours in an array are made as one while they are for the same. */
struct account_run {
    uint32_t which, n;
};

/* Whether this is a handler that interrupted the library: outside of the context nobody else asks. */
static bool account_nested(void)
{
    return context_self()->depth > 0;
}

bool account_begin(const struct stook_cache *cache, struct account *account, size_t n,
                   unsigned flags, uint64_t where, uint32_t group)
{
    uint32_t hooks = account_hooks(cache);

    account->group = account->tag = 0;
    account->traced = (hooks & CACHE_CLOSED_TRACE) && where;
    if ((hooks & CACHE_CLOSED_GROUP) && group != ACCOUNT_NOBODY) {
        account->group = cache->owner               ? cache->owner
                         : group == ACCOUNT_CURRENT ? group_current()
                                                    : group;
        if (account->group) {
            size_t bytes;
            if (__builtin_mul_overflow(n, (size_t)cache->charge, &bytes)) {
                errno = ENOMEM;
                return false;
            }
            if (!group_charge(&account->group, bytes, flags, account_nested()))
                return false;
        }
    }
    if ((hooks & CACHE_CLOSED_TAG) && where)
        account->tag = straight_tag(where, (uint64_t)n * cache->charge);
    return true;
}

void account_end(const struct stook_cache *cache, const struct account *account,
                 void *const *objects, size_t got, size_t n)
{
    uint32_t hooks = account_hooks(cache), tagged = 0;
    struct straight at = {0};

    if (__builtin_expect(got < n && account->group, 0))
        group_uncharge(account->group, (n - got) * cache->charge);
    for (size_t i = 0; i < got && hooks != CACHE_CLOSED_TRACE; i++) {
        if (!straight_same(cache, &at, objects[i]))
            at = straight_find(cache, objects[i]);
        tagged += straight_stamp(cache, &at, hooks, *account);
    }
    if (account->tag && tagged > 0)
        tag_count_alloc(account->tag, tagged, (uint64_t)tagged * cache->charge);
    if (account->traced)
        trace_alloc(cache, objects, got);
}

void account_retag(const struct stook_cache *cache, const void *object, uint64_t where)
{
    uint32_t index, tag;
    struct slab *slab = slab_find(cache, object, &index);
    uint64_t *column = column_at(cache, slab, LAYOUT_TAG, index);

    if (account_hooks(cache) & CACHE_CLOSED_TRACE) {
        void *taken = (void *)(uintptr_t)object;
        trace_alloc(cache, &taken, 1);
    }
    if (!(account_hooks(cache) & CACHE_CLOSED_TAG))
        return;
    if (!column)
        return;
    tag = straight_tag(where, cache->charge);
    straight_write_tag(cache, column, index, tag);
    tag_count_alloc(tag, 1, cache->charge);
}

static void account_flush_group(const struct stook_cache *cache, struct account_run *run)
{
    if (run->which && run->n > 0)
        group_uncharge(run->which, (size_t)run->n * cache->charge);
    run->n = 0;
}

static void account_flush_tag(const struct stook_cache *cache, struct account_run *run)
{
    if (run->which && run->n > 0)
        tag_count_free(run->which, run->n, (uint64_t)run->n * cache->charge);
    run->n = 0;
}

void account_report(const struct stook_cache *cache, const void *object, const char *what)
{
    report_fatal("corrupt %s: cache %s: that of object %p was written over; the object before it "
                 "overran, or it itself did",
                 what, cache->name, object);
}

static void account_clear_by(const struct stook_cache *cache, uint32_t hooks, void *const *objects,
                             size_t n)
{
    struct straight at = {0};
    struct account_run group = {0}, tag = {0};
    int saved = errno;

    for (size_t i = 0; i < n; i++) {
        struct account account;
        if (!objects[i])
            continue;
        if (!straight_same(cache, &at, objects[i]) || !straight_starts(cache, &at, objects[i]))
            at = straight_check(cache, objects[i]);
        account = straight_clear(cache, &at, objects[i], hooks);
        if (account.group != group.which)
            account_flush_group(cache, &group);
        group.which = account.group;
        group.n++;
        if (account.tag != tag.which)
            account_flush_tag(cache, &tag);
        tag.which = account.tag;
        tag.n++;
    }
    account_flush_group(cache, &group);
    account_flush_tag(cache, &tag);
    errno = saved;
}

void account_clear(const struct stook_cache *cache, void *const *objects, size_t n)
{
    uint32_t hooks = account_hooks(cache);

    account_clear_by(cache, hooks, objects, n);
    if (hooks & CACHE_CLOSED_TRACE) /* what is none of ours had its report */
        trace_free(objects, n);
}

void account_return(const struct stook_cache *cache, void *const *objects, size_t n)
{
    account_clear_by(cache, account_hooks(cache), objects, n);
}

/* Once tags were switched while the program ran: whoever did not go by the hooks left his here. */
static void account_forget(const struct stook_cache *cache, const struct slab *slab)
{
    uint32_t objects =
        slab_objects(cache, atomic_load_explicit(&slab->state, memory_order_relaxed));

    for (uint32_t index = 0; index < objects; index++) {
        uint64_t *column = column_at(cache, slab, LAYOUT_TAG, index);
        uint32_t tag;
        if (*column != 0 && column_decode(cache, index, *column, &tag))
            tag_count_free(tag, 1, cache->charge);
    }
}

void account_switched(void)
{
    __atomic_store_n(&slab_forgetter, account_forget, __ATOMIC_RELAXED);
}

/* ---- large objects -------------------------------------------------------------------------- */

uint32_t account_process;
_Atomic uint32_t account_large_hooks;

static uint32_t account_large_by(void)
{
    return atomic_load_explicit(&account_large_hooks, memory_order_relaxed);
}

void account_large_switch(uint32_t hook, bool on)
{
    if (on)
        atomic_fetch_or_explicit(&account_large_hooks, hook, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(&account_large_hooks, ~hook, memory_order_relaxed);
}

bool account_large(void *object, uint32_t owner, unsigned flags, uint64_t where)
{
    size_t size = large_size(object);
    uint32_t hooks = account_large_by();

    if (owner && !group_charge(&owner, size, flags, account_nested()))
        return false;
    *large_note(object) = (struct large_note){
        .owner = owner, .tag = (hooks & CACHE_CLOSED_TAG) && where ? straight_tag(where, size) : 0};
    tag_count_alloc(large_note(object)->tag, 1, size);
    if (hooks & CACHE_CLOSED_TRACE)
        trace_alloc_large(object, size);
    return true;
}

/* The charge and the count, in place or of pages that moved. */
static bool account_large_changed(void *object, size_t had, unsigned flags)
{
    struct large_note note = *large_note(object);
    size_t size = large_size(object);

    if (note.owner && size > had && !group_charge(&note.owner, size - had, flags, account_nested()))
        return false;
    if (note.owner && size < had)
        group_uncharge(note.owner, had - size);
    tag_count_free(note.tag, 1, had);
    tag_count_alloc(note.tag, 1, size);
    return true;
}

bool account_large_resized(void *object, size_t had, unsigned flags)
{
    if (!account_large_changed(object, had, flags))
        return false;
    if ((account_large_by() & CACHE_CLOSED_TRACE) && large_size(object) != had) {
        trace_free(&object, 1);
        trace_alloc_large(object, large_size(object));
    }
    return true;
}

void account_large_moved(void *object, void *moved, size_t had, uint64_t time)
{
    (void)account_large_changed(moved, had, STOOK_WAIT);
    if (account_large_by() & CACHE_CLOSED_TRACE) {
        trace_free_at(object, time);
        trace_alloc_large(moved, large_size(moved));
    }
}

void account_large_clear(void *object)
{
    struct large_note *note = large_note(object), had;

    if (!note)
        return;
    had = *note;
    *note = (struct large_note){0};
    if (had.owner)
        group_uncharge(had.owner, large_size(object));
    tag_count_free(had.tag, 1, large_size(object));
    if (account_large_by() & CACHE_CLOSED_TRACE)
        trace_free(&object, 1);
}

static uint32_t account_read(const void *object, enum layout_which which)
{
    struct stook_cache *cache = slab_cache_of(object);
    uint32_t index, value = 0;
    const struct slab *slab;
    uint64_t *column;

    if (!cache) {
        struct large_note *note = large_note(object);
        return !note ? 0 : which == LAYOUT_GROUP ? note->owner : note->tag;
    }
    if (which == LAYOUT_GROUP && !(account_hooks(cache) & CACHE_CLOSED_GROUP))
        return 0;
    if (which == LAYOUT_GROUP && cache->owner)
        return cache->owner;
    slab = slab_find(cache, object, &index);
    if (index >= slab_objects(cache, atomic_load_explicit(&slab->state, memory_order_relaxed)))
        return 0; /* behind the last object */
    column = column_at(cache, slab, which, index);
    return column && column_decode(cache, index, *column, &value) ? value : 0;
}

uint32_t account_owner_of(const void *object)
{
    return account_read(object, LAYOUT_GROUP);
}

uint32_t account_tag_of(const void *object)
{
    return account_read(object, LAYOUT_TAG);
}
