/* SPDX-License-Identifier: MIT */
/*
 * design_cpu_partial.c - Linux v6.19 (mm/slub.c) before sheaves: each CPU has a frozen slab with a
 * freelist of its own and a list of partial slabs.  A free to a full slab puts the slab on the freeing
 * CPU's list.  When that list holds its number of slabs, it is drained to the nodes' lists.
 *
 * An allocation tries these in order:
 *
 *   the CPU's freelist
 *   the objects that other CPUs freed to the frozen slab
 *   the CPU's list
 *   the list of its node, then that of the nearest node with more than min_partial slabs: one slab and half of a
 *   list more
 *   a new slab
 */
#include "lab/kernel_slab.h"
#include "stook/command.h"

struct partial_cpu {
    struct kernel_slab *slab;
    void *freelist;
    struct list partial; /* last in, first out */
    unsigned slabs;
};

struct partial_own {
    struct kernel_cache cache;
    struct partial_cpu *cpu;
};

static int partial_start(struct lab *lab)
{
    struct partial_own *own = lab_memory(lab, sizeof(*own));
    int status = kernel_start(lab, &own->cache);

    own->cpu = lab_memory(lab, topology.cpus * sizeof(own->cpu[0]));
    for (unsigned i = 0; i < topology.cpus; i++)
        list_init(&own->cpu[i].partial);
    return status;
}

/* ---- the CPU's list ------------------------------------------------------------------------- */

/* One taking of a lock for neighbours of one node, as __put_partials has it. */
static void partial_drain(struct lab_actor *actor, struct partial_own *own, struct list *slabs)
{
    struct kernel_cache *cache = &own->cache;
    struct kernel_slab *discard[64];
    unsigned held = TOPOLOGY_NODES_MAX, n = 0;

    while (!list_empty(slabs)) {
        struct kernel_slab *slab = LIST_ENTRY(slabs->next, struct kernel_slab, link);
        list_remove(&slab->link);
        slab->on = KERNEL_NOWHERE;
        if (slab->node != held) {
            if (held != TOPOLOGY_NODES_MAX)
                kernel_unlock(actor, cache, held);
            kernel_lock(actor, cache, held = slab->node);
        }
        if (slab->inuse == 0 && cache->node[held].nr_partial >= cache->min_partial &&
            n < sizeof(discard) / sizeof(discard[0])) {
            discard[n++] = slab;
        } else {
            kernel_add_partial(actor, cache, slab, true);
            kernel_count(actor, cache, KERNEL_free_add_partial, 1);
        }
    }
    if (held != TOPOLOGY_NODES_MAX)
        kernel_unlock(actor, cache, held);
    while (n > 0) {
        kernel_count(actor, cache, KERNEL_deactivate_empty, 1);
        kernel_slab_discard(actor, cache, discard[--n]);
    }
}

static void partial_drain_cpu(struct lab_actor *actor, struct partial_own *own, unsigned cpu)
{
    struct partial_cpu *c = &own->cpu[cpu];
    struct list slabs;

    list_init(&slabs);
    while (!list_empty(&c->partial)) {
        struct list *link = c->partial.next;
        list_remove(link);
        list_add_tail(&slabs, link);
    }
    c->slabs = 0;
    partial_drain(actor, own, &slabs);
}

static void partial_put(struct lab_actor *actor, struct partial_own *own, struct kernel_slab *slab,
                        bool drain)
{
    struct partial_cpu *c = &own->cpu[actor->cpu];

    if (drain && c->slabs >= own->cache.cpu_partial_slabs) {
        partial_drain_cpu(actor, own, actor->cpu);
        kernel_count(actor, &own->cache, KERNEL_cpu_partial_drain, 1);
    }
    if (slab->on != KERNEL_NOWHERE)
        kernel_corrupt(actor, slab, "a CPU's list");
    slab->on = KERNEL_CPU;
    slab->cpu = (uint16_t)actor->cpu;
    list_add(&c->partial, &slab->link);
    c->slabs++;
}

/* ---- allocation ----------------------------------------------------------------------------- */

