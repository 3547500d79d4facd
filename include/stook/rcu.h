/* SPDX-License-Identifier: MIT */
/*
 * rcu.h - deferred frees: an object is freed when its readers have gone (docs/deferred-frees.md).
 * stook/stook.h has the conventions, stook/urcu.h connects liburcu.
 */
#ifndef STOOK_RCU_H
#define STOOK_RCU_H

#include <stook/stook.h>

#include <stddef.h>

STOOK_C_BEGIN

/*
 * The memory that an RCU needs to queue a callback.  It is the library's own memory, never an object's, since
 * readers may still read the object.  The RCU owns `next` and `reserved` from call() until it calls func; it
 * may keep something larger there (a struct rcu_head of liburcu's fits).
 */
struct stook_rcu_head {
    struct stook_rcu_head *next;
    void (*func)(struct stook_rcu_head *head);
    void *reserved[2];
};

/*
 * An RCU: the functions that know the program's readers.  `size` is sizeof(struct stook_rcu_ops).  The library calls
 * these functions without any lock held.
 */
struct stook_rcu_ops {
    size_t size;
    /*
     * func(head) runs once, a grace period later: when every reader that is in a read-side section now has
     * left it.  It runs in any thread, sees all stores before call(), and may use call() again.  call()
     * must not fail, wait for readers, or use this library's caches with a lock held that func's thread
     * needs.  The library calls it in the context of stook_free_rcu(), which may be a handler.
     */
    void (*call)(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head));
    /* Returns when func has run, and returned, for every call() that returned before. */
    void (*barrier)(void);
    /* Waits for one grace period. */
    void (*synchronize)(void);
    /* May be NULL.  Whether this thread is, or may be, in a read-side section and so must not wait. */
    int (*reading)(void);
};

/*
 * Set the RCU that the program uses.
 *
 * It is set once, before the first deferred free and the first cache with STOOK_CACHE_TYPESAFE.  Setting the
 * same again is a no-op.  *ops is copied.  The object that holds ops->call stays loaded after dlclose().
 *
 * errors:  EINVAL   ops is NULL, lacks a function, or has a member set that this version does not know
 *          EBUSY    another RCU was set
 *          ENOMEM   out of memory to register what fork() needs
 * context: not in a signal handler
 * locks:   none
 */
STOOK_API int stook_rcu_set_ops(const struct stook_rcu_ops *ops);

/*
 * Free one object when the readers that may read it have left.
 *
 * The library does not write to the object until then.  Objects gather in a sheaf of this CPU; a full sheaf takes one
 * callback, and then goes to the barn of the node it was filled on, or to the slabs.  A sheaf that is not full
 * waits for more objects, or for stook_rcu_barrier(), stook_cache_shrink() or stook_cache_destroy().  NULL
 * is accepted.  The calls cannot fail: if an object is not of this cache, or no RCU was set, a message says
 * so and the process aborts.  An object of another cache is always found by the call; a pointer into one of this cache's
 * as by stook_free().
 *
 * If there is no memory for a sheaf, some 1000 objects wait in other places.  When these are taken too, the
 * call waits for a grace period if ops->reading says that it may.  Otherwise a message says so and the process
 * aborts.
 *
 * stook_free_any_rcu() finds the cache by the address, and accepts STOOK_KMALLOC_NONE as well.  Objects of
 * whole pages (stook/kmalloc.h) take one call of the RCU each, at once; they are not for handlers that
 * interrupted the library.
 *
 * context: any, also in read-side sections, and in signal handlers with an RCU whose call() may be used
 *          there (liburcu's may after stook_urcu_use_memb() or stook_urcu_use_qsbr())
 * locks:   barn, node, arena, in turn, once a sheaf
 * cost:    about 5 ns, and call() once a sheaf
 */
STOOK_API void stook_free_rcu(struct stook_cache *cache, void *object) STOOK_NONNULL(1);
STOOK_API void stook_free_any_rcu(void *object);

/*
 * Wait until all objects of all caches are free that any thread deferred before.
 *
 * It returns at once when no RCU was set.
 *
 * context: not in a read-side section, a signal handler, or a callback of the RCU
 * locks:   none while it waits
 * cost:    a grace period; it interrupts CPUs where objects waited
 */
STOOK_API void stook_rcu_barrier(void);

STOOK_C_END

#endif /* STOOK_RCU_H */
