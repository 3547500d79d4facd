/* SPDX-License-Identifier: MIT */
/*
 * design_stook.c - ours: the library itself, as it is linked into the tool, with its statistics on.
 */
#include "lab/timing.h"
#include "stook/command.h"

#include "cache/cache_list.h"
#include "kmalloc/private.h"
#include "os/topology.h"
#include "page/zone.h"
#include "sheaf/sheaf.h"
#include "sheaf/slot_drain.h"
#include "slab/node.h"
#include "slab/stat.h"

#include <stook/reserve.h>
#include <stook/stook.h>

#include <string.h>

enum {
    DESIGN_POOL = 2,         /* objects of a block device's bio pool */
    DESIGN_EMPTY = 64 << 10, /* bytes of empty slabs kept, as the library has it */
};

struct design_own {
    struct stook_cache *cache;
    struct stook_pool *pool; /* NULL: the cache itself is asked */
    struct timing_place *barn[TOPOLOGY_NODES_MAX], *list[TOPOLOGY_NODES_MAX],
        *line[TOPOLOGY_NODES_MAX]; /* of the model of time, by node */
};

static const char *const design_events[STAT_EVENTS + 1] = {
#define DESIGN_NAME(name, what) #name,
    STOOK_STAT_EVENTS(DESIGN_NAME)
#undef DESIGN_NAME
};
_Static_assert((int)STAT_EVENTS <= (int)LAB_DESIGN_EVENTS, "there is room for every counter");

static const struct lab_lock design_locks[] = {
    {"barn", STAT_barn_lock_own, STAT_barn_lock_near, STAT_barn_lock_far},
    {"list", STAT_list_lock_own, STAT_list_lock_near, STAT_list_lock_far},
    {NULL, 0, 0, 0},
};

void lab_set_order(struct stook_cache *cache, unsigned order)
{
    struct layout *l = &cache->layout;
    size_t bytes = (size_t)PAGE_SIZE << order;

    l->order = (uint8_t)order;
    if (l->min_order > order)
        l->min_order = (uint8_t)order;
    l->objects = (uint16_t)(bytes / l->stride);
    l->min_objects = (uint16_t)(((size_t)PAGE_SIZE << l->min_order) / l->stride);
    l->waste = (uint32_t)(bytes - (size_t)l->objects * l->stride);
    cache->min_partial = (uint32_t)(DESIGN_EMPTY / bytes);
    if (cache->min_partial > 5)
        cache->min_partial = 5;
    if (cache->min_partial < 1)
        cache->min_partial = 1;
}

static struct stook_cache *design_cache(const struct lab_options *options)
{
    struct stook_cache_args args = {.size = sizeof(args)};
    struct stook_cache *cache;
    struct stook_private_slab slab;

    if (options->classes) {
        cache = stook_private_class("lab", options->size, NULL, &slab);
        if (cache && options->capacity)
            stook_cache_set_capacity(cache, options->capacity);
        return cache;
    }
    args.align = options->align;
    args.sheaf_capacity = options->capacity;
    return stook_cache_create("lab", options->size, &args);
}

static int design_start(struct lab *lab)
{
    const struct lab_options *options = lab->options;
    struct design_own *own = lab_memory(lab, sizeof(*own));

    own->cache = design_cache(options);
    if (!own->cache)
        return complain(STATUS_USAGE, "no cache of %u bytes, aligned to %u, %u a sheaf",
                        options->size, options->align, options->capacity);
    if (options->order >= 0) {
        if (((size_t)PAGE_SIZE << options->order) / own->cache->layout.stride == 0)
            return complain(STATUS_USAGE, "a slab of order %d holds no object", options->order);
        lab_set_order(own->cache, (unsigned)options->order);
    }
    if (stook_cache_stat_enable(own->cache, STOOK_STATS_ALL) != 0 ||
        (!options->bare && !(own->pool = stook_pool_create(own->cache, DESIGN_POOL))))
        return complain(STATUS_FAILED, "no memory for the cache's counters and pool");
    for (unsigned node = 0; node < TOPOLOGY_NODES_MAX; node++) {
        own->barn[node] = timing_place(lab, "barn", (int)node);
        own->list[node] = timing_place(lab, "list_lock", (int)node);
        own->line[node] = timing_place(lab, NULL, -1);
    }
    lab->design = own;
    lab->stride = own->cache->layout.stride;
    lab->order = own->cache->layout.order;
    lab->slab_objects = own->cache->layout.objects;
    lab->sheaf_capacity = cache_capacity(own->cache);
    return 0;
}

