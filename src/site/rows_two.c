/* SPDX-License-Identifier: MIT */
/*
 * rows_two.c - adding two words where no section does it, and their sum over all rows.
 */
#include "site/rows_two.h"

__attribute__((noinline, cold)) void rows_add_two_slow(struct rows_two *two, uint64_t count,
                                                       uint64_t bytes)
{
    struct rows_two *pair = rows_at(two, ROWS_LARGE, rows_atomic_cpu());

    for (int i = 1; percpu.rseq && i < PERCPU_RETRIES; i++)
        if (rseq_add_two(two, percpu.rseq_offset, (op_two){(long long)count, (long long)bytes}) ==
            RSEQ_DONE)
            return;
    /* Release: an allocation's, before the free's of the same thread.  Pairs with rows_sum_two(). */
    __atomic_fetch_add(&pair->count, count, __ATOMIC_RELEASE);
    __atomic_fetch_add(&pair->bytes, bytes, __ATOMIC_RELEASE);
}

struct rows_two rows_sum_two(const struct rows_two *two)
{
    struct rows_two sum = {0};

    for (int cpu = ROWS_NO_CPU; cpu < (int)percpu.rows; cpu++) {
        const struct rows_two *pair = rows_at(two, ROWS_LARGE, cpu);
        /* In this order: a reader of frees first and then of allocations finds no more frees. */
        sum.count += __atomic_load_n(&pair->count, __ATOMIC_ACQUIRE);
        sum.bytes += __atomic_load_n(&pair->bytes, __ATOMIC_ACQUIRE);
    }
    return sum;
}
