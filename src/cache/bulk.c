/* SPDX-License-Identifier: MIT */
/*
 * bulk.c - allocations and frees of many objects by one call.
 */
#include "cache/alloc.h"

#include "base/context.h"
#include "base/hooks.h"
#include "base/placed.h"
#include "base/report.h"
#include "base/where.h"
#include "cache/reclaim.h"
#include "cache/upkeep.h"
#include "sheaf/slot_sections.h"
#include "slab/node.h"
#include "slab/stat.h"

#include <errno.h>
#include <string.h>

enum { BULK_CHUNK = 1u << 16 };

/* What was taken goes back to its slabs: memory is short. */
static __attribute__((noinline, cold)) void bulk_give_up(struct stook_cache *cache, size_t got,
                                                         void **objects, bool nospin)
{
    context_enter();
    stat_add(cache, STAT_free_slowpath, got);
    for (size_t i = 0; i < got; i += BULK_CHUNK)
        node_put(cache, objects + i, got - i < BULK_CHUNK ? (uint32_t)(got - i) : BULK_CHUNK,
                 nospin);
    context_leave();
    errno = ENOMEM;
}

/* Sheaves, barn and slabs; all or nothing. */
FIRST_TEXT __attribute__((noinline)) size_t bulk_alloc_slow(struct stook_cache *cache,
                                                            unsigned flags, size_t n,
                                                            void **objects, size_t got)
{
    bool nested = context_enter(), nospin = nested || (flags & STOOK_SIGNAL_SAFE);
    int saved = errno;

    while (got < n) {
        uint32_t want = n - got < BULK_CHUNK ? (uint32_t)(n - got) : BULK_CHUNK;
        uint32_t more = slot_alloc(cache, objects + got, want, nospin);
        got += more;
        if (more < want)
            break;
    }
    context_leave();
    upkeep_after(cache, flags, nested);
    if (__builtin_expect(got == n, 1))
        return n;
    if (reclaim_may(flags, nested))
        got += reclaim_alloc(cache, objects + got, n - got);
    if (got == n) {
        errno = saved;
        return n;
    }
    bulk_give_up(cache, got, objects, nospin);
    return 0;
}

/* Everything but a main sheaf that holds n objects. */
__attribute__((noinline, cold)) size_t bulk_alloc_plain(struct stook_cache *cache, unsigned flags,
                                                        size_t n, void **objects)
{
    size_t got;

    if (!bulk_may(cache, flags, n))
        return 0;
    got = bulk_alloc_slow(cache, flags, n, objects, 0);
    for (size_t i = 0; i < got && (flags & STOOK_ZERO); i++)
        memset(objects[i], 0, cache->object_size);
    return got;
}

/* What the main sheaf did not hold: all of it, or none with errno.  By itself, so that the fast path has no frame. */
static __attribute__((noinline, cold)) int bulk_alloc_rest(struct stook_cache *cache,
                                                           unsigned flags, size_t n, void **objects,
                                                           size_t got, uint64_t where)
{
    if (got > 0)
        got = bulk_alloc_slow(cache, flags, n, objects, got);
    else if (cache_hooks(cache))
        got = hooks.alloc_more(
            &(struct hooks_call){cache, flags, -1, where, HOOKS_GROUP, n, objects});
    else
        got = bulk_alloc_plain(cache, flags, n, objects);
    return got == n ? 0 : -1;
}

/*
 * From the main sheaf in one section.  Up to BULK_CHUNK: a section is short, and counts in 32 bits.  Takes the objects
 * of the sheaf even if they are too few, but not from a cache with hooks, whose head has no sheaf.
 */
__attribute__((aligned(64))) int stook_alloc_bulk(struct stook_cache *cache, unsigned flags,
                                                  size_t n, void **objects)
{
    uint32_t got = 0;

    if (alloc_is_fast(flags) && __builtin_expect(n - 1 < BULK_CHUNK, 1) &&
        __builtin_expect(rseq_pop_bulk(cache->head.slots, cache->head.rseq_offset, objects,
                                       (uint32_t)n, &got) == RSEQ_DONE,
                         1) &&
        __builtin_expect(got == n, 1))
        return 0;
    return bulk_alloc_rest(cache, flags, n, objects, got,
                           where_address(__builtin_return_address(0)));
}

static __attribute__((noinline, cold)) void bulk_free_slow(struct stook_cache *cache, size_t n,
                                                           void **objects)
{
    bool nested;

    if (n > BULK_MOST)
        report_fatal("cache %s: stook_free_bulk() of %zu objects, more than an array can have",
                     cache->name, n);
    if (cache_hooks(cache))
        hooks.free_more(cache, objects, n);
    else if (!percpu.rseq || /* no section has taken any of them */
             cache_checks_frees(cache))
        for (size_t i = 0; i < n; i++)
            if (objects[i] && !free_checks(cache, objects[i]))
                objects[i] = NULL;
    nested = context_enter();
    for (size_t i = 0; i < n; i += BULK_CHUNK)
        slot_free(cache, objects + i, n - i < BULK_CHUNK ? (uint32_t)(n - i) : BULK_CHUNK, nested);
    context_leave();
    adapt_act_on_verdict(cache, nested);
}

__attribute__((aligned(64))) void stook_free_bulk(struct stook_cache *cache, size_t n,
                                                  void **objects)
{
    uint32_t put = 0;

    if (__builtin_expect(n - 1 < BULK_CHUNK, 1) &&
        __builtin_expect(rseq_push_bulk(cache->head.slots, cache->head.rseq_offset, objects,
                                        (uint32_t)n, &put) == RSEQ_DONE,
                         1)) {
        if (__builtin_expect(put == n, 1))
            return;
        objects += put;
        n -= put;
    }
    bulk_free_slow(cache, n, objects);
}
