/* SPDX-License-Identifier: MIT */
/*
 * design_upstream.c - Linux with sheaves (mm/slub.c): two tables of objects a CPU, and a barn of full
 * and empty ones a node.
 *
 *   upstream-first  as first merged (v7.0-rc1): no refill where blocking is not allowed, which is how
 *                   a pool asks first; barns on nodes with memory only; what is of another node than
 *                   the CPU's is freed to its slab.  --refill is the report's two patches: refill
 *                   always, a barn on every online node.  (The second meant to accept other objects,
 *                   too, but asks whether the object's node has memory, which it always has.)
 *   upstream        v7.2: with both, and CPUs of memoryless nodes take objects of any node into their
 *                   sheaves; refills as they are there (kernel_object.c)
 *
 * Parameters: 60, 26, 12, 4 objects a sheaf below 256 bytes, 1 KiB, a page, above, and then what the
 * sheaf's kmalloc object has room for (calculate_sheaf_capacity: 26 becomes 28); ten full and ten empty
 * sheaves a barn (MAX_FULL_SHEAVES, MAX_EMPTY_SHEAVES).
 */
#include "lab/kernel_object.h"
#include "look/target.h"
#include "stook/command.h"

#include "page/pagemap.h"

#include <stdlib.h>

enum {
    UPSTREAM_FULL = 10,
    UPSTREAM_HEADER = 32, /* bytes of struct slab_sheaf before its objects */
};

struct upstream_sheaf {
    struct list link;
    unsigned n;
    void *object[];
};

struct upstream_cpu {
    struct upstream_sheaf *main, *spare;
};

struct upstream_barn {
    struct list full, empty;
    unsigned nr_full, nr_empty;
    struct timing_place *lock;
};

struct upstream_own {
    struct kernel_objects objects;
    unsigned capacity;
    bool refill; /* always; and barns on every node */
    bool any;    /* CPUs of memoryless nodes accept objects of any node */
    struct upstream_cpu *cpu;
    struct upstream_barn barn[TOPOLOGY_NODES_MAX];
};

/* ---- sheaves and barns ---------------------------------------------------------------------- */

static struct upstream_sheaf *upstream_sheaf_new(struct lab_actor *actor, struct upstream_own *own)
{
    struct upstream_sheaf *sheaf =
        target_need(calloc(1, sizeof(*sheaf) + own->capacity * sizeof(sheaf->object[0])));

    if (actor) {
        kernel_count(actor, &own->objects.cache, KERNEL_sheaf_alloc, 1);
        timing_work(actor, TIMING_PAGE);
    }
    return sheaf;
}

static struct upstream_barn *upstream_barn(const struct lab_actor *actor, struct upstream_own *own)
{
    unsigned node = topology_node(actor->cpu);

    return own->refill || topology_has_memory(node) ? &own->barn[node] : NULL;
}

static void upstream_lock(struct lab_actor *actor, struct upstream_own *own,
                          struct upstream_barn *barn)
{
    kernel_count_lock(actor, &own->objects.cache, (unsigned)(barn - own->barn),
                      KERNEL_barn_lock_own);
    timing_lock(actor, barn->lock);
    timing_work(actor, TIMING_SECTION);
}

static struct upstream_sheaf *upstream_pop(struct list *list, unsigned *n)
{
    struct list *link = list->next;

    if (*n == 0)
        return NULL;
    list_remove(link);
    (*n)--;
    return LIST_ENTRY(link, struct upstream_sheaf, link);
}

static void upstream_push(struct list *list, unsigned *n, struct upstream_sheaf *sheaf)
{
    list_add(list, &sheaf->link);
    (*n)++;
}

/* An empty sheaf of the barn, or NULL. */
static struct upstream_sheaf *upstream_get_empty(struct lab_actor *actor, struct upstream_own *own,
                                                 struct upstream_barn *barn)
{
    struct upstream_sheaf *sheaf;

    if (!barn || barn->nr_empty == 0)
        return NULL;
    upstream_lock(actor, own, barn);
    sheaf = upstream_pop(&barn->empty, &barn->nr_empty);
    timing_unlock(actor, barn->lock);
    return sheaf;
}

/* ---- allocation ----------------------------------------------------------------------------- */

/* The CPU's main sheaf has objects again; false: it is empty, and may not be filled. */
static bool upstream_replace_empty(struct lab_actor *actor, struct upstream_own *own,
                                   struct upstream_cpu *c)
{
    struct kernel_cache *cache = &own->objects.cache;
    struct upstream_barn *barn = upstream_barn(actor, own);
    struct upstream_sheaf *empty = c->main;

