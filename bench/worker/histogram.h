/* SPDX-License-Identifier: MIT */
/*
 * Times of single operations, counted: each power of two is divided into HISTOGRAM_PARTS buckets, so a percentile is
 * right to one in sixty-four.  The largest is kept as it was.
 */
#ifndef STOOK_BENCH_HISTOGRAM_H
#define STOOK_BENCH_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_PART_BITS = 6, HISTOGRAM_PARTS = 1 << HISTOGRAM_PART_BITS, HISTOGRAM_POWERS = 42 };

struct histogram {
    uint64_t count[HISTOGRAM_POWERS][HISTOGRAM_PARTS];
    uint64_t total, largest;
};

static inline void histogram_add(struct histogram *histogram, uint64_t time)
{
    unsigned log = time < HISTOGRAM_PARTS
                       ? 0
                       : 63u - (unsigned)__builtin_clzll(time) - HISTOGRAM_PART_BITS + 1;
    uint64_t part = log == 0 ? time : (time >> (log - 1)) - HISTOGRAM_PARTS;

    if (log >= HISTOGRAM_POWERS)
        log = HISTOGRAM_POWERS - 1, part = HISTOGRAM_PARTS - 1;
    histogram->count[log][part]++;
    histogram->total++;
    if (time > histogram->largest)
        histogram->largest = time;
}

/* The least time that a share of all operations does not exceed, to the end of its bucket. */
static inline double histogram_percentile(const struct histogram *histogram, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)histogram->total), seen = 0;

    for (unsigned log = 0; log < HISTOGRAM_POWERS; log++)
        for (uint64_t part = 0; part < HISTOGRAM_PARTS; part++) {
            seen += histogram->count[log][part];
            if (seen > wanted)
                return log == 0 ? (double)part
                                : (double)((part + HISTOGRAM_PARTS + 1) << (log - 1));
        }
    return (double)histogram->largest;
}

static inline void histogram_merge(struct histogram *histogram, const struct histogram *other)
{
    for (unsigned log = 0; log < HISTOGRAM_POWERS; log++)
        for (unsigned part = 0; part < HISTOGRAM_PARTS; part++)
            histogram->count[log][part] += other->count[log][part];
    histogram->total += other->total;
    if (other->largest > histogram->largest)
        histogram->largest = other->largest;
}

#endif
