/* SPDX-License-Identifier: MIT */
/*
 * observe_large.c - large objects of kmalloc and malloc when they come, change and go (observe.h), and the guarded ones, which
 * look like them.  Each mechanism tests its own switch: none of them is on in most processes.  No lock.
 */
#include "observe/observe.h"

#include "base/placed.h"
#include "charge/group.h"
#include "debug/pages.h"
#include "debug/pages_track.h"
#include "guard/guard.h"
#include "large/large.h"
#include "trace/trace.h"

FIRST_TEXT size_t observe_large_wanted(size_t size)
{
    return pages_wanted(size);
}

/* It is another one for profiles. */
static FIRST_TEXT void observe_large_sampled(const void *object, size_t size, uint32_t owner,
                                             uint64_t where)
{
    if (large_samples_wanted() && !account_large_counted() && (!owner || owner != account_process))
        large_samples_came(object, large_size(object), size, where, group_current());
}

FIRST_TEXT bool observe_large(void *object, size_t size, uint32_t owner, unsigned flags,
                              uint64_t where)
{
    if ((owner || account_large_counted()) && !account_large(object, owner, flags, where))
        return false;
    if (trace_is_active())
        trace_alloc_large(object, large_bytes(object));
    pages_set(object, 0, size);
    pages_track_came(object, size, where);
    observe_large_sampled(object, size, owner, where);
    return true;
}

FIRST_TEXT size_t observe_large_size(const void *object)
{
    return guard_covers(object) ? guard_size(object) : pages_size(object, large_size(object));
}

FIRST_TEXT bool observe_large_free(void **object)
{
    if (__builtin_expect(guard_covers(*object), 0)) {
        guard_free(*object, "free");
        *object = NULL;
        return true;
    }
    if (pages_holds(*object))
        return false;
    pages_check(*object);
    pages_track_went(*object);
    large_samples_went(*object);
    if ((atomic_load_explicit(&large_noted, memory_order_relaxed) || account_large_counted() ||
         trace_is_active()) &&
        account_large_clear(*object) && trace_is_active())
        trace_free(object, 1);
    *object = pages_hold(*object);
    return true;
}

FIRST_TEXT bool observe_large_resizes(void *object)
{
    pages_check(object);
    return !tools_watch; /* the more often an object moves, the better are the reports of these tools */
}

FIRST_TEXT void observe_large_resized(void *object, size_t had, size_t used, size_t size,
                                      uint64_t where)
{
    bool changed = large_bytes(object) != had;

    if (changed && trace_is_active()) {
        trace_free(&object, 1);
        trace_alloc_large(object, large_bytes(object));
    }
    pages_set(object, used, size);
    if (changed) {
        large_samples_went(object);
        observe_large_sampled(object, size, account_process, where);
    }
}

FIRST_TEXT bool observe_large_moves(void *object, struct observe_move *move)
{
    *move = (struct observe_move){.time = trace_is_active() ? trace_time() : 0};
    if (pages_track_on || tools_watch) /* both have tracks while a copy is made */
        return false;
    pages_check(object);
    if (__builtin_expect(atomic_load_explicit(&large_samples_live, memory_order_relaxed) != 0, 0))
        move->sample = large_samples_take(object);
    return true;
}

FIRST_TEXT void observe_large_moved(void *object, void *moved, size_t size,
                                    const struct observe_move *move, uint64_t where)
{
    if (move->sample.weight > 0)
        large_samples_end(object, &move->sample, !moved);
    if (!moved)
        return;
    pages_set(moved, 0, size);
    if (trace_is_active()) {
        trace_free_at(object, move->time);
        trace_alloc_large(moved, large_bytes(moved));
    }
    observe_large_sampled(moved, size, account_process, where);
}
