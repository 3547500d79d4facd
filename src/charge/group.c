/* SPDX-License-Identifier: MIT */
/* group.c - groups are made, destroyed and entered here, and charged by a section; group_charge.c has the slow path. */
#include "charge/group_table.h"

#include "base/init.h"
#include "os/os.h"

#include <errno.h>
#include <string.h>

enum {
    GROUP_UNUSED = 64, /* free places before the oldest is used again */
    GROUP_GENERATIONS = GROUP_STOCK_WORD / GROUP_PLACES, /* numbers stay below the two flags */
};

/* ---- charging ------------------------------------------------------------------------------- */

bool group_charge(uint32_t *number, size_t bytes, unsigned flags, bool nested)
{
    if (*number == 0)
        return true;
    if (__builtin_expect(bytes <= STOOK_GROUP_STOCK_MAX, 1) &&
        __builtin_expect(percpu.rseq &&
                             group_stock_try_take(group_stock_row(*number), percpu.rseq_offset,
                                                  *number, (uint32_t)bytes),
                         1))
        return true;
    return group_charge_slow(number, bytes, flags, nested);
}

void group_uncharge(uint32_t number, size_t bytes)
{
    uint32_t most;

    if (number == 0)
        return;
    most = group_stock_most(number);
    if (__builtin_expect(bytes <= most, 1) &&
        __builtin_expect(percpu.rseq &&
                             group_stock_try_give(group_stock_row(number), percpu.rseq_offset,
                                                  number, (uint32_t)bytes, most),
                         1))
        return;
    group_charge_return(number, bytes);
}

/* ---- making and unmaking -------------------------------------------------------------------- */

/* Under the groups' lock, as the functions that follow. */
static bool group_init(void)
{
    enum { BYTES = GROUP_PLACES * sizeof(struct group) };
    char *base;

    if (atomic_load_explicit(&group_table.at, memory_order_relaxed))
        return true;
    base = os_map(BYTES + GROUP_PLACES * sizeof(uint32_t));
    if (!base)
        return false;
    if (!group_stock_init()) {
        os_unmap(base, BYTES + GROUP_PLACES * sizeof(uint32_t));
        return false;
    }
    group_table.scratch = (uint32_t *)(void *)(base + BYTES);
    atomic_store_explicit(&group_table.at, (struct group *)(void *)base, memory_order_release);
    return true;
}

/* A free place, or 0.  It was never used, or it is the next free one if at least GROUP_UNUSED are free. */
static uint32_t group_take_place(void)
{
    uint32_t high = atomic_load_explicit(&group_table.high, memory_order_relaxed);
    uint32_t place = group_table.cursor;

    if (group_table.unused < GROUP_UNUSED && high < STOOK_GROUPS_MAX) {
        place = high + 1;
        atomic_store_explicit(&group_table.high, place, memory_order_relaxed);
        return place;
    }
    if (group_table.unused == 0)
        return 0;
    do
        place = place % high + 1;
    while (group_at(place)->state != GROUP_FREE);
    group_table.cursor = place;
    group_table.unused--;
    return place;
}

/* Writes number and lineage.  A thread that reads them without the lock sees a number with its own lineage. */
static void group_write_lineage(struct group *group, uint32_t number, struct group *parent)
{
    atomic_store_explicit(&group->number, 0, memory_order_relaxed);
    atomic_store_explicit(&group->lineage[0], number, memory_order_release);
    for (unsigned i = 1; i < STOOK_GROUP_DEPTH_MAX; i++) /* release: behind the number's 0 */
        atomic_store_explicit(
            &group->lineage[i],
            parent ? atomic_load_explicit(&parent->lineage[i - 1], memory_order_relaxed) : 0,
            memory_order_release);
    atomic_store_explicit(&group->number, number, memory_order_release);
}

static void group_write(struct group *group, const char *name, struct group *parent, size_t limit)
{
    group->depth = parent ? parent->depth + 1 : 0;
    group->soft_armed = group->soft_due = false;
    group->limit = limit;
    group->soft = STOOK_UNLIMITED;
    group->peak = group->refused = group->reclaims = group->soft_events = 0;
    group->reclaim = NULL;
    group->soft_fn = NULL;
    atomic_store_explicit(group_stock_most_at(group_id(group)), 0, memory_order_relaxed);
    memset(group->name, 0, sizeof(group->name));
    memcpy(group->name, name, strnlen(name, STOOK_GROUP_NAME_MAX));
    group->state = GROUP_LIVES;
}

