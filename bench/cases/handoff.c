/* SPDX-License-Identifier: MIT */
/*
 * handoff, handoff-pool: one thread allocates and puts into a ring, a thread on another CPU takes out and frees.
 * The time is that of the whole, from the first allocation to the last free, over the objects.
 *
 * In handoff-pool's mode `pool` the objects go through a pool that keeps a reserve for when memory is short: Stook's own,
 * DPDK's mempool, which is nothing else, and over each malloc a pool like Linux's (mempool.h).  Memory is never short here,
 * so the case measures the overhead of a pool.
 */
#include "../worker/handoff.h"
#include "../worker/mempool.h"

enum { POOL_RESERVE = 128 };

#if ADAPTER_POOL
#define POOL_OPEN(adapter) adapter_pool_open(adapter, POOL_RESERVE)
#define POOL_ALLOC adapter_pool_alloc
#define POOL_FREE adapter_pool_free
#elif !ADAPTER_HANDOFF_ONLY && !ADAPTER_IS_POOL
#define POOL_OPEN(adapter) mempool_open(adapter, POOL_RESERVE)
#define POOL_ALLOC mempool_alloc
#define POOL_FREE mempool_free
#endif

HANDOFF_INLINE void handoff_free(struct handoff *handoff, struct ring_end *end, uint64_t objects)
{
    adapter_t adapter = handoff->adapter;

    for (uint64_t i = 0; i < objects; i++)
        adapter_free(adapter, ring_get(&handoff->ring, end));
}

HANDOFF_INLINE void handoff_alloc(struct handoff *handoff, struct ring_end *end, uint64_t objects)
{
    adapter_t adapter = handoff->adapter;

    for (uint64_t i = 0; i < objects; i++)
        ring_put(&handoff->ring, end, handoff_object(adapter_alloc(adapter)));
}

static void *handoff_consumer(void *context)
{
    handoff_serve(context, handoff_free);
    return NULL;
}

/* Whole publications: nothing is left in the ring. */
static uint64_t handoff_round(void *context, uint64_t count)
{
    return handoff_time(context, count * RING_PUBLISH, handoff_alloc);
}

#ifdef POOL_OPEN
HANDOFF_INLINE void pool_free(struct handoff *handoff, struct ring_end *end, uint64_t objects)
{
    for (uint64_t i = 0; i < objects; i++)
        POOL_FREE(handoff->pool, ring_get(&handoff->ring, end));
}

HANDOFF_INLINE void pool_alloc(struct handoff *handoff, struct ring_end *end, uint64_t objects)
{
    for (uint64_t i = 0; i < objects; i++)
        ring_put(&handoff->ring, end, handoff_object(POOL_ALLOC(handoff->pool)));
}

static void *pool_consumer(void *context)
{
    handoff_serve(context, pool_free);
    return NULL;
}

static uint64_t pool_round(void *context, uint64_t count)
{
    return handoff_time(context, count * RING_PUBLISH, pool_alloc);
}
#endif

int case_handoff(const struct case_params *params, struct case_result *result)
{
    static struct handoff handoff;

    if (!handoff_can())
        return WORKER_CANNOT;
    cpus_pin(0);
    handoff.adapter = adapter_open(params->object_size);
#ifdef POOL_OPEN
    if (params->mode == MODE_POOL) {
        handoff.pool = POOL_OPEN(handoff.adapter);
        handoff_measure(&handoff, pool_consumer, pool_round, RING_PUBLISH, params, result);
        return 0;
    }
#endif
    handoff_measure(&handoff, handoff_consumer, handoff_round, RING_PUBLISH, params, result);
    return 0;
}
