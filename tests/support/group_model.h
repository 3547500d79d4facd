/* SPDX-License-Identifier: MIT */
/*
 * group_model.h - a model of groups for tests that take random steps: which groups live below which, the limit and
 * the usage of each, with all below it, and the group that the thread is in.  It knows nothing of stocks.  The test
 * charges, and calls group_model_add().
 *
 * A seed repeats every step (STOOK_TEST_SEED).  One thread, and forked children of it that go on by
 * themselves.
 */
#ifndef TESTS_SUPPORT_GROUP_MODEL_H
#define TESTS_SUPPORT_GROUP_MODEL_H

#include "support/random.h"

#include <stook/group.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GROUP_MODEL_MOST = 40 };

struct group_model_group {
    struct stook_group handle; /* NULL: not alive */
    uint32_t number;           /* kept for what is still charged */
    int parent;                /* -1: none */
    int children;
    uint64_t limit, usage; /* with all below; no limit: STOOK_UNLIMITED */
    uint64_t refused, reclaims;
    bool reclaim; /* it has a callback */
};

extern struct group_model {
    unsigned groups; /* at the most */
    /* A limit is at most 1 << n; limit_bits <= n < limit_bits + limit_more. */
    unsigned limit_bits, limit_more;
    int inside; /* the group that the thread is in; -1: none */
    unsigned steps, forks;
    uint64_t seed, random;
    struct group_model_group group[GROUP_MODEL_MOST];
} group_model;

/*
 * In main(): with that many groups.  In locked mode there are imagined CPUs, more of them than the
 * machine has; false where they cannot be.
 */
bool group_model_start(unsigned groups, uint64_t seed);
/* When nothing is charged any more: destroys all groups, and none must be left behind. */
void group_model_end(void);

/* Fails and says how to repeat it. */
void group_model_wrong(const char *what);

/* Somewhere else, so that stocks are left behind. */
void group_model_move(void);

/* The usage of a group and all above it; -1: no group. */
void group_model_add(int g, int64_t bytes);
/* The first on the way up that has no room, or -1. */
int group_model_full(int g, uint64_t bytes);

/* A living group, or -1. */
int group_model_any(void);
/* A new one, or -1 where there was one in its place or it would be too deep. */
int group_model_make(void);
/* Also those that have children, which must be refused; true: it is gone, its charges are its parent's. */
bool group_model_destroy(int g);
void group_model_set_limit(int g);
void group_model_enter(int g);

/* All that its statistics say is what the model has. */
void group_model_check(int g);

/* The holder of the lock of all groups, for the calls of a handler that interrupted it. */
void group_model_lock(void);
void group_model_unlock(void);

/* In a forked child, which must find nothing wrong. */
void group_model_fork(void (*live_on)(void));

/* What the steps of a test say most. */
static inline uint32_t below(uint32_t end)
{
    return random_below(&group_model.random, end);
}

static inline void wrong(const char *what)
{
    group_model_wrong(what);
}

#endif
