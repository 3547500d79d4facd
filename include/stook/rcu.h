/* SPDX-License-Identifier: MIT */
/*
 * rcu.h - deferred frees: objects go when their readers have gone (docs/deferred-frees.md).
 */
#ifndef STOOK_RCU_H
#define STOOK_RCU_H

#include <stook/stook.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What an RCU needs to carry a callback.  It lies in the library's own memory, never in an object:
 * readers may still look at that.  `next` and `reserved` are the RCU's from call() until it calls
 * func; whoever keeps something larger there (a struct rcu_head of liburcu's fits) may.
 */
struct stook_rcu_head {
    struct stook_rcu_head *next;
    void (*func)(struct stook_rcu_head *head);
    void *reserved[2];
};

/*
 * An RCU: what knows the program's readers.  stook/urcu.h has liburcu's.  `size` is
 * sizeof(struct stook_rcu_ops) as the caller knows it.  The library calls these with no lock held.
 */
struct stook_rcu_ops {
    size_t size;
    /*
     * func(head) runs once, a grace period after this: when every reader that is inside a read-side
     * section now has left it.  In any thread; what happened before call() is visible to it; it may
     * use call() again.  Must not fail, block for readers, or use this library's caches with a lock
     * held that func's thread needs.  Called where stook_free_rcu() is: in handlers, if that is.
     */
    void (*call)(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head));
    /* Returns when func has run, and returned, for every call() that returned before. */
    void (*barrier)(void);
    /* Waits for one grace period. */
    void (*synchronize)(void);
    /* May be NULL.  Whether this thread is, or may be, in a read-side section: it must not wait. */
    int (*reading)(void);
};

/*
 * Say which RCU the program uses.  Once, before the first deferred free and the first cache with
 * STOOK_CACHE_TYPESAFE; saying the same again is fine.  *ops is copied.
 *
 * errors:  EINVAL   ops is NULL, lacks a call, or has bytes set that this version does not know
 *          EBUSY    another one was set
 *          ENOMEM   no memory to register what fork() needs
 * context: not from a signal handler.  locks: none.
 */
STOOK_API int stook_rcu_set_ops(const struct stook_rcu_ops *ops);

/*
 * Return one object when the readers that may look at it are gone.  It stays as it is until then:
 * nothing writes to it.  Objects gather in a sheaf of this CPU; a full sheaf takes one callback and
 * goes to the barn of the node it was filled on, or to the slabs.  What is not full waits for more,
 * or for stook_rcu_barrier(), stook_cache_shrink() or stook_cache_destroy().  NULL is accepted.
 * Cannot fail; an object that is not of this cache, or no RCU set, gets a report and an abort.
 *
 * Without memory for a sheaf some 1000 objects wait elsewhere; when these places are taken too, the
 * call waits for a grace period if ops->reading says that it may, and else gets a report and an
 * abort: nothing is lost silently.
 *
 * context: any, inside read-side sections and in signal handlers too (with an RCU whose call() may be
 * used there; liburcu's may once stook_urcu_use_*() was called).  Never blocks but as said.
 * locks: barn, node, arena, in turn, once a sheaf.  cost: about 5 ns, and call() once a sheaf.
 */
STOOK_API void stook_free_rcu(struct stook_cache *cache, void *object) STOOK_NONNULL(1);

/*
 * The same by the address alone, with its conditions; NULL and STOOK_KMALLOC_NONE are accepted.  Objects
 * of whole pages (stook/kmalloc.h) take a call of the RCU each, at once; they are not for signal
 * handlers.
 */
STOOK_API void stook_free_any_rcu(void *object);

/*
 * Wait until every object that was deferred before, by any thread, of any cache, is free.  Returns
 * at once when no RCU was set.
 * context: not in a read-side section, not from a signal handler, not from a callback of the RCU.
 * locks: none while it waits.  cost: a grace period; interrupts CPUs where something waited.
 */
STOOK_API void stook_rcu_barrier(void);

#ifdef __cplusplus
}
#endif

#endif /* STOOK_RCU_H */
