/* SPDX-License-Identifier: MIT */
/*
 * group.h - accounting domains: how much memory each part of a program uses, and limits (docs/groups.md).
 *
 * A group has a name, perhaps a parent and perhaps a limit.  A thread enters a group.  From then on each
 * object that it allocates from an accounted cache (STOOK_CACHE_ACCOUNT) is charged to the group and to all
 * its ancestors: the object's stride and its metadata.  Whichever thread frees the object, the charge
 * returns to that group.  At a limit an allocation that may wait calls the reclaim callback of the full
 * group, once; then it fails with EDQUOT.
 *
 * Free objects in the library's caches are charged to no group.  CPUs keep small stocks of charged bytes, so
 * that charging an object needs one CPU only.  Bytes in stocks count against the limit, which is therefore
 * never exceeded; stocks are drained before an allocation is refused.
 *
 * A struct with a number names a group, and is passed by value.  The library detects the number of a group
 * that was destroyed: calls refuse it with EINVAL, or their comment says what they do instead.
 *
 * stook/stook.h has the conventions.
 */
#ifndef STOOK_GROUP_H
#define STOOK_GROUP_H

#include <stook/stook.h>

#include <stddef.h>
#include <stdint.h>

STOOK_C_BEGIN

#define STOOK_GROUPS_MAX 4095u /* groups at one time, with those destroyed that are still charged */
#define STOOK_GROUP_DEPTH_MAX 8u           /* a group and its ancestors */
#define STOOK_GROUP_NAME_MAX 63u           /* bytes of a group's name that are kept */
#define STOOK_GROUP_STOCK_MAX (128u << 10) /* bytes of one group that one CPU keeps at most */

/* A group, by its number.  It is passed by value. */
struct stook_group {
    uint32_t id; /* 0: none */
};

/* No group: a root's parent, no group to charge, the end of a list. */
#ifdef __cplusplus
#define STOOK_NO_GROUP (stook_group())
#else
#define STOOK_NO_GROUP ((struct stook_group){0})
#endif

/* Whether it is no group. */
STOOK_INLINE int stook_group_is_none(struct stook_group group)
{
    return group.id == 0;
}

/* Whether both are one group. */
STOOK_INLINE int stook_group_same(struct stook_group a, struct stook_group b)
{
    return a.id == b.id;
}

/*
 * Make a group.
 *
 * `name` is copied, up to STOOK_GROUP_NAME_MAX bytes, and need not be unique.  `parent` may be
 * STOOK_NO_GROUP; each charge to the group is a charge to its parent too.  `limit` is bytes or
 * STOOK_UNLIMITED; the limits of the ancestors apply as well.
 *
 * returns: the group, which the caller destroys; or STOOK_NO_GROUP
 * errors:  EINVAL   name is NULL, or the parent was destroyed
 *          E2BIG    the parent is STOOK_GROUP_DEPTH_MAX deep
 *          ENFILE   STOOK_GROUPS_MAX groups
 *          ENOMEM   no address space for the groups
 * context: not in a signal handler
 * locks:   groups
 * cost:    microseconds; some 250 bytes, and 8 bytes for each CPU that charges it
 */
STOOK_API struct stook_group stook_group_create(const char *name, struct stook_group parent,
                                                size_t limit) STOOK_WARN_UNUSED;

/*
 * Destroy a group.
 *
 * STOOK_NO_GROUP is accepted.  Live objects may remain: the parent has their charge from now on (no group,
 * if there is no parent) until they are freed.  Threads that are still in the group charge the
 * nearest living ancestor, or no group.  The call returns when no thread is in a callback of the group.
 *
 * errors:  EINVAL   the group was destroyed already
 *          EBUSY    it has children
 *          EDEADLK  called by a callback of this group
 * context: not in a signal handler
 * locks:   groups
 * cost:    one membarrier for each CPU that keeps a stock of it
 */
STOOK_API int stook_group_destroy(struct stook_group group);

/*
 * Charge the allocations of this thread to a group.
 *
 * stook_group_enter() sets the group, STOOK_NO_GROUP for none, and returns the previous group.  stook_group_leave() enters
 * that again.  A new thread is in no group.  A group that was destroyed counts as its nearest living
 * ancestor while that is known, else as none.  A handler that enters a group leaves it before it returns.
 *
 * returns: the previous group; of stook_group_current(): the group now; STOOK_NO_GROUP for none
 * context: any
 * locks:   none
 * cost:    10 ns; stook_group_current() 3 ns
 */
STOOK_API struct stook_group stook_group_enter(struct stook_group group);
STOOK_INLINE void stook_group_leave(struct stook_group previous)
{
    (void)stook_group_enter(previous);
}
STOOK_API struct stook_group stook_group_current(void);

