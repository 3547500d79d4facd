/* SPDX-License-Identifier: MIT */
/*
 * fork.c - a child inherits no closed slot and no held lock.
 *
 * prepare takes the lock of stdio's streams (below), the list of caches, the areas and every slot, then all
 * other locks in rank order.  The parent lets go in reverse, and so does the child, by making the locks anew.  Slots are waited for some
 * milliseconds: their owners wait for nothing while they have one closed, but they may have died with it,
 * or not get a CPU from the threads that do.  A slot that stays closed then has no sheaves in the child.
 *
 * Threads that allocate or free meanwhile do not wait for these locks (lock_enter()).  Their list work is
 * left, and done when the last lock is dropped.
 *
 * Between prepare and its end other people's atfork handlers may allocate and free: slots are
 * closed, so they go to the slabs, and the locks there are this thread's (context_holds_all()).
 *
 * A process of one thread takes nothing: the thread that forks holds nothing here, and each page that
 * it wrote to would be copied, in the parent and again in the child.  Threads that
 * died before may have left slots closed: the slow path passes those by, and the child opens them.
 *
 * A fork from a handler that interrupted this library on the same thread takes nothing, since it could
 * wait for itself.  The thread goes on in the child and finishes the call that was interrupted.
 */
#include "base/context.h"
#include "base/hooks.h"
#include "base/init.h"
#include "base/placed.h"
#include "cache/cache_list.h"
#include "cache/init.h"
#include "cache/pin.h"
#include "percpu/percpu.h"
#include "os/topology.h"
#include "page/arena.h"
#include "sheaf/slot_drain.h"
#include "slab/node.h"

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define FORK_ALONE __libc_single_threaded /* by the count that libc's own malloc goes by */
#else
#include <errno.h>
#include <sys/stat.h>

/* musl keeps its count to itself: a link for each thread, beside the folder's own two.  Without /proc: no. */
static bool fork_is_alone(void)
{
    struct stat task;
    int saved = errno;
    bool alone = stat("/proc/self/task", &task) == 0 && task.st_nlink == 2 + 1;

    errno = saved;
    return alone;
}
#define FORK_ALONE fork_is_alone()
#endif

_Atomic uint32_t fork_count;

/* glibc's, of the list of streams; recursive.  Absent elsewhere. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
extern void _IO_list_resetlock(void) __attribute__((weak));

/*
 * glibc takes this lock between our prepare and the fork.  A thread in fflush(NULL) has it and waits for
 * a stream; the thread that has the stream may wait for us: so it comes before our locks.
 */
static void fork_streams(void (*act)(void))
{
    if (_IO_list_lock && _IO_list_unlock && _IO_list_resetlock)
        act();
}

LOCK_UNCHECKED static void fork_take(struct lock *lock, enum lock_rank rank)
{
    lock_take(lock, rank);
    lock_mark_fork(lock);
}

/* The locks of one rank, of barns or of nodes. */
static void fork_each(enum lock_rank rank, void (*act)(struct lock *lock, enum lock_rank rank))
{
    for (struct list *l = cache_list.all.next; l != &cache_list.all; l = l->next) {
        struct stook_cache *cache = LIST_ENTRY(l, struct stook_cache, link);
        for (unsigned i = 0; i < topology.nodes; i++) {
            struct cache_node *node = &cache->nodes[i];
            act(rank == LOCK_BARN ? &node->barn.lock : &node->node.lock, rank);
            if (rank == LOCK_NODE && act != fork_take)
                node_fork_end(&node->node);
        }
    }
}

LOCK_UNCHECKED static void fork_drop(struct lock *lock, enum lock_rank rank)
{
    lock_drop(lock, rank);
}

static void fork_renew(struct lock *lock, enum lock_rank rank)
{
    (void)rank;
    lock_init(lock);
}

/* Of the slabs that are pending still, and of objects that leave a quarantine, other threads had hold: they are not in
 * the child.  Counts that are 0 are not written, since that would copy their page. */
static void fork_forget(void)
{
    for (struct list *l = cache_list.all.next; l != &cache_list.all; l = l->next) {
        struct stook_cache *cache = LIST_ENTRY(l, struct stook_cache, link);
        if (atomic_load_explicit(&cache->pending, memory_order_relaxed) > 0)
            atomic_store_explicit(&cache->pending, 0, memory_order_relaxed);
    }
}

/* After the last lock: what other threads could not finish meanwhile. */
static void fork_drain_left(void)
{
    node_drain_deferred();
    arena_free_left();
}

LOCK_UNCHECKED FIRST_TEXT void fork_prepare(void)
{
    struct context *context = context_self();
    bool started = init_once(); /* or the child could wait for another thread that starts */

    if (context_enter() || FORK_ALONE || !started)
        return;
    fork_streams(_IO_list_lock);
    context->fork = FORK_TAKING;
    lock_begin_fork();
    fork_take(&cache_list.lock, LOCK_CACHES);
    fork_take(&percpu.lock, LOCK_PERCPU);
    slot_take_all();
    fork_each(LOCK_BARN, fork_take);
    fork_each(LOCK_NODE, fork_take);
    arena_lock_all();
    if (hooks.fork)
        hooks.fork(HOOKS_FORK_TAKE);
    context->fork = FORK_HOLDING;
}

LOCK_UNCHECKED FIRST_TEXT void fork_parent(void)
{
    struct context *context = context_self();

    if (context->fork == FORK_HOLDING) {
        context->fork = FORK_TAKING;
        if (hooks.fork)
            hooks.fork(HOOKS_FORK_DROP);
        arena_unlock_all();
        fork_each(LOCK_NODE, fork_drop);
        fork_each(LOCK_BARN, fork_drop);
        slot_open_all();
        lock_drop(&percpu.lock, LOCK_PERCPU);
        lock_drop(&cache_list.lock, LOCK_CACHES);
        context->fork = FORK_NONE;
        context->ranks = 0;
        lock_end_fork();
        fork_drain_left();
        fork_streams(_IO_list_unlock);
    }
    context_leave();
}

void fork_child(void)
{
    struct context *context = context_self();

    atomic_fetch_add_explicit(&fork_count, 1, memory_order_relaxed);
    pin_child();
    registration_child();

    if (context->fork == FORK_HOLDING) {
        context->fork = FORK_NONE;
        if (hooks.fork)
            hooks.fork(HOOKS_FORK_RENEW);
        arena_child();
        fork_each(LOCK_BARN, fork_renew);
        fork_each(LOCK_NODE, fork_renew);
        slot_child();
        lock_init(&percpu.lock);
        lock_init(&cache_list.lock);
        context->ranks = 0;
        lock_child();
        fork_drain_left();
        fork_forget();
        fork_streams(_IO_list_resetlock); /* which glibc has made anew, if it took it */
    } else if (context->depth == 1 && once_is_done(&init_state)) { /* alone */
        slot_child(); /* of threads that had died with one closed */
    }
    if (hooks.fork)
        hooks.fork(context->depth > 1 ? HOOKS_FORK_NESTED : HOOKS_FORK_CHILD);
    context_leave();
}
