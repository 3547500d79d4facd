/* SPDX-License-Identifier: MIT */
/*
 * batch: n objects allocated by single calls, then freed in the same order, again and again, on one
 * pinned CPU. The pair's time comes from a loop with no clock inside; a second pass reads a tick
 * counter around each half and gives only the shares of the two.
 */
#include "../worker/adapter.h"
#include "../worker/cpus.h"
#include "../worker/resident.h"
#include "../worker/timing.h"

#if !ADAPTER_HANDOFF_ONLY

struct batch {
    adapter_t adapter;
    size_t n;
    void **objects;
};

static inline void batch_alloc(adapter_t adapter, void **objects, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *object = adapter_alloc(adapter);
        if (!object)
            case_die("an allocation failed");
        objects[i] = object;
    }
}

static inline void batch_free(adapter_t adapter, void **objects, size_t n)
{
    for (size_t i = 0; i < n; i++)
        adapter_free(adapter, objects[i]);
}

static uint64_t batch_round(void *context, uint64_t count)
{
    struct batch *batch = context;
    adapter_t adapter = batch->adapter;
    void **objects = batch->objects;
    size_t n = batch->n;
    uint64_t start = timing_now();
    for (uint64_t i = 0; i < count; i++) {
        batch_alloc(adapter, objects, n);
        case_keep(objects);
        batch_free(adapter, objects, n);
    }
    return timing_now() - start;
}

/* Of 1000 batches' ticks, the share that the allocations took; the counter's own cost taken off. */
static double batch_alloc_share(struct batch *batch)
{
    enum { BATCHES = 1000 };
    uint64_t alloc_ticks = 0, free_ticks = 0, own_ticks = 0;
    for (int i = 0; i < BATCHES; i++) {
        uint64_t t0 = timing_ticks();
        batch_alloc(batch->adapter, batch->objects, batch->n);
        uint64_t t1 = timing_ticks();
        batch_free(batch->adapter, batch->objects, batch->n);
        uint64_t t2 = timing_ticks();
        uint64_t t3 = timing_ticks();
        alloc_ticks += t1 - t0;
        free_ticks += t2 - t1;
        own_ticks += t3 - t2;
    }
    double alloc_net = (double)alloc_ticks - (double)own_ticks;
    double free_net = (double)free_ticks - (double)own_ticks;
    return alloc_net > 0 && free_net > 0 ? alloc_net / (alloc_net + free_net) : 0.5;
}

int case_batch(const struct case_params *params, struct case_result *result)
{
    struct batch batch = {.n = params->n};
    double shares[7];

    cpus_pin(0);
    batch.objects = resident_map(batch.n * sizeof(void *));
    batch.adapter = adapter_open(params->object_size);
    double round_ns = timing_median(batch_round, &batch, params->ms, params->rounds);
    for (unsigned i = 0; i < 7; i++)
        shares[i] = batch_alloc_share(&batch);
    double pair_ns = round_ns / (double)batch.n;
    double share = timing_sort_median(shares, 7);
    CASE_SET(result, pair_ns, pair_ns);
    CASE_SET(result, alloc_ns, pair_ns * share);
    CASE_SET(result, free_ns, pair_ns * (1 - share));
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
