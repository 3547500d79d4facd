/* SPDX-License-Identifier: MIT */
/*
 * runs.c - where a slab's pages come from and go to.
 *
 * A guard page is the page behind a slab's last one.  It belongs to the slab's run and has no access, so that what
 * writes beyond the slab's end faults.  Each costs two system calls in a slab's life and two mappings, so their
 * number is bounded; slabs beyond that have none.
 *
 * Pages that stay one cache's: when such a slab goes, its memory goes back to the OS and its address range onto a
 * list of the cache's, with the descriptor, the guard page too.  Threads push without a lock, so that giving a slab
 * back never waits; the node's lock is held by the one that takes.  So a dangling pointer into these pages meets
 * objects of this cache or nothing.  If a guard page follows, the range has no access meanwhile: it is one mapping with
 * that page.  When a cache is destroyed its ranges are left unused.
 */
#include "slab/runs.h"

#include "os/os.h"
#include "page/arena_kept.h"

#include <stdlib.h>

enum {
    RUNS_MAPPINGS = 65530,   /* the kernel's limit by default … */
    RUNS_MAPPINGS_SHARE = 4, /* … of which guards may be this part: two mappings each */
};

_Atomic uint32_t runs_guards, runs_guards_most;

/* ---- guard pages ---------------------------------------------------------------------------- */

void runs_start(void)
{
    uint32_t most = 0;
    char text[32];

    if (atomic_load_explicit(&runs_guards_most, memory_order_relaxed) > 0)
        return;
    if (os_read_file("/proc/sys/vm/max_map_count", text, sizeof(text)) > 0)
        most = (uint32_t)strtoul(text, NULL, 10);
    most = (most > 0 ? most : RUNS_MAPPINGS) / RUNS_MAPPINGS_SHARE;
    atomic_store_explicit(&runs_guards_most, most, memory_order_relaxed);
}

/* Where the kernel's pages are larger than the arena's, a page behind a slab is no page of its own; a whole block has none. */
static bool runs_may_guard(const struct stook_cache *cache, unsigned order)
{
    if (!(cache->flags & STOOK_CACHE_GUARD_PAGES) || os_page_size() != PAGE_SIZE ||
        1u << order >= BLOCK_PAGES)
        return false;
    if (atomic_fetch_add_explicit(&runs_guards, 1, memory_order_relaxed) <
        atomic_load_explicit(&runs_guards_most, memory_order_relaxed))
        return true;
    atomic_fetch_sub_explicit(&runs_guards, 1, memory_order_relaxed);
    return false;
}

static void runs_unguard(void)
{
    atomic_fetch_sub_explicit(&runs_guards, 1, memory_order_relaxed);
}

/* ---- pages of a cache's own ------------------------------------------------------------------ */

static _Atomic(struct slab *) *runs_own(struct stook_cache *cache, unsigned node, uint32_t flags)
{
    return &cache->nodes[node].node.own[(flags & SLAB_MIN) + (flags & SLAB_TAGGED ? 2 : 0)];
}

/* The next one is where a list's neighbour would be: the slab is on no list. */
static void runs_keep(_Atomic(struct slab *) *own, struct slab *slab)
{
    struct slab *head = atomic_load_explicit(own, memory_order_relaxed);

    do
        slab->link.next = (struct list *)(void *)head;
    while (!atomic_compare_exchange_weak_explicit(own, &head, slab, memory_order_release,
                                                  memory_order_relaxed));
}

/* No other thread takes one meanwhile, so that the first stays what it is while there are pushes only. */
static struct slab *runs_reuse(struct node *node, _Atomic(struct slab *) *own, bool nospin)
{
    struct slab *slab;

    if (!atomic_load_explicit(own, memory_order_relaxed) ||
        !lock_enter(&node->lock, LOCK_NODE, nospin))
        return NULL;
    slab = atomic_load_explicit(own, memory_order_acquire);
    while (slab && !atomic_compare_exchange_weak_explicit(
                       own, &slab, (struct slab *)(void *)slab->link.next, memory_order_acquire,
                       memory_order_acquire))
        ;
    lock_drop(&node->lock, LOCK_NODE);
    return slab;
}

/* ---- both ------------------------------------------------------------------------------------ */

/*
 * Pages of the node.  Where memory is short its other zone may have some left; but none of the library's
 * own objects lies where malloc's fast test looks for the program's.  Objects of a page or less are
 * written to in every page of their slab, sooner or later.
 */
char *runs_from_arena(const struct stook_cache *cache, unsigned node, unsigned order,
                      uint32_t flags, bool guard, bool nospin, void **meta)
{
    unsigned own = pagemap.zones / 2, zone = cache->flags & CACHE_INTERNAL ? own + node : node;
    /* Slabs of debug caches are few in a block: what is kept about their objects fills its metadata. */
    struct arena_ask ask = {.pages = (1u << order) + guard,
                            .align = 1u << order,
                            .dense = cache->layout.stride <= PAGE_SIZE && cache->layout.lead == 0,
                            .nospin = nospin,
                            .meta_bytes = column_meta(cache, flags)};
    char *base;

    if (!nospin)
        (void)arena_kept_drop();
    base = arena_alloc(zone, &ask, NULL, meta);
    return base || zone >= own ? base : arena_alloc(zone + own, &ask, NULL, meta);
}

__attribute__((cold)) char *runs_take_hardened(struct stook_cache *cache, unsigned node,
                                               unsigned order, uint32_t *flags, bool nospin,
                                               void **meta)
{
    size_t bytes = (size_t)PAGE_SIZE << order;
    bool guard;
    char *base;

    if (cache->flags & STOOK_CACHE_OWN_PAGES) {
        _Atomic(struct slab *) *own = runs_own(cache, node, *flags);
        struct slab *slab = runs_reuse(&cache->nodes[node].node, own, nospin);
        uint32_t guarded =
            slab ? slab_flags(atomic_load_explicit(&slab->state, memory_order_relaxed)) &
                       SLAB_GUARDED
                 : 0;
        if (slab && (!guarded || os_unguard(slab_base(slab), bytes))) {
            *flags |= guarded;
            *meta = slab;
            return slab_base(slab);
        }
        if (slab)
            runs_keep(own, slab);
    }
    guard = runs_may_guard(cache, order);
    base = runs_from_arena(cache, node, order, *flags, guard, nospin, meta);
    if (guard && !base)
        runs_unguard();
    if (guard && base) {
        *flags |= SLAB_GUARDED;
        os_guard(base + bytes, PAGE_SIZE); /* refused: it is a page without use */
    }
    return base;
}

__attribute__((cold)) void runs_give_hardened(struct stook_cache *cache, struct slab *slab)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);
    unsigned order = slab_order(cache, word), node = slab_node(slab);
    uint32_t flags = slab_flags(word);
    size_t pages = (size_t)1 << order;
    char *base = slab_base(slab);

    if (cache->flags & STOOK_CACHE_OWN_PAGES) {
        if (!(flags & SLAB_GUARDED) || !os_guard(base, pages * PAGE_SIZE))
            arena_release(base, pages);
        runs_keep(runs_own(cache, node, flags), slab);
        return;
    }
    if (flags & SLAB_GUARDED) {
        /* A page that cannot be had back stays as it is, for good. */
        pages += os_unguard(base + pages * PAGE_SIZE, PAGE_SIZE);
        runs_unguard();
    }
    arena_free(base, pages, slab, column_meta(cache, flags));
}
