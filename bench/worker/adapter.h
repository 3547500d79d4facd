/* SPDX-License-Identifier: MIT */
/*
 * Includes the adapter this worker is built for (-DADAPTER_HEADER, -DADAPTER_NAME) and states the
 * interface every adapter fills:
 *
 *   adapter_t                   what a timed loop holds in a register: a cache, or a size
 *   adapter_open(size)          makes it, for objects of one size
 *   adapter_alloc(a)            one object, or NULL
 *   adapter_free(a, object)     takes it back, from any thread
 *   ADAPTER_BULK                1 if these two exist:
 *   adapter_alloc_bulk(a, objects, n)  n, or 0 and nothing taken
 *   adapter_free_bulk(a, objects, n)
 *   ADAPTER_OPENS_AS            1 if adapter_open_as(params, count) exists: adapter_open() for
 *                               params->mode and params->order and no more than `count` objects at
 *                               one time. Ends the worker where it cannot be had
 *   ADAPTER_ACCOUNTS            1 if adapter_open_as() knows the modes off to both, and this:
 *   adapter_counted(a)          bytes that the objects' slabs take with all that belongs to them, over
 *                               the objects that they have room for
 *   ADAPTER_ANY_SIZE            1 if these two exist:
 *   adapter_alloc_size(size)    an object of any size: a malloc
 *   adapter_free_any(object)
 *   ADAPTER_JOINS               1 if adapter_join() exists: a second thread calls it before it uses
 *                               the allocator
 *   ADAPTER_IS_POOL             1 where the allocator is a pool with a reserve itself
 *   ADAPTER_POOL                1 if it has pools besides:
 *   adapter_pool_open(a, reserve), adapter_pool_alloc(pool), adapter_pool_free(pool, object)
 *   ADAPTER_RCU                 1 if it defers frees itself, over liburcu:
 *   adapter_rcu_use(mode), adapter_rcu_free(a, object), adapter_rcu_barrier()
 *   ADAPTER_RESERVE            1 if this exists:
 *   adapter_reserve()          bytes of free memory that the allocator itself says it keeps warm
 *                              for the whole process
 *   ADAPTER_LIMIT               1 if adapter_limit() exists: the bytes it keeps warm at most
 *   adapter_check()             ends the worker if not the allocator it is named after answers
 *   ADAPTER_HANDOFF_ONLY        1 for what can only pass a pointer on: the bare ring
 *
 * Functions are static inline and call the allocator by its own symbol: the call is the same
 * instruction as in a program that uses that allocator.
 */
#ifndef STOOK_BENCH_ADAPTER_H
#define STOOK_BENCH_ADAPTER_H

#include "case.h"

#include ADAPTER_HEADER

#ifndef ADAPTER_ANY_SIZE
#define ADAPTER_ANY_SIZE 0
#endif

#ifndef ADAPTER_HANDOFF_ONLY
#define ADAPTER_HANDOFF_ONLY 0
#endif

#ifndef ADAPTER_ACCOUNTS
#define ADAPTER_ACCOUNTS 0
#endif

#ifndef ADAPTER_BULK
#define ADAPTER_BULK 0
#endif

#ifndef ADAPTER_IS_POOL
#define ADAPTER_IS_POOL 0
#endif

#ifndef ADAPTER_POOL
#define ADAPTER_POOL 0
#endif

#ifndef ADAPTER_RCU
#define ADAPTER_RCU 0
#endif

/* handoff-rcu: liburcu, and something that could be deferred. */
#if defined(BENCH_URCU) && (ADAPTER_RCU || ADAPTER_ANY_SIZE || ADAPTER_HANDOFF_ONLY)
#define ADAPTER_DEFERS 1
#else
#define ADAPTER_DEFERS 0
#endif

#ifndef ADAPTER_JOINS
static inline void adapter_join(void)
{
}
#endif

#if !defined(ADAPTER_OPENS_AS) && !ADAPTER_HANDOFF_ONLY
static inline adapter_t adapter_open_as(const struct case_params *params, size_t count)
{
    (void)count;
    return adapter_open(params->object_size);
}
#endif

#ifndef ADAPTER_RESERVE
static inline long adapter_reserve(void)
{
    return -1;
}
#endif

/* reserve_mib of the cases that count bytes; left out of an allocator that says nothing of the kind. */
static inline void adapter_report_reserve(struct case_result *result, long reserve)
{
    if (reserve >= 0)
        CASE_SET(result, reserve_mib, (double)reserve / (1 << 20));
}

/* reserve_mib of the cases that need warm memory: the limit, where there is one to be asked for. */
static inline void adapter_report_kept(struct case_result *result)
{
#ifdef ADAPTER_LIMIT
    CASE_SET(result, reserve_mib, (double)adapter_limit() / (1 << 20));
#else
    (void)result;
#endif
}

#endif
