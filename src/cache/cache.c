/* SPDX-License-Identifier: MIT */
/*
 * cache.c - makes and destroys caches: checks the arguments, adds hardening and debug flags, plans the layout and
 * finds an index.
 */
#include "base/context.h"
#include "base/grow.h"
#include "base/hooks.h"
#include "base/init.h"
#include "base/placed.h"
#include "base/report.h"
#include "base/settings.h"
#include "cache/adapt.h"
#include "cache/cache_list.h"
#include "cache/pin.h"
#include "os/os.h"
#include "percpu/random.h"
#include "os/topology.h"
#include "sheaf/barn.h"
#include "sheaf/budget.h"
#include "sheaf/slot_drain.h"
#include "slab/node.h"
#include "slab/runs.h"
#include "slab/stat.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    /* Empty slabs that a cache keeps on each node, at least one. */
    CACHE_EMPTY_BYTES = 64 << 10,
    CACHE_EMPTY_SLABS = 5,
    CACHE_BOOT_ROOM = 15 << 10, /* for the first caches, where there are few nodes */
    CACHE_COLUMN = 8,           /* bytes of an owner, of a tag */
    /* A drain waits so long for threads that have slabs or objects of the cache in hand. */
    CACHE_TURNS =
        1024, /* some 100 ms: a thread may be stopped, and has only part of what can be given back */
    CACHE_TURNS_ALONE = 16384, /* some 2 s: else the cache cannot be destroyed */
};

/* Flags that a caller may give. */
enum {
    CACHE_LINKS = STOOK_CACHE_LINK_INSIDE | STOOK_CACHE_LINK_OUTSIDE,
    CACHE_KNOWN = STOOK_CACHE_HWALIGN | STOOK_CACHE_NOSHEAF | STOOK_CACHE_RANDOM |
                  STOOK_CACHE_TYPESAFE | STOOK_CACHE_ADAPTIVE | STOOK_CACHE_ACCOUNT | CACHE_DEBUG |
                  CACHE_HARDENED | STOOK_CACHE_GUARD_PAGES | STOOK_CACHE_OWN_PAGES | CACHE_LINKS,
};
_Static_assert((CACHE_KNOWN & CACHE_OWN) == 0, "a flag has a bit of slab/cache.h's internal ones");

static struct stook_cache *cache_of_caches;
static unsigned cache_harden; /* STOOK_CACHE_*, by STOOK_HARDEN: of every cache, too */

/* By STOOK_HARDEN's words; those of malloc alone are malloc's. */
static FIRST_TEXT unsigned cache_hardening(size_t words)
{
    static const unsigned flags[] FIRST_DATA = {STOOK_CACHE_RANDOM, STOOK_CACHE_ZERO_ON_FREE,
                                                STOOK_CACHE_QUARANTINE, STOOK_CACHE_GUARD_PAGES,
                                                STOOK_CACHE_OWN_PAGES};
    unsigned harden = 0;

    for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (words & (size_t)1 << i)
            harden |= flags[i];
    return harden;
}

static size_t cache_struct_size(void)
{
    return sizeof(struct stook_cache) + topology.nodes * sizeof(struct cache_node);
}

static unsigned cache_min_partial(const struct stook_cache *cache)
{
    size_t slabs = CACHE_EMPTY_BYTES / ((size_t)PAGE_SIZE << cache->layout.order);

    if (cache->object_size > LAYOUT_COMMON_MAX) /* their pages are worth more to the others */
        return 0;
    return slabs > CACHE_EMPTY_SLABS ? CACHE_EMPTY_SLABS : slabs < 1 ? 1 : (unsigned)slabs;
}

/* A free number in the table; slot 0 is no cache's.  Under the list's lock. */
static unsigned cache_find_index(void)
{
    /* A start writes to this page anyhow: one fault in place of two. */
    __atomic_store_n(&cache_table[0], NULL, __ATOMIC_RELAXED);
    for (unsigned i = 1; i < STOOK_CACHES_MAX; i++)
        if (!cache_table[i])
            return i;
    return 0;
}