/* The slab's free objects are the CPU's own; the first of them. */
static void *partial_load(struct lab_actor *actor, struct partial_own *own,
                          struct kernel_slab *slab)
{
    struct partial_cpu *c = &own->cpu[actor->cpu];
    unsigned n;
    void *object = kernel_slab_take(actor, &own->cache, slab, &n);

    slab->frozen = true;
    c->slab = slab;
    timing_object(actor, object);
    c->freelist = *kernel_next(object);
    return object;
}

static struct kernel_slab *partial_of_node(struct lab_actor *actor, struct partial_own *own,
                                           unsigned node)
{
    struct kernel_cache *cache = &own->cache;
    struct kernel_slab *first = NULL;
    unsigned more = 0;

    if (cache->node[node].nr_partial == 0)
        return NULL;
    kernel_lock(actor, cache, node);
    while (!list_empty(&cache->node[node].partial) && more <= cache->cpu_partial_slabs / 2) {
        struct kernel_slab *slab =
            LIST_ENTRY(cache->node[node].partial.next, struct kernel_slab, link);
        kernel_remove_partial(actor, cache, slab);
        if (!first) {
            first = slab;
            kernel_count(actor, cache, KERNEL_alloc_from_partial, 1);
            continue;
        }
        partial_put(actor, own, slab, false);
        kernel_count(actor, cache, KERNEL_cpu_partial_node, 1);
        more++;
    }
    kernel_unlock(actor, cache, node);
    return first;
}

static struct kernel_slab *partial_get(struct lab_actor *actor, struct partial_own *own)
{
    struct kernel_cache *cache = &own->cache;
    unsigned node = topology_node(actor->cpu);
    struct kernel_slab *slab = NULL;

    if (topology_has_memory(node) && (slab = partial_of_node(actor, own, node)))
        return slab;
    if (!kernel_looks_far(actor, cache))
        return NULL;
    for (unsigned i = 0; i < topology.memories && !slab; i++) {
        unsigned other = topology_near(node, i);
        if (cache->node[other].nr_partial > cache->min_partial)
            slab = partial_of_node(actor, own, other);
    }
    return slab;
}

static void *partial_slow(struct lab_actor *actor, struct partial_own *own)
{
    struct partial_cpu *c = &own->cpu[actor->cpu];
    struct kernel_slab *slab = c->slab;

    kernel_count(actor, &own->cache, KERNEL_alloc_slowpath, 1);
    if (slab && slab->freelist) {
        kernel_count(actor, &own->cache, KERNEL_alloc_refill, 1);
        return partial_load(actor, own, slab);
    }
    if (slab) { /* full: the CPU that frees to it first gets it */
        timing_line(actor, slab->line);
        slab->frozen = false;
        c->slab = NULL;
        kernel_count(actor, &own->cache, KERNEL_deactivate_bypass, 1);
    }
    if (!list_empty(&c->partial)) {
        slab = LIST_ENTRY(c->partial.next, struct kernel_slab, link);
        list_remove(&slab->link);
        slab->on = KERNEL_NOWHERE;
        c->slabs--;
        kernel_count(actor, &own->cache, KERNEL_cpu_partial_alloc, 1);
        return partial_load(actor, own, slab);
    }
    slab = partial_get(actor, own);
    if (!slab)
        slab = kernel_slab_new(actor, &own->cache);
    return slab ? partial_load(actor, own, slab) : NULL;
}

static void *partial_alloc(struct lab_actor *actor)
{
    struct partial_own *own = actor->lab->design;
    struct partial_cpu *c = &own->cpu[actor->cpu];
    void *object;

    kernel_enter(&own->cache, false);
    timing_work(actor, TIMING_LOCAL);
    object = c->freelist;
    if (object) {
        kernel_count(actor, &own->cache, KERNEL_alloc_fastpath, 1);
        timing_object_fetched(actor, object); /* by the allocation before: prefetch_freepointer */
        c->freelist = *kernel_next(object);
    } else {
        object = partial_slow(actor, own);
        lab_count(actor, LAB_ALLOC_OUTSIDE, 1);
    }
    kernel_leave(&own->cache);
    return object;
}

/* ---- free ----------------------------------------------------------------------------------- */

static void partial_free_slow(struct lab_actor *actor, struct partial_own *own,
                              struct kernel_slab *slab, void *object)
{
    struct kernel_cache *cache = &own->cache;
    bool full, empty, discard = false;

