/* SPDX-License-Identifier: MIT */
#include "percpu/rows.h"

#include "base/report.h"
#include "os/os.h"

void *rows_map(unsigned shift)
{
    void *memory = os_map(rows_size(shift));

    return memory ? rows_first(memory, shift) : NULL;
}

void rows_unmap(void *first, unsigned shift)
{
    os_unmap(rows_memory(first, shift), rows_size(shift));
}

/* The row that atomic additions of this thread go to. */
static int rows_atomic_cpu(void)
{
    int cpu = percpu.rseq ? ROWS_NO_CPU : percpu_cpu();

    return cpu < 0 ? ROWS_NO_CPU : cpu;
}

/* A section per shift: it is a constant of the instruction. */
static enum rseq_result rows_try(uint64_t *word, unsigned shift, uint64_t n)
{
    return shift == ROWS_LINE ? rseq_add(word, ROWS_LINE, percpu.rseq_offset, n)
                              : rseq_add(word, ROWS_LARGE, percpu.rseq_offset, n);
}

__attribute__((noinline, cold)) void rows_add_slow(uint64_t *word, unsigned shift, uint64_t n)
{
    for (int i = 1; percpu.rseq && i < PERCPU_RETRIES; i++)
        if (rows_try(word, shift, n) == RSEQ_DONE)
            return;
    __atomic_fetch_add((uint64_t *)rows_at(word, shift, rows_atomic_cpu()), n, __ATOMIC_RELAXED);
}

__attribute__((noinline, cold)) void rows_add_two_slow(struct rows_two *two, unsigned shift,
                                                       uint64_t count, uint64_t bytes)
{
    struct rows_two *pair = rows_at(two, shift, rows_atomic_cpu());

    STOOK_ASSERT(shift == ROWS_LARGE);
    for (int i = 1; percpu.rseq && i < PERCPU_RETRIES; i++)
        if (rseq_add_two(two, ROWS_LARGE, percpu.rseq_offset,
                         (op_two){(long long)count, (long long)bytes}) == RSEQ_DONE)
            return;
    /* Release: an allocation's, before the free's of the same thread.  Pairs with rows_sum_two(). */
    __atomic_fetch_add(&pair->count, count, __ATOMIC_RELEASE);
    __atomic_fetch_add(&pair->bytes, bytes, __ATOMIC_RELEASE);
}

uint64_t rows_sum(const uint64_t *word, unsigned shift)
{
    uint64_t sum = 0;

    for (int cpu = ROWS_NO_CPU; cpu < (int)percpu.rows; cpu++)
        sum += __atomic_load_n((uint64_t *)rows_at(word, shift, cpu), __ATOMIC_RELAXED);
    return sum;
}

struct rows_two rows_sum_two(const struct rows_two *two, unsigned shift)
{
    struct rows_two sum = {0};

    for (int cpu = ROWS_NO_CPU; cpu < (int)percpu.rows; cpu++) {
        const struct rows_two *pair = rows_at(two, shift, cpu);
        /* In this order: a reader of frees first and then of allocations finds no more frees. */
        sum.count += __atomic_load_n(&pair->count, __ATOMIC_ACQUIRE);
        sum.bytes += __atomic_load_n(&pair->bytes, __ATOMIC_ACQUIRE);
    }
    return sum;
}
