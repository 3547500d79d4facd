/* SPDX-License-Identifier: MIT */
/*
 * rows_two.h - two words of a row (percpu/rows.h) that change together: how often a call site allocated or freed, and
 * how many bytes.
 */
#ifndef STOOK_SITE_ROWS_TWO_H
#define STOOK_SITE_ROWS_TWO_H

#include "percpu/rows.h"

#ifdef STOOK_INLINE_SECTIONS

/* add two:    arm; cpu; if cpu < 0 leave; both words of the cpu's row += two               <- commits */
SECTION enum rseq_result rseq_add_two(void *words, intptr_t rseq, op_two two)
{
    uintptr_t m;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m") STOOK_OP_LOAD_CPU("m") OP_LEAVE_IF_NEGATIVE("m") OP_ROW("m", "words")
            OP_COMMIT_ADD_TWO("m", "two") STOOK_OP_END("aborted")
        : [m] "=&r"(m)
        : [words] "r"(words), [rseq] "r"(rseq), OP_INPUT_TWO(two, two), [shift] "i"(ROWS_LARGE)
        : STOOK_OP_CLOBBERS OP_CLOBBERS_TWO "memory", "cc"
        : leave, aborted);
    SECTION_EXITS((void)0);
}

#else /* it leaves */

typedef struct {
    long long count, bytes;
} op_two;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
SECTION_NONE(rseq_add_two, void *words, intptr_t rseq, op_two two)
#pragma GCC diagnostic pop

#endif

void rows_add_two_slow(struct rows_two *two, uint64_t count, uint64_t bytes);

/* Adds to two words at once, so that what is counted is counted once and whole. */
static inline __attribute__((always_inline)) void rows_add_two(struct rows_two *two, uint64_t count,
                                                               uint64_t bytes)
{
    op_two more = {(long long)count, (long long)bytes};

    if (__builtin_expect(percpu.rseq && rseq_add_two(two, percpu.rseq_offset, more) == RSEQ_DONE,
                         1))
        return;
    rows_add_two_slow(two, count, bytes);
}

/* As rows_sum(). */
struct rows_two rows_sum_two(const struct rows_two *two);

#endif
