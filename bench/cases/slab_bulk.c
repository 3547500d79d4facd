/* SPDX-License-Identifier: MIT */
/*
 * slab_bulk: n objects allocated and freed again and again on one pinned CPU, by n single calls each
 * way or by one bulk call each way. As in batch, no clock runs inside the timed loop and the halves
 * are shares.
 */
#include "../worker/adapter.h"
#include "../worker/cpus.h"
#include "../worker/loops.h"
#include "../worker/resident.h"

#if !ADAPTER_HANDOFF_ONLY

struct slab_bulk {
    adapter_t adapter;
    size_t n;
    void **objects;
};

static uint64_t slab_bulk_single(void *context, uint64_t count)
{
    struct slab_bulk *bulk = context;
    return loops_round(bulk->adapter, bulk->objects, bulk->n, count, 0);
}

#if ADAPTER_BULK
static uint64_t slab_bulk_bulk(void *context, uint64_t count)
{
    struct slab_bulk *bulk = context;
    return loops_round(bulk->adapter, bulk->objects, bulk->n, count, 1);
}
#endif

int case_slab_bulk(const struct case_params *params, struct case_result *result)
{
    struct slab_bulk bulk = {.n = params->n};

    cpus_pin(0);
    bulk.objects = resident_map(bulk.n * sizeof(void *));
    if (params->mode == MODE_SINGLE) {
        bulk.adapter = adapter_open_as(params, bulk.n);
        double ns = timing_median(slab_bulk_single, &bulk, params->ms, params->rounds);
        loops_split(bulk.adapter, bulk.objects, bulk.n, 0, ns / (double)bulk.n, result);
        return 0;
    }
#if ADAPTER_BULK
    if (params->mode == MODE_BULK) {
        bulk.adapter = adapter_open_as(params, bulk.n);
        double ns = timing_median(slab_bulk_bulk, &bulk, params->ms, params->rounds);
        loops_split(bulk.adapter, bulk.objects, bulk.n, 1, ns / (double)bulk.n, result);
        return 0;
    }
#endif
    return WORKER_CANNOT;
}

#else

int case_slab_bulk(const struct case_params *params, struct case_result *result)
{
    (void)params;
    (void)result;
    return WORKER_CANNOT;
}

#endif
