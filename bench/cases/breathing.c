/* SPDX-License-Identifier: MIT */
/*
 * breathing: a program whose live memory goes from nothing up to `mib` and back, in objects of 16
 * to 2048 bytes, uniform, freed in random order; again and again. An allocator that gives memory
 * back with every breath pays for it in page faults with the next. Counted after the first few
 * breaths.
 */
#include <stdio.h>

#include "../worker/adapter.h"
#include "../worker/random.h"
#include "../worker/resident.h"

#define SIZE_LOW 16
#define SIZE_HIGH 2048
#define WARM_BREATHS 3

#if ADAPTER_ANY_SIZE

/* One breath; returns the allocations and frees it made. */
static size_t breathing_once(struct random *random, void **objects, size_t most, uint64_t target)
{
    uint64_t live = 0;
    size_t count = 0;

    while (live < target && count < most) {
        size_t size = random_between(random, SIZE_LOW, SIZE_HIGH);
        volatile char *object = adapter_alloc_size(size);
        if (!object)
            case_die("an allocation failed");
        object[0] = 1;
        object[size - 1] = 1;
        objects[count++] = (void *)object;
        live += size;
    }
    random_shuffle(random, objects, count);
    for (size_t i = 0; i < count; i++)
        adapter_free_any(objects[i]);
    return 2 * count;
}

#endif

int case_breathing(const struct case_params *params, struct case_result *result)
{
#if ADAPTER_ANY_SIZE
    struct random random = {1};
    uint64_t target = (uint64_t)params->mib << 20;
    size_t most = (size_t)(target / (SIZE_LOW + SIZE_HIGH) * 2 / 8 * 9) + 64;
    void **objects = resident_map(most * sizeof(void *));
    uint64_t operations = 0;

    double own = (double)resident_bytes();
    for (unsigned i = 0; i < WARM_BREATHS; i++)
        breathing_once(&random, objects, most, target);
    uint64_t faults = resident_faults();
    for (unsigned i = 0; i < params->rounds; i++)
        operations += breathing_once(&random, objects, most, target);
    faults = resident_faults() - faults;
    double after = (double)resident_bytes();

    CASE_SET(result, resident_mib, after > own ? (after - own) / (1 << 20) : 0);
    CASE_SET(result, faults_per_1000, (double)faults * 1000 / (double)operations);
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
