/* SPDX-License-Identifier: MIT */
/*
 * large: buffers of about `object_size` bytes, n of them live: the oldest is freed, and a new one allocated.  By the
 * case their sizes are all the same, two in turns, growing, or random from a fifth of the mean up to nine fifths.  They
 * are left untouched, or a byte of each page is written, as by a program that fills its buffers.  The case times
 * a program that has had some hundred buffers already; the peak is that of all of them.
 */
#include "../worker/adapter.h"

#if ADAPTER_ANY_SIZE

#include <sys/resource.h>

#include "../worker/random.h"
#include "../worker/resident.h"
#include "../worker/timing.h"

#define LIVE_MAX 64
#define PAGE 4096
#define WARM 500     /* buffers before the first that is timed */
#define GROWING 4096 /* buffers from the smallest size to the largest */

enum large_sizes { LARGE_FIXED, LARGE_ALTERNATING, LARGE_GROWING, LARGE_RANDOM };

struct large {
    enum large_sizes sizes;
    size_t mean, live;
    int touched;
    struct random random;
    volatile char *object[LIVE_MAX];
};

static size_t large_size(struct large *large, uint64_t i)
{
    size_t low = large->mean / 5, span = large->mean / 5 * 8;

    switch (large->sizes) {
    case LARGE_ALTERNATING:
        return i % 2 ? low + span : low;
    case LARGE_GROWING:
        return low + span / GROWING * (i % GROWING);
    case LARGE_RANDOM:
        return low + random_below(&large->random, (uint32_t)span);
    default:
        return large->mean;
    }
}

static uint64_t large_round(void *context, uint64_t count)
{
    struct large *large = context;
    uint64_t start = timing_now();

    for (uint64_t i = 0; i < count; i++) {
        size_t size = large_size(large, i);
        volatile char **object = &large->object[i % large->live];
        adapter_free_any((void *)*object);
        *object = adapter_alloc_size(size);
        if (!*object)
            case_die("an allocation failed");
        for (size_t at = 0; large->touched && at < size; at += PAGE)
            (*object)[at] = 1;
    }
    return timing_now() - start;
}

static double large_peak(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

static int large_run(const struct case_params *params, struct case_result *result,
                     enum large_sizes sizes)
{
    static struct large large;
    double own = large_peak();
    uint64_t faults;

    if (params->n == 0 || params->n > LIVE_MAX)
        case_die("n is not from 1 to 64");
    large = (struct large){.sizes = sizes,
                           .mean = params->object_size,
                           .live = params->n,
                           .touched = params->mode != MODE_UNTOUCHED,
                           .random = {1}};
    (void)large_round(&large, WARM);
    CASE_SET(result, pair_ns, timing_median(large_round, &large, params->ms, params->rounds));
    faults = resident_faults();
    (void)large_round(&large, 1000);
    CASE_SET(result, faults_per_1000, (double)(resident_faults() - faults));
    CASE_SET(result, resident_mib, large_peak() - own);
    return 0;
}

int case_large_fixed(const struct case_params *params, struct case_result *result)
{
    return large_run(params, result, LARGE_FIXED);
}

int case_large_alternating(const struct case_params *params, struct case_result *result)
{
    return large_run(params, result, LARGE_ALTERNATING);
}

int case_large_growing(const struct case_params *params, struct case_result *result)
{
    return large_run(params, result, LARGE_GROWING);
}

int case_large_random(const struct case_params *params, struct case_result *result)
{
    return large_run(params, result, LARGE_RANDOM);
}

#endif
