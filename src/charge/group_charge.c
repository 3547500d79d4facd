/* SPDX-License-Identifier: MIT */
/*
 * group_charge.c - the slow path of charges, beyond a CPU's stock: batches, limits, callbacks, and charges that are
 * returned while the lock is not available.
 *
 * The batch that goes into a stock depends on the room below the nearest limit: half of it for all CPUs together, at most
 * GROUP_BATCH for a CPU.  Close to a limit there are no stocks to drain, so refused charges interrupt no CPU.
 */
#include "charge/group_table.h"
#include "base/cancel.h"
#include "base/probe.h"
#include "base/report.h"

#include <errno.h>

enum {
    GROUP_BATCH = STOOK_GROUP_STOCK_MAX / 2, /* bytes charged at once, for a stock */
    GROUP_BATCH_MIN = 1 << 10,               /* less is not worth a stock */
    GROUP_SHARE = 2,                         /* of the room: batches of all CPUs together */
};

/* ---- the hierarchy, under the lock ---------------------------------------------------------- */

/* The nearest of a group and its ancestors that has no room for so many bytes, or NULL. */
static struct group *group_charge_full(struct group *group, uint64_t bytes)
{
    for (; group; group = group_parent(group))
        if (group->charged > group->limit || bytes > group->limit - group->charged)
            break;
    return group;
}

/* How many bytes a CPU may take for its stock, and may keep there. */
static uint32_t group_charge_batch(struct group *group)
{
    unsigned cpus = group_stocks.used ? group_stocks.used : 1;
    uint64_t room = UINT64_MAX, share;

    for (struct group *a = group; a; a = group_parent(a)) {
        uint64_t left = a->limit > a->charged ? a->limit - a->charged : 0;
        room = left < room ? left : room;
    }
    share = room / ((uint64_t)GROUP_SHARE * cpus);
    if (share > GROUP_BATCH)
        share = GROUP_BATCH;
    if (share < GROUP_BATCH_MIN)
        share = 0;
    if (group_stock_most(group_id(group)) != 2 * share)
        atomic_store_explicit(group_stock_most_at(group_id(group)), (uint32_t)(2 * share),
                              memory_order_relaxed);
    return (uint32_t)share;
}

/* ---- stocks, under the lock ----------------------------------------------------------------- */

static bool group_charge_open(struct group *group, uint32_t bytes)
{
    if (!group_stock_open(group_id(group), bytes))
        return false;
    for (; group; group = group_parent(group))
        group->open++;
    return true;
}

/* Walks the groups at and below `top` that may have stocks, parents first; NULL after the last. */
static struct group *group_charge_below(const struct group *top, const struct group *at)
{
    if (at->open && at->child)
        return group_at(at->child);
    for (; at != top; at = group_parent(at))
        if (at->sibling)
            return group_at(at->sibling);
    return NULL;
}

static void group_charge_took(uint32_t number, uint32_t bytes)
{
    struct group *group = group_at(number);

    for (struct group *a = group; a; a = group_parent(a))
        a->open--;
    group_charge_sub(group, bytes);
}

void group_charge_drain(struct group *group)
{
    uint32_t *numbers = group_table.scratch;
    unsigned n = 0;

    if (group->open == 0)
        return;
    for (struct group *g = group; g; g = group_charge_below(group, g))
        if (g->open)
            numbers[n++] = group_id(g);
    group_stock_close(numbers, n, group_charge_took);
}

uint64_t group_charge_stocked(const struct group *group)
{
    uint64_t sum = 0;

    for (const struct group *g = group; g; g = group_charge_below(group, g))
        if (g->open)
            sum += group_stock_sum(group_id(g));
    return sum;
}

/* ---- charging ------------------------------------------------------------------------------- */

/* A group's charge rose: updates its peak, and notes whether its soft limit's callback is due. */
static void group_charge_risen(struct group *group)
{
    for (; group; group = group_parent(group)) {
        if (group->charged > group->peak)
            group->peak = group->charged;
        if (group->soft_armed && group->charged > group->soft &&
            group->charged - group_charge_stocked(group) > group->soft) {
            group->soft_armed = false;
            group->soft_events++;
            if (!group->soft_due)
                atomic_fetch_add_explicit(&group_table.due, 1, memory_order_relaxed);
            group->soft_due = true;
        }
    }
}

/* Charges and returns NULL; or drains stocks at most, and returns the group that is full. */
static struct group *group_charge_try(struct group *group, size_t bytes)
{
    struct group *full, *drained = NULL;
    uint32_t batch;

    group_charge_collect();
    while ((full = group_charge_full(group, bytes)) != NULL) {
        if (full == drained)
            return full;
        group_charge_drain(full);
        drained = full;
    }
    batch = group_charge_batch(group); /* there is room for two of these */
    if (bytes > batch)
        batch = 0;
    group_charge_add(group, bytes + batch);
    if (batch && !group_charge_open(group, batch) &&
        !group_stock_give(group_id(group), batch, 2 * batch))
        group_charge_sub(group, batch);
    group_charge_risen(group);
    return NULL;
}

