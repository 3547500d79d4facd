/* SPDX-License-Identifier: MIT */
/*
 * group_table.c - which group a number is, the lock of all of them, and what is charged to a group and its
 * ancestors.
 */
#include "charge/group_table.h"

#include "base/placed.h"
#include "base/raw.h"
#include "base/report.h"

#include <string.h>

struct group_table group_table LARGE_BSS;
__thread struct group_thread group_thread;

/* ---- who is who ----------------------------------------------------------------------------- */

struct group *group_live(uint32_t number)
{
    struct group *group = number ? group_at(number) : NULL;

    return group && atomic_load_explicit(&group->live, memory_order_acquire) == number ? group
                                                                                       : NULL;
}

bool group_lineage(uint32_t number, uint32_t lineage[STOOK_GROUP_DEPTH_MAX])
{
    struct group *group = group_at(number);

    if (atomic_load_explicit(&group->number, memory_order_acquire) != number)
        return false;
    for (unsigned i = 0; i < STOOK_GROUP_DEPTH_MAX; i++) { /* acquire: before the second look */
        lineage[i] = atomic_load_explicit(&group->lineage[i], memory_order_acquire);
        if (lineage[i] == 0)
            break;
    }
    return atomic_load_explicit(&group->number, memory_order_relaxed) == number;
}

uint32_t group_resolve(uint32_t number)
{
    uint32_t lineage[STOOK_GROUP_DEPTH_MAX];

    if (number == 0 || group_live(number))
        return number;
    if (number == group_thread.lineage[0])
        memcpy(lineage, group_thread.lineage, sizeof(lineage));
    else if (!group_lineage(number, lineage))
        return 0;
    for (unsigned i = 1; i < STOOK_GROUP_DEPTH_MAX && lineage[i]; i++)
        if (group_live(lineage[i]))
            return lineage[i];
    return 0;
}

uint32_t group_of_handle(struct stook_group handle)
{
    return atomic_load_explicit(&group_table.at, memory_order_acquire) ? handle.id : 0;
}

uint32_t group_number(struct stook_group handle)
{
    uint32_t number = group_of_handle(handle);

    return group_live(number) ? number : 0;
}

const char *group_name_of(struct stook_group handle)
{
    uint32_t number = group_number(handle);

    return number ? group_at(number)->name : NULL;
}

struct stook_group group_parent_of(struct stook_group handle)
{
    uint32_t number = group_number(handle);

    return (struct stook_group){
        number ? atomic_load_explicit(&group_at(number)->lineage[1], memory_order_relaxed) : 0};
}

struct stook_group group_by_number(uint32_t number)
{
    return group_handle(group_resolve(number));
}

uint32_t group_current(void)
{
    return group_thread.lineage[0];
}

/* ---- sums, under the lock ------------------------------------------------------------------ */

/* No more a child of its parent. */
static void group_unlink(struct group *group)
{
    if (group->before)
        group_at(group->before)->sibling = group->sibling;
    else
        group_parent(group)->child = group->sibling;
    if (group->sibling)
        group_at(group->sibling)->before = group->before;
    group->listed = false;
}

void group_charge_add(struct group *group, uint64_t bytes)
{
    for (; group; group = group_parent(group))
        group->charged += bytes;
}

void group_release_zombie(struct group *group)
{
    if (group->state != GROUP_ZOMBIE || group->open)
        return;
    if (group->listed)
        group_unlink(group);
    if (group->charged == 0) {
        group->state = GROUP_FREE;
        group_table.unused++;
    }
}

void group_charge_sub(struct group *group, uint64_t bytes)
{
    for (; group; group = group_parent(group)) {
        STOOK_ASSERT(group->charged >= bytes);
        group->charged -= bytes;
        if (group->charged <= group->soft)
            group->soft_armed = true;
        group_release_zombie(group);
    }
}

SECOND_TEXT void group_charge_collect(void)
{
    if (!atomic_load_explicit(&group_table.pending, memory_order_relaxed))
        return;
    atomic_exchange_explicit(&group_table.pending, false, memory_order_seq_cst);
    for (unsigned i = 0; i < GROUP_PLACES / 64; i++) {
        uint64_t bits = atomic_load_explicit(&group_table.returned_at[i], memory_order_relaxed);
        if (bits)
            bits = atomic_exchange_explicit(&group_table.returned_at[i], 0, memory_order_acquire);
        for (; bits; bits &= bits - 1) {
            struct group *group = group_at(64 * i + (uint32_t)__builtin_ctzll(bits));
            uint64_t bytes = atomic_exchange_explicit(&group->returned, 0, memory_order_relaxed);
            if (bytes > INT64_MAX) /* charges while a process forked */
                group_charge_add(group, -bytes);
            else if (bytes) /* not those of a place that was collected between the two words */
                group_charge_sub(group, bytes);
        }
    }
}

/* ---- the lock, and fork --------------------------------------------------------------------- */

LOCK_UNCHECKED bool group_lock(bool nospin)
{
    return lock_enter(&group_table.lock, LOCK_GROUPS, nospin);
}

SECOND_TEXT LOCK_UNCHECKED void group_take(void)
{
    lock_take(&group_table.lock, LOCK_GROUPS);
}

SECOND_TEXT LOCK_UNCHECKED void group_unlock(void)
{
    do {
        group_charge_collect();
        lock_drop(&group_table.lock, LOCK_GROUPS);
        /* Pairs with group_charge_left(): it sees the lock free, or this sees what it left.  The
         * exchange that frees the lock is not passed by the load: x86's is a full barrier, and
         * aarch64's is a store-release before a load-acquire (ldar, which seq_cst makes it). */
    } while (
        __builtin_expect(atomic_load_explicit(&group_table.pending, memory_order_seq_cst), 0) &&
        lock_enter(&group_table.lock, LOCK_GROUPS, true));
}

SECOND_TEXT void group_fork_take(void)
{
    group_take();
    lock_mark_fork(&group_table.lock);
}

SECOND_TEXT void group_child(void)
{
    uint32_t high = atomic_load_explicit(&group_table.high, memory_order_relaxed);

    lock_init(&group_table.lock);
    for (uint32_t place = 1; place <= high; place++) {
        struct group *group = group_at(place);
        group->running = group_thread.inside != 0 && group_thread.inside == group_id(group);
    }
    group_charge_collect();
}

/* ---- callbacks ------------------------------------------------------------------------------ */

void group_callback_enter(struct group *group)
{
    group->running++;
    group_thread.inside = group_id(group);
}

void group_callback_leave(struct group *group)
{
    group_thread.inside = 0;
    group->running--;
    atomic_fetch_add_explicit(&group_table.turn, 1, memory_order_relaxed);
    raw_wake(&group_table.turn, INT32_MAX);
}

void group_callback_wait(struct group *group)
{
    uint32_t own = group_thread.inside == group_id(group), turn;

    while (group->running > own) {
        turn = atomic_load_explicit(&group_table.turn, memory_order_relaxed);
        group_unlock();
        context_leave();
        raw_wait(&group_table.turn, turn, 0);
        context_enter();
        group_take();
    }
}
