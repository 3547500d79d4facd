/* SPDX-License-Identifier: MIT */
/*
 * cancel.h - callbacks of the program's run with cancellation switched off.
 *
 * They may contain points of cancellation.  A thread that was cancelled in a destructor would leave
 * behind what the library was in the middle of: pins, a reclaim that never ends, its depth.  So the
 * cancel waits until the callback has returned; as do those of asynchronous type.
 */
#ifndef STOOK_BASE_CANCEL_H
#define STOOK_BASE_CANCEL_H

#include <pthread.h>

/* What cancel_on() is to bring back. */
static inline int cancel_off(void)
{
    int before = PTHREAD_CANCEL_ENABLE;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void cancel_on(int before)
{
    (void)pthread_setcancelstate(before, NULL);
}

#endif