/* One seed from the kernel, then splitmix64: malloc's hundred caches are made at every start. */
uint16_t cache_secret(void)
{
    static uint64_t state;

    if (state == 0)
        state = os_random();
    return (uint16_t)(os_mix(state += 0x9e3779b97f4a7c15u) >> 48);
}

/* Fills in a zeroed cache and puts it on the list.  Under the list's lock.  `capacity` 0: default. */
static void cache_setup(struct stook_cache *cache, const struct layout *layout, unsigned index,
                        const char *name, unsigned capacity, size_t cached_max)
{
    cache->layout = *layout;
    cache->index = index;
    cache->secret = cache_secret();
    cache->alive = true;
    /* In locked mode no section finds the cache's slots, not even one of a thread that the C library has registered. */
    cache->own = percpu.areas + (percpu.rseq ? percpu_offset(index) : 0);
    cache->head.slots = cache_checks_frees(cache) ? percpu.areas : cache->own;
    cache->head.rseq_offset = percpu.rseq_offset;
    if (hooks.cache)
        (void)hooks.cache(cache, HOOKS_CACHE_MADE);
    if (capacity == 0 && !(cache->flags & STOOK_CACHE_NOSHEAF))
        capacity = adapt_default_capacity(cache);
    adapt_init(cache, capacity, cached_max);
    cache->min_partial = cache_min_partial(cache);
    memcpy(cache->name, name, strnlen(name, STOOK_NAME_MAX)); /* what is behind is 0 */
    for (unsigned i = 0; i < topology.nodes; i++) {
        node_init(&cache->nodes[i].node);
        barn_init(&cache->nodes[i].barn, cache_barn_limit(cache));
    }
    percpu_slot_init(index);
    stat_init(cache);
    __atomic_store_n(&cache_table[index], cache, __ATOMIC_RELEASE);
    list_add_tail(&cache_list.all, &cache->link);
}

void cache_boot(void)
{
    size_t size = (cache_struct_size() + 63) & ~(size_t)63;
    /* Not mapped where it need not be: each mapping that is written to is felt in fork(). */
    static char room[CACHE_BOOT_ROOM] __attribute__((aligned(4096))) HEAD_BSS;
    static bool used; /* a process that starts once more leaves the first ones as they are */
    bool fits = !used && size * (SHEAF_CLASSES + 1) <= sizeof(room);
    /* Its end: what stands behind it has its head on the same page. */
    char *memory = fits ? room + sizeof(room) - size * (SHEAF_CLASSES + 1)
                        : os_map(size * (SHEAF_CLASSES + 1));
    struct layout layout;

    used = true;
    if (!memory)
        report_fatal("no memory for the first caches");
    cache_harden = cache_hardening(setting_number(SETTING_HARDEN));
    if (cache_harden & STOOK_CACHE_GUARD_PAGES)
        runs_start();
    atomic_store_explicit(&budget.max, setting_number(SETTING_CACHED_MAX), memory_order_relaxed);
    list_init(&cache_list.all);
    lock_take(&cache_list.lock, LOCK_CACHES);
    for (unsigned i = 0; i <= SHEAF_CLASSES; i++) {
        struct stook_cache *cache = (struct stook_cache *)(void *)(memory + i * size);
        cache->object_size = i < SHEAF_CLASSES ? sheaf_class_size[i] : size;
        cache->align = 64;
        cache->flags = CACHE_INTERNAL | STOOK_CACHE_NOSHEAF;
        cache->slab_bytes_max = SIZE_MAX;
        if (!layout_plan(&layout, cache->object_size, cache->align, LAYOUT_WRITABLE))
            report_fatal("no layout for the library's own objects");
        cache_setup(cache, &layout, cache_find_index(),
                    i < SHEAF_CLASSES ? sheaf_class_name[i] : "stook-cache", 0, 0);
        if (i < SHEAF_CLASSES)
            sheaf_cache[i] = cache;
        else
            cache_of_caches = cache;
    }
    lock_drop(&cache_list.lock, LOCK_CACHES);
}

