/* SPDX-License-Identifier: MIT */
/*
 * kmem_private.h - the calls of the inline functions in stook/kmem.h.  It is private to that header, and may
 * change at any time.  The symbols have a version of their own, STOOK_KMEM_1 (cmake/libstook.map), which
 * changes when a declaration here changes; new ones join it.
 */
#ifndef STOOK_KMEM_PRIVATE_H
#define STOOK_KMEM_PRIVATE_H

#include <stook/reserve.h>
#include <stook/stook.h>

#include <stddef.h>

STOOK_C_BEGIN

#define STOOK_KMEM_BAG_MAX (1u << 24) /* pointers in a bag */

/* Sleeps before try number `tries` (1, 2, ...) of something that must not fail: 1 to 64 ms. */
STOOK_API void stook_kmem_nap(unsigned tries);

/* stook_cache_shrink(); 0 if no slab is left then, else 1. */
STOOK_API int stook_kmem_shrink(struct stook_cache *cache) STOOK_NONNULL(1);

/*
 * The program's own caches of kmalloc's sizes, "NAME-8" to "NAME-8k", with the flags, the constructor and the
 * argument of *args; its other members are 0.  NULL with errno: EINVAL (also for flags other than HWALIGN, ACCOUNT,
 * hardening and debugging); as stook_cache_create().  Not from a signal handler.
 *
 * Destroying: 0, or -1 with EBUSY while objects are in use; then only another try to destroy it may follow.
 */
struct stook_kmem_buckets;
STOOK_API struct stook_kmem_buckets *stook_kmem_buckets_create(const char *name,
                                                               const struct stook_cache_args *args)
    STOOK_NONNULL(2) STOOK_WARN_UNUSED;
STOOK_API int stook_kmem_buckets_destroy(struct stook_kmem_buckets *buckets);

/* For the calls below: the object is charged to the thread's group (stook/group.h). */
#define STOOK_KMEM_ACCOUNT 0x200u

/*
 * stook_kmalloc_with() of a node from these caches, or (NULL) from kmalloc's, with an alignment: a power of two up to 2 MiB, else
 * EINVAL.  With STOOK_KMEM_ACCOUNT and no buckets the object is of the caches "kmalloc-cg-8" to "-8k", or pages that are
 * charged: EDQUOT at a limit; with STOOK_NOFAIL the object is then charged to no group.  The rest is as there.
 *
 * stook_kmem_realloc() is stook_krealloc() with these: an object that is not aligned so, or with STOOK_THISNODE is
 * of another node, moves.
 *
 * Of a node that the machine does not have, both take any node's memory, or with STOOK_THISNODE fail.  (Buckets may have a
 * constructor: no STOOK_MALLOC().)
 */
STOOK_API void *stook_kmem_alloc(struct stook_kmem_buckets *buckets, size_t size, size_t align,
                                 unsigned flags, int node) STOOK_SIZED(2);
STOOK_API void *stook_kmem_realloc(const void *object, size_t size, size_t align, unsigned flags,
                                   int node) STOOK_SIZED(2);

/* Reports that a cache which the program cannot do without cannot be made, and aborts. */
STOOK_API void stook_kmem_panic(const char *name, int error) __attribute__((noreturn));

/*
 * A bag of at most `limit` pointers: the reserve of a mempool, which is a stook_pool (stook/reserve.h) whose objects the
 * caller makes: of the calls there only stook_pool_available() may be made.  Any number of threads may use it, signal handlers and
 * forked children too: it has no lock.
 *
 * The pointers are objects of `cache`, or (NULL) of stook_kmalloc() with `size`, if one of both is given.  They count
 * as free in it: debug and hardened caches, AddressSanitizer and Valgrind see their use, and a pointer that is no such object,
 * or is free already, is reported and goes nowhere.  Other bags never follow a pointer.
 */
/* NULL with errno: ENOMEM; E2BIG beyond STOOK_KMEM_BAG_MAX.  Not from a signal handler. */
STOOK_API struct stook_pool *stook_kmem_bag_create_of(unsigned limit, struct stook_cache *cache,
                                                      size_t size) STOOK_WARN_UNUSED;
/* Drops the pointers that are still in it; take them out before.  NULL is accepted. */
STOOK_API void stook_kmem_bag_destroy(struct stook_pool *bag);

/* Put one in and wake a waiting thread: 1, or 0 if it is full.  A bag with limit 0 takes one while a thread waits. */
STOOK_API int stook_kmem_bag_put(struct stook_pool *bag, void *pointer) STOOK_NONNULL(1, 2);
/* Take one out, or NULL.  stook_kmem_bag_spill() does so only while the bag holds more than its limit. */
STOOK_API void *stook_kmem_bag_take(struct stook_pool *bag) STOOK_NONNULL(1);
STOOK_API void *stook_kmem_bag_spill(struct stook_pool *bag) STOOK_NONNULL(1);
/* Take one out, sleeping until there is one, but not longer than a second: then NULL. */
STOOK_API void *stook_kmem_bag_wait(struct stook_pool *bag) STOOK_NONNULL(1);

/* Change the limit; surplus pointers stay until they are spilled.  0, or -1 with ENOMEM or E2BIG. */
STOOK_API int stook_kmem_bag_resize(struct stook_pool *bag, unsigned limit) STOOK_NONNULL(1);

STOOK_C_END

#endif /* STOOK_KMEM_PRIVATE_H */
