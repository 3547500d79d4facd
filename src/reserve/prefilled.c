/* SPDX-License-Identifier: MIT */
/*
 * prefilled.c - stook_sheaf_prefill() and the calls on such a sheaf (Linux: kmem_cache_prefill_sheaf()).
 *
 * A sheaf of the cache's capacity comes from this CPU's spare sheaf or the node's barn, and goes back there.  A larger
 * one is allocated and freed.  A prefill charges all objects of the sheaf, so that allocating from it cannot fail.
 */
#include "reserve/prefilled.h"

#include "base/context.h"
#include "base/report.h"
#include "observe/observe.h"
#include "cache/alloc.h"
#include "cache/pin.h"
#include "cache/reclaim.h"
#include "os/topology.h"
#include "large/large.h"
#include "sheaf/barn.h"
#include "sheaf/slot.h"
#include "slab/slab.h"
#include "slab/stat.h"

#include <stook/reserve.h>

#include <errno.h>
#include <string.h>

static struct stook_sheaf *prefilled_public(struct sheaf *sheaf)
{
    return (struct stook_sheaf *)(void *)sheaf;
}

struct sheaf *prefilled_of(const struct stook_cache *cache, const struct stook_sheaf *given)
{
    struct sheaf *sheaf = (struct sheaf *)(uintptr_t)given;

    if (__builtin_expect(sheaf->next != (const void *)cache, 0))
        report_fatal(
            "sheaf %p is not one that was prefilled from cache %s, or was returned already",
            (const void *)given, cache->name);
    return sheaf;
}

/* ---- empty and ready-made sheaves ----------------------------------------------------------- */

/* An empty sheaf for `size` objects; NULL: out of memory. */
static struct sheaf *prefilled_make(struct stook_cache *cache, unsigned size, unsigned node,
                                    bool nospin)
{
    struct sheaf *sheaf;

    if (size <= STOOK_SHEAF_CAPACITY_MAX) {
        sheaf = sheaf_alloc(size, size, node, nospin);
        stat_add(cache, STAT_sheaf_alloc, sheaf != NULL); /* it may stay: prefilled_keep() */
        return sheaf;
    }
    sheaf = large_alloc(pagemap.zones / 2 + topology.home_of_node[node],
                        sizeof(*sheaf) + size * sizeof(void *), PAGE_SIZE, nospin, NULL);
    if (sheaf) {
        sheaf->size = 0;
        sheaf->capacity = size;
    }
    return sheaf;
}

static void prefilled_unmake(struct stook_cache *cache, struct sheaf *sheaf, bool nospin)
{
    if (sheaf->capacity <= STOOK_SHEAF_CAPACITY_MAX)
        sheaf_drop(cache, sheaf, nospin);
    else
        (void)large_free(sheaf);
}

/* Puts a sheaf in the place of this CPU's spare sheaf if that is none, or takes (NULL) a spare sheaf with objects.  The
 * sheaf that the caller has then, or NULL. */
static struct sheaf *prefilled_swap_spare(struct stook_cache *cache, struct sheaf *sheaf,
                                          bool nospin)
{
    struct sheaf *main, *spare;
    struct slot *slot;

    main = slot_close(percpu_offset(cache->index), &slot, nospin);
    if (!main)
        return sheaf;
    spare = slot->spare;
    if (sheaf ? !spare && sheaf->size == sheaf->capacity : spare && spare->size > 0) {
        slot->spare = sheaf;
        sheaf = spare;
    }
    slot_open(slot, main);
    return sheaf;
}

/* A sheaf of the cache's capacity: full if this CPU or the barn has one, else empty. */
static struct sheaf *prefilled_find(struct stook_cache *cache, unsigned node, bool nospin)
{
    struct sheaf *sheaf = prefilled_swap_spare(cache, NULL, nospin), *none = NULL;

