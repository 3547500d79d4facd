/* SPDX-License-Identifier: MIT */
/*
 * kmalloc: n objects (100000) of one size allocated by single calls, then freed in the same order by
 * single calls, on one pinned CPU. The first round is not timed. The halves last long enough for a
 * clock around each. Objects are not written to.
 */
#include "../worker/adapter.h"
#include "../worker/cpus.h"
#include "../worker/loops.h"
#include "../worker/resident.h"

#if !ADAPTER_HANDOFF_ONLY

#define ROUNDS_MAX 101

int case_kmalloc(const struct case_params *params, struct case_result *result)
{
    static double alloc_ns[ROUNDS_MAX], free_ns[ROUNDS_MAX], pair_ns[ROUNDS_MAX];
    unsigned rounds = params->rounds < 1            ? 1
                      : params->rounds > ROUNDS_MAX ? ROUNDS_MAX
                                                    : params->rounds;
    size_t n = params->n;

    cpus_pin(0);
    void **objects = resident_map_huge(n * sizeof(void *));
    adapter_t adapter = adapter_open_as(params, n);
    for (unsigned i = 0; i <= rounds; i++) {
        uint64_t t0 = timing_now();
        loops_alloc(adapter, objects, n, 0);
        uint64_t t1 = timing_now();
        loops_free(adapter, objects, n, 0);
        uint64_t t2 = timing_now();
        if (i == 0)
            continue;
        alloc_ns[i - 1] = (double)(t1 - t0) / (double)n;
        free_ns[i - 1] = (double)(t2 - t1) / (double)n;
        pair_ns[i - 1] = (double)(t2 - t0) / (double)n;
    }
    CASE_SET(result, alloc_ns, timing_sort_median(alloc_ns, rounds));
    CASE_SET(result, free_ns, timing_sort_median(free_ns, rounds));
    CASE_SET(result, pair_ns, timing_sort_median(pair_ns, rounds));
    adapter_report_kept(result);
    return 0;
}

#else

int case_kmalloc(const struct case_params *params, struct case_result *result)
{
    (void)params;
    (void)result;
    return WORKER_CANNOT;
}

#endif
