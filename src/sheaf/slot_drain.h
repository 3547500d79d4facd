/* SPDX-License-Identifier: MIT */
/*
 * slot_drain.h - the slots of all CPUs: draining, counting, fork.
 */
#ifndef STOOK_SHEAF_SLOT_DRAIN_H
#define STOOK_SHEAF_SLOT_DRAIN_H

#include "sheaf/slot.h"

/*
 * Takes the sheaves of all CPUs' slots, remotely, one fence a CPU for all caches, and flushes them;
 * skips isolated CPUs, and slots whose owners are just moving pointers.  `alone`: no thread is in
 * a call on these caches or will be, so no CPU need be interrupted and nothing is skipped.
 * False: slots of CPUs that may be interrupted were left as they are, since their owners are just moving pointers or
 * the fence was refused.
 */
bool slot_drain(struct stook_cache *const *caches, unsigned n, bool alone);
/* The same of one CPU. */
bool slot_drain_cpu(struct stook_cache *const *caches, unsigned n, unsigned cpu, bool alone);

/* The same of what needs no fence, and so asks the kernel for nothing: this CPU's slot, or in locked
 * mode those of all CPUs. */
void slot_drain_near(struct stook_cache *cache);

/* Adds what one CPU has: racy, as the sums. */
struct slot_counts {
    uint64_t objects, sheaves;
    uint64_t remote; /* of the objects: those of other nodes */
};
void slot_count_cpu(const struct stook_cache *cache, unsigned cpu, struct slot_counts *counts);

/* Objects in all CPUs' sheaves and the sheaves' number: racy sums for reports. */
void slot_count(const struct stook_cache *cache, uint64_t *objects, uint64_t *sheaves);

/*
 * fork: takes every slot of every CPU, and opens them again in the parent.  Bounded: a slot whose owner
 * cannot run, or died with it closed, is passed by in the end.
 */
void slot_take_all(void);
void slot_open_all(void);
/* Slots that forks passed by. */
extern _Atomic uint32_t slot_lost __attribute__((visibility("hidden")));
/* The same in the child, where slots that were skipped open without sheaves: their objects are
 * lost there, memory of the child alone. */
void slot_child(void);

#endif
