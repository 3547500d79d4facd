/* SPDX-License-Identifier: MIT */
/*
 * returned: objects of 16 to 2048 bytes, uniform, until `mib` are requested; every one touched;
 * all freed in random order; then what is resident, with no call made in between.
 *
 * breathing: a program whose live memory goes from nothing up to `mib` and back, in the same objects, freed in random
 * order; again and again.  An allocator that gives memory back with every breath pays for it in page faults with the
 * next.  Counted after the first few breaths.
 */
#include <unistd.h>

#include "../worker/adapter.h"

#if ADAPTER_ANY_SIZE

#include "../worker/mixed.h"
#include "../worker/resident.h"

#define WARM_BREATHS 3

int case_returned(const struct case_params *params, struct case_result *result)
{
    struct random random = {1};
    uint64_t target = (uint64_t)params->mib << 20;
    size_t most = mixed_most(target, MIXED_LOW, MIXED_HIGH);
    void **objects = resident_map(most * sizeof(void *));
    double own = (double)resident_bytes();
    uint64_t faults = resident_faults();
    size_t count = mixed_fill(&random, objects, most, target);

    if (!params->in_order)
        random_shuffle(&random, objects, count);
    for (size_t i = 0; i < count; i++)
        adapter_free_any(objects[i]);
    faults = resident_faults() - faults;
    if (params->settle > 0)
        usleep((useconds_t)(params->settle * 1e6));
    mixed_report(result, (double)resident_bytes() - own, faults, 2 * count);
    return 0;
}

/* One breath; returns the allocations and frees it made. */
static size_t breathing_once(struct random *random, void **objects, size_t most, uint64_t target)
{
    size_t count = mixed_fill(random, objects, most, target);

    random_shuffle(random, objects, count);
    for (size_t i = 0; i < count; i++)
        adapter_free_any(objects[i]);
    return 2 * count;
}

int case_breathing(const struct case_params *params, struct case_result *result)
{
    struct random random = {1};
    uint64_t target = (uint64_t)params->mib << 20, operations = 0;
    size_t most = mixed_most(target, MIXED_LOW, MIXED_HIGH);
    void **objects = resident_map(most * sizeof(void *));
    double own = (double)resident_bytes();

    for (unsigned i = 0; i < WARM_BREATHS; i++)
        breathing_once(&random, objects, most, target);
    uint64_t faults = resident_faults();
    for (unsigned i = 0; i < params->rounds; i++)
        operations += breathing_once(&random, objects, most, target);
    mixed_report(result, (double)resident_bytes() - own, resident_faults() - faults, operations);
    return 0;
}

#endif
