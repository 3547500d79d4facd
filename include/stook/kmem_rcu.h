/* SPDX-License-Identifier: MIT */
/*
 * kmem_rcu.h - stook/kmem.h's deferred frees.  It defines no struct rcu_head (stook/kmem_rcu_head.h) and no
 * call_rcu(); liburcu has both.  A kfree_rcu() or kvfree_rcu() that the program defined before, as a macro, stays.
 */
#ifndef STOOK_KMEM_RCU_H
#define STOOK_KMEM_RCU_H

#include <stook/rcu.h>
#include <stook/stook.h>

#include <stdint.h>

STOOK_C_BEGIN

struct rcu_head;

/*
 * kfree() of `object` when its readers have left: stook_free_any_rcu().  `field` is its struct rcu_head, whose type
 * the compiler checks; nothing is stored there.  NULL is accepted.
 */
#ifndef kvfree_rcu
#define kvfree_rcu(object, field)                                                                  \
    do {                                                                                           \
        __typeof__(object) kmem_object_ = (object);                                                \
        (void)sizeof(STOOK_CAST(struct rcu_head *, 0) == &kmem_object_->field);                    \
        stook_free_any_rcu(kmem_object_);                                                          \
    } while (0)
#endif
#ifndef kfree_rcu
#define kfree_rcu(object, field) kvfree_rcu(object, field)
#endif
/* Without a field.  They wait only where there is no memory at all. */
#ifndef kvfree_rcu_mightsleep
#define kvfree_rcu_mightsleep(object)                                                              \
    stook_free_any_rcu(STOOK_CAST(void *, STOOK_CAST(uintptr_t, object)))
#endif
#ifndef kfree_rcu_mightsleep
#define kfree_rcu_mightsleep(object)                                                               \
    stook_free_any_rcu(STOOK_CAST(void *, STOOK_CAST(uintptr_t, object)))
#endif

/* Wait until the objects are free that were deferred before: stook_rcu_barrier(). */
static inline void kvfree_rcu_barrier(void)
{
    stook_rcu_barrier();
}

/* Of one cache, for callers that destroy it next.  It waits for all caches'. */
struct kmem_cache;
static inline void kvfree_rcu_barrier_on_cache(struct kmem_cache *cache)
{
    (void)cache;
    stook_rcu_barrier();
}

STOOK_C_END

#endif /* STOOK_KMEM_RCU_H */