    if (c->spare && c->spare->n > 0) {
        c->main = c->spare;
        c->spare = empty;
        return true;
    }
    if (barn && barn->nr_full > 0) {
        upstream_lock(actor, own, barn);
        c->main = upstream_pop(&barn->full, &barn->nr_full);
        upstream_push(&barn->empty, &barn->nr_empty, empty);
        timing_unlock(actor, barn->lock);
        kernel_count(actor, cache, KERNEL_barn_get, 1);
        return true;
    }
    kernel_count(actor, cache, KERNEL_barn_get_fail, 1);
    if (!own->refill && !actor->waits)
        return false;
    if (c->spare) {
        empty = c->spare;
        c->spare = NULL;
    } else if (!(empty = upstream_get_empty(actor, own, barn))) {
        empty = upstream_sheaf_new(actor, own);
    }
    empty->n = kernel_object_refill(actor, &own->objects, empty->object, own->capacity);
    kernel_count(actor, cache, KERNEL_sheaf_refill, empty->n);
    lab_count(actor, LAB_ALLOC_OUTSIDE, 1);
    c->spare = c->main;
    c->main = empty;
    return empty->n > 0;
}

static void *upstream_alloc(struct lab_actor *actor)
{
    struct upstream_own *own = actor->lab->design;
    struct upstream_cpu *c = &own->cpu[actor->cpu];
    void *object;

    kernel_enter(&own->objects.cache, false);
    kernel_object_begin(actor, &own->objects);
    timing_work(actor, TIMING_LOCAL);
    if (c->main->n > 0 || upstream_replace_empty(actor, own, c)) {
        object = c->main->object[--c->main->n];
        kernel_count(actor, &own->objects.cache, KERNEL_alloc_fastpath, 1);
    } else {
        object = kernel_object_alloc(actor, &own->objects);
        lab_count(actor, LAB_ALLOC_OUTSIDE, 1);
    }
    kernel_leave(&own->objects.cache);
    return object;
}

/* ---- free ----------------------------------------------------------------------------------- */

static bool upstream_takes(const struct lab_actor *actor, const struct upstream_own *own,
                           const struct kernel_slab *slab)
{
    unsigned node = topology_node(actor->cpu);

    return slab->node == node || (own->any && !topology_has_memory(node));
}

/* The CPU's main sheaf has room again. */
static void upstream_replace_full(struct lab_actor *actor, struct upstream_own *own,
                                  struct upstream_cpu *c)
{
    struct kernel_cache *cache = &own->objects.cache;
    struct upstream_barn *barn = upstream_barn(actor, own);
    struct upstream_sheaf *full = c->main;

    if (!c->spare) {
        c->spare = full;
        if (!(c->main = upstream_get_empty(actor, own, barn)))
            c->main = upstream_sheaf_new(actor, own);
        return;
    }
    if (c->spare->n < own->capacity) {
        c->main = c->spare;
        c->spare = full;
        return;
    }
    if (barn->nr_full < UPSTREAM_FULL) {
        struct upstream_sheaf *empty = NULL;
        if (barn->nr_empty == 0)
            empty = upstream_sheaf_new(actor, own);
        upstream_lock(actor, own, barn);
        if (!empty)
            empty = upstream_pop(&barn->empty, &barn->nr_empty);
        upstream_push(&barn->full, &barn->nr_full, full);
        timing_unlock(actor, barn->lock);
        kernel_count(actor, cache, KERNEL_barn_put, 1);
        c->main = empty;
        return;
    }
    kernel_count(actor, cache, KERNEL_barn_put_fail, 1);
    kernel_count(actor, cache, KERNEL_sheaf_flush, c->spare->n);
    lab_count(actor, LAB_FREE_OUTSIDE, 1);
    kernel_object_flush(actor, &own->objects, c->spare->object, c->spare->n);
    c->spare->n = 0;
    c->main = c->spare;
    c->spare = full;
}

static void upstream_free(struct lab_actor *actor, void *object)
{
    struct upstream_own *own = actor->lab->design;
    struct upstream_cpu *c = &own->cpu[actor->cpu];
    struct kernel_slab *slab = kernel_slab_of(object);

    kernel_enter(&own->objects.cache, true);
    kernel_object_begin(actor, &own->objects);
    timing_work(actor, TIMING_LOCAL);
    if (upstream_takes(actor, own, slab)) {
        if (c->main->n == own->capacity)
            upstream_replace_full(actor, own, c);
        c->main->object[c->main->n++] = object;
        kernel_count(actor, &own->objects.cache, KERNEL_free_fastpath, 1);
    } else {
        kernel_count(actor, &own->objects.cache, KERNEL_free_slowpath, 1);
        kernel_object_free(actor, &own->objects, slab, object, object, 1);
        lab_count(actor, LAB_FREE_OUTSIDE, 1);
    }
    kernel_leave(&own->objects.cache);
}

/* ---- start and stop ------------------------------------------------------------------------- */

