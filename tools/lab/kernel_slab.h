/* SPDX-License-Identifier: MIT */
/*
 * kernel_slab.h - the common parts of the lab's replays of Linux's allocators.  They are slabs in the arena
 * with a freelist through their free objects, the nodes' lists of partial slabs, and the events by the kernel's
 * names.  None of it is linked into the libraries.
 *
 * A replay makes one call at a time; with --threads a mutex ensures that.  A compare-and-swap of the kernel is a
 * plain change here, with the cost of its line (timing.h).
 *
 * A slab is on its node's list (`on` says so), on a CPU's list, or on none; full ones are on none.
 */
#ifndef STOOK_LAB_KERNEL_SLAB_H
#define STOOK_LAB_KERNEL_SLAB_H

#include "lab/lab.h"
#include "lab/timing.h"

#include "base/list.h"
#include "os/topology.h"

#include <pthread.h>

#define KERNEL_EVENTS(e)                                                                           \
    e(alloc_fastpath) e(alloc_slowpath) e(alloc_refill) e(alloc_from_partial) e(alloc_slab)        \
        e(cpu_partial_alloc) e(cpu_partial_node) e(cpu_partial_free) e(cpu_partial_drain)          \
            e(deactivate_bypass) e(deactivate_empty) e(free_fastpath) e(free_slowpath)             \
                e(free_frozen) e(free_add_partial) e(free_remove_partial) e(free_slab) e(barn_get) \
                    e(barn_get_fail) e(barn_put) e(barn_put_fail) e(sheaf_refill) e(sheaf_flush)   \
                        e(sheaf_alloc) e(sheaf_free) e(barn_lock_own) e(barn_lock_near)            \
                            e(barn_lock_far) e(list_lock_own) e(list_lock_near) e(list_lock_far)

enum kernel_event {
#define KERNEL_EVENT(name) KERNEL_##name,
    KERNEL_EVENTS(KERNEL_EVENT)
#undef KERNEL_EVENT
        KERNEL_EVENT_COUNT
};
_Static_assert((int)KERNEL_EVENT_COUNT <= (int)LAB_DESIGN_EVENTS, "there is room for every event");
extern const char *const kernel_events[KERNEL_EVENT_COUNT + 1];
extern const struct lab_lock kernel_locks[];

enum kernel_on { KERNEL_NOWHERE, KERNEL_NODE, KERNEL_CPU };

struct kernel_slab {
    struct list link; /* on a list, as `on` says */
    char *base;
    void *freelist; /* the first free object; a free object's first word is the next one */
    struct timing_place *line;
    uint16_t objects, inuse, cpu;
    uint8_t node, on;
    bool frozen; /* it is a CPU's own: frees to it touch no list */
};

struct kernel_node {
    struct list partial;
    unsigned nr_partial;
    struct timing_place *lock;
    uint64_t slabs, made;
};

struct kernel_cache {
    struct lab *lab;
    pthread_mutex_t calls; /* one at a time */
    unsigned stride, order, objects, min_partial, cpu_partial_slabs, defrag_ratio;
    bool freeing; /* the call under way frees */
    struct kernel_node node[TOPOLOGY_NODES_MAX];
    uint64_t (*event)[KERNEL_EVENT_COUNT]; /* by CPU */
    uint64_t *random;                      /* by CPU: get_cycles() of the kernel's draws */
};

static inline void kernel_count(struct lab_actor *actor, struct kernel_cache *cache,
                                enum kernel_event event, uint64_t n)
{
    cache->event[actor->cpu][event] += n;
}

/* For the run's options, as Linux would have it; a status.  `own` is the design's, with the cache first. */
int kernel_start(struct lab *lab, struct kernel_cache *own);
/* A call begins and ends: the side that it is on, for what is counted of locks. */
void kernel_enter(struct kernel_cache *cache, bool freeing);
void kernel_leave(struct kernel_cache *cache);

struct kernel_slab *kernel_slab_of(const void *object);
/* One draw in 1024 / defrag_ratio: this refill looks at other nodes' lists (remote_node_defrag_ratio). */
bool kernel_looks_far(struct lab_actor *actor, struct kernel_cache *cache);
/* From the nearest memory, all objects free and on no list; or NULL. */
struct kernel_slab *kernel_slab_new(struct lab_actor *actor, struct kernel_cache *cache);
void kernel_slab_discard(struct lab_actor *actor, struct kernel_cache *cache,
                         struct kernel_slab *slab);
/* All its free objects at once; *n of them. */
void *kernel_slab_take(struct lab_actor *actor, struct kernel_cache *cache,
                       struct kernel_slab *slab, unsigned *n);

/* The list lock of a node, as counted and timed.  It is held till the unlock. */
void kernel_lock(struct lab_actor *actor, struct kernel_cache *cache, unsigned node);
void kernel_unlock(struct lab_actor *actor, struct kernel_cache *cache, unsigned node);
/* Another shared lock: its node, and the event of its own-node taking. */
void kernel_count_lock(struct lab_actor *actor, struct kernel_cache *cache, unsigned node,
                       enum kernel_event own);
/* With the lock held. */
void kernel_add_partial(struct lab_actor *actor, struct kernel_cache *cache,
                        struct kernel_slab *slab, bool tail);
void kernel_remove_partial(struct lab_actor *actor, struct kernel_cache *cache,
                           struct kernel_slab *slab);
/*
 * The first slabs of a node's list, up to `last`, to another list, in their order; and all of such a list
 * to the end of the node's.  Each is one change of the node's list.
 */
void kernel_remove_partials(struct lab_actor *actor, struct kernel_cache *cache, unsigned node,
                            struct kernel_slab *last, struct list *slabs);
void kernel_add_partials(struct lab_actor *actor, struct kernel_cache *cache, unsigned node,
                         struct list *slabs);
/* Ends the run: a slab is put on a list while another has it. */
void kernel_corrupt(const struct lab_actor *actor, const struct kernel_slab *slab,
                    const char *where);

/* Pushes n linked objects; *was_full, *empty now. */
void kernel_push(struct lab_actor *actor, struct kernel_slab *slab, void *head, void *tail,
                 unsigned n, bool *was_full, bool *empty);

/* When all is free and the design has given back what CPUs and barns held. */
int kernel_stop(struct kernel_cache *cache);

/* Of struct lab_design; the design's own begins with the cache. */
void kernel_read(struct lab *lab, unsigned cpu, uint64_t *events);
void kernel_slabs(struct lab *lab, uint64_t *made, uint64_t *now);

static inline void **kernel_next(void *object)
{
    return object;
}

#endif
