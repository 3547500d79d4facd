/* SPDX-License-Identifier: MIT */
/*
 * batch: n objects allocated by single calls, then freed in the same order, again and again, on one
 * pinned CPU. The pair's time comes from a loop with no clock inside; a second pass reads a tick
 * counter around each half and gives only the shares of the two.
 */
#include "../worker/adapter.h"
#include "../worker/cpus.h"
#include "../worker/loops.h"
#include "../worker/resident.h"

#if !ADAPTER_HANDOFF_ONLY

struct batch {
    adapter_t adapter;
    size_t n;
    void **objects;
};

static uint64_t batch_round(void *context, uint64_t count)
{
    struct batch *batch = context;
    return loops_round(batch->adapter, batch->objects, batch->n, count, 0);
}

int case_batch(const struct case_params *params, struct case_result *result)
{
    struct batch batch = {.n = params->n};

    cpus_pin(0);
    batch.objects = resident_map(batch.n * sizeof(void *));
    batch.adapter = adapter_open(params->object_size);
    double round_ns = timing_median(batch_round, &batch, params->ms, params->rounds);
    loops_split(batch.adapter, batch.objects, batch.n, 0, round_ns / (double)batch.n, result);
    return 0;
}

#else

int case_batch(const struct case_params *params, struct case_result *result)
{
    (void)params;
    (void)result;
    return WORKER_CANNOT;
}

#endif
