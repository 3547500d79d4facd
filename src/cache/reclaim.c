/* SPDX-License-Identifier: MIT */
#include "cache/reclaim.h"

#include "base/cancel.h"
#include "base/context.h"
#include "cache/cache_list.h"
#include "base/init.h"
#include "cache/pin.h"
#include "os/os.h"
#include "os/topology.h"
#include "page/pagemap.h"
#include "sheaf/slot.h"

#include <stook/reclaim.h>

#include <errno.h>

enum {
    RECLAIM_CHUNK = 1u << 16,  /* objects taken by one call */
    RECLAIM_FORK_TURNS = 4096, /* of a wait for a fork: half a second or so */
};

struct reclaim reclaim;
__thread unsigned reclaim_inside;

/* ---- the library's own ---------------------------------------------------------------------- */

static bool reclaim_has_slabs(const struct stook_cache *cache)
{
    for (unsigned i = 0; i < topology.nodes; i++)
        if (__atomic_load_n(&cache->nodes[i].node.made, __ATOMIC_RELAXED) >
            __atomic_load_n(&cache->nodes[i].node.gone, __ATOMIC_RELAXED))
            return true;
    return false;
}

/* The next older cache with slabs, or NULL. */
static struct stook_cache *reclaim_next(struct list *link)
{
    for (link = link->prev; link != &cache_list.all; link = link->prev) {
        struct stook_cache *cache = LIST_ENTRY(link, struct stook_cache, link);
        if (cache->users > 0 && reclaim_has_slabs(cache)) {
            return cache;
        }
    }
    return NULL;
}

static void reclaim_drain_one(struct stook_cache *cache, bool near)
{
    if (near)
        cache_drain_near(cache);
    else
        (void)cache_drain(cache, false);
}

/*
 * Sheaves, barns and empty slabs of all caches, those of sheaves last, which are the oldest.  Without
 * the list's lock: destructors may run.
 */
static void reclaim_drain(bool near)
{
    struct pin pin;

    pin_begin(&pin, NULL);
    lock_take(&cache_list.lock, LOCK_CACHES);
    pin_set(&pin, reclaim_next(&cache_list.all));
    while (pin.one) {
        lock_drop(&cache_list.lock, LOCK_CACHES);
        reclaim_drain_one(pin.one, near);
        lock_take(&cache_list.lock, LOCK_CACHES);
        pin_set(&pin, reclaim_next(&pin.one->link));
    }
    lock_drop(&cache_list.lock, LOCK_CACHES);
    pin_end(&pin);
}

/*
 * A fork has the locks that draining takes, and what it set aside is used up.  malloc has other memory;
 * other callers wait, but not for ever, since the fork may wait for this thread.  True: that was all.
 */
static bool reclaim_forked(const struct stook_cache *cache, bool (*attempt)(void *arg), void *arg,
                           bool *done)
{
    *done = false;
    for (unsigned turn = 0; !(cache->flags & CACHE_MALLOC) && turn < RECLAIM_FORK_TURNS; turn++) {
        lock_pause(turn);
        if (!lock_forked())
            return false;
        context_enter();
        *done = attempt(arg);
        context_leave();
        if (*done)
            return true;
    }
    return true;
}

static bool reclaim_own(struct stook_cache *cache, bool (*attempt)(void *arg), void *arg)
{
    /* malloc asks the kernel for nothing but memory: other CPUs keep what they have. */
    bool near = cache->flags & CACHE_MALLOC, done;

    while (!lock_begin_blocking())
        if (reclaim_forked(cache, attempt, arg, &done))
            return done;
    reclaim_inside = RECLAIM_DRAINING; /* constructors and destructors may allocate */
    context_enter();
    reclaim_drain_one(cache, near);
    done = attempt(arg);
    if (!done) {
        reclaim_drain(near);
        done = attempt(arg);
    }
    context_leave();
    reclaim_inside = 0;
    lock_end_blocking();
    return done;
}

/* ---- callbacks ------------------------------------------------------------------------------ */

static bool reclaim_enter(unsigned i, struct reclaim_entry *copy)
{
    struct reclaim_entry *entry = &reclaim.entry[i];
    bool live;

    context_enter();
    lock_take(&reclaim.lock, LOCK_RECLAIM);
    live = entry->fn && !entry->going;
    if (live)
        entry->running++;
    *copy = *entry;
    lock_drop(&reclaim.lock, LOCK_RECLAIM);
    context_leave();
    return live;
}

static void reclaim_leave(unsigned i)
{
    struct reclaim_entry *entry = &reclaim.entry[i];
    bool going;

    context_enter();
    lock_take(&reclaim.lock, LOCK_RECLAIM);
    entry->running--;
    going = entry->going;
    if (going) {
        atomic_fetch_add_explicit(&reclaim.turn, 1, memory_order_relaxed);
        if (entry->running == 0)
            *entry = (struct reclaim_entry){0};
    }
    lock_drop(&reclaim.lock, LOCK_RECLAIM);
    context_leave();
    if (going)
        os_wake(&reclaim.turn, INT32_MAX);
}