static unsigned upstream_capacity(unsigned stride)
{
    unsigned n = stride >= PAGE_SIZE ? 4 : stride >= 1024 ? 12 : stride >= 256 ? 26 : 60;
    unsigned bytes = 64;

    while (bytes < UPSTREAM_HEADER + n * 8)
        bytes *= 2;
    return (bytes - UPSTREAM_HEADER) / 8;
}

static int upstream_start_as(struct lab *lab, bool refill, bool any)
{
    struct upstream_own *own = lab_memory(lab, sizeof(*own));
    int status = kernel_object_start(lab, &own->objects);

    own->refill = refill || lab->options->refill;
    own->any = own->objects.in_order = any;
    own->capacity = lab->options->capacity;
    if (own->capacity == 0)
        own->capacity =
            upstream_capacity(own->objects.cache.stride ? own->objects.cache.stride : 8);
    lab->sheaf_capacity = own->capacity;
    own->cpu = lab_memory(lab, topology.cpus * sizeof(own->cpu[0]));
    for (unsigned i = 0; i < topology.cpus; i++)
        own->cpu[i].main = upstream_sheaf_new(NULL, own);
    /* The CPU that makes the cache makes all of these. */
    if (status == 0)
        own->objects.cache.event[lab_cpu_at(0)][KERNEL_sheaf_alloc] = lab_cpus();
    for (unsigned node = 0; node < TOPOLOGY_NODES_MAX; node++) {
        list_init(&own->barn[node].full);
        list_init(&own->barn[node].empty);
        own->barn[node].lock = timing_place(lab, "barn", (int)node);
    }
    return status;
}

static int upstream_start(struct lab *lab)
{
    return upstream_start_as(lab, true, true);
}

static int upstream_start_first(struct lab *lab)
{
    return upstream_start_as(lab, false, false);
}

static void upstream_give_back(struct lab_actor *actor, struct upstream_own *own,
                               struct upstream_sheaf *sheaf)
{
    if (!sheaf)
        return;
    kernel_object_flush(actor, &own->objects, sheaf->object, sheaf->n);
    free(sheaf);
}

/* As __pcs_flush_all_cpu: to slabs, past the barn. */
static void upstream_leave(struct lab_actor *actor, unsigned cpu)
{
    struct upstream_own *own = actor->lab->design;
    struct upstream_cpu *c = &own->cpu[cpu];

    kernel_enter(&own->objects.cache, true);
    kernel_object_begin(actor, &own->objects);
    kernel_object_flush(actor, &own->objects, c->main->object, c->main->n);
    c->main->n = 0;
    upstream_give_back(actor, own, c->spare);
    c->spare = NULL;
    kernel_leave(&own->objects.cache);
}

static void upstream_held(struct lab *lab, unsigned cpu, uint64_t *sheaves, uint64_t *objects)
{
    struct upstream_own *own = lab->design;
    const struct upstream_cpu *c = &own->cpu[cpu];

    kernel_enter(&own->objects.cache, true);
    *objects = c->main->n + (c->spare ? c->spare->n : 0);
    *sheaves = (c->main->n > 0) + (c->spare != NULL);
    kernel_leave(&own->objects.cache);
}

static int upstream_stop(struct lab *lab)
{
    struct upstream_own *own = lab->design;
    struct lab_actor *actor = lab->actors[0];
    struct upstream_sheaf *sheaf;

    kernel_object_end(actor, &own->objects);
    for (unsigned cpu = 0; cpu < topology.cpus; cpu++) {
        upstream_give_back(actor, own, own->cpu[cpu].main);
        upstream_give_back(actor, own, own->cpu[cpu].spare);
    }
    for (unsigned node = 0; node < TOPOLOGY_NODES_MAX; node++) {
        struct upstream_barn *barn = &own->barn[node];
        while ((sheaf = upstream_pop(&barn->full, &barn->nr_full)))
            upstream_give_back(actor, own, sheaf);
        while ((sheaf = upstream_pop(&barn->empty, &barn->nr_empty)))
            upstream_give_back(actor, own, sheaf);
    }
    kernel_object_end(actor, &own->objects);
    return kernel_stop(&own->objects.cache);
}

#define UPSTREAM_DESIGN(as, begin)                                                                 \
    {                                                                                              \
        .name = (as), .events = kernel_events, .locks = kernel_locks, .start = (begin),            \
        .alloc = upstream_alloc, .free = upstream_free, .read = kernel_read,                       \
        .slabs = kernel_slabs, .held = upstream_held, .leave = upstream_leave,                     \
        .stop = upstream_stop,                                                                     \
    }

const struct lab_design lab_upstream_first =
    UPSTREAM_DESIGN("upstream-first", upstream_start_first);
const struct lab_design lab_upstream = UPSTREAM_DESIGN("upstream", upstream_start);
