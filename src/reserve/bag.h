/* SPDX-License-Identifier: MIT */
/*
 * bag.h - pointers for hard times that somebody else's functions made; see stook/kmalloc.h.
 *
 * Everything but the counts that others look at first is under the lock.  The lock is held for a few
 * instructions, with signals blocked, so that no handler finds it held by its own thread; a thread that
 * finds it held sleeps.  Its word names the forks of the process: in a child a lock that a thread of the
 * parent held is free.  Each
 * change leaves the bag whole at every instruction, but for the one pointer that is on its way: that
 * is the parent's thread's.
 */
#ifndef STOOK_RESERVE_BAG_H
#define STOOK_RESERVE_BAG_H

#include <stook/kmalloc.h>
#include <stook/kmem_private.h>

#include <stdatomic.h>
#include <stdint.h>

struct stook_kmem_bag {
    _Atomic uint32_t lock; /* 0, or 4 * forks + 1, + 2 more while a thread may sleep on it */
    _Atomic uint32_t count, limit, waiters;
    _Atomic uint32_t turn; /* changes with each wake-up */
    uint32_t forks;        /* when waiters were counted */
    uint32_t room;         /* of the array */
    void **pointer;
};

/* How long who waits sleeps before it looks again, in nanoseconds; 0: until it is woken. */
extern uint64_t bag_nap __attribute__((visibility("hidden")));

#endif