/* One round; bytes that they say they gave back.  `any`: there was one at all. */
static size_t reclaim_call(size_t wanted, bool *any)
{
    size_t bytes = 0, more;

    *any = false;
    for (unsigned i = 0; i < STOOK_RECLAIM_MAX; i++) {
        struct reclaim_entry entry;
        int cancel;
        if (!reclaim_enter(i, &entry))
            continue;
        cancel = cancel_off();
        reclaim_inside = i + 1;
        more = entry.fn(wanted, entry.arg);
        reclaim_inside = 0;
        reclaim_leave(i);
        cancel_on(cancel);
        *any = true;
        bytes = bytes + more < bytes ? SIZE_MAX : bytes + more;
    }
    return bytes;
}

bool reclaim_until(struct stook_cache *cache, size_t wanted, bool (*attempt)(void *arg), void *arg)
{
    bool done, any;

    done = reclaim_own(cache, attempt, arg);

    for (int round = 0; !done && !lock_forked() && round < RECLAIM_ROUNDS; round++) {
        size_t gave = reclaim_call(wanted, &any);
        if (!any)
            break;
        done = reclaim_own(cache, attempt, arg);
        if (gave == 0)
            break;
    }
    if (!done)
        errno = ENOMEM;
    return done;
}

/* ---- objects -------------------------------------------------------------------------------- */

struct reclaim_objects {
    struct stook_cache *cache;
    void **objects;
    size_t n, got;
};

static bool reclaim_take(void *arg)
{
    struct reclaim_objects *take = arg;
    uint32_t more;

    do {
        size_t left = take->n - take->got;
        more = slot_alloc(take->cache, take->objects + take->got,
                          left < RECLAIM_CHUNK ? (uint32_t)left : RECLAIM_CHUNK, false);
        take->got += more;
    } while (more > 0 && take->got < take->n);
    return take->got == take->n;
}

/* What n objects need at least: whole slabs. */
static size_t reclaim_wanted(const struct stook_cache *cache, size_t n)
{
    size_t slabs = n / cache->layout.objects + (n % cache->layout.objects != 0);
    size_t slab = (size_t)PAGE_SIZE << cache->layout.order;

    return slabs < SIZE_MAX / slab ? slabs * slab : SIZE_MAX;
}

size_t reclaim_alloc(struct stook_cache *cache, void **objects, size_t n)
{
    struct reclaim_objects take = {cache, objects, n, 0};

    (void)reclaim_until(cache, reclaim_wanted(cache, n), reclaim_take, &take);
    return take.got;
}

/* ---- their list ----------------------------------------------------------------------------- */

/* The entry of a callback that is not going, or -1.  Under the lock. */
static int reclaim_find(stook_reclaim_fn fn, const void *arg)
{
    for (int i = 0; i < (int)STOOK_RECLAIM_MAX; i++)
        if (reclaim.entry[i].fn == fn && reclaim.entry[i].arg == arg && !reclaim.entry[i].going)
            return i;
    return -1;
}

int stook_reclaim_register(stook_reclaim_fn fn, void *arg)
{
    int error = EINVAL, i = 0;

    init_once();
    context_enter();
    lock_take(&reclaim.lock, LOCK_RECLAIM);
    if (fn) {
        error = reclaim_find(fn, arg) >= 0 ? EEXIST : 0;
        while (i < (int)STOOK_RECLAIM_MAX && reclaim.entry[i].fn)
            i++;
        if (error == 0 && i == (int)STOOK_RECLAIM_MAX)
            error = ENOSPC;
        if (error == 0)
            reclaim.entry[i] = (struct reclaim_entry){.fn = fn, .arg = arg};
    }
    lock_drop(&reclaim.lock, LOCK_RECLAIM);
    context_leave();
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

/*
 * Nobody is in it any more when this returns, but this thread itself if it says so from within.
 * The entry is held by `going` until then: its number means this callback and no other.
 */
int stook_reclaim_unregister(stook_reclaim_fn fn, void *arg)
{
    uint32_t own, turn = 0;
    bool wait = false;
    int i;

    context_enter();
    lock_take(&reclaim.lock, LOCK_RECLAIM);
    i = fn ? reclaim_find(fn, arg) : -1;
    if (i >= 0) {
        own = reclaim_inside == (unsigned)i + 1;
        reclaim.entry[i].going = true;
        reclaim.entry[i].running++; /* this call: whoever leaves does not free the entry */
        while ((wait = reclaim.entry[i].running > 1 + own)) {
            turn = atomic_load_explicit(&reclaim.turn, memory_order_relaxed);
            lock_drop(&reclaim.lock, LOCK_RECLAIM);
            context_leave();
            os_wait(&reclaim.turn, turn, 0);
            context_enter();
            lock_take(&reclaim.lock, LOCK_RECLAIM);
        }
        if (--reclaim.entry[i].running == 0)
            reclaim.entry[i] = (struct reclaim_entry){0};
    }
    lock_drop(&reclaim.lock, LOCK_RECLAIM);
    context_leave();
    if (i >= 0)
        return 0;
    errno = fn ? ENOENT : EINVAL;
    return -1;
}

void reclaim_child(void)
{
    for (unsigned i = 0; i < STOOK_RECLAIM_MAX; i++) {
        struct reclaim_entry *entry = &reclaim.entry[i];
        entry->running = reclaim_inside == i + 1;
        if (entry->going && entry->running == 0)
            *entry = (struct reclaim_entry){0};
    }
    lock_init(&reclaim.lock);
}