    kernel_count(actor, cache, KERNEL_free_slowpath, 1);
    kernel_push(actor, slab, object, object, 1, &full, &empty);
    if (slab->frozen) {
        kernel_count(actor, cache, KERNEL_free_frozen, 1);
        return;
    }
    if (full) {
        partial_put(actor, own, slab, true);
        kernel_count(actor, cache, KERNEL_cpu_partial_free, 1);
        return;
    }
    if (!empty)
        return;
    kernel_lock(actor, cache, slab->node);
    if (slab->on == KERNEL_NODE && cache->node[slab->node].nr_partial >= cache->min_partial) {
        kernel_remove_partial(actor, cache, slab);
        kernel_count(actor, cache, KERNEL_free_remove_partial, 1);
        discard = true;
    }
    kernel_unlock(actor, cache, slab->node);
    if (discard)
        kernel_slab_discard(actor, cache, slab);
}

static void partial_free(struct lab_actor *actor, void *object)
{
    struct partial_own *own = actor->lab->design;
    struct partial_cpu *c = &own->cpu[actor->cpu];
    struct kernel_slab *slab = kernel_slab_of(object);

    kernel_enter(&own->cache, true);
    timing_work(actor, TIMING_LOCAL);
    if (slab == c->slab) {
        kernel_count(actor, &own->cache, KERNEL_free_fastpath, 1);
        *kernel_next(object) = c->freelist;
        c->freelist = object;
    } else {
        partial_free_slow(actor, own, slab, object);
        lab_count(actor, LAB_FREE_OUTSIDE, 1);
    }
    kernel_leave(&own->cache);
}

/* ---- CPUs that go, and the end ------------------------------------------------------------------ */

/* As slub_cpu_dead: the frozen slab and the list. */
static void partial_flush(struct lab_actor *actor, struct partial_own *own, unsigned cpu)
{
    struct partial_cpu *c = &own->cpu[cpu];
    struct kernel_slab *slab = c->slab;
    bool full, empty;

    c->slab = NULL;
    while (c->freelist) {
        void *object = c->freelist;
        c->freelist = *kernel_next(object);
        kernel_push(actor, slab, object, object, 1, &full, &empty);
    }
    if (slab) {
        slab->frozen = false;
        if (slab->freelist)
            partial_put(actor, own, slab, true);
    }
    partial_drain_cpu(actor, own, cpu);
}

static void partial_leave(struct lab_actor *actor, unsigned cpu)
{
    struct partial_own *own = actor->lab->design;

    kernel_enter(&own->cache, true);
    partial_flush(actor, own, cpu);
    kernel_leave(&own->cache);
}

static void partial_held(struct lab *lab, unsigned cpu, uint64_t *slabs, uint64_t *objects)
{
    struct partial_own *own = lab->design;
    const struct partial_cpu *c = &own->cpu[cpu];

    kernel_enter(&own->cache, true);
    *slabs = c->slabs + (c->slab != NULL);
    *objects = 0;
    for (const void *object = c->freelist; object; object = *kernel_next((void *)object))
        ++*objects;
    for (const struct list *link = c->partial.next; link != &c->partial; link = link->next) {
        const struct kernel_slab *slab = LIST_ENTRY(link, struct kernel_slab, link);
        *objects += (unsigned)(slab->objects - slab->inuse);
    }
    kernel_leave(&own->cache);
}

static int partial_stop(struct lab *lab)
{
    struct partial_own *own = lab->design;
    struct lab_actor *actor = lab->actors[0];

    for (unsigned cpu = 0; cpu < topology.cpus; cpu++)
        partial_flush(actor, own, cpu);
    partial_drain_cpu(actor, own, actor->cpu);
    return kernel_stop(&own->cache);
}

const struct lab_design lab_cpu_partial = {
    .name = "cpu-partial",
    .events = kernel_events,
    .locks = kernel_locks,
    .start = partial_start,
    .alloc = partial_alloc,
    .free = partial_free,
    .read = kernel_read,
    .slabs = kernel_slabs,
    .held = partial_held,
    .leave = partial_leave,
    .stop = partial_stop,
};