/*
 * The group that an object is charged to.
 *
 * The caller owns the object.
 *
 * returns: the group, or the nearest living ancestor of one that was destroyed; STOOK_NO_GROUP for an
 *          object that no group is charged for
 * context: any
 * locks:   none
 */
STOOK_API struct stook_group stook_group_of(const void *object) STOOK_NONNULL(1);

/*
 * Change the limit of a group: bytes, or STOOK_UNLIMITED.
 *
 * Before an allocation beyond the limit, or an ancestor's, fails with EDQUOT, the library drains the stocks of
 * the groups below and calls the reclaim callback.  A limit is never exceeded, and no allocation is refused
 * while there is room in sum.  A limit below the present charge is accepted: stocks are drained, and charges
 * are refused until enough is freed.
 *
 * errors:  EINVAL   the group was destroyed
 * context: not in a signal handler
 * locks:   groups
 * cost:    one membarrier for each CPU that keeps a stock, if the limit is below what is charged
 */
STOOK_API int stook_group_set_limit(struct stook_group group, size_t limit);

/*
 * Call fn(group, usage, arg) when the usage of a group rises past `bytes`.
 *
 * It is called once, and once more each time that usage has fallen below and rises again.  The library
 * notices a fall when a CPU returns a part of its stock.  If usage is already past `bytes`, the next charge
 * beyond the stocks calls fn.  The allocation proceeds in any case.  fn runs in a thread that charges
 * the group or a descendant with STOOK_WAIT, before the allocation returns, without any lock of the library.
 * It may make any call, but must not destroy this group.  STOOK_UNLIMITED or fn NULL ends it.  When fn is
 * replaced or ended, the call waits until no other thread is in the old one.
 *
 * errors:  EINVAL   the group was destroyed
 * context: not in a signal handler
 * locks:   groups
 */
typedef void (*stook_group_soft_fn)(struct stook_group group, size_t usage, void *arg);
STOOK_API int stook_group_set_soft_limit(struct stook_group group, size_t bytes,
                                         stook_group_soft_fn fn, void *arg);

/*
 * Call fn(group, wanted, arg) when this group's limit refuses a charge with STOOK_WAIT.
 *
 * It is called once for each such charge, with the bytes that are missing.  Then the charge is tried again,
 * whatever fn returns.  fn frees objects charged to the group.  It runs in the thread that allocates, in
 * several at once perhaps, without any lock of the library.  It may make any call, but must not destroy this
 * group; its own allocations run no callback of a group.  A caller that allocates with STOOK_WAIT must hold
 * no lock that fn takes.  fn NULL ends it; the call waits until no
 * other thread is in the old one.
 *
 * errors:  EINVAL   the group was destroyed
 * context: not in a signal handler
 * locks:   groups
 */
typedef size_t (*stook_group_reclaim_fn)(struct stook_group group, size_t wanted, void *arg);
STOOK_API int stook_group_set_reclaim(struct stook_group group, stook_group_reclaim_fn fn,
                                      void *arg);

/*
 * Read the numbers of a group.
 *
 * The caller sets stat->size to sizeof(*stat).  The numbers are exact while no thread charges; while other
 * threads charge, they are of nearly one moment.
 *
 * errors:  EINVAL   the group was destroyed, or stat->size is not a sizeof
 * context: not in a signal handler
 * locks:   groups
 * cost:    one load for each stock below it
 */
struct stook_group_stat {
    size_t size;
    uint64_t usage;       /* bytes that live objects are charged, here and below */
    uint64_t own;         /* the part of usage that is not of living children */
    uint64_t stocked;     /* bytes in stocks, here and below, which count against limits */
    uint64_t peak;        /* highest usage + stocked */
    uint64_t limit;       /* STOOK_UNLIMITED: none */
    uint64_t soft_limit;  /* STOOK_UNLIMITED: none */
    uint64_t refused;     /* charges that failed because of this group's limit */
    uint64_t reclaims;    /* calls of its reclaim callback */
    uint64_t soft_events; /* times that usage rose past the soft limit */
    uint64_t children;    /* living children */
    const char *name;     /* the library's string, valid while the group lives */
    struct stook_group parent;
    uint32_t reserved;
};
STOOK_API int stook_group_stat(struct stook_group group, struct stook_group_stat *stat)
    STOOK_NONNULL(2);

/*
 * The living group after another one.
 *
 * STOOK_NO_GROUP gives the first.  `previous` may be destroyed meanwhile; a group that is made meanwhile
 * may be left out.
 *
 * returns: the group, or STOOK_NO_GROUP after the last
 * context: any
 * locks:   none
 */
STOOK_API struct stook_group stook_group_next(struct stook_group previous);

STOOK_C_END

#endif /* STOOK_GROUP_H */
