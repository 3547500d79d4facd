/* SPDX-License-Identifier: MIT */
/*
 * kernel_slab.c - slabs and nodes' lists of the replays of Linux's allocators.
 *
 * Parameters, and where Linux states them (mm/slub.c, v6.19):
 *   min_partial    half the log2 of the object's size, from MIN_PARTIAL 5 to MAX_PARTIAL 10
 *                  (do_kmem_cache_create)
 *   cpu_partial    120, 52, 24, 6 objects below 256 bytes, 1 KiB, a page, above (set_cpu_partial);
 *                  in slabs that are taken for half full (slub_set_cpu_partial)
 *   defrag ratio   1000 of 1024 draws look at other nodes (remote_node_defrag_ratio, get_any_partial)
 *   order          4 * (fls(CPUs) + 1) objects at least, up to order 3 (calculate_order)
 */
#include "lab/kernel_slab.h"
#include "stook/command.h"

#include "page/arena.h"

#include <stook/stook.h>

#include <stdlib.h>
#include <string.h>

enum {
    KERNEL_MIN_PARTIAL = 5,
    KERNEL_MAX_PARTIAL = 10,
    KERNEL_DEFRAG_RATIO = 1000,
    KERNEL_MAX_ORDER = 3,
};

const char *const kernel_events[KERNEL_EVENT_COUNT + 1] = {
#define KERNEL_NAME(name) #name,
    KERNEL_EVENTS(KERNEL_NAME)
#undef KERNEL_NAME
};

const struct lab_lock kernel_locks[] = {
    {"barn", KERNEL_barn_lock_own, KERNEL_barn_lock_near, KERNEL_barn_lock_far},
    {"list", KERNEL_list_lock_own, KERNEL_list_lock_near, KERNEL_list_lock_far},
    {NULL, 0, 0, 0},
};

/* ---- the cache ------------------------------------------------------------------------------ */

static unsigned kernel_cpu_partial(unsigned stride)
{
    return stride >= PAGE_SIZE ? 6 : stride >= 1024 ? 24 : stride >= 256 ? 52 : 120;
}

static unsigned kernel_min_partial(unsigned stride)
{
    unsigned half = (31 - (unsigned)__builtin_clz(stride)) / 2;

    return half < KERNEL_MIN_PARTIAL   ? KERNEL_MIN_PARTIAL
           : half > KERNEL_MAX_PARTIAL ? KERNEL_MAX_PARTIAL
                                       : half;
}

static unsigned kernel_order_of(size_t bytes)
{
    unsigned order = 0;

    while (((size_t)PAGE_SIZE << order) < bytes)
        order++;
    return order;
}

/* Without --order, as calculate_order: the least order that has room for min_objects and leaves at most
 * a sixteenth over, or an eighth, … */
static unsigned kernel_order(const struct lab_options *options, unsigned stride)
{
    unsigned fls = 32 - (unsigned)__builtin_clz(topology.cpus), least = 4 * (fls + 1);
    unsigned most = (unsigned)(((size_t)PAGE_SIZE << KERNEL_MAX_ORDER) / stride);

    if (options->order >= 0)
        return (unsigned)options->order;
    if (least > most)
        least = most > 0 ? most : 1;
    for (unsigned fraction = 16; fraction > 1; fraction /= 2)
        for (unsigned order = kernel_order_of((size_t)least * stride); order <= KERNEL_MAX_ORDER;
             order++) {
            size_t bytes = (size_t)PAGE_SIZE << order;
            if (bytes % stride <= bytes / fraction)
                return order;
        }
    return kernel_order_of(stride);
}

/* The arena is made by the library's first call: a cache that comes and goes. */
static bool kernel_wake(void)
{
    struct stook_cache *cache = stook_cache_create("lab", 64, NULL);

    return cache && stook_cache_destroy(cache) == 0;
}

int kernel_start(struct lab *lab, struct kernel_cache *cache)
{
    const struct lab_options *options = lab->options;
    unsigned align = options->align < sizeof(void *) ? sizeof(void *) : options->align;

    cache->lab = lab;
    cache->stride = (options->size + align - 1) / align * align;
    cache->order = kernel_order(options, cache->stride);
    cache->objects = (unsigned)(((size_t)PAGE_SIZE << cache->order) / cache->stride);
    if (cache->objects == 0 || cache->objects > 0x7fff || cache->order > 8)
        return complain(STATUS_USAGE, "a slab of order %u does not suit objects of %u bytes",
                        cache->order, cache->stride);
    cache->min_partial = kernel_min_partial(cache->stride);
    cache->cpu_partial_slabs =
        (2 * kernel_cpu_partial(cache->stride) + cache->objects - 1) / cache->objects;
    cache->defrag_ratio = KERNEL_DEFRAG_RATIO;
    pthread_mutex_init(&cache->calls, NULL);
    if (!kernel_wake())
        return complain(STATUS_FAILED, "no memory for the arena");
    cache->event = lab_memory(lab, topology.cpus * sizeof(cache->event[0]));
    cache->random = lab_memory(lab, topology.cpus * sizeof(cache->random[0]));
    for (unsigned cpu = 0; cpu < topology.cpus; cpu++)
        cache->random[cpu] = lab_seed(~(options->seed + cpu));
    for (unsigned node = 0; node < TOPOLOGY_NODES_MAX; node++) {
        list_init(&cache->node[node].partial);
        cache->node[node].lock = timing_place(lab, "list_lock", (int)node);
    }
    lab->design = cache;
    lab->stride = cache->stride;
    lab->order = cache->order;
    lab->slab_objects = cache->objects;
    return 0;
}

