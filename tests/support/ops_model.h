/* SPDX-License-Identifier: MIT */
/*
 * ops_model.h - what the interpreter of ops.c knows beside the library: every object that is out or
 * deferred, every cache, prefilled sheaf and pool; and the bytes that say what to do next.
 *
 * A handler that interrupts a call uses the same model: the model changes before a call that takes
 * objects back and after one that hands them out, never during one.
 */
#ifndef TESTS_SUPPORT_OPS_MODEL_H
#define TESTS_SUPPORT_OPS_MODEL_H

#include "support/ops.h"

#include <stook/group.h>
#include <stook/reserve.h>
#include <stook/stook.h>

#ifdef STOOK_CORE
#include "support/ops_core.h"
#endif

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    OPS_CACHES = 12,
    OPS_OBJECTS = 4000,
    OPS_BULK = 600,
    OPS_BYTES = 48 << 20, /* out at one time */
    OPS_FILL = 512,       /* bytes written at an object's start and end */
    OPS_SHEAVES = 6,
    OPS_POOLS = 4,
    OPS_STALE = 64,  /* free objects of type-stable caches that a reader may look at */
    OPS_NESTING = 2, /* handlers in handlers */
    OPS_GROUPS = 4,  /* of 0 all others are children, but the last */
};

struct ops_held {
    unsigned cache;
    unsigned pool; /* 1 + the pool it is of; 0: of none */
    bool deferred; /* stook_free_rcu() has it, and no grace period is over since */
    uint32_t pattern;
    unsigned char *object;
    struct stook_group group; /* that is charged; NULL: none */
};

struct ops_made {
    struct stook_cache *cache; /* NULL: none */
    size_t size, align;
    bool built;   /* has a constructor */
    bool stable;  /* and is type-stable */
    bool charged; /* charges groups */
    bool loose;   /* has no sheaves */
    bool counted; /* its statistics are on, and all it hands out is seen here */
    unsigned out, sheaves, pools;
    uint64_t taken, given; /* by calls that statistics count */
};

struct ops_sheaf {
    unsigned cache;
    bool busy; /* a call has it that may be interrupted */
    struct stook_sheaf *sheaf;
    unsigned size;
};

struct ops_pool {
    unsigned cache;
    struct stook_pool *pool;
    unsigned min, out;
};

struct ops {
    const uint8_t *at, *end;
    struct ops_made made[OPS_CACHES];
    struct ops_held held[OPS_OBJECTS]; /* in order of their addresses */
    struct ops_sheaf sheaf[OPS_SHEAVES];
    struct ops_pool pool[OPS_POOLS];
    unsigned char *stale[OPS_STALE];
    struct stook_group group[OPS_GROUPS],
        inside; /* and the one that this thread is in, or NULL */
    size_t n, bytes, stales;
    size_t coming; /* objects that calls are about to bring, which handlers leave room for */
    uint32_t patterns;
    unsigned depth; /* handlers that are running */
    struct ops_counts *counts;
};
extern struct ops ops;

#define OPS_CHECK(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "ops: step %llu: %s:%d: %s\n", (unsigned long long)ops.counts->steps,  \
                    __FILE__, __LINE__, #condition);                                               \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* ---- bytes ---- */
unsigned ops_byte(void);
unsigned ops_below(unsigned end);

/* ---- the model ---- */
void ops_ctor(void *object, void *arg);
void ops_dtor(void *object, void *arg);
/* An object has come: aligned, overlapping none, zeroed where it was asked for, constructed. */
void ops_got(unsigned cache, void *object, bool zero, unsigned pool);
/* An object is about to be freed or deferred: its contents have not changed. */
void *ops_lose(size_t at);
void *ops_defer(size_t at);
/* Any that is not deferred, from a place that the bytes say; ops.n: there is none. */
size_t ops_any(void);
/* Room for n more objects of a cache. */
bool ops_room(unsigned cache, size_t n);
/* Everything that was deferred is as it was; from here on it may be free. */
void ops_end_deferred(void);

/* After each step what is cheap; now and then all of it. */
void ops_check_step(void);
void ops_check_all(void);

/* ---- sheaves, pools, deferred frees: ops_reserve.c ---- */
void ops_rcu_use(void);
void ops_grace(void);
void ops_sheaf_step(unsigned cache);
void ops_pool_step(unsigned cache);
void ops_pool_free(size_t at);
void ops_pool_destroy(unsigned pool);
void ops_sheaf_return(unsigned sheaf);
void ops_free_rcu_step(void);

/* ---- groups, tags: ops_account.c ---- */
void ops_groups_make(void);
void ops_groups_end(void);
/* One of them, or NULL for none. */
struct stook_group ops_group(void);
void ops_group_enter(void);
void ops_tags_step(unsigned cache);
/* What every group is charged is what objects say. */
void ops_check_groups(void);

/* ---- one operation that a handler may do: ops.c ---- */
void ops_handler_step(void);

/* ---- handlers in the middle of a call: ops_context.c ---- */
void ops_context_use(void);
/* Between these two a call of the library, which handlers may interrupt. */
void ops_arm(void);
void ops_disarm(void);
/* And while that call itself calls the model. */
bool ops_hold(void);
void ops_release(bool armed);
/* What a caller here may ask for: a handler tries only. */
unsigned ops_flags(unsigned flags);

/* The same of a call that brings up to n objects. */
#define OPS_BRING(n, call)                                                                         \
    ({                                                                                             \
        __typeof__(call) ops_brought;                                                              \
        ops.coming += (n);                                                                         \
        ops_brought = OPS_CALL(call);                                                              \
        ops.coming -= (n);                                                                         \
        ops_brought;                                                                               \
    })

#define OPS_CALL(call)                                                                             \
    ({                                                                                             \
        __typeof__(call) ops_result;                                                               \
        ops_arm();                                                                                 \
        ops_result = (call);                                                                       \
        ops_disarm();                                                                              \
        ops_result;                                                                                \
    })
#define OPS_DO(call)                                                                               \
    do {                                                                                           \
        ops_arm();                                                                                 \
        call;                                                                                      \
        ops_disarm();                                                                              \
    } while (0)

#endif
