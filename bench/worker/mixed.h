/* SPDX-License-Identifier: MIT */
/* Objects of 16 to 2048 bytes, uniform, as the memory cases allocate them. */
#ifndef STOOK_BENCH_MIXED_H
#define STOOK_BENCH_MIXED_H

#include "adapter.h"
#include "random.h"

#define MIXED_LOW 16
#define MIXED_HIGH 2048

/* A touched object; its size in *size. */
static inline void *mixed_object(struct random *random, size_t low, size_t high, size_t *size)
{
    *size = random_between(random, low, high);
    volatile char *object = adapter_alloc_size(*size);

    if (!object)
        case_die("an allocation failed");
    object[0] = 1;
    object[*size - 1] = 1;
    return (void *)object;
}

/* How many objects of low to high bytes so many bytes are at most: a uniform sum this long stays far within an eighth. */
static inline size_t mixed_most(uint64_t bytes, size_t low, size_t high)
{
    return (size_t)(bytes / (low + high) * 2 / 8 * 9) + 64;
}

/* As many as `bytes` hold, or as there is room for; how many. */
static inline size_t mixed_fill(struct random *random, void **objects, size_t most, uint64_t bytes)
{
    size_t count = 0, size;

    for (uint64_t live = 0; live < bytes && count < most; live += size)
        objects[count++] = mixed_object(random, MIXED_LOW, MIXED_HIGH, &size);
    return count;
}

/* What became resident since there were `own` bytes, with `faults` in so many operations. */
static inline void mixed_report(struct case_result *result, double resident, uint64_t faults,
                                uint64_t operations)
{
    CASE_SET(result, resident_mib, resident > 0 ? resident / (1 << 20) : 0);
    CASE_SET(result, faults_per_1000, (double)faults * 1000 / (double)operations);
    adapter_report_reserve(result, adapter_reserve());
}

#endif