    stat_add(cache, sheaf ? STAT_sheaf_prefill_fast : STAT_sheaf_prefill_slow, 1);
    if (!sheaf)
        sheaf = barn_get_full(cache, node, &none, nospin);
    if (!sheaf)
        sheaf = barn_get_empty(cache, node, nospin);
    if (sheaf)
        stat_add(cache, STAT_alloc_fastpath, sheaf->size);
    return sheaf;
}

/*
 * Returns a sheaf to this CPU (true), or to the barn of its objects' node (false).  If its objects are of several
 * nodes, they are freed to their slabs first, since a barn keeps objects of its own node.
 */
static bool prefilled_keep(struct stook_cache *cache, struct sheaf *sheaf, bool nospin)
{
    unsigned node = percpu_node(percpu_cpu()), home = topology.home_of_node[node];
    int owner = (int)home;

    if (sheaf->size > 0 && topology.memories > 1)
        owner = sheaf_owner(sheaf);
    if (owner < 0)
        sheaf_flush(cache, sheaf, nospin);
    else if (owner != (int)home)
        node = (unsigned)owner;
    else if (sheaf->size > 0 && !barn_declines(cache, node) &&
             !prefilled_swap_spare(cache, sheaf, nospin))
        return true;
    barn_return(cache, node, sheaf, nospin);
    return false;
}

/* Releases a sheaf that no caller holds.  True: this CPU keeps it. */
static bool prefilled_drop(struct stook_cache *cache, struct sheaf *sheaf, bool nospin)
{
    uint64_t touches = slab_counts.touches;
    uint32_t n = sheaf->size;
    bool kept = false;

    sheaf->next = NULL;
    /* The capacity may also differ because the cache's has changed since the prefill. */
    if (sheaf->capacity == cache_capacity(cache)) {
        kept = prefilled_keep(cache, sheaf, nospin);
    } else {
        sheaf_flush(cache, sheaf, nospin);
        prefilled_unmake(cache, sheaf, nospin);
    }
    stat_add(cache, slab_counts.touches == touches ? STAT_free_fastpath : STAT_free_slowpath, n);
    return kept;
}

/* The same from outside the library; errno is kept. */
static bool prefilled_release(struct stook_cache *cache, unsigned flags, struct sheaf *sheaf)
{
    int saved = errno;
    bool nospin = context_enter() || (flags & STOOK_SIGNAL_SAFE);
    bool kept = prefilled_drop(cache, sheaf, nospin);

    context_leave();
    errno = saved;
    return kept;
}

/* ---- filling -------------------------------------------------------------------------------- */

/* Frees the objects from index `had` on. */
static void prefilled_cut(struct stook_cache *cache, struct sheaf *sheaf, uint32_t had, bool nospin)
{
    bool nested = context_enter();
    uint32_t n = sheaf->size - had;

    sheaf->size = had;
    if (n > 0)
        slot_free(cache, &sheaf->object[had], n, nested || nospin);
    context_leave();
}

/*
 * Charges the objects from `had` on to this thread's group.  If the group is near its limit, the sheaf keeps only the
 * `size` objects that the caller requested.  False with errno: the objects from `had` on were freed.
 */
static bool prefilled_charge(struct stook_cache *cache, unsigned flags, struct sheaf *sheaf,
                             uint32_t had, uint32_t size)
{
    uint32_t n = sheaf->size - had, least = size - had;
    bool nospin = flags & STOOK_SIGNAL_SAFE;
    struct account account;
    int saved = errno;

    if (!cache_hooks(cache))
        return true;
    /* Objects beyond the request are not worth a reclaim. */
    if (n > least &&
        !observe_begin(cache, &account, n, flags | STOOK_NORECLAIM, 0, ACCOUNT_CURRENT)) {
        n = least;
        prefilled_cut(cache, sheaf, size, nospin);
    } else if (n > least) {
        least = 0; /* charged */
    }
    if (least > 0 && !observe_begin(cache, &account, n, flags, 0, ACCOUNT_CURRENT)) {
        saved = errno;
        prefilled_cut(cache, sheaf, had, nospin);
        errno = saved;
        return false;
    }
    errno = saved;
    account_end(cache, &account, sheaf->object + had, n, n);
    return true;
}