void kernel_enter(struct kernel_cache *cache, bool freeing)
{
    if (cache->lab->options->threads)
        pthread_mutex_lock(&cache->calls);
    cache->freeing = freeing;
}

void kernel_leave(struct kernel_cache *cache)
{
    if (cache->lab->options->threads)
        pthread_mutex_unlock(&cache->calls);
}

/* Drawn from the CPU's generator, not the actor's: the same calls draw the same numbers, whichever actor makes them. */
bool kernel_looks_far(struct lab_actor *actor, struct kernel_cache *cache)
{
    return lab_below(&cache->random[actor->cpu], 1024) <= cache->defrag_ratio;
}

/* ---- slabs ---------------------------------------------------------------------------------- */

struct kernel_slab *kernel_slab_of(const void *object)
{
    return arena_meta(object, pagemap_granule(*pagemap_at(object)));
}

struct kernel_slab *kernel_slab_new(struct lab_actor *actor, struct kernel_cache *cache)
{
    unsigned node = topology_near(topology_node(actor->cpu), 0), pages = 1u << cache->order;
    struct kernel_slab *slab;
    struct arena_ask ask = {pages, pages, .dense = true, .meta_bytes = sizeof(*slab)};
    void *meta;
    char *base = arena_alloc(node, &ask, NULL, &meta);

    if (!base)
        return NULL;
    slab = meta;
    memset(slab, 0, sizeof(*slab));
    slab->base = base;
    slab->node = (uint8_t)node;
    slab->objects = (uint16_t)cache->objects;
    slab->line = timing_place(cache->lab, NULL, -1);
    for (unsigned i = cache->objects; i-- > 0;) {
        void *object = base + (size_t)i * cache->stride;
        *kernel_next(object) = slab->freelist;
        slab->freelist = object;
    }
    for (size_t page = 0; page < (size_t)1 << cache->order; page++)
        *pagemap_at(base + page * PAGE_SIZE) = pagemap_entry(0, arena_granule(base, meta));
    cache->node[node].slabs++;
    cache->node[node].made++;
    kernel_count(actor, cache, KERNEL_alloc_slab, 1);
    timing_work(actor, TIMING_PAGE);
    timing_own(actor, slab->line);
    return slab;
}

static void kernel_give_back(struct kernel_cache *cache, struct kernel_slab *slab)
{
    cache->node[slab->node].slabs--;
    timing_forget(cache->lab, slab->line);
    for (size_t page = 0; page < (size_t)1 << cache->order; page++)
        *pagemap_at(slab->base + page * PAGE_SIZE) = 0;
    arena_free(slab->base, (size_t)1 << cache->order, slab, sizeof(*slab));
}

void kernel_slab_discard(struct lab_actor *actor, struct kernel_cache *cache,
                         struct kernel_slab *slab)
{
    kernel_count(actor, cache, KERNEL_free_slab, 1);
    timing_work(actor, TIMING_PAGE);
    kernel_give_back(cache, slab);
}

void *kernel_slab_take(struct lab_actor *actor, struct kernel_cache *cache,
                       struct kernel_slab *slab, unsigned *n)
{
    void *head = slab->freelist;

    (void)cache;
    timing_line(actor, slab->line);
    *n = (unsigned)(slab->objects - slab->inuse);
    slab->freelist = NULL;
    slab->inuse = slab->objects;
    return head;
}

void kernel_push(struct lab_actor *actor, struct kernel_slab *slab, void *head, void *tail,
                 unsigned n, bool *was_full, bool *empty)
{
    timing_line(actor, slab->line);
    *was_full = !slab->freelist;
    *kernel_next(tail) = slab->freelist;
    slab->freelist = head;
    slab->inuse = (uint16_t)(slab->inuse - n);
    *empty = slab->inuse == 0;
}

/* ---- lists ---------------------------------------------------------------------------------- */

void kernel_count_lock(struct lab_actor *actor, struct kernel_cache *cache, unsigned node,
                       enum kernel_event own)
{
    unsigned from = topology_node(actor->cpu), far = topology_distance(from, node) >= 20;
    bool barn = own == KERNEL_barn_lock_own;

    kernel_count(actor, cache, (enum kernel_event)(own + (from != node ? 1 + far : 0)), 1);
    lab_count(actor,
              cache->freeing ? barn ? LAB_FREE_BARN_LOCKS : LAB_FREE_LIST_LOCKS
              : barn         ? LAB_ALLOC_BARN_LOCKS
                             : LAB_ALLOC_LIST_LOCKS,
              1);
}

