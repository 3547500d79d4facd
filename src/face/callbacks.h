/* SPDX-License-Identifier: MIT */
/*
 * callbacks.h - calls the functions that programs have set for when memory is short (stook/reserve.h), after
 * cache/reclaim.c has given back the memory that the library itself held.
 */
#ifndef STOOK_FACE_CALLBACKS_H
#define STOOK_FACE_CALLBACKS_H

#include "base/lock.h"

#include <stook/reserve.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct callback {
    stook_reclaim_fn fn; /* NULL: free */
    void *arg;
    uint32_t running; /* threads that are in it */
    bool going;       /* no thread enters it any more; free once `running` is 0 */
};

struct callbacks {
    struct lock lock;      /* LOCK_RECLAIM: the entries */
    _Atomic uint32_t turn; /* changes when a callback that is going ends */
    struct callback entry[STOOK_RECLAIM_MAX];
};
extern struct callbacks callbacks __attribute__((visibility("hidden")));

/* hooks.reclaim */
size_t callbacks_reclaim(size_t wanted, bool *any);

/* Of hooks.fork_take and its like; in the child threads that were in callbacks are gone. */
void callbacks_fork_take(void);
void callbacks_fork_drop(void);
void callbacks_fork_renew(void);

#endif