/* Fills the sheaf up to its capacity, as far as memory allows.  False: it cannot have `size` objects, and is unchanged. */
static bool prefilled_fill(struct stook_cache *cache, unsigned flags, struct sheaf *sheaf,
                           unsigned size)
{
    bool nested = context_enter(), nospin = nested || (flags & STOOK_SIGNAL_SAFE);
    uint32_t had = sheaf->size;
    int saved = errno;

    if (had < sheaf->capacity && percpu.rseq && cache_capacity(cache) > 0) {
        uint32_t got =
            slot_pop_bulk(percpu_offset(cache->index), sheaf->object + had, sheaf->capacity - had);
        sheaf->size += got;
        stat_add(cache, STAT_alloc_cpu_sheaf, got);
    }
    if (sheaf->size < sheaf->capacity)
        sheaf->size +=
            slot_alloc(cache, sheaf->object + sheaf->size, sheaf->capacity - sheaf->size, nospin);
    context_leave();
    if (sheaf->size < size && reclaim_may(flags, nested))
        sheaf->size +=
            (uint32_t)reclaim_alloc(cache, sheaf->object + sheaf->size, size - sheaf->size);
    if (sheaf->size >= size) {
        errno = saved;
        return true;
    }
    prefilled_cut(cache, sheaf, had, nospin);
    errno = ENOMEM;
    return false;
}

struct prefilled_wish {
    struct stook_cache *cache;
    struct sheaf *sheaf;
    unsigned size;
    bool nospin, ready; /* ready: try prefilled_find() first */
};

static bool prefilled_attempt(void *arg)
{
    struct prefilled_wish *wish = arg;
    unsigned node = percpu_node(percpu_cpu());

    wish->sheaf = wish->ready ? prefilled_find(wish->cache, node, wish->nospin) : NULL;
    /* A sheaf of the slot or barn may have a capacity that the cache had before. */
    if (wish->sheaf && wish->sheaf->capacity < wish->size) {
        stat_add(wish->cache, STAT_free_fastpath, wish->sheaf->size);
        barn_return(wish->cache, node, wish->sheaf, wish->nospin);
        wish->sheaf = NULL;
    }
    if (!wish->sheaf)
        wish->sheaf = prefilled_make(wish->cache, wish->size, node, wish->nospin);
    return wish->sheaf != NULL;
}

/* A sheaf for `size` objects.  It reclaims memory for the sheaf itself if the flags allow that.  NULL with ENOMEM. */
static struct sheaf *prefilled_get(struct stook_cache *cache, unsigned flags, unsigned size,
                                   bool ready)
{
    bool nested = context_enter();
    struct prefilled_wish wish = {cache, NULL, size, nested || (flags & STOOK_SIGNAL_SAFE), ready};
    bool got = prefilled_attempt(&wish);

    context_leave();
    if (!got)
        errno = ENOMEM;
    if (!got && reclaim_may(flags, nested))
        (void)reclaim_until(cache, sizeof(struct sheaf) + size * sizeof(void *), prefilled_attempt,
                            &wish);
    return wish.sheaf;
}

/* ---- the calls ------------------------------------------------------------------------------ */

static void prefilled_count(struct stook_cache *cache, uint32_t change)
{
    atomic_fetch_add_explicit(&cache->prefilled, change, memory_order_relaxed);
}

struct stook_sheaf *stook_sheaf_prefill(struct stook_cache *cache, unsigned flags, unsigned size)
{
    struct sheaf *sheaf;

