/* SPDX-License-Identifier: MIT */
/*
 * callbacks.c - the list of the program's callbacks, and the wait of an unregistration for those that run.
 */
#include "face/callbacks.h"

#include "base/cancel.h"
#include "base/context.h"
#include "base/init.h"
#include "base/placed.h"
#include "base/raw.h"
#include "cache/reclaim.h"

#include <errno.h>

struct callbacks callbacks LARGE_BSS;

static bool callbacks_enter(unsigned i, struct callback *copy)
{
    struct callback *entry = &callbacks.entry[i];
    bool live;

    context_enter();
    lock_take(&callbacks.lock, LOCK_RECLAIM);
    live = entry->fn && !entry->going;
    if (live)
        entry->running++;
    *copy = *entry;
    lock_drop(&callbacks.lock, LOCK_RECLAIM);
    context_leave();
    return live;
}

static void callbacks_leave(unsigned i)
{
    struct callback *entry = &callbacks.entry[i];
    bool going;

    context_enter();
    lock_take(&callbacks.lock, LOCK_RECLAIM);
    entry->running--;
    going = entry->going;
    if (going) {
        atomic_fetch_add_explicit(&callbacks.turn, 1, memory_order_relaxed);
        if (entry->running == 0)
            *entry = (struct callback){0};
    }
    lock_drop(&callbacks.lock, LOCK_RECLAIM);
    context_leave();
    if (going)
        raw_wake(&callbacks.turn, INT32_MAX);
}

size_t callbacks_reclaim(size_t wanted, bool *any)
{
    size_t bytes = 0, more;

    *any = false;
    for (unsigned i = 0; i < STOOK_RECLAIM_MAX; i++) {
        struct callback entry;
        int cancel;
        if (!callbacks_enter(i, &entry))
            continue;
        cancel = cancel_off();
        reclaim_inside = i + 1;
        more = entry.fn(wanted, entry.arg);
        reclaim_inside = 0;
        callbacks_leave(i);
        cancel_on(cancel);
        *any = true;
        bytes = bytes + more < bytes ? SIZE_MAX : bytes + more;
    }
    return bytes;
}

/* The entry of a callback that is not going, or -1.  Under the lock. */
static int callbacks_find(stook_reclaim_fn fn, const void *arg)
{
    for (int i = 0; i < (int)STOOK_RECLAIM_MAX; i++)
        if (callbacks.entry[i].fn == fn && callbacks.entry[i].arg == arg &&
            !callbacks.entry[i].going)
            return i;
    return -1;
}

int stook_reclaim_register(stook_reclaim_fn fn, void *arg)
{
    int error = EINVAL, i = 0;

    init_once();
    context_enter();
    lock_take(&callbacks.lock, LOCK_RECLAIM);
    if (fn) {
        error = callbacks_find(fn, arg) >= 0 ? EEXIST : 0;
        while (i < (int)STOOK_RECLAIM_MAX && callbacks.entry[i].fn)
            i++;
        if (error == 0 && i == (int)STOOK_RECLAIM_MAX)
            error = ENOSPC;
        if (error == 0)
            callbacks.entry[i] = (struct callback){.fn = fn, .arg = arg};
    }
    lock_drop(&callbacks.lock, LOCK_RECLAIM);
    context_leave();
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

/*
 * When this returns, no thread is in the callback, except this one if it unregisters from within.
 * The entry is held by `going` until then: its number means this callback and no other.
 */
int stook_reclaim_unregister(stook_reclaim_fn fn, void *arg)
{
    uint32_t own, turn = 0;
    bool wait = false;
    int i;

    context_enter();
    lock_take(&callbacks.lock, LOCK_RECLAIM);
    i = fn ? callbacks_find(fn, arg) : -1;
    if (i >= 0) {
        own = reclaim_inside == (unsigned)i + 1;
        callbacks.entry[i].going = true;
        callbacks.entry[i].running++; /* this call: a thread that leaves does not free the entry */
        while ((wait = callbacks.entry[i].running > 1 + own)) {
            turn = atomic_load_explicit(&callbacks.turn, memory_order_relaxed);
            lock_drop(&callbacks.lock, LOCK_RECLAIM);
            context_leave();
            raw_wait(&callbacks.turn, turn, 0);
            context_enter();
            lock_take(&callbacks.lock, LOCK_RECLAIM);
        }
        if (--callbacks.entry[i].running == 0)
            callbacks.entry[i] = (struct callback){0};
    }
    lock_drop(&callbacks.lock, LOCK_RECLAIM);
    context_leave();
    if (i >= 0)
        return 0;
    errno = fn ? ENOENT : EINVAL;
    return -1;
}

SECOND_TEXT LOCK_UNCHECKED void callbacks_fork_take(void)
{
    lock_take(&callbacks.lock, LOCK_RECLAIM);
    lock_mark_fork(&callbacks.lock);
}

SECOND_TEXT LOCK_UNCHECKED void callbacks_fork_drop(void)
{
    lock_drop(&callbacks.lock, LOCK_RECLAIM);
}

SECOND_TEXT void callbacks_fork_renew(void)
{
    for (unsigned i = 0; i < STOOK_RECLAIM_MAX; i++) {
        struct callback *entry = &callbacks.entry[i];
        entry->running = reclaim_inside == i + 1;
        if (entry->going && entry->running == 0)
            *entry = (struct callback){0};
    }
    lock_init(&callbacks.lock);
}