static unsigned cache_wishes(const struct stook_cache_args *args)
{
    bool stable = args->ctor || args->dtor || (args->flags & STOOK_CACHE_TYPESAFE);

    return (stable ? 0 : LAYOUT_WRITABLE) | (args->flags & CACHE_MALLOC ? LAYOUT_DENSE : 0) |
           (args->flags & STOOK_CACHE_LINK_INSIDE ? LAYOUT_LINK_INSIDE : 0) |
           (args->flags & CACHE_HARDENED ? LAYOUT_LINK_OUTSIDE | LAYOUT_COLUMNS_OUTSIDE : 0) |
           (args->flags & CACHE_SHADOW ? LAYOUT_COLUMNS_OUTSIDE : 0) |
           (args->flags & STOOK_CACHE_LINK_OUTSIDE ? LAYOUT_LINK_OUTSIDE : 0);
}

/* Call sites may be counted at any time, and then objects keep their size and place; where they are
 * from the start, the best place for tags is sought.  malloc's objects keep their alignment. */
static bool cache_plan(struct layout *layout, const char *name, size_t size,
                       const struct stook_cache_args *args)
{
    size_t canary = cache_canary(args->flags, size);
    /* malloc takes larger classes instead: their strides stay multiples of what objects are aligned to. */
    struct layout_request request = {.size = args->flags & CACHE_MALLOC ? size : size + canary,
                                     .align = args->align,
                                     .wishes = cache_wishes(args),
                                     .later = 1u << LAYOUT_TAG};

    request.element[LAYOUT_LINK] = LAYOUT_LINK_SIZE;
    request.element[LAYOUT_TAG] = CACHE_COLUMN;
    if (args->flags & STOOK_CACHE_ACCOUNT)
        request.element[LAYOUT_GROUP] = CACHE_COLUMN;
    if (hooks.cache_plan)
        (void)hooks.cache_plan(name, args->flags, &request);
    if (!layout_plan_columns(layout, &request))
        return false;
    layout->room -= (uint32_t)canary;
    return true;
}

/* Pages of its own: it is as long as a slab has objects. */
static size_t cache_permutation_bytes(const struct layout *layout)
{
    size_t bytes = layout->objects * sizeof(uint16_t);

    return (bytes + PAGE_SIZE - 1) & ~(size_t)(PAGE_SIZE - 1);
}

/* NULL without memory. */
static uint16_t *cache_permute(const struct layout *layout)
{
    uint16_t *permutation = os_map(cache_permutation_bytes(layout));

    if (permutation)
        random_permute(permutation, layout->objects);
    return permutation;
}

/*
 * With its hardening.  Debug caches check more than a quarantine does.  Zeros would undo a constructor, and readers of
 * type-stable memory may still read it.  Links lie outside of objects that are filled when they are freed.
 */
static unsigned cache_flags_hardened(unsigned flags, bool constructed)
{
    if (!(flags & CACHE_INTERNAL) && hooks.report)
        flags |= cache_harden;
    if (constructed || (flags & STOOK_CACHE_TYPESAFE))
        flags &= ~(unsigned)STOOK_CACHE_ZERO_ON_FREE;
    if (flags & CACHE_DEBUG)
        flags &= ~(unsigned)CACHE_HARDENED;
    if (flags & CACHE_HARDENED)
        flags &= ~(unsigned)STOOK_CACHE_LINK_INSIDE;
    return flags & CACHE_SHADOW ? flags & ~(unsigned)CACHE_HARDENED : flags;
}

/* With its debug flags.  A cache that has some has no sheaves, and its links lie outside; so has one of large objects, of
 * which a sheaf would hold too much. */
