/* SPDX-License-Identifier: MIT */
/*
 * account.c - the columns of slabs and the notes of large objects, which say who is charged (account.h).  Groups are in group_charge.c, call sites in site/tag.c, the inlined path of one object in account_fast.h.
 *
 * Calls on arrays find each slab's columns once for all neighbouring objects of that slab, and charge or count
 * neighbours of one group or tag by one call (struct account_run).
 */
#include "charge/account.h"

#include "charge/account_fast.h"
#include "base/context.h"
#include "base/placed.h"
#include "base/report.h"
#include "cache/alloc.h"
#include "cache/cache_list.h"
#include "large/large.h"
#include "slab/slab.h"
#include "slab/stat.h"
#include "slab/wrong.h"

#include <errno.h>

/* ---- a cache -------------------------------------------------------------------------------- */

/* Bytes that are charged for an object: its stride, and its elements outside the slab's pages. */
static uint32_t account_charge(const struct layout *layout)
{
    uint32_t bytes = layout->stride + layout->marks;

    for (unsigned i = 0; i < LAYOUT_COLUMNS; i++)
        if (layout->column[0][i].outside && i != LAYOUT_TAG)
            bytes += layout->column[0][i].element;
    return bytes;
}

/* The distance from an object to its element, if the elements lie within the strides and slabs of both orders have the
 * same distance.  Else 0. */
static uint32_t account_distance(const struct layout *layout, enum layout_which which)
{
    const struct layout_column *column = &layout->column[0][which],
                               *min = &layout->column[1][which];

    return column->element && !column->outside && !min->outside &&
                   column->stride == layout->stride && min->stride == layout->stride &&
                   column->offset == min->offset
               ? column->offset - layout->lead
               : 0;
}

FIRST_TEXT void account_close(struct stook_cache *cache, uint32_t parts, bool close)
{
    uint32_t now = cache_parts(cache);

    now = close ? now | parts : now & ~parts;
    atomic_store_explicit(&cache->account.parts, now, memory_order_relaxed);
    stat_close(cache, CACHE_CLOSED_ACCOUNTED, now != 0);
}

FIRST_TEXT void account_cache_made(struct stook_cache *cache)
{
    const struct layout *layout = &cache->layout;
    struct cache_account *account = &cache->account;

    account->key = (uint64_t)cache_secret() << 48 | (uint64_t)cache_secret() << 32 |
                   (uint64_t)cache_secret() << 16 | cache_secret() | COLUMN_KEY;
    account->charge = account_charge(layout);
    account->one = (struct rows_two){1, account->charge};
    account->span = ((uint32_t)PAGE_SIZE << layout->order) - 1;
    for (int which = LAYOUT_GROUP; which <= LAYOUT_TAG; which++) {
        const struct layout_column *column = &layout->column[0][which];
        account->distance[which] = account_distance(layout, (enum layout_which)which);
        account->outside[which] = column->outside ? column->offset : 0;
    }
    if (!(cache->flags & CACHE_INTERNAL))
        account_close(cache, account_all | (cache->flags & STOOK_CACHE_ACCOUNT ? ACCOUNT_GROUP : 0),
                      true);
}

/* ---- objects -------------------------------------------------------------------------------- */

/* n neighbouring objects of an array that have the same group or tag `which`; 0: none.  They are charged or counted by
 * one call. */
struct account_run {
    uint32_t which, n;
};

/* Whether a signal handler interrupted the library and called it.  The hooks run outside the context, so only a
 * handler finds a depth there. */
static bool account_nested(void)
{
    return context_self()->depth > 0;
}

bool account_begin(const struct stook_cache *cache, struct account *account, size_t n,
                   unsigned flags, uint64_t where, uint32_t group)
{
    uint32_t parts = cache_parts(cache);

    account->group = account->tag = 0;
    if ((parts & ACCOUNT_GROUP) && group != ACCOUNT_NOBODY) {
        account->group = cache->account.owner       ? cache->account.owner
                         : group == ACCOUNT_CURRENT ? group_current()
                                                    : group;
        if (account->group) {
            size_t bytes;
            if (__builtin_mul_overflow(n, (size_t)cache->account.charge, &bytes)) {
                errno = ENOMEM;
                return false;
            }
            if (!group_charge(&account->group, bytes, flags, account_nested()))
                return false;
        }
    }
    if ((parts & ACCOUNT_TAG) && where)
        account->tag = account_call_tag(where);
    return true;
}

