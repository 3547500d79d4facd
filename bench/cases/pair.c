/* SPDX-License-Identifier: MIT */
/* pair: one object allocated and freed at once, again and again, on one pinned CPU. */
#include "../worker/adapter.h"
#include "../worker/cpus.h"
#include "../worker/litter.h"
#include "../worker/loops.h"

#if !ADAPTER_HANDOFF_ONLY

static uint64_t pair_round(void *context, uint64_t count)
{
    return loops_pair(*(adapter_t *)context, count);
}

int case_pair(const struct case_params *params, struct case_result *result)
{
    cpus_pin(0);
    adapter_t adapter = adapter_open(params->object_size);
    litter(adapter, params);
    CASE_SET(result, pair_ns, timing_median(pair_round, &adapter, params->ms, params->rounds));
    return 0;
}

#endif