static unsigned cache_flags(const char *name, size_t size, unsigned flags, bool constructed)
{
    if (hooks.cache_plan)
        flags = hooks.cache_plan(name, flags, NULL);
    if ((flags & CACHE_DEBUG) || size > LAYOUT_COMMON_MAX)
        flags = (flags & ~(STOOK_CACHE_ADAPTIVE | STOOK_CACHE_LINK_INSIDE)) | STOOK_CACHE_NOSHEAF;
    return cache_flags_hardened(flags, constructed);
}

struct stook_cache *cache_make(const char *name, size_t size, const struct stook_cache_args *given)
{
    struct stook_cache_args wanted = *given, *args = &wanted;
    unsigned index,
        flags = args->flags = cache_flags(name, size, args->flags, args->ctor || args->dtor);
    struct stook_cache *cache;
    struct layout layout;
    void *memory = NULL;

    if (!cache_plan(&layout, name, size, args) ||
        (args->slab_bytes_max > 0 && args->slab_bytes_max < (size_t)PAGE_SIZE << layout.order)) {
        errno = E2BIG;
        return NULL;
    }
    if (args->sheaf_capacity == 0 && /* which would be asked for in vain */
        !(flags & (STOOK_CACHE_NOSHEAF | CACHE_INTERNAL)))
        flags |= STOOK_CACHE_ADAPTIVE;
    index = cache_find_index();
    if (index == 0) {
        errno = ENFILE;
        return NULL;
    }
    if (node_take_near(cache_of_caches, 0, &memory, 1, 1, false) == 0)
        return NULL; /* ENOMEM */
    cache = memory;
    memset(cache, 0, cache_struct_size());
    if ((flags & STOOK_CACHE_RANDOM) && !(cache->permutation = cache_permute(&layout))) {
        node_put(cache_of_caches, &memory, 1, false);
        errno = ENOMEM;
        return NULL;
    }
    cache->object_size = size;
    cache->align = args->align;
    cache->flags = flags;
    cache->ctor = args->ctor;
    cache->dtor = args->dtor;
    cache->arg = args->arg;
    cache->slab_bytes_max = args->slab_bytes_max > 0 ? args->slab_bytes_max : SIZE_MAX;
    cache_setup(cache, &layout, index, name, flags & STOOK_CACHE_NOSHEAF ? 0 : args->sheaf_capacity,
                args->cached_bytes_max);
    return cache;
}

__attribute__((cold)) struct stook_cache *stook_cache_create(const char *name, size_t object_size,
                                                             const struct stook_cache_args *given)
{
    struct stook_cache_args args = {0};
    struct stook_cache *cache;

    if (given && !grow_read(&args, sizeof(args), given)) {
        errno = EINVAL;
        return NULL;
    }
    if (args.align == 0)
        args.align = object_size >= 16 ? 16 : 8;
    if (!name || object_size == 0 || (args.align & (args.align - 1)) ||
        (args.flags & ~CACHE_KNOWN) || (args.flags & CACHE_LINKS) == CACHE_LINKS ||
        ((args.flags & STOOK_CACHE_ADAPTIVE) && (args.flags & STOOK_CACHE_NOSHEAF)) ||
        ((args.flags & (STOOK_CACHE_LINK_INSIDE | STOOK_CACHE_ZERO_ON_FREE)) &&
         (args.ctor || args.dtor || (args.flags & STOOK_CACHE_TYPESAFE)))) {
        errno = EINVAL;
        return NULL;
    }
    if (object_size > STOOK_OBJECT_SIZE_MAX || args.align > STOOK_ALIGN_MAX ||
        args.sheaf_capacity > STOOK_SHEAF_CAPACITY_MAX) {
        errno = E2BIG;
        return NULL;
    }
    if (((args.flags & STOOK_CACHE_TYPESAFE) && !hooks_rcu()) ||
        (((args.flags & STOOK_CACHE_ACCOUNT) || object_size > BLOCK_SIZE) &&
         !hooks.alloc) ||                                                   /* the core alone */
        ((args.flags & (CACHE_DEBUG | CACHE_HARDENED)) && !hooks.report)) { /* … or lean */
        errno = ENOTSUP;
        return NULL;
    }
    if ((args.flags & STOOK_CACHE_HWALIGN) && args.align < 64)
        args.align = 64;
    if (!init_once()) {
        errno = ENOMEM;
        return NULL;
    }
    if (args.flags & STOOK_CACHE_GUARD_PAGES)
        runs_start();
    context_enter();
    lock_take(&cache_list.lock, LOCK_CACHES);
    cache = cache_make(name, object_size, &args);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    return cache;
}

