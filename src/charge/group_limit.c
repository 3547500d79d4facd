/* SPDX-License-Identifier: MIT */
/*
 * group_limit.c - limits and callbacks of a group, and what it has.
 */
#include "charge/group_table.h"
#include "base/grow.h"

#include <errno.h>

/* Within the context and with the lock; NULL and outside, with EINVAL. */
static struct group *group_limit_enter(struct stook_group handle)
{
    uint32_t number;

    context_enter();
    group_take();
    number = group_number(handle);
    if (number)
        return group_at(number);
    group_unlock();
    context_leave();
    errno = EINVAL;
    return NULL;
}

static void group_limit_leave(void)
{
    group_unlock();
    context_leave();
}

int stook_group_set_limit(struct stook_group handle, size_t limit)
{
    struct group *group = group_limit_enter(handle);

    if (!group)
        return -1;
    group->limit = limit;
    if (group->charged > limit)
        group_charge_drain(group);
    group_limit_leave();
    return 0;
}

void group_limit_clear_soft(struct group *group)
{
    if (group->soft_due)
        atomic_fetch_sub_explicit(&group_table.due, 1, memory_order_relaxed);
    group->soft_due = group->soft_armed = false;
    group->soft = STOOK_UNLIMITED;
    group->soft_fn = NULL;
}

int stook_group_set_soft_limit(struct stook_group handle, size_t bytes, stook_group_soft_fn fn,
                               void *arg)
{
    struct group *group = group_limit_enter(handle);

    if (!group)
        return -1;
    group_limit_clear_soft(group);
    group_callback_wait(group);
    if (bytes != STOOK_UNLIMITED && fn) {
        group->soft = bytes;
        group->soft_fn = fn;
        group->soft_arg = arg;
        group->soft_armed = true;
    }
    group_limit_leave();
    return 0;
}

int stook_group_set_reclaim(struct stook_group handle, stook_group_reclaim_fn fn, void *arg)
{
    struct group *group = group_limit_enter(handle);

    if (!group)
        return -1;
    group->reclaim = NULL;
    group_callback_wait(group);
    group->reclaim = fn;
    group->reclaim_arg = arg;
    group_limit_leave();
    return 0;
}

/* Under the lock. */
static void group_limit_read(struct group *group, struct stook_group_stat *stat)
{
    uint64_t children = 0, stocked = 0;

    group_charge_collect();
    stat->stocked = group_charge_stocked(group);
    for (uint32_t place = group->child; place; place = group_at(place)->sibling) {
        struct group *child = group_at(place);
        if (child->state == GROUP_LIVES) {
            children += child->charged;
            stocked += group_charge_stocked(child);
        }
    }
    /* Threads take and give meanwhile: a sum of stocks is of no one moment. */
    if (stat->stocked > group->charged)
        stat->stocked = group->charged;
    stat->usage = group->charged - stat->stocked;
    children -= stocked < children ? stocked : children;
    stat->own = stat->usage - (children < stat->usage ? children : stat->usage);
    stat->peak = group->peak;
    stat->limit = group->limit;
    stat->soft_limit = group->soft;
    stat->refused = group->refused;
    stat->reclaims = group->reclaims;
    stat->soft_events = group->soft_events;
    stat->children = group->children;
    stat->name = group->name;
    stat->parent.id = atomic_load_explicit(&group->lineage[1], memory_order_relaxed);
}

int stook_group_stat(struct stook_group handle, struct stook_group_stat *stat)
{
    struct stook_group_stat all = {0};
    struct group *group;

    if (!grow_is_sized(stat->size)) {
        errno = EINVAL;
        return -1;
    }
    group = group_limit_enter(handle);
    if (!group)
        return -1;
    group_limit_read(group, &all);
    group_limit_leave();
    grow_write(stat, &all, sizeof(all));
    return 0;
}