    if (size == 0 || (flags & ~(unsigned)ALLOC_FLAGS) || !pin_alive(cache)) {
        errno = EINVAL;
        return NULL;
    }
    sheaf = prefilled_get(cache, flags, size, size <= cache_capacity(cache));
    if (!sheaf)
        return NULL;
    stat_add(cache, STAT_sheaf_prefill_oversize, size > cache_capacity(cache));
    if (!prefilled_fill(cache, flags, sheaf, size) ||
        !prefilled_charge(cache, flags, sheaf, 0, size)) {
        prefilled_release(cache, flags, sheaf);
        return NULL;
    }
    sheaf->next = (struct sheaf *)(void *)cache;
    prefilled_count(cache, 1);
    return prefilled_public(sheaf);
}

/* The same objects in a larger sheaf. */
static struct sheaf *prefilled_grow(struct stook_cache *cache, unsigned flags, struct sheaf *sheaf,
                                    unsigned size)
{
    struct sheaf *larger = prefilled_get(cache, flags, size, false);

    if (!larger)
        return NULL;
    memcpy(larger->object, sheaf->object, sheaf->size * sizeof(void *));
    larger->size = sheaf->size;
    if (!prefilled_fill(cache, flags, larger, size) ||
        !prefilled_charge(cache, flags, larger, sheaf->size, size)) {
        larger->size = 0;
        prefilled_release(cache, flags, larger);
        return NULL;
    }
    sheaf->size = 0;
    prefilled_release(cache, flags, sheaf);
    larger->next = (struct sheaf *)(void *)cache;
    return larger;
}

int stook_sheaf_refill(struct stook_cache *cache, unsigned flags, struct stook_sheaf **given,
                       unsigned size)
{
    struct sheaf *sheaf;

    if (!given || !*given || (flags & ~(unsigned)ALLOC_FLAGS)) {
        errno = EINVAL;
        return -1;
    }
    sheaf = prefilled_of(cache, *given);
    if (sheaf->size >= size)
        return 0;
    if (size <= sheaf->capacity) {
        uint32_t had = sheaf->size;
        return prefilled_fill(cache, flags, sheaf, size) &&
                       prefilled_charge(cache, flags, sheaf, had, size)
                   ? 0
                   : -1;
    }
    sheaf = prefilled_grow(cache, flags, sheaf, size);
    if (!sheaf)
        return -1;
    *given = prefilled_public(sheaf);
    return 0;
}

unsigned stook_sheaf_size(const struct stook_sheaf *sheaf)
{
    return ((const struct sheaf *)(const void *)sheaf)->size;
}

static inline __attribute__((always_inline)) void *prefilled_alloc(struct stook_cache *cache,
                                                                   unsigned flags,
                                                                   struct stook_sheaf *given,
                                                                   uint64_t where)
{
    struct sheaf *sheaf = prefilled_of(cache, given);
    void *object;

    if (!alloc_is_fast(flags) && !alloc_may(cache, flags))
        return NULL;
    if (__builtin_expect(sheaf->size == 0, 0)) {
        errno = ENOMEM;
        return NULL;
    }
    object = sheaf->object[--sheaf->size];
    if (__builtin_expect(cache_hooks(cache) != 0, 0))
        observe_retag(cache, object, where);
    if (__builtin_expect(flags & STOOK_ZERO, 0))
        memset(object, 0, cache->object_size);
    return object;
}

void *stook_sheaf_alloc(struct stook_cache *cache, unsigned flags, struct stook_sheaf *given)
{
    return prefilled_alloc(cache, flags, given, where_address(__builtin_return_address(0)));
}

void stook_sheaf_return(struct stook_cache *cache, struct stook_sheaf *given)
{
    struct sheaf *sheaf;

    if (!given)
        return;
    sheaf = prefilled_of(cache, given);
    if (cache_hooks(cache))
        account_return(cache, sheaf->object, sheaf->size);
    stat_add(cache,
             prefilled_release(cache, 0, sheaf) ? STAT_sheaf_return_fast : STAT_sheaf_return_slow,
             1);
    prefilled_count(cache, (uint32_t)-1);
}