/* Beside a fork, objects that are flushed make slabs pending.  Those are waited for, unless `turns` is NULL. */
static __attribute__((cold)) void cache_drain_nodes(struct stook_cache *cache, unsigned *turns)
{
    for (unsigned node = 0; node < topology.nodes; node++)
        barn_drain(cache, node);
    if (turns)
        (void)node_wait(cache, turns);
    for (unsigned node = 0; node < topology.nodes; node++)
        node_shrink(cache, node);
}

/* Bytes of slabs that ever went back. */
static __attribute__((cold)) uint64_t cache_gone(struct stook_cache *cache)
{
    uint64_t pages = 0;

    for (unsigned i = 0; i < topology.nodes; i++) {
        struct node_counts counts;
        node_count(cache, i, &counts);
        pages += counts.gone_pages;
    }
    return pages * PAGE_SIZE;
}

static void cache_rcu_deferred(struct stook_cache *cache, enum hooks_rcu what)
{
    if (hooks_rcu())
        hooks_rcu()(what, cache, NULL);
}

/* What is held back of the cache's freed objects; also what another thread is about to free. */
static void cache_take_held(struct stook_cache *cache, unsigned *turns)
{
    if (!(cache->flags & STOOK_CACHE_QUARANTINE))
        return;
    (void)hooks.cache(cache, HOOKS_CACHE_DRAINED);
    if (turns)
        (void)node_wait(cache, turns);
}

__attribute__((cold)) size_t cache_drain(struct stook_cache *const *caches, unsigned n, bool alone)
{
    unsigned turns = alone ? CACHE_TURNS_ALONE : CACHE_TURNS;
    size_t bytes = 0;

    /* Slabs go back while sheaves are flushed, beyond min_partial, and then the rest. */
    for (unsigned i = 0; i < n; i++) {
        bytes -= cache_gone(caches[i]);
        cache_take_held(caches[i], &turns);
        cache_rcu_deferred(caches[i], alone ? HOOKS_RCU_WAIT : HOOKS_RCU_PUSH);
        adapt_shrink(caches[i]);
    }
    (void)slot_drain(caches, n, alone);
    for (unsigned i = 0; i < n; i++) {
        cache_drain_nodes(caches[i], &turns);
        bytes += cache_gone(caches[i]);
    }
    return bytes;
}

__attribute__((cold)) void cache_drain_near(struct stook_cache *cache)
{
    cache_take_held(cache, NULL);
    slot_drain_near(cache);
    cache_drain_nodes(cache, NULL);
}

__attribute__((cold)) void cache_count(struct stook_cache *cache, struct cache_counts *counts)
{
    uint64_t free = 0;

    memset(counts, 0, sizeof(*counts));
    slot_count(cache, &counts->cached, &counts->sheaves);
    for (unsigned i = 0; i < topology.nodes; i++) {
        struct barn *barn = &cache->nodes[i].barn;
        struct node_counts of_node;
        lock_take(&barn->lock, LOCK_BARN);
        for (struct sheaf *s = barn->full; s; s = s->next)
            counts->cached += s->size;
        counts->barns += barn->nr_full + barn->nr_empty;
        lock_drop(&barn->lock, LOCK_BARN);
        free += node_count_free(cache, i);
        node_count(cache, i, &of_node);
        counts->slabs += of_node.slabs;
        counts->objects += of_node.objects;
        counts->pages += of_node.pages;
        counts->peak_pages += of_node.peak_pages;
    }
    counts->cached += atomic_load_explicit(&cache->held, memory_order_relaxed);
    /* Racy sums must not wrap. */
    if (free > counts->objects)
        free = counts->objects;
    if (counts->cached > counts->objects - free)
        counts->cached = counts->objects - free;
    counts->active = counts->objects - free - counts->cached;
}