/* Calls the soft limit's callback of a group and its ancestors if it is due.  Outside the lock and the context. */
static __attribute__((noinline, cold)) void group_charge_notify(uint32_t number)
{
    struct group *group;

    context_enter();
    if (!group_lock(false)) { /* a fork has it: the next charge calls them */
        context_leave();
        return;
    }
    for (group = group_live(group_resolve(number)); group; group = group_parent(group)) {
        stook_group_soft_fn fn = group->soft_fn;
        void *arg = group->soft_arg;
        uint64_t usage;
        int cancel;
        if (!group->soft_due)
            continue;
        group->soft_due = false;
        atomic_fetch_sub_explicit(&group_table.due, 1, memory_order_relaxed);
        usage = group->charged - group_charge_stocked(group);
        group_callback_enter(group);
        group_unlock();
        context_leave();
        cancel = cancel_off();
        fn((struct stook_group){group_id(group)}, usage, arg);
        context_enter();
        group_take();
        group_callback_leave(group); /* it lives: destroying it waits for this */
        cancel_on(cancel);
    }
    group_unlock();
    context_leave();
}

/* Under the lock, and drops it, and leaves the context, for the callback. */
static void group_charge_reclaim(struct group *full, size_t bytes)
{
    uint64_t room = full->limit > full->charged ? full->limit - full->charged : 0;
    uint64_t over = full->charged > full->limit ? full->charged - full->limit : 0;
    stook_group_reclaim_fn fn = full->reclaim;
    void *arg = full->reclaim_arg;
    int cancel;

    full->reclaims++;
    group_callback_enter(full);
    group_unlock();
    context_leave();
    cancel = cancel_off();
    (void)fn((struct stook_group){group_id(full)}, bytes - room + over, arg);
    context_enter();
    group_take();
    group_callback_leave(full);
    cancel_on(cancel);
}

static void group_charge_left(struct group *group, uint64_t bytes);

/*
 * A fork has the lock, and a charge does not wait for it.  The bytes are added later, whatever the limit says, so a group
 * may exceed its limit by the bytes that are charged while a process forks.
 */
static bool group_charge_unlocked(uint32_t *number, size_t bytes)
{
    *number = group_resolve(*number);
    if (*number != 0)
        group_charge_left(group_at(*number), -(uint64_t)bytes);
    if (group_lock(true)) /* the fork has ended meanwhile */
        group_unlock();
    return true;
}

bool group_charge_slow(uint32_t *number, size_t bytes, unsigned flags, bool nested)
{
    bool nospin = nested || (flags & STOOK_SIGNAL_SAFE);
    bool wait = !nospin && !(flags & STOOK_NORECLAIM) && group_thread.inside == 0;
    struct group *group, *full = NULL;
    int saved = errno;
    unsigned called = 0; /* bit a depth */

    if (bytes <= STOOK_GROUP_STOCK_MAX && group_stock_take(*number, (uint32_t)bytes))
        return true;
    context_enter();
    if (!group_lock(nospin)) {
        bool forked = lock_forked() && group_charge_unlocked(number, bytes);
        context_leave();
        errno = forked ? saved : ENOMEM;
        return forked;
    }
    while ((*number = group_resolve(*number)) != 0) {
        group = group_at(*number);
        full = group_charge_try(group, bytes);
        if (!full || !wait || !full->reclaim || (called >> full->depth & 1))
            break;
        called |= 1u << full->depth;
        group_charge_reclaim(full, bytes);
        full = NULL;
    }
    if (full) {
        full->refused++;
        PROBE4(limit_hit, &full->name[0], bytes, full->charged, full->limit);
    }
    group_unlock();
    context_leave();
    if (!full && wait && atomic_load_explicit(&group_table.due, memory_order_relaxed))
        group_charge_notify(*number);
    errno = full ? EDQUOT : saved;
    return !full;
}

/* ---- giving back ---------------------------------------------------------------------------- */

static void group_charge_left(struct group *group, uint64_t bytes)
{
    uint32_t place = group_place(group_id(group));

    atomic_fetch_add_explicit(&group->returned, bytes, memory_order_relaxed);
    atomic_fetch_or_explicit(&group_table.returned_at[place / 64], (uint64_t)1 << place % 64,
                             memory_order_release);
    /* This is set before the lock is tried again, and its holder checks it after it unlocked: one of both sees it. */
    atomic_exchange_explicit(&group_table.pending, true, memory_order_seq_cst);
}

/* The stock was closed or full.  If it was full, some of its bytes are returned, too, so that the next frees find room. */
static void group_charge_take_back(struct group *group, uint64_t bytes)
{
    uint32_t batch = group->state == GROUP_LIVES ? group_charge_batch(group) : 0;

    if (batch && bytes <= batch) {
        if (group_charge_open(group, (uint32_t)bytes))
            return;
        if (group_stock_take(group_id(group), batch))
            bytes += batch;
    }
    group_charge_sub(group, bytes);
}

void group_charge_return(uint32_t number, size_t bytes)
{
    struct group *group = group_at(number);
    uint32_t most = group_stock_most(number);
    bool nested, locked;

    if (bytes <= most && group_stock_give(number, (uint32_t)bytes, most))
        return;
    nested = context_enter();
    locked = group_lock(nested);
    if (locked) {
        group_charge_take_back(group, bytes);
    } else {
        group_charge_left(group, bytes);
        locked = group_lock(true);
    }
    if (locked)
        group_unlock();
    context_leave();
}