static void group_link(struct group *group, struct group *parent)
{
    uint32_t place = group_place(group_id(group));

    group->before = 0;
    group->sibling = parent->child;
    if (group->sibling)
        group_at(group->sibling)->before = place;
    parent->child = place;
    parent->children++;
    group->listed = true;
}

/* 0 or an error number.  parent: NULL for none. */
static int group_make_locked(const char *name, struct group *parent, size_t limit, uint32_t *number)
{
    struct group *group;
    uint32_t place;

    if (parent && parent->depth + 1 == STOOK_GROUP_DEPTH_MAX)
        return E2BIG;
    place = group_take_place();
    if (place == 0)
        return ENFILE;
    group = group_at(place);
    *number = (group_id(group) / GROUP_PLACES % (GROUP_GENERATIONS - 1) + 1) * GROUP_PLACES + place;
    group_write_lineage(group, *number, parent);
    group_write(group, name, parent, limit);
    if (parent)
        group_link(group, parent);
    atomic_store_explicit(&group->live, *number, memory_order_release);
    return 0;
}

struct stook_group stook_group_create(const char *name, struct stook_group parent, size_t limit)
{
    bool started = init_once();
    uint32_t number = 0;
    int error;

    context_enter();
    group_take();
    if (!started || !group_init())
        error = ENOMEM;
    else if (!name || (parent.id && !group_number(parent)))
        error = EINVAL;
    else
        error = group_make_locked(name, parent.id ? group_at(group_number(parent)) : NULL, limit,
                                  &number);
    group_unlock();
    context_leave();
    if (error)
        errno = error;
    return group_handle(number);
}

/* After the store to `live` no thread enters the group, and none is in its callbacks after the wait.  Its stocks are
 * drained.  The remaining charges stay with its ancestors, which they count against already. */
static int group_unmake_locked(uint32_t number)
{
    struct group *group = group_live(number), *parent;

    if (!group)
        return EINVAL;
    if (group->children)
        return EBUSY;
    if (group_thread.inside == number)
        return EDEADLK;
    atomic_store_explicit(&group->live, 0, memory_order_release);
    group_limit_clear_soft(group);
    group->reclaim = NULL;
    group_callback_wait(group);
    parent = group_parent(group);
    if (parent)
        parent->children--;
    group_charge_drain(group);
    group->state = GROUP_ZOMBIE;
    group_release_zombie(group);
    return 0;
}

int stook_group_destroy(struct stook_group handle)
{
    int error;

    if (!handle.id)
        return 0;
    if (!group_of_handle(handle)) {
        errno = EINVAL;
        return -1;
    }
    context_enter();
    group_take();
    error = group_unmake_locked(group_of_handle(handle));
    group_unlock();
    context_leave();
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

/* ---- entering ------------------------------------------------------------------------------- */

struct stook_group stook_group_current(void)
{
    return group_handle(group_resolve(group_thread.lineage[0]));
}

/* A handler that interrupts this finds the old group or the new one, and ancestors of either. */
static void group_go(struct stook_group handle)
{
    uint32_t number = group_resolve(group_of_handle(handle));
    uint32_t lineage[STOOK_GROUP_DEPTH_MAX] = {0};

    if (number && !group_lineage(number, lineage))
        lineage[0] = 0; /* another thread has destroyed it, and its place is in use again */
    for (unsigned i = 1; i < STOOK_GROUP_DEPTH_MAX; i++) {
        group_thread.lineage[i] = lineage[i];
        if (lineage[i] == 0)
            break;
    }
    group_thread.stock = group_stock_row(lineage[0]);
    atomic_signal_fence(memory_order_seq_cst);
    group_thread.lineage[0] = lineage[0];
}

struct stook_group stook_group_enter(struct stook_group handle)
{
    struct stook_group previous = group_handle(group_thread.lineage[0]);

    group_go(handle);
    return previous;
}

struct stook_group stook_group_next(struct stook_group previous)
{
    uint32_t number = group_of_handle(previous), high, live;

    if (!atomic_load_explicit(&group_table.at, memory_order_acquire))
        return STOOK_NO_GROUP;
    high = atomic_load_explicit(&group_table.high, memory_order_relaxed);
    for (uint32_t place = group_place(number) + 1; place <= high; place++) {
        live = atomic_load_explicit(&group_at(place)->live, memory_order_acquire);
        if (live)
            return group_handle(live);
    }
    return STOOK_NO_GROUP;
}
