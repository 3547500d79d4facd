/* SPDX-License-Identifier: MIT */
/*
 * group_table.h - the groups, and the one lock of the hierarchy.
 *
 * A place is free, or belongs to a living group, or to a zombie: a group that was destroyed but is still charged.
 * Its record keeps the lineage of the last group until the place is used again, which is as late as possible.  So a
 * thread with the number of a destroyed group mostly finds its nearest living ancestor.
 *
 * `charged` is the sum of the stocks of a group and its descendants, and of the charges for their objects.  A zombie has
 * no stocks.  A group can only be destroyed after its children.  So all ancestors of a living group live, and the places
 * of a zombie's ancestors are not used again before its own.
 */
#ifndef STOOK_CHARGE_GROUP_TABLE_H
#define STOOK_CHARGE_GROUP_TABLE_H

#include "charge/group.h"
#include "charge/group_stock.h"
#include "base/lock.h"

enum group_state { GROUP_FREE, GROUP_LIVES, GROUP_ZOMBIE };

struct group {
    _Atomic uint32_t number; /* of the present or last group; 0 while that changes */
    _Atomic uint32_t live;   /* the same while it lives, else 0 */
    uint32_t depth;          /* its ancestors' number */
    /* Itself, its parent and so on, 0 behind the last.  A reader reads `number` before and after; both must be equal. */
    _Atomic uint32_t lineage[STOOK_GROUP_DEPTH_MAX];
    _Atomic uint64_t
        returned; /* bytes returned less bytes charged by threads that did not get the lock */

    /* The following fields are under the lock. */
    enum group_state state;
    uint32_t child; /* place of the first child that lives, and of its next sibling; 0: none */
    uint32_t sibling, before;
    bool listed;       /* among its parent's children: until it is a zombie without stocks */
    uint32_t children; /* that live */
    uint32_t open;     /* stocks that are open, here and below */
    uint32_t running;  /* threads that are in a callback of it */
    bool soft_armed;   /* usage was at or below the soft limit since the last event */
    bool soft_due;     /* its callback is to be called */
    uint64_t charged;  /* here and below, stocks included */
    uint64_t limit;    /* STOOK_UNLIMITED: none, as in soft */
    uint64_t soft;
    uint64_t peak, refused, reclaims, soft_events;
    stook_group_reclaim_fn reclaim;
    void *reclaim_arg;
    stook_group_soft_fn soft_fn;
    void *soft_arg;
    char name[STOOK_GROUP_NAME_MAX + 1];
};

struct group_table {
    struct lock lock;                                /* LOCK_GROUPS */
    _Atomic uint32_t turn;                           /* changes when a thread leaves a callback */
    _Atomic bool pending;                            /* something is in `returned_at` */
    _Atomic uint32_t high;                           /* highest place ever used; under the lock */
    _Atomic uint32_t due;                            /* groups with soft_due; under the lock */
    uint32_t unused;                                 /* free places up to `high` */
    uint32_t cursor;                                 /* place used last */
    _Atomic(struct group *) at;                      /* GROUP_PLACES; NULL before the first group */
    uint32_t *scratch;                               /* GROUP_PLACES numbers */
    _Atomic uint64_t returned_at[GROUP_PLACES / 64]; /* bit a place: read its `returned` */
};
extern struct group_table group_table __attribute__((visibility("hidden")));

/* The group that this thread entered, with its ancestors at that time. */
struct group_thread {
    uint32_t lineage[STOOK_GROUP_DEPTH_MAX];
    uint32_t inside; /* the group whose callback it is in */
    char *stock;     /* group_stock_row() of lineage[0], or of another group for a moment */
};
extern __thread struct group_thread group_thread
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

static inline struct group *group_at(uint32_t number)
{
    return atomic_load_explicit(&group_table.at, memory_order_acquire) + group_place(number);
}

static inline struct stook_group group_handle(uint32_t number)
{
    return (struct stook_group){number};
}
/* The number of a handle that a program passes; 0 if it is not valid. */
uint32_t group_of_handle(struct stook_group handle);
/* A group and its ancestors, with a 0 behind the last, from its record.  False: another group has the place by now. */
bool group_lineage(uint32_t number, uint32_t lineage[STOOK_GROUP_DEPTH_MAX]);

/* The group of that number if it lives, or NULL.  Without the lock it may be destroyed right after. */
struct group *group_live(uint32_t number);

/* The nearest living one of a group and its ancestors, as far as its record has them; 0: none. */
uint32_t group_resolve(uint32_t number);

/* Under the lock. */
static inline struct group *group_parent(const struct group *group)
{
    uint32_t parent = atomic_load_explicit(&group->lineage[1], memory_order_relaxed);

    return parent ? group_at(parent) : NULL;
}

static inline uint32_t group_id(const struct group *group)
{
    return atomic_load_explicit(&group->number, memory_order_relaxed);
}

/* Within the context.  Unlocking collects the bytes that were returned meanwhile, and checks again after. */
bool group_lock(bool nospin);
/* The same for calls that may wait for a fork. */
void group_take(void);

/* charge/group_limit.c.  No soft limit any more.  Under the lock. */
void group_limit_clear_soft(struct group *group);

/* A callback of the group: from enter to leave this thread is in it, both under the lock. */
void group_callback_enter(struct group *group);
void group_callback_leave(struct group *group);
/* Until no other thread is in a callback of it; lets the lock and the context go meanwhile. */
void group_callback_wait(struct group *group);

/* More for a group and its ancestors; less. */
void group_charge_add(struct group *group, uint64_t bytes);
void group_charge_sub(struct group *group, uint64_t bytes);

/* charge/group_charge.c: */
bool group_charge_slow(uint32_t *number, size_t bytes, unsigned flags, bool nested);
void group_charge_return(uint32_t number, size_t bytes);
/* Frees the place of a zombie that has no stocks and no charges any more. */
void group_release_zombie(struct group *group);
/* Collects the bytes that were returned without the lock so far. */
void group_charge_collect(void);
/* Closes the stocks of a group and of all below. */
void group_charge_drain(struct group *group);
/* Bytes in the stocks of a group and of all below. */
uint64_t group_charge_stocked(const struct group *group);

#endif
