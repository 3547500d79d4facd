/* SPDX-License-Identifier: MIT */
#include "percpu/tally.h"

static struct tally *tally_at(const struct tally *everybody, unsigned row)
{
    return (struct tally *)((uintptr_t)everybody + ((uintptr_t)row << TALLY_SHIFT));
}

__attribute__((noinline, cold)) void tally_add_slow(struct tally *everybody, uint64_t count,
                                                    uint64_t bytes)
{
    int cpu = percpu.rseq ? -1 : percpu_cpu();
    struct tally *pair = tally_at(everybody, (unsigned)((cpu < 0 ? -1 : cpu) + 1));

#if TALLY_HAS_SECTIONS
    for (int i = 1; percpu.rseq && i < PERCPU_RETRIES; i++)
        if (rseq_tally(everybody, percpu.rseq_offset, tally_pair(count, bytes)))
            return;
#endif
    /* Release: an allocation's, before the free's of the same thread.  Pairs with tally_read(). */
    __atomic_fetch_add(&pair->count, count, __ATOMIC_RELEASE);
    __atomic_fetch_add(&pair->bytes, bytes, __ATOMIC_RELEASE);
}

struct tally tally_read(const struct tally *everybody)
{
    struct tally sum = {0};

    for (unsigned row = 0; row <= percpu.rows; row++) {
        const struct tally *pair = tally_at(everybody, row);
        /* In this order: who reads frees first and then allocations finds no more frees. */
        sum.count += __atomic_load_n(&pair->count, __ATOMIC_ACQUIRE);
        sum.bytes += __atomic_load_n(&pair->bytes, __ATOMIC_ACQUIRE);
    }
    return sum;
}
