/* SPDX-License-Identifier: MIT */
/*
 * rows.h - per-CPU arrays of words: counters, sums, stocks and statistics, changed by any thread in any
 * context without an atomic instruction.
 *
 * A row a CPU, 1 << shift bytes apart, for every CPU that there may be; row -1 belongs to no CPU.  An
 * array is named by its word in CPU 0's row.  Its memory is mapped as zeros and touched as it is used:
 * rows of CPUs that the process never runs on cost address space and nothing else.
 *
 * A word is changed by sections on its CPU, or by atomic instructions, never by both.  Where sections do
 * not complete or a thread is not registered, an atomic addition to row -1 does it.  In locked mode it is
 * an atomic addition to the row of the CPU.
 */
#ifndef STOOK_PERCPU_ROWS_H
#define STOOK_PERCPU_ROWS_H

#include "percpu/sections.h"

/* The strides in use. */
enum {
    ROWS_LINE = 6,  /* one cache line: a counter or two */
    ROWS_STAT = 9,  /* all counters of a cache */
    ROWS_LARGE = 15 /* the sums of TAG_CHUNK call sites, the stocks of all groups */
};

enum { ROWS_NO_CPU = -1 };

/* Two sums that change together: how many, and of how many bytes.  site/rows_two.h. */
struct rows_two {
    uint64_t count, bytes;
} __attribute__((aligned(16)));

/* Bytes of an array with all its rows. */
static inline size_t rows_size(unsigned shift)
{
    return ((size_t)percpu.rows + 1) << shift;
}

/* CPU 0's row of an array that begins at `memory`. */
static inline void *rows_first(void *memory, unsigned shift)
{
    return (char *)memory + ((size_t)1 << shift);
}

/* A fresh array; NULL with errno ENOMEM.  And its end. */
void *rows_map(unsigned shift);
void rows_unmap(void *first, unsigned shift);

/* The same word in the row of a CPU. */
static inline void *rows_at(const void *word, unsigned shift, int cpu)
{
    return (void *)((uintptr_t)word + ((uintptr_t)(intptr_t)cpu << shift));
}

/* The row that atomic additions of this thread go to. */
int rows_atomic_cpu(void);

void rows_add_slow(uint64_t *word, unsigned shift, uint64_t n);

/* Adds to this CPU's word.  The shift is a constant. */
static inline __attribute__((always_inline)) void rows_add(uint64_t *word, const unsigned shift,
                                                           uint64_t n)
{
    if (__builtin_expect(percpu.rseq && rseq_add(word, shift, percpu.rseq_offset, n) == RSEQ_DONE,
                         1))
        return;
    rows_add_slow(word, shift, n);
}

/* The sum of a word over all rows: exact for what came before, and for words that only grow never more
 * than what has come. */
uint64_t rows_sum(const uint64_t *word, unsigned shift);

#endif
