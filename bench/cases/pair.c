/* SPDX-License-Identifier: MIT */
/* pair: one object allocated and freed at once, again and again, on one pinned CPU. */
#include "../worker/adapter.h"
#include "../worker/cpus.h"
#include "../worker/timing.h"

#if !ADAPTER_HANDOFF_ONLY

static uint64_t pair_round(void *context, uint64_t count)
{
    adapter_t adapter = *(adapter_t *)context;
    uint64_t start = timing_now();
    for (uint64_t i = 0; i < count; i++) {
        void *object = adapter_alloc(adapter);
        if (!object)
            case_die("an allocation failed");
        case_keep(object);
        adapter_free(adapter, object);
    }
    return timing_now() - start;
}

int case_pair(const struct case_params *params, struct case_result *result)
{
    cpus_pin(0);
    adapter_t adapter = adapter_open(params->object_size);
    CASE_SET(result, pair_ns, timing_median(pair_round, &adapter, params->ms, params->rounds));
    return 0;
}

#else

int case_pair(const struct case_params *params, struct case_result *result)
{
    (void)params;
    (void)result;
    return WORKER_CANNOT;
}

#endif
