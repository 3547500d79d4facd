/* SPDX-License-Identifier: MIT */
/*
 * slub_bulk: `mib` of objects allocated in batches of n into one array of pointers, then freed in
 * batches of n: in the order of the array, or after the whole array was shuffled. One pinned CPU.
 * The first round is not timed: after it the allocator has the memory, if it keeps it. The halves
 * last long enough for a clock around each. Objects are not written to.
 *
 * kmalloc: the same with one batch of n objects, by single calls.
 */
#include "../worker/adapter.h"
#include "../worker/cpus.h"
#include "../worker/litter.h"
#include "../worker/loops.h"
#include "../worker/random.h"
#include "../worker/resident.h"

#if !ADAPTER_HANDOFF_ONLY

#define ROUNDS_MAX 101

struct slub_bulk {
    adapter_t adapter;
    void **objects;
    size_t count; /* whole batches */
    size_t n;
    int shuffled;
};

struct slub_bulk_times {
    double alloc_ns, free_ns;
};

LOOPS_INLINE struct slub_bulk_times slub_bulk_round(const struct slub_bulk *bulk,
                                                    struct random *random, int by_bulk)
{
    adapter_t adapter = bulk->adapter;
    void **objects = bulk->objects;
    size_t count = bulk->count, n = bulk->n;

    uint64_t t0 = timing_now();
    for (size_t i = 0; i < count; i += n)
        loops_alloc(adapter, objects + i, n, by_bulk);
    uint64_t t1 = timing_now();
    if (bulk->shuffled)
        random_shuffle(random, objects, count);
    uint64_t t2 = timing_now();
    for (size_t i = 0; i < count; i += n)
        loops_free(adapter, objects + i, n, by_bulk);
    uint64_t t3 = timing_now();
    return (struct slub_bulk_times){
        .alloc_ns = (double)(t1 - t0) / (double)count,
        .free_ns = (double)(t3 - t2) / (double)count,
    };
}

LOOPS_INLINE void slub_bulk_run(const struct slub_bulk *bulk, unsigned rounds, int by_bulk,
                                struct case_result *result)
{
    static double alloc_ns[ROUNDS_MAX], free_ns[ROUNDS_MAX], pair_ns[ROUNDS_MAX];
    struct random random = {1};

    if (rounds < 1)
        rounds = 1;
    if (rounds > ROUNDS_MAX)
        rounds = ROUNDS_MAX;
    (void)slub_bulk_round(bulk, &random, by_bulk);
    for (unsigned i = 0; i < rounds; i++) {
        struct slub_bulk_times times = slub_bulk_round(bulk, &random, by_bulk);
        alloc_ns[i] = times.alloc_ns;
        free_ns[i] = times.free_ns;
        pair_ns[i] = times.alloc_ns + times.free_ns;
    }
    CASE_SET(result, alloc_ns, timing_sort_median(alloc_ns, rounds));
    CASE_SET(result, free_ns, timing_sort_median(free_ns, rounds));
    CASE_SET(result, pair_ns, timing_sort_median(pair_ns, rounds));
}

static int slub_bulk_case(const struct case_params *params, size_t count,
                          struct case_result *result)
{
    struct slub_bulk bulk = {
        .n = params->n,
        .count = count - count % params->n,
        .shuffled = params->free_order == FREE_ORDER_SHUFFLED,
    };

    if (!bulk.count)
        case_die("less than one batch of memory");
    if (params->mode != MODE_SINGLE && !ADAPTER_BULK)
        return WORKER_CANNOT;
    cpus_pin(0);
    bulk.objects = resident_map_huge(bulk.count * sizeof(void *));
    bulk.adapter = adapter_open_as(params, bulk.count);
    litter(bulk.adapter, params);
    if (params->mode == MODE_SINGLE)
        slub_bulk_run(&bulk, params->rounds, 0, result);
    else
        slub_bulk_run(&bulk, params->rounds, 1, result);
    adapter_report_kept(result);
    return 0;
}

int case_slub_bulk(const struct case_params *params, struct case_result *result)
{
    return slub_bulk_case(params, (params->mib << 20) / params->object_size, result);
}

int case_kmalloc(const struct case_params *params, struct case_result *result)
{
    return slub_bulk_case(params, params->n, result);
}

#endif
