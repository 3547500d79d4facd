/* SPDX-License-Identifier: MIT */
/*
 * tag_peak.c - the counts of every site when all of them together had the most.
 *
 * At its end a program has freed nearly everything, and the user wants to know where the memory was.  The path
 * of an object keeps no sum of all sites.  Each thread counts the bytes that it allocated less those that it
 * freed, and reports them when they reach a 64th of the peak.  The sum of these reports drifts: a thread that
 * ends loses its last bytes, and a handler may lose some.  So the true sum is read now and then, and always
 * before a new peak is kept.  The kept peak is within a 32nd of the highest sum that was ever reported.
 */
#include "site/tag.h"

#include "base/raw.h"

#include <stdatomic.h>

enum {
    TAG_PEAK_MIN = 4 << 10, /* bytes that a thread keeps to itself, */
    TAG_PEAK_MAX = 1 << 20, /* at least and at most */
    TAG_PEAK_TOLD = 16,     /* reports after which the true sum is read */
};

__thread int64_t tag_peak_drift;
int64_t tag_peak_limit = TAG_PEAK_MIN;

static struct {
    _Atomic int64_t told; /* about what all have */
    _Atomic unsigned tellings;
    _Atomic int64_t bytes; /* the peak */
    _Atomic int looks;     /* the process whose thread looks; another's: it is not here */
    _Atomic int self; /* the process: asked only now and then, so a child's may be its parent's */
} tag_peaks;

static struct rows_two tag_live(uint32_t tag)
{
    /* Frees first, as everywhere: the difference is not below 0. */
    struct rows_two went = rows_sum_two(&tag_counts_of(tag)->went, ROWS_LARGE);
    struct rows_two came = rows_sum_two(&tag_counts_of(tag)->came, ROWS_LARGE);

    return (struct rows_two){came.count - went.count, came.bytes - went.bytes};
}

static int64_t tag_sum(void)
{
    int64_t sum = 0;

    for (uint32_t tag = 1, made = tag_made(); tag <= made; tag++)
        if (tag_peak_of(tag))
            sum += (int64_t)tag_live(tag).bytes;
    return sum;
}

static void tag_keep(void)
{
    int64_t sum = 0, limit;

    for (uint32_t tag = 1, made = tag_made(); tag <= made; tag++) {
        struct rows_two *peak = tag_peak_of(tag), live;
        if (!peak)
            continue;
        live = tag_live(tag);
        sum += (int64_t)live.bytes;
        if (live.count == 0 && __atomic_load_n(&peak->count, __ATOMIC_RELAXED) == 0)
            continue; /* pages of tags that never had anything stay untouched */
        __atomic_store_n(&peak->count, live.count, __ATOMIC_RELAXED);
        __atomic_store_n(&peak->bytes, live.bytes, __ATOMIC_RELAXED);
    }
    atomic_store_explicit(&tag_peaks.bytes, sum, memory_order_relaxed);
    limit = sum / 64;
    limit = limit < TAG_PEAK_MIN ? TAG_PEAK_MIN : limit > TAG_PEAK_MAX ? TAG_PEAK_MAX : limit;
    __atomic_store_n(&tag_peak_limit, limit, __ATOMIC_RELAXED);
}

/* One thread at a time; a thread that finds another one here leaves the work to it.  Two threads may be here in
 * a child that has not read its process number yet: then the kept counts are partly of either. */
static void tag_look(int64_t more)
{
    int looks = atomic_load_explicit(&tag_peaks.looks, memory_order_relaxed);
    int self = atomic_load_explicit(&tag_peaks.self, memory_order_relaxed);
    int64_t sum;

    if (self == 0 || looks != 0)
        atomic_store_explicit(&tag_peaks.self, self = (int)raw_getpid(), memory_order_relaxed);
    if (looks == self ||
        !atomic_compare_exchange_strong_explicit(&tag_peaks.looks, &looks, self,
                                                 memory_order_acquire, memory_order_relaxed))
        return;
    sum = tag_sum();
    atomic_store_explicit(&tag_peaks.told, sum, memory_order_relaxed);
    if (sum > atomic_load_explicit(&tag_peaks.bytes, memory_order_relaxed) + more)
        tag_keep();
    atomic_store_explicit(&tag_peaks.looks, 0, memory_order_release);
}

__attribute__((noinline, cold)) void tag_peak_told(void)
{
    int64_t drift = tag_peak_drift,
            peak = atomic_load_explicit(&tag_peaks.bytes, memory_order_relaxed);
    int64_t told = atomic_fetch_add_explicit(&tag_peaks.told, drift, memory_order_relaxed) + drift;

    tag_peak_drift = 0;
    if (told > peak + peak / 32 ||
        atomic_fetch_add_explicit(&tag_peaks.tellings, 1, memory_order_relaxed) % TAG_PEAK_TOLD ==
            TAG_PEAK_TOLD - 1)
        tag_look(peak / 32);
}

uint64_t tag_peak(void)
{
    tag_look(0);
    return (uint64_t)atomic_load_explicit(&tag_peaks.bytes, memory_order_relaxed);
}
