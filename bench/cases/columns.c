/* SPDX-License-Identifier: MIT */
/*
 * columns: n objects, or as many as `mib` hold, allocated by bulk calls, each written to at both ends;
 * then what is resident and what the allocator counts, an object. Whatever the library needs once, for
 * the first group and the first site, is there beforehand.
 */
#include <stdio.h>
#include <unistd.h>

#include "../worker/adapter.h"
#include "../worker/loops.h"
#include "../worker/resident.h"

#if ADAPTER_ACCOUNTS

#define BATCH 64

static void columns_warm(struct case_params params)
{
    void *objects[BATCH];

    params.object_size = 64;
    params.align = 64;
    adapter_t warm = adapter_open_as(&params, BATCH);
    loops_alloc(warm, objects, BATCH, 1);
    loops_free(warm, objects, BATCH, 1);
}

int case_columns(const struct case_params *params, struct case_result *result)
{
    size_t count = params->n ? params->n : (params->mib << 20) / params->object_size;
    size_t stride = params->object_size + params->align + 2 * sizeof(uint64_t);
    long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    count += BATCH - 1 - (count - 1) % BATCH;
    if (pages > 0 && (double)count * (double)stride > 0.9 * (double)pages * (double)page) {
        fprintf(stderr, "not enough memory is free\n");
        return WORKER_CANNOT;
    }
    void **objects = resident_map(count * sizeof(void *));
    columns_warm(*params);

    double own = (double)resident_bytes();
    adapter_t adapter = adapter_open_as(params, count);
    for (size_t i = 0; i < count; i += BATCH)
        loops_alloc(adapter, objects + i, BATCH, 1);
    for (size_t i = 0; i < count; i++) {
        volatile char *object = objects[i];
        object[0] = 1;
        object[params->object_size - 1] = 1;
    }
    CASE_SET(result, objects, (double)count);
    CASE_SET(result, resident_bytes, ((double)resident_bytes() - own) / (double)count);
    CASE_SET(result, counted_bytes, adapter_counted(adapter));
    return 0;
}

#endif
