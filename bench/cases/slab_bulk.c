/* SPDX-License-Identifier: MIT */
/*
 * batch, slab_bulk: n objects allocated and freed in the same order, again and again, on one pinned CPU: by n single calls
 * each way or, in slab_bulk's mode `bulk`, by one bulk call each way.  The pair's time comes from a loop with no clock inside.
 * A second pass reads a tick counter around each half and gives only the shares of the two.
 */
#include "../worker/adapter.h"
#include "../worker/cpus.h"
#include "../worker/litter.h"
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

static uint64_t slab_bulk_bulk(void *context, uint64_t count)
{
    struct slab_bulk *bulk = context;
    return loops_round(bulk->adapter, bulk->objects, bulk->n, count, 1);
}

int case_slab_bulk(const struct case_params *params, struct case_result *result)
{
    struct slab_bulk bulk = {.n = params->n};
    int by_bulk = params->mode == MODE_BULK;

    if (by_bulk && !ADAPTER_BULK)
        return WORKER_CANNOT;
    cpus_pin(0);
    bulk.objects = resident_map(bulk.n * sizeof(void *));
    bulk.adapter = adapter_open_as(params, bulk.n);
    litter(bulk.adapter, params);
    double ns = timing_median(by_bulk ? slab_bulk_bulk : slab_bulk_single, &bulk, params->ms,
                              params->rounds) /
                (double)bulk.n;
    if (by_bulk)
        loops_split(bulk.adapter, bulk.objects, bulk.n, 1, ns, result);
    else
        loops_split(bulk.adapter, bulk.objects, bulk.n, 0, ns, result);
    return 0;
}

#endif