void kernel_lock(struct lab_actor *actor, struct kernel_cache *cache, unsigned node)
{
    kernel_count_lock(actor, cache, node, KERNEL_list_lock_own);
    timing_lock(actor, cache->node[node].lock);
    timing_work(actor, TIMING_SECTION);
}

void kernel_unlock(struct lab_actor *actor, struct kernel_cache *cache, unsigned node)
{
    timing_unlock(actor, cache->node[node].lock);
}

void kernel_corrupt(const struct lab_actor *actor, const struct kernel_slab *slab,
                    const char *where)
{
    complain(
        STATUS_FAILED,
        "list corruption: CPU %u puts a slab of node %u on %s while it is on the list of %s %u",
        actor->cpu, slab->node, where, slab->on == KERNEL_NODE ? "node" : "CPU",
        slab->on == KERNEL_NODE ? slab->node : slab->cpu);
    exit(STATUS_FAILED);
}

/* A list's links are in the lines of its slabs: a CPU that links or unlinks a slab writes its neighbours' lines. */
static void kernel_neighbour(struct lab_actor *actor, const struct kernel_node *node,
                             struct list *link)
{
    if (link != &node->partial)
        timing_line(actor, LIST_ENTRY(link, struct kernel_slab, link)->line);
}

void kernel_add_partial(struct lab_actor *actor, struct kernel_cache *cache,
                        struct kernel_slab *slab, bool tail)
{
    struct kernel_node *node = &cache->node[slab->node];

    if (slab->on != KERNEL_NOWHERE)
        kernel_corrupt(actor, slab, "its node's list");
    slab->on = KERNEL_NODE;
    if (node->nr_partial > 0)
        kernel_neighbour(actor, node, tail ? node->partial.prev : node->partial.next);
    node->nr_partial++;
    if (tail)
        list_add_tail(&node->partial, &slab->link);
    else
        list_add(&node->partial, &slab->link);
    timing_work(actor, TIMING_LINK);
}

void kernel_remove_partial(struct lab_actor *actor, struct kernel_cache *cache,
                           struct kernel_slab *slab)
{
    kernel_neighbour(actor, &cache->node[slab->node], slab->link.prev);
    kernel_neighbour(actor, &cache->node[slab->node], slab->link.next);
    list_remove(&slab->link);
    slab->on = KERNEL_NOWHERE;
    cache->node[slab->node].nr_partial--;
    timing_work(actor, TIMING_LINK);
}

void kernel_remove_partials(struct lab_actor *actor, struct kernel_cache *cache, unsigned node,
                            struct kernel_slab *last, struct list *slabs)
{
    struct kernel_node *n = &cache->node[node];

    kernel_neighbour(actor, n, last->link.next);
    for (struct kernel_slab *slab = NULL; slab != last;) {
        slab = LIST_ENTRY(n->partial.next, struct kernel_slab, link);
        timing_line(actor, slab->line); /* its mark: it is on the list no more */
        list_remove(&slab->link);
        list_add_tail(slabs, &slab->link);
        slab->on = KERNEL_NOWHERE;
        n->nr_partial--;
    }
    timing_work(actor, TIMING_LINK);
}

void kernel_add_partials(struct lab_actor *actor, struct kernel_cache *cache, unsigned node,
                         struct list *slabs)
{
    struct kernel_node *n = &cache->node[node];

    kernel_neighbour(actor, n, n->partial.prev);
    while (!list_empty(slabs)) {
        struct kernel_slab *slab = LIST_ENTRY(slabs->next, struct kernel_slab, link);
        timing_line(actor, slab->line);
        list_remove(&slab->link);
        list_add_tail(&n->partial, &slab->link);
        slab->on = KERNEL_NODE;
        n->nr_partial++;
    }
    timing_work(actor, TIMING_LINK);
}

/* ---- the end, and what is read -------------------------------------------------------------- */

int kernel_stop(struct kernel_cache *cache)
{
    uint64_t lost = 0;

    for (unsigned node = 0; node < TOPOLOGY_NODES_MAX; node++) {
        struct kernel_node *n = &cache->node[node];
        while (!list_empty(&n->partial)) {
            struct kernel_slab *slab = LIST_ENTRY(n->partial.next, struct kernel_slab, link);
            list_remove(&slab->link);
            n->nr_partial--;
            if (slab->inuse == 0)
                kernel_give_back(cache, slab);
        }
        lost += n->slabs;
    }
    pthread_mutex_destroy(&cache->calls);
    return lost == 0 ? 0 : complain(STATUS_FAILED, "objects of %lu slabs were lost", lost);
}

void kernel_read(struct lab *lab, unsigned cpu, uint64_t *events)
{
    const struct kernel_cache *cache = lab->design;

    memcpy(events, cache->event[cpu], sizeof(cache->event[cpu]));
}

void kernel_slabs(struct lab *lab, uint64_t *made, uint64_t *now)
{
    const struct kernel_cache *cache = lab->design;

    *made = *now = 0;
    for (unsigned node = 0; node < TOPOLOGY_NODES_MAX; node++) {
        *made += cache->node[node].made;
        *now += cache->node[node].slabs;
    }
}