/* All goes back that no user has; what is there still. */
static __attribute__((cold)) void cache_empty(struct stook_cache *cache,
                                              struct cache_counts *counts)
{
    unsigned turns = 0;

    (void)cache_drain(&cache, 1, true);
    cache_rcu_deferred(cache, HOOKS_RCU_SLABS);
    cache_count(cache, counts);
    if (counts->slabs > 0 && node_wait(cache, &turns)) {
        node_adopt(cache);
        cache_drain_nodes(cache, NULL);
        cache_count(cache, counts);
    }
}

/* Whether it was alive. */
static __attribute__((cold)) bool cache_set_alive(struct stook_cache *cache, bool alive)
{
    bool was;

    lock_take(&cache_list.lock, LOCK_CACHES);
    was = cache->alive;
    __atomic_store_n(&cache->alive, alive, __ATOMIC_RELAXED); /* for pin_alive(): no lock */
    lock_drop(&cache_list.lock, LOCK_CACHES);
    return was;
}

/* One line, for what a program may do at its end; which objects they are where debugging was asked for. */
static __attribute__((cold)) int cache_refuse(struct stook_cache *cache,
                                              const struct cache_counts *counts, uint32_t sheaves)
{
    unsigned long long out = counts->active;
    bool debug = cache->flags & CACHE_DEBUG;

    (void)cache_set_alive(cache, true);
    if (debug)
        (void)hooks.cache(cache, HOOKS_CACHE_BUSY);
    context_leave();
    if (sheaves > 0)
        report_warn("cache \"%s\" cannot be destroyed: %u prefilled sheaves were not returned",
                    cache->name, sheaves);
    else if (atomic_load_explicit(&cache->pending, memory_order_relaxed) > 0)
        report_warn(
            "cache \"%s\" cannot be destroyed: a thread that frees objects of it is stopped",
            cache->name);
    else
        report_warn(
            "cache \"%s\" cannot be destroyed: objects of %zu bytes in use: %llu; free them first%s",
            cache->name, cache->object_size, out,
            debug ? "" : " (STOOK_DEBUG shows where they were allocated)");
    errno = EBUSY;
    return -1;
}

/* Nothing is left of it but the descriptor. */
static __attribute__((cold)) void cache_unmake(struct stook_cache *cache)
{
    void *memory = cache;

    lock_take(&cache_list.lock, LOCK_CACHES);
    list_remove(&cache->link);
    cache_table[cache->index] = NULL;
    stat_exit(cache);
    if (cache->permutation)
        os_unmap(cache->permutation, cache_permutation_bytes(&cache->layout));
    cache->permutation = NULL;
    if (cache->flags & CACHE_KEPT)
        memory = hooks.cache(cache, HOOKS_CACHE_GONE);
    if (memory)
        node_put(cache_of_caches, &memory, 1, false);
    lock_drop(&cache_list.lock, LOCK_CACHES);
}

__attribute__((cold)) int stook_cache_destroy(struct stook_cache *cache)
{
    struct cache_counts counts;
    uint32_t sheaves;

    if (!cache)
        return 0;
    context_enter();
    /* A plug-in that the loader keeps may end twice, with its first turn's cache. */
    if (!cache_set_alive(cache, false)) {
        context_leave();
        (void)pin_alive(cache);
        return -1;
    }
    pin_wait(cache); /* no new pin, but threads may be at it still */
    cache_empty(cache, &counts);
    sheaves = atomic_load_explicit(&cache->prefilled, memory_order_relaxed);
    if (counts.slabs > 0 || sheaves > 0)
        return cache_refuse(cache, &counts, sheaves);
    cache_unmake(cache);
    context_leave();
    return 0;
}

size_t stook_cache_object_size(const struct stook_cache *cache)
{
    return cache->object_size;
}
