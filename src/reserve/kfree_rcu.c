/* SPDX-License-Identifier: MIT */
/*
 * kfree_rcu.c - deferred frees by the address alone.
 */
#include <stook/kmalloc.h>
#include <stook/rcu.h>

#include "base/context.h"
#include "base/report.h"
#include "guard/guard.h"
#include "kmalloc/private.h"
#include "reserve/rcu.h"
#include "slab/slab.h"

#include <errno.h>
#include <stdint.h>

/* The RCU's memory for an object of whole pages.  It is no part of the object, since readers may read all of that. */
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

/* Objects of whole pages and guarded ones are few, so each has a call of the RCU by itself. */
static void kfree_rcu_large(void *object)
{
    int saved = errno;
    struct kfree_rcu *ride;

    if (context_self()->depth > 0 && !guard_covers(object))
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
    if (stook_private_large_size(object) == 0) {
        stook_private_bad_pointer("stook_free_any_rcu", object);
        return;
    }
    if (!rcu_is_set())
        report_fatal("stook_free_any_rcu(%p) before stook_rcu_set_ops(): no RCU is set", object);
    kfree_rcu_large(object);
}
