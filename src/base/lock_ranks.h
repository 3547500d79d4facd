/* SPDX-License-Identifier: MIT */
/*
 * lock_ranks.h - every lock with a rank.  docs/locking.md has the same table, and the words without a rank.
 *
 * Rank order is the lock order: a lock may be taken only while all locks held by the thread have a
 * lower rank (STOOK_ASSERTIONS builds check it; two locks of one rank only by fork).
 *
 * How clang checks the rest (-Wthread-safety): a function says what it takes, drops or needs held.  Clang
 * before 20 cannot say which lock a field of the same structure is under, in C; comments do.
 */
#ifndef STOOK_BASE_LOCK_RANKS_H
#define STOOK_BASE_LOCK_RANKS_H

/* X(rank, lock, one per, where it is): from the first to be taken to the last. */
#define LOCK_RANKED(X)                                                                             \
    X(CACHES, "cache_list.lock", "process", "cache/cache_list.h")                                  \
    X(PERCPU, "percpu.lock", "process", "percpu/percpu.h")                                         \
    X(BARN, "barn.lock", "cache and node", "slab/cache.h")                                         \
    X(NODE, "node.lock", "cache and node", "slab/cache.h")                                         \
    X(ARENA, "zone.lock", "arena zone", "page/zone.h")                                             \
    X(WINDOW, "window.lock", "process", "page/window.c")                                           \
    X(RECLAIM, "callbacks.lock", "process", "face/callbacks.h")                                    \
    X(GROUPS, "group_table.lock", "process", "charge/group_table.h")

enum lock_rank {
    LOCK_NO_RANK,
#define LOCK_RANK(rank, name, per, where) LOCK_##rank,
    LOCK_RANKED(LOCK_RANK)
#undef LOCK_RANK
        LOCK_RANKS
};

#ifdef __clang__
#define LOCK_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define LOCK_ATTRIBUTE(attribute)
#endif
#define LOCK_CAPABILITY LOCK_ATTRIBUTE(capability("lock"))
#define LOCK_TAKES(...) LOCK_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define LOCK_DROPS(...) LOCK_ATTRIBUTE(release_capability(__VA_ARGS__))
#define LOCK_TRIES(...) LOCK_ATTRIBUTE(try_acquire_capability(true, __VA_ARGS__))
#define LOCK_NEEDS(...) LOCK_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define LOCK_GUARDS(...) LOCK_ATTRIBUTE(guarded_by(__VA_ARGS__))
/* What takes a lock word by hand, or the locks of a whole table. */
#define LOCK_UNCHECKED LOCK_ATTRIBUTE(no_thread_safety_analysis)

#endif