/* The owners or the tags of one slab's objects. */
struct account_column {
    uintptr_t slab; /* the slab's first object */
    char *first;    /* its element; NULL: the slab has none, or they are not in use */
    uint64_t reciprocal;
    size_t stride; /* from one element to the next */
};

/* The slab of neighbouring objects of an array. */
struct account_slab {
    uintptr_t base; /* its first object */
    size_t bytes;   /* from there to its end */
    struct account_column owner, tag;
};

static inline __attribute__((always_inline)) struct account_slab account_slab(
    const struct stook_cache *cache, struct slab *slab)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);
    const struct layout_column *columns = cache->layout.column[slab_flags(word) & SLAB_MIN];
    bool owners = (cache_parts(cache) & ACCOUNT_GROUP) && !cache->account.owner;
    struct account_slab at = {.base = (uintptr_t)slab_first(cache, slab),
                              .bytes = ((size_t)PAGE_SIZE << slab_order(cache, word)) -
                                       cache->layout.lead};

    at.owner = at.tag = (struct account_column){at.base, NULL, cache->layout.reciprocal, 0};
    at.owner.first =
        owners ? (char *)column_in(cache, slab, slab_flags(word), LAYOUT_GROUP, 0) : NULL;
    at.owner.stride = columns[LAYOUT_GROUP].stride;
    at.tag.first = (char *)column_in(cache, slab, slab_flags(word), LAYOUT_TAG, 0);
    at.tag.stride = columns[LAYOUT_TAG].stride;
    return at;
}

/* How many objects at the start of the array lie in the slab; the first one does. */
static inline size_t account_same(const struct account_slab *at, void *const *objects, size_t n)
{
    size_t i = 1;

    while (i < n && (uintptr_t)objects[i] - at->base < at->bytes)
        i++;
    return i;
}

static inline __attribute__((always_inline)) uint64_t *account_element(struct account_column column,
                                                                       const void *object)
{
    uint64_t offset = (uintptr_t)object - column.slab; /* below 2^23 */

    return (uint64_t *)(void *)(column.first +
                                (offset * column.reciprocal >> LAYOUT_RECIPROCAL) * column.stride);
}

/* Writes the tag of a new object.  If the element still holds a tag, a thread that had not seen yet that the cache has
 * hooks freed the last object there: this counts that free. */
static inline void account_write_tag(const struct stook_cache *cache, const void *object,
                                     uint64_t *element, uint32_t tag)
{
    uint32_t old;

    if (__builtin_expect(*element != 0, 0) && column_decode(cache, object, *element, &old))
        tag_count_free(old, 1, cache->account.charge);
    *element = column_encode(cache, object, tag);
}

void account_end(const struct stook_cache *cache, const struct account *account,
                 void *const *objects, size_t got, size_t n)
{
    uint32_t tagged = 0;

    if (__builtin_expect(got < n && account->group, 0))
        group_uncharge(account->group, (n - got) * cache->account.charge);
    for (size_t i = 0, end; i < got && cache_parts(cache) != 0; i = end) {
        uint32_t index;
        const struct account_slab at = account_slab(cache, slab_find(cache, objects[i], &index));
        end = i + account_same(&at, objects + i, got - i);
        if (at.owner.first)
            for (size_t j = i; j < end; j++)
                *account_element(at.owner, objects[j]) =
                    column_encode(cache, objects[j], account->group);
        if (!at.tag.first)
            continue;
        for (size_t j = i; j < end; j++)
            account_write_tag(cache, objects[j], account_element(at.tag, objects[j]), account->tag);
        tagged += (uint32_t)(end - i);
    }
    if (account->tag && tagged > 0)
        tag_count_alloc(account->tag, tagged, (uint64_t)tagged * cache->account.charge);
}

