/* SPDX-License-Identifier: MIT */
/*
 * tags, groups: pairs of single calls (n = 1) or of bulk calls on one pinned CPU.  The mode says whether the
 * cache's objects are charged to the thread's group, counted by call site, both or neither.
 * The group has no limit.  Counting is switched on before the cache is made.
 */
#include "../worker/adapter.h"
#include "../worker/cpus.h"
#include "../worker/loops.h"
#include "../worker/resident.h"

#if ADAPTER_ACCOUNTS

struct accounted {
    adapter_t adapter;
    size_t n;
    void **objects;
};

static uint64_t accounted_pair(void *context, uint64_t count)
{
    return loops_pair(((struct accounted *)context)->adapter, count);
}

static uint64_t accounted_bulk(void *context, uint64_t count)
{
    struct accounted *accounted = context;
    return loops_round(accounted->adapter, accounted->objects, accounted->n, count, 1);
}

int case_accounted(const struct case_params *params, struct case_result *result)
{
    struct accounted accounted = {.n = params->n};
    timing_round *round = params->n == 1 ? accounted_pair : accounted_bulk;

    cpus_pin(0);
    accounted.objects = resident_map(params->n * sizeof(void *));
    accounted.adapter = adapter_open_as(params, params->n);
    double ns = timing_median(round, &accounted, params->ms, params->rounds) / (double)params->n;
    if (params->n == 1)
        loops_split(accounted.adapter, accounted.objects, 1, 0, ns, result);
    else
        loops_split(accounted.adapter, accounted.objects, params->n, 1, ns, result);
    return 0;
}

#endif
