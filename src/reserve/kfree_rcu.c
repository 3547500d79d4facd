/* SPDX-License-Identifier: MIT */
/*
 * kfree_rcu.c - deferred frees by the address alone.
 */
#include <stook/kmalloc.h>
#include <stook/rcu.h>

#include "base/context.h"
#include "base/report.h"
#include "kmalloc/private.h"
#include "large/large.h"
#include "reserve/rcu.h"
#include "slab/slab.h"

#include <errno.h>
#include <stdint.h>

/* What the RCU needs for an object of whole pages: beside it, since readers look at all of it. */
struct kfree_rcu {
    struct stook_rcu_head head;
    void *object;
};

static void kfree_rcu_done(struct stook_rcu_head *head)
{
    struct kfree_rcu *ride = (struct kfree_rcu *)(void *)head;
    int saved = errno;

    stook_free_any(ride->object);
    stook_free_any(ride);
    errno = saved;
}

/* They are few and large: each begins its grace period at once. */
static void kfree_rcu_large(void *object)
{
    int saved = errno;
    struct kfree_rcu *ride;

    if (context_self()->depth > 0)
        report_fatal(
            "stook_free_any_rcu: %p has whole pages, and a handler interrupted the library",
            object);
    ride = stook_kmalloc(sizeof(*ride), STOOK_NORECLAIM);
    if (ride) {
        ride->object = object;
        rcu_ops.call(&ride->head, kfree_rcu_done);
    } else {
        if (!rcu_ops.reading || rcu_ops.reading())
            report_fatal(
                "stook_free_any_rcu: no memory to defer the free of %p, and this thread cannot wait for readers",
                object);
        rcu_ops.synchronize();
        stook_free_any(object);
    }
    errno = saved;
}

void stook_free_any_rcu(void *object)
{
    struct stook_cache *cache;

    if ((uintptr_t)object <= (uintptr_t)STOOK_KMALLOC_NONE)
        return;
    cache = slab_user_cache(object);
    if (cache) {
        stook_free_rcu(cache, object);
        return;
    }
    if (large_size(object) == 0) {
        stook_private_bad_pointer("stook_free_any_rcu", object);
        return;
    }
    if (!rcu_is_set())
        report_fatal("stook_free_any_rcu(%p) before stook_rcu_set_ops(): no RCU is set", object);
    kfree_rcu_large(object);
}
