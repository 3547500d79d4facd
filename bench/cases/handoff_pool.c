/* SPDX-License-Identifier: MIT */
/*
 * handoff-pool: as handoff, through a pool that keeps a reserve for when memory is short: Stook's own,
 * DPDK's mempool, which is nothing else, and over each malloc a pool like Linux's (mempool.h).
 * Memory is never short here, so the case measures the overhead of a pool.  `single` is the same
 * without a pool.
 */
#include "../worker/handoff.h"
#include "../worker/mempool.h"

enum { POOL_RESERVE = 128 };

#if ADAPTER_POOL
HANDOFF_INLINE void pool_open(struct handoff *handoff)
{
    handoff->pool = adapter_pool_open(handoff->adapter, POOL_RESERVE);
}
#define POOL_ALLOC(handoff) adapter_pool_alloc((handoff)->pool)
#define POOL_FREE(handoff, object) adapter_pool_free((handoff)->pool, object)
#elif ADAPTER_IS_POOL
HANDOFF_INLINE void pool_open(struct handoff *handoff)
{
    (void)handoff;
}
#define POOL_ALLOC(handoff) adapter_alloc((handoff)->adapter)
#define POOL_FREE(handoff, object) adapter_free((handoff)->adapter, object)
#elif !ADAPTER_HANDOFF_ONLY
HANDOFF_INLINE void pool_open(struct handoff *handoff)
{
    handoff->pool = mempool_open(handoff->adapter, POOL_RESERVE);
}
#define POOL_ALLOC(handoff) mempool_alloc((handoff)->pool)
#define POOL_FREE(handoff, object) mempool_free((handoff)->pool, object)
#endif

HANDOFF_INLINE void pool_free_single(struct handoff *handoff, struct ring_end *end,
                                     uint64_t objects)
{
    adapter_t adapter = handoff->adapter;

    for (uint64_t i = 0; i < objects; i++)
        adapter_free(adapter, ring_get(&handoff->ring, end));
}

HANDOFF_INLINE void pool_alloc_single(struct handoff *handoff, struct ring_end *end,
                                      uint64_t objects)
{
    adapter_t adapter = handoff->adapter;

    for (uint64_t i = 0; i < objects; i++)
        ring_put(&handoff->ring, end, handoff_object(adapter_alloc(adapter)));
}

static void *pool_consumer_single(void *context)
{
    handoff_serve(context, pool_free_single);
    return NULL;
}

static uint64_t pool_round_single(void *context, uint64_t count)
{
    return handoff_time(context, count * RING_PUBLISH, pool_alloc_single);
}

#ifdef POOL_ALLOC
HANDOFF_INLINE void pool_free(struct handoff *handoff, struct ring_end *end, uint64_t objects)
{
    for (uint64_t i = 0; i < objects; i++)
        POOL_FREE(handoff, ring_get(&handoff->ring, end));
}

HANDOFF_INLINE void pool_alloc(struct handoff *handoff, struct ring_end *end, uint64_t objects)
{
    for (uint64_t i = 0; i < objects; i++)
        ring_put(&handoff->ring, end, handoff_object(POOL_ALLOC(handoff)));
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

int case_handoff_pool(const struct case_params *params, struct case_result *result)
{
    static struct handoff handoff;

    if (!handoff_can())
        return WORKER_CANNOT;
    cpus_pin(0);
    handoff.adapter = adapter_open(params->object_size);
    if (params->mode == MODE_SINGLE) {
        handoff_measure(&handoff, pool_consumer_single, pool_round_single, RING_PUBLISH, params,
                        result);
        return 0;
    }
#ifdef POOL_ALLOC
    if (params->mode == MODE_POOL) {
        pool_open(&handoff);
        handoff_measure(&handoff, pool_consumer, pool_round, RING_PUBLISH, params, result);
        return 0;
    }
#endif
    return WORKER_CANNOT;
}
