/* SPDX-License-Identifier: MIT */
/*
 * kernel_object.h - objects from and to slabs without CPU slabs, as Linux has it with sheaves
 * (kernel_object.c).
 */
#ifndef STOOK_LAB_KERNEL_OBJECT_H
#define STOOK_LAB_KERNEL_OBJECT_H

#include "lab/kernel_slab.h"

/*
 * The list corruption of 2026, between two patches from CPU slabs to sheaves.  The CPU that took a slab's last
 * object took the slab off the node's list only after other CPUs could see that it was full.  A CPU that freed to
 * a full slab put it on its own list without a lock.  With `on`, a slab that becomes full stays on its list till
 * that CPU's next call, and a free to a full slab puts it on a CPU's list.
 */
struct kernel_race {
    bool on;
    struct kernel_slab **late; /* by CPU: full, and on its node's list still */
    struct list *list;         /* by CPU */
};

struct kernel_objects {
    struct kernel_cache cache;
    struct kernel_race race;
    bool in_order; /* refills as in v7.2 */
};

int kernel_object_start(struct lab *lab, struct kernel_objects *own);
/* Begins a call of the CPU: what it left for later. */
void kernel_object_begin(struct lab_actor *actor, struct kernel_objects *own);
void kernel_object_end(struct lab_actor *actor, struct kernel_objects *own);

/* One object from slabs; NULL: no memory. */
void *kernel_object_alloc(struct lab_actor *actor, struct kernel_objects *own);
/* n linked objects back to their slab. */
void kernel_object_free(struct lab_actor *actor, struct kernel_objects *own,
                        struct kernel_slab *slab, void *head, void *tail, unsigned n);
/* Fills a table from slabs; returns how many objects: n, or fewer if memory is short. */
unsigned kernel_object_refill(struct lab_actor *actor, struct kernel_objects *own, void **objects,
                              unsigned n);
/* The table's objects back, those of one slab at once. */
void kernel_object_flush(struct lab_actor *actor, struct kernel_objects *own, void **objects,
                         unsigned n);

#endif