/* What tells whether a call touched slabs (its own, or those that sheaves are made of) and locks. */
struct design_mark {
    uint64_t touched, swaps, lists, barns, barns_own, made;
};

static struct design_mark design_mark(const struct design_own *own, unsigned cpu)
{
    return (struct design_mark){
        .touched = slab_counts.swaps + slab_counts.links + slab_counts.lists + slab_counts.whole,
        .swaps = slab_counts.swaps,
        .lists = slab_counts.lists,
        .barns_own = stat_read(own->cache, (int)cpu, STAT_barn_lock_own),
        .made = stat_read(own->cache, (int)cpu, STAT_alloc_slab),
        .barns = stat_read(own->cache, (int)cpu, STAT_barn_lock_own) +
                 stat_read(own->cache, (int)cpu, STAT_barn_lock_near) +
                 stat_read(own->cache, (int)cpu, STAT_barn_lock_far),
    };
}

static void design_locks_of(struct lab_actor *actor, struct timing_place *lock, uint64_t n)
{
    for (; n > 0; n--) {
        timing_lock(actor, lock);
        timing_work(actor, TIMING_SECTION);
        timing_work(actor, TIMING_LINK);
        timing_unlock(actor, lock);
    }
}

/*
 * The library is counted, not asked: takings of locks of the CPU's own node are of that node's, others of
 * `node`'s; every compare-and-swap is of the one most contended line there could be.
 */
static void design_time(struct lab_actor *actor, struct design_own *own, unsigned node,
                        const struct design_mark *before, const struct design_mark *after)
{
    uint64_t barns = after->barns - before->barns, mine = after->barns_own - before->barns_own;

    if (!actor->lab->timing)
        return;
    timing_work(actor, TIMING_LOCAL);
    design_locks_of(actor, own->barn[topology_node(actor->cpu)], mine);
    design_locks_of(actor, own->barn[node], barns - mine);
    design_locks_of(actor, own->list[node], after->lists - before->lists);
    for (uint64_t n = after->swaps - before->swaps; n > 0; n--)
        timing_line(actor, own->line[node]);
    for (uint64_t n = after->made - before->made; n > 0; n--)
        timing_work(actor, TIMING_PAGE);
}

static void *design_alloc(struct lab_actor *actor)
{
    struct design_own *own = actor->lab->design;
    struct design_mark before = design_mark(own, actor->cpu), after;
    unsigned wait = actor->waits ? STOOK_WAIT : STOOK_NORECLAIM;
    void *object =
        own->pool ? stook_pool_alloc(own->pool, wait, NULL) : stook_alloc(own->cache, STOOK_WAIT);

    after = design_mark(own, actor->cpu);
    lab_count(actor, LAB_ALLOC_OUTSIDE, after.touched != before.touched);
    lab_count(actor, LAB_ALLOC_LIST_LOCKS, after.lists - before.lists);
    lab_count(actor, LAB_ALLOC_BARN_LOCKS, after.barns - before.barns);
    design_time(actor, own, topology_home(actor->cpu), &before, &after);
    return object;
}

