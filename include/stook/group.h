/* SPDX-License-Identifier: MIT */
/*
 * group.h - accounting domains: who uses how much memory, and where it stops (docs/groups.md).
 *
 * A group has a name, perhaps a parent and perhaps a limit.  A thread enters a group; from then on
 * what it allocates of accounted caches (STOOK_CACHE_ACCOUNT) is charged to the group and to all its
 * ancestors: for each object its stride and its metadata.  Whoever frees the object, the charge goes
 * back to the group that it was made to.  At a limit an allocation that may wait asks for the reclaim
 * callback of the group that is full, once; then it fails with EDQUOT.
 *
 * Free objects that the library keeps are nobody's.  CPUs keep small stocks of charged bytes, so that
 * charging an object is a matter of one CPU.  What is in stocks counts against the limit, which is
 * therefore never exceeded, but comes back before anybody is refused.
 *
 * A group is named by a number in a struct, which is passed by value.  The number of a group that was
 * destroyed is known as such: calls refuse it with EINVAL, or say what they do.
 *
 * Conventions as in stook/stook.h: sizes are bytes; functions returning int give 0, or -1 with errno.
 */
#ifndef STOOK_GROUP_H
#define STOOK_GROUP_H

#include <stook/stook.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STOOK_GROUPS_MAX 4095u /* groups at one time, with those destroyed that are still charged */
#define STOOK_GROUP_DEPTH_MAX 8u           /* a group and its ancestors */
#define STOOK_GROUP_NAME_MAX 63u           /* bytes of a group's name that are kept */
#define STOOK_GROUP_STOCK_MAX (128u << 10) /* bytes of one group that one CPU keeps at most */

struct stook_group {
    uint32_t id; /* 0: none */
};

/* No group: a root's parent, nobody to charge, the end of a list. */
#ifdef __cplusplus
#define STOOK_NO_GROUP (stook_group())
#else
#define STOOK_NO_GROUP ((struct stook_group){0})
#endif

/* Whether it is no group, and whether both are one. */
static inline int stook_group_is_none(struct stook_group group)
{
    return group.id == 0;
}

static inline int stook_group_same(struct stook_group a, struct stook_group b)
{
    return a.id == b.id;
}

/*
 * Make a group.  `name` is copied (cut after STOOK_GROUP_NAME_MAX bytes) and need not be unique.
 * `parent` may be STOOK_NO_GROUP; all that the group is charged, the parent is charged too.  `limit` in
 * bytes, or STOOK_UNLIMITED; those of the ancestors hold beside it.
 *
 * errors (NULL): EINVAL   name NULL, parent destroyed
 *                E2BIG    the parent is STOOK_GROUP_DEPTH_MAX deep
 *                ENFILE   STOOK_GROUPS_MAX groups
 *                ENOMEM   no address space for the groups
 * context: not from a signal handler.  locks: groups.  cost: microseconds; memory: some 250 bytes, and
 * 8 bytes for each CPU that charges it.
 */
STOOK_API struct stook_group stook_group_create(const char *name, struct stook_group parent,
                                                size_t limit) STOOK_WARN_UNUSED;

/*
 * Destroy a group.  STOOK_NO_GROUP is accepted.  Objects may be left: what they are charged is its parent's from
 * here on (and no longer anybody's own where there is none), and goes back when they are freed.
 * Threads that are still inside charge the nearest ancestor that lives, and nobody where there is
 * none.  Returns when no thread is in a callback of the group any more.
 *
 * errors:  EINVAL   it was destroyed already
 *          EBUSY    it has children
 *          EDEADLK  from a callback of this group
 * context: not from a signal handler.  locks: groups.  cost: one membarrier for each CPU that keeps a
 * stock of it.
 */
STOOK_API int stook_group_destroy(struct stook_group group);

/*
 * This thread charges `group` from here on, STOOK_NO_GROUP for none; gives the one before, for
 * stook_group_leave().  A new thread is in no group.  A group that was destroyed counts as its nearest
 * living ancestor while that is still known, else as none.
 * context: any; a handler leaves what it entered before it returns.  locks: none.  cost: 10 ns.
 */
STOOK_API struct stook_group stook_group_enter(struct stook_group group);
STOOK_API void stook_group_leave(struct stook_group previous);

/* The group that this thread charges, or STOOK_NO_GROUP.  context: any.  locks: none.  cost: 3 ns. */
STOOK_API struct stook_group stook_group_current(void);

/*
 * As stook_alloc() and stook_alloc_bulk(), charged to `group` wherever the thread is; STOOK_NO_GROUP: to
 * nobody.
 * With a cache that is not accounted, `group` is not looked at.  A bulk is charged whole or not at all.
 *
 * errors (NULL, -1): as stook_alloc(), and
 *                EINVAL   the group was destroyed
 *                EDQUOT   the limit of the group or of an ancestor; stook_alloc() too
 *                ENOMEM   in a context that may not wait also: the groups' lock was held
 * context, locks: as stook_alloc(), and the groups' lock once in STOOK_GROUP_STOCK_MAX / 2 bytes, and
 * for each object close to a limit.  cost: one more section.
 */
