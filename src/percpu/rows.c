/* SPDX-License-Identifier: MIT */
/*
 * rows.c - maps and unmaps arrays of words by CPU, and adds them up.
 */
#include "percpu/rows.h"

#include "base/placed.h"

#include "os/os.h"

void *rows_map(unsigned shift)
{
    void *memory = os_map(rows_size(shift));

    return memory ? rows_first(memory, shift) : NULL;
}

void rows_unmap(void *first, unsigned shift)
{
    os_unmap(rows_at(first, shift, ROWS_NO_CPU), rows_size(shift));
}

FIRST_TEXT int rows_atomic_cpu(void)
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

FIRST_TEXT __attribute__((noinline)) void rows_add_slow(uint64_t *word, unsigned shift, uint64_t n)
{
    for (int i = 1; percpu.rseq && i < PERCPU_RETRIES; i++)
        if (rows_try(word, shift, n) == RSEQ_DONE)
            return;
    __atomic_fetch_add((uint64_t *)rows_at(word, shift, rows_atomic_cpu()), n, __ATOMIC_RELAXED);
}

uint64_t rows_sum(const uint64_t *word, unsigned shift)
{
    uint64_t sum = 0;

    for (int cpu = ROWS_NO_CPU; cpu < (int)percpu.rows; cpu++)
        sum += __atomic_load_n((uint64_t *)rows_at(word, shift, cpu), __ATOMIC_RELAXED);
    return sum;
}
