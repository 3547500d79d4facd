/* SPDX-License-Identifier: MIT */
/*
 * returned: objects of 16 to 2048 bytes, uniform, until `mib` are requested; every one touched;
 * all freed in random order; then what is resident, with no call made in between.
 */
#include <stdio.h>
#include <unistd.h>

#include "../worker/adapter.h"
#include "../worker/random.h"
#include "../worker/resident.h"

#define SIZE_LOW 16
#define SIZE_HIGH 2048

int case_returned(const struct case_params *params, struct case_result *result)
{
#if ADAPTER_ANY_SIZE
    struct random random = {1};
    uint64_t target = (uint64_t)params->mib << 20;
    /* The mean is 1032; a uniform sum this long stays far within an eighth of it. */
    size_t most = (size_t)(target / (SIZE_LOW + SIZE_HIGH) * 2 / 8 * 9) + 64;
    void **objects = resident_map(most * sizeof(void *));
    uint64_t live = 0;
    size_t count = 0;

    double own = (double)resident_bytes();
    uint64_t faults = resident_faults();
    while (live < target && count < most) {
        size_t size = random_between(&random, SIZE_LOW, SIZE_HIGH);
        volatile char *object = adapter_alloc_size(size);
        if (!object)
            case_die("an allocation failed");
        object[0] = 1;
        object[size - 1] = 1;
        objects[count++] = (void *)object;
        live += size;
    }
    if (!params->in_order)
        random_shuffle(&random, objects, count);
    for (size_t i = 0; i < count; i++)
        adapter_free_any(objects[i]);
    faults = resident_faults() - faults;
    if (params->settle > 0)
        usleep((useconds_t)(params->settle * 1e6));
    double after = (double)resident_bytes();

    CASE_SET(result, resident_mib, after > own ? (after - own) / (1 << 20) : 0);
    CASE_SET(result, faults_per_1000, (double)faults * 1000 / (2.0 * (double)count));
    long reserve = adapter_reserve();
    if (reserve >= 0)
        CASE_SET(result, reserve_mib, (double)reserve / (1 << 20));
    return 0;
#else
    (void)params;
    (void)result;
    fprintf(stderr, "needs objects of any size\n");
    return WORKER_CANNOT;
#endif
}