STOOK_API void *stook_alloc_group(struct stook_cache *cache, unsigned flags,
                                  struct stook_group group) STOOK_NONNULL(1) STOOK_WARN_UNUSED;
STOOK_API int stook_alloc_bulk_group(struct stook_cache *cache, unsigned flags, size_t n,
                                     void **objects, struct stook_group group)
    STOOK_NONNULL(1) STOOK_WARN_UNUSED;

/*
 * The group that an object is charged to: the nearest ancestor that lives of a group that was
 * destroyed; STOOK_NO_GROUP for objects that nobody is charged.  The caller owns the object.
 * context: any.  locks: none.
 */
STOOK_API struct stook_group stook_group_of(const void *object) STOOK_NONNULL(1);

/*
 * Change the limit: bytes, or STOOK_UNLIMITED.  Below what is charged now it is accepted too: stocks come back, and
 * nothing is charged until enough was freed.
 *
 * errors:  EINVAL   the group was destroyed
 * context: not from a signal handler.  locks: groups.  cost: one membarrier for each CPU that keeps a
 * stock, where the new limit is below what is charged.
 */
STOOK_API int stook_group_set_limit(struct stook_group group, size_t limit);

/*
 * Call fn(group, usage, arg) once when usage rises past `bytes`, and once more each time after it
 * fell below and rises again; a fall is seen when a CPU gives a part of its stock back.  The
 * allocation goes on in any case.  fn runs in a thread that charges the group or a descendant with
 * STOOK_WAIT, before the allocation returns, without any lock of the library, and may call all of it,
 * but destroy this group.  STOOK_UNLIMITED or fn NULL: no more; then, or when it is replaced, this returns
 * when no thread is in the old one any more (but for the calling one).
 *
 * errors:  EINVAL   the group was destroyed
 * context: not from a signal handler.  locks: groups.
 */
typedef void (*stook_group_soft_fn)(struct stook_group group, size_t usage, void *arg);
STOOK_API int stook_group_set_soft_limit(struct stook_group group, size_t bytes,
                                         stook_group_soft_fn fn, void *arg);

/*
 * What to call where this group's limit stands in the way of a charge with STOOK_WAIT: once for each
 * such charge, with the bytes that are missing; then the charge is tried again, whatever fn returns.
 * It gives back what the group can do without (frees objects charged to it).  It runs in the thread
 * that allocates, in several at once perhaps, without any lock of the library, and may call all of it,
 * but destroy this group; what it allocates itself runs no callback of a group.  Whoever allocates
 * with STOOK_WAIT must hold no lock that it takes.  fn NULL: none; this returns when no thread is in
 * the old one any more (but for the calling one).
 *
 * errors:  EINVAL   the group was destroyed
 * context: not from a signal handler.  locks: groups.
 */
typedef size_t (*stook_group_reclaim_fn)(struct stook_group group, size_t wanted, void *arg);
STOOK_API int stook_group_set_reclaim(struct stook_group group, stook_group_reclaim_fn fn,
                                      void *arg);

/*
 * What a group has.  `size` is sizeof(struct stook_group_stat) as the caller knows it, set before the
 * call, so that the struct can grow.  Exact while nobody charges; beside others, of nearly one moment.
 */
struct stook_group_stat {
    size_t size;
    uint64_t usage;       /* bytes that live objects are charged, here and below */
    uint64_t own;         /* of usage: not those of living children */
    uint64_t stocked;     /* bytes in stocks, here and below: count against limits until needed */
    uint64_t peak;        /* highest usage + stocked */
    uint64_t limit;       /* STOOK_UNLIMITED: none */
    uint64_t soft_limit;  /* STOOK_UNLIMITED: none */
    uint64_t refused;     /* charges that failed because of this group's limit */
    uint64_t reclaims;    /* calls of its reclaim callback */
    uint64_t soft_events; /* times that usage rose past the soft limit */
    uint64_t children;    /* that live */
};

/*
 * errors:  EINVAL   the group was destroyed, or stat->size is too small or unknown
 * context: not from a signal handler.  locks: groups.  cost: one load for each stock below it.
 */
STOOK_API int stook_group_stat(struct stook_group group, struct stook_group_stat *stat)
    STOOK_NONNULL(2);

/* Its name, to be used while it lives, and its parent; NULL and STOOK_NO_GROUP: none, or it was destroyed (EINVAL). */
STOOK_API const char *stook_group_name(struct stook_group group);
STOOK_API struct stook_group stook_group_parent(struct stook_group group);

/*
 * All groups that live, one after the other: STOOK_NO_GROUP gives the first, and follows the last.  One that is
 * made meanwhile may be missed; `previous` may be destroyed meanwhile.
 * context: any.  locks: none.
 */
STOOK_API struct stook_group stook_group_next(struct stook_group previous);

#ifdef __cplusplus
}
#endif

#endif /* STOOK_GROUP_H */