void account_retag(const struct stook_cache *cache, const void *object, uint64_t where)
{
    uint32_t index, tag;
    struct slab *slab = slab_find(cache, object, &index);
    uint64_t *column = column_at(cache, slab, LAYOUT_TAG, index);

    if (!(cache_parts(cache) & ACCOUNT_TAG) || !column)
        return;
    tag = account_call_tag(where);
    account_write_tag(cache, object, column, tag);
    tag_count_alloc(tag, 1, cache->account.charge);
}

static void account_flush_group(const struct stook_cache *cache, const struct account_run *run)
{
    if (run->which)
        group_uncharge(run->which, (size_t)run->n * cache->account.charge);
}

static void account_flush_tag(const struct stook_cache *cache, const struct account_run *run)
{
    if (run->which)
        tag_count_free(run->which, run->n, (uint64_t)run->n * cache->account.charge);
}

/* Adds n objects of `which` to the run.  If the run is of another group or tag, it is flushed first. */
static inline __attribute__((always_inline)) void account_add(
    const struct stook_cache *cache, struct account_run *run, uint32_t which, uint32_t n,
    void (*flush)(const struct stook_cache *cache, const struct account_run *run))
{
    if (__builtin_expect(which != run->which, 0)) {
        flush(cache, run);
        *run = (struct account_run){which, 0};
    }
    run->n += n;
}

/* Reports an object whose owner or tag (`what`) was overwritten.  Its charge cannot be returned. */
static __attribute__((noinline, cold)) void account_report(const struct stook_cache *cache,
                                                           const struct slab *slab, uint32_t index,
                                                           const void *object, const char *what)
{
    const struct debug_finding finding = {.what = DEBUG_COLUMN,
                                          .done = DEBUG_RESTORED,
                                          .cache = cache,
                                          .slab = slab,
                                          .object = object,
                                          .index = index,
                                          .text = what};

    wrong_found(&finding);
}

/* Reads and clears an element of a live object; 0: no group or tag.  An element that does not decode for this address
 * was overwritten, or the pointer is no object.  The latter is reported, and the entry becomes NULL. */
static inline __attribute__((always_inline)) uint32_t account_take(const struct stook_cache *cache,
                                                                   void **object, uint64_t *element,
                                                                   const char *what)
{
    uint32_t number, index;

    if (__builtin_expect(!column_decode(cache, *object, *element, &number), 0)) {
        const struct slab *slab = *object ? slab_of(cache, *object, &index) : NULL;
        if (!slab) {
            *object = NULL;
            return 0;
        }
        if (*element != 0)
            account_report(cache, slab, index, *object, what);
        number = 0;
    }
    *element = 0;
    return number;
}

/* Returns the charges of n pointers into one slab.  The caller has checked that the first one is an object. */
static inline void account_clear_slab(const struct stook_cache *cache,
                                      const struct account_slab *at, void **objects, size_t n,
                                      struct account_run *group, struct account_run *tag)
{
    uint32_t everybody = cache_parts(cache) & ACCOUNT_GROUP ? cache->account.owner : 0, index;
    uint32_t refused = 0;

    if (!at->owner.first && !at->tag.first)
        for (size_t i = 1; i < n; i++)
            if (__builtin_expect(!slab_of(cache, objects[i], &index), 0)) {
                objects[i] = NULL;
                refused++;
            }
    if (!at->owner.first)
        account_add(cache, group, everybody, (uint32_t)n - refused, account_flush_group);
    else
        for (size_t i = 0; i < n; i++)
            account_add(
                cache, group,
                account_take(cache, &objects[i], account_element(at->owner, objects[i]), "owner"),
                1, account_flush_group);
    if (at->tag.first)
        for (size_t i = 0; i < n; i++)
            account_add(
                cache, tag,
                account_take(cache, &objects[i], account_element(at->tag, objects[i]), "tag"), 1,
                account_flush_tag);
}

void account_return(const struct stook_cache *cache, void **objects, size_t n)
{
    struct account_run group = {0}, tag = {0};
    int saved = errno;

    for (size_t i = 0, same; i < n; i += same) {
        struct account_slab at;
        struct slab *slab;
        uint32_t index;
        same = 1;
        if (!objects[i])
            continue;
        slab = slab_of(cache, objects[i], &index);
        if (__builtin_expect(!slab, 0)) {
            objects[i] = NULL;
            continue;
        }
        at = account_slab(cache, slab);
        same = account_same(&at, objects + i, n - i);
        account_clear_slab(cache, &at, objects + i, same, &group, &tag);
    }
    account_flush_group(cache, &group);
    account_flush_tag(cache, &tag);
    errno = saved;
}