static void design_free(struct lab_actor *actor, void *object)
{
    struct design_own *own = actor->lab->design;
    struct design_mark before = design_mark(own, actor->cpu), after;
    unsigned node = pagemap_node(object);

    if (own->pool)
        stook_pool_free(own->pool, object);
    else
        stook_free(own->cache, object);
    after = design_mark(own, actor->cpu);
    lab_count(actor, LAB_FREE_OUTSIDE, after.touched != before.touched);
    lab_count(actor, LAB_FREE_LIST_LOCKS, after.lists - before.lists);
    lab_count(actor, LAB_FREE_BARN_LOCKS, after.barns - before.barns);
    design_time(actor, own, node, &before, &after);
}

static void design_read(struct lab *lab, unsigned cpu, uint64_t *events)
{
    const struct design_own *own = lab->design;

    for (unsigned i = 0; i < STAT_EVENTS; i++)
        events[i] = stat_read(own->cache, (int)cpu, (enum stat_event)i);
}

static void design_slabs_of(const struct stook_cache *cache, uint64_t *made, uint64_t *now)
{
    struct node_counts counts;

    for (unsigned node = 0; node < topology.nodes; node++) {
        node_count(cache, node, &counts);
        *now += counts.slabs;
        *made += __atomic_load_n(&cache->nodes[node].node.made, __ATOMIC_RELAXED);
    }
}

/* The sheaves' own slabs count too: memory is memory. */
static void design_slabs(struct lab *lab, uint64_t *made, uint64_t *now)
{
    const struct design_own *own = lab->design;

    *made = *now = 0;
    design_slabs_of(own->cache, made, now);
    for (unsigned i = 0; i < SHEAF_CLASSES; i++)
        design_slabs_of(sheaf_cache[i], made, now);
}

static uint64_t design_bytes(struct lab *lab)
{
    const struct design_own *own = lab->design;
    struct node_counts counts;
    uint64_t pages = 0;

    for (unsigned node = 0; node < topology.nodes; node++) {
        node_count(own->cache, node, &counts);
        pages += counts.pages;
    }
    return pages * PAGE_SIZE;
}

static void design_held(struct lab *lab, unsigned cpu, uint64_t *sheaves, uint64_t *objects)
{
    const struct design_own *own = lab->design;
    struct slot_counts counts = {0};

    slot_count_cpu(own->cache, cpu, &counts);
    *sheaves = counts.sheaves;
    *objects = counts.objects;
}

static uint64_t design_node_bytes(struct lab *lab, unsigned node)
{
    uint64_t pages = 0;

    (void)lab;
    for (unsigned i = node; i < pagemap.zones; i += pagemap.zones / 2) {
        struct zone *zone = &zone_all.zone[i];
        lock_take(&zone->lock, LOCK_ARENA);
        pages += zone->used_pages + zone->warm_pages;
        lock_drop(&zone->lock, LOCK_ARENA);
    }
    return pages * PAGE_SIZE;
}

static int design_stop(struct lab *lab)
{
    struct design_own *own = lab->design;
    struct cache_counts counts;

    if (own->pool && stook_pool_available(own->pool) != DESIGN_POOL)
        return complain(STATUS_FAILED, "the pool has %u of its %d objects",
                        stook_pool_available(own->pool), DESIGN_POOL);
    if (own->pool && stook_pool_destroy(own->pool) != 0)
        return STATUS_FAILED; /* it has said how many are out */
    cache_count(own->cache, &counts);
    if (counts.active != 0)
        return complain(STATUS_FAILED, "%lu objects were lost", counts.active);
    return stook_cache_destroy(own->cache) == 0 ? 0 : STATUS_FAILED;
}

const struct lab_design lab_stook = {
    .name = "stook",
    .events = design_events,
    .locks = design_locks,
    .start = design_start,
    .alloc = design_alloc,
    .free = design_free,
    .read = design_read,
    .slabs = design_slabs,
    .bytes = design_bytes,
    .held = design_held,
    .node_bytes = design_node_bytes,
    .stop = design_stop,
};