/* Tags were switched while the program ran.  Threads that had not seen the switch freed objects without the hooks, so
 * elements of free objects may hold tags. */
static atomic_bool account_mixed;

void account_slab_gone(const struct stook_cache *cache, const struct slab *slab)
{
    uint32_t objects =
        slab_objects(cache, atomic_load_explicit(&slab->state, memory_order_relaxed));

    if (!atomic_load_explicit(&account_mixed, memory_order_relaxed))
        return;
    for (uint32_t index = 0; index < objects; index++) {
        uint64_t *column = column_at(cache, slab, LAYOUT_TAG, index);
        uint32_t tag;
        const char *object = slab_object(cache, slab, index);
        if (*column != 0 && column_decode(cache, object, *column, &tag))
            tag_count_free(tag, 1, cache->account.charge);
    }
}

void account_switched(void)
{
    atomic_store_explicit(&account_mixed, true, memory_order_relaxed);
}

/* ---- large objects -------------------------------------------------------------------------- */

uint32_t account_process, account_all;
atomic_bool account_large_tags;
_Atomic unsigned account_watched;

bool account_large(void *object, uint32_t owner, unsigned flags, uint64_t where)
{
    size_t size = large_bytes(object);
    struct large_note note;

    if (owner && !group_charge(&owner, size, flags, account_nested()))
        return false;
    note = (struct large_note){
        .owner = owner, .tag = account_large_counted() && where ? account_call_tag(where) : 0};
    if ((note.owner || note.tag) && !large_set_note(object, note)) {
        if (owner)
            group_uncharge(owner, size);
        return false;
    }
    tag_count_alloc(note.tag, 1, size);
    return true;
}

FIRST_TEXT bool account_large_resized(void *object, size_t had, unsigned flags)
{
    struct large_note note = *large_note(object);
    size_t size = large_bytes(object);

    if (note.owner && size > had && !group_charge(&note.owner, size - had, flags, account_nested()))
        return false;
    if (note.owner && size < had)
        group_uncharge(note.owner, had - size);
    tag_count_free(note.tag, 1, had);
    tag_count_alloc(note.tag, 1, size);
    return true;
}

void account_large_moved(void *moved, size_t had)
{
    (void)account_large_resized(moved, had, STOOK_WAIT);
}

SECOND_TEXT bool account_large_clear(void *object)
{
    const struct large_note *note = large_note(object);
    struct large_note had;

    if (!note)
        return false;
    had = *note;
    if (had.owner || had.tag)
        (void)large_set_note(object, (struct large_note){0});
    if (had.owner)
        group_uncharge(had.owner, large_bytes(object));
    tag_count_free(had.tag, 1, large_bytes(object));
    return true;
}

/* The owner or the tag of a live object; 0: none. */
static uint32_t account_read(const void *object, enum layout_which which)
{
    struct stook_cache *cache = slab_cache_of(object);
    uint32_t index, value = 0;
    const struct slab *slab;
    uint64_t *column;

    if (!cache) {
        const struct large_note *note = large_note(object);
        return !note ? 0 : which == LAYOUT_GROUP ? note->owner : note->tag;
    }
    if (which == LAYOUT_GROUP && !(cache_parts(cache) & ACCOUNT_GROUP))
        return 0;
    if (which == LAYOUT_GROUP && cache->account.owner)
        return cache->account.owner;
    slab = slab_find(cache, object, &index);
    if (index >= slab_objects(cache, atomic_load_explicit(&slab->state, memory_order_relaxed)))
        return 0; /* behind the last object */
    column = column_at(cache, slab, which, index);
    object = slab_object(cache, slab, index); /* the caller may pass any pointer into the object */
    return column && column_decode(cache, object, *column, &value) ? value : 0;
}

struct stook_group stook_group_of(const void *object)
{
    return group_by_number(account_read(object, LAYOUT_GROUP));
}

unsigned stook_tag_of(const void *object)
{
    return account_read(object, LAYOUT_TAG);
}
