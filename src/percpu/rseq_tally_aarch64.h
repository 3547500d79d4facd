/* SPDX-License-Identifier: MIT */
/*
 * rseq_tally_aarch64.h - the section of percpu/tally.h, as rseq_tally_x86_64.h specifies it.
 *
 * A store of two registers may be interrupted between them; a store-exclusive pair is done or not,
 * on any CPU, and its status is looked at behind the section.  It is a release: who reads frees
 * first and then allocations finds no more frees, of one thread's too.
 */
#ifndef STOOK_PERCPU_RSEQ_TALLY_AARCH64_H
#define STOOK_PERCPU_RSEQ_TALLY_AARCH64_H

#include "percpu/rseq_aarch64.h"

typedef struct __attribute__((may_alias)) {
    long long count, bytes;
} rseq_pair;

static inline __attribute__((always_inline)) bool rseq_tally(void *everybody, intptr_t rseq,
                                                             rseq_pair more)
{
    uintptr_t m, n;
    uint64_t counted, sum;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m", "n")
        "ldrsw %[m], [%[n], #4]\n\t" STOOK_RSEQ_STEP
        "tbnz %[m], #63, 6f\n\t"
        "add %[m], %[everybody], %[m], lsl #15\n\t"
        "add %[m], %[m], #8, lsl #12\n\t" STOOK_RSEQ_STEP /* TALLY_STRIDE */
        "ldxp %[counted], %[sum], [%[m]]\n\t"
        "add %[counted], %[counted], %[count]\n\t"
        "add %[sum], %[sum], %[bytes]\n\t"
        "stlxp %w[n], %[counted], %[sum], [%[m]]\n"
        "2:\n\t"
        "cbnz %w[n], 5f\n\t"
        STOOK_RSEQ_EXITS("leave", "leave")
        : [m] "=&r"(m), [n] "=&r"(n), [counted] "=&r"(counted), [sum] "=&r"(sum)
        : [everybody] "r"(everybody), [rseq] "r"(rseq), [count] "r"(more.count),
          [bytes] "r"(more.bytes)
        : STOOK_RSEQ_STEP_CLOBBERS "memory", "cc"
        : leave);
    STOOK_RSEQ_EDGE();
    return true;
leave:
    STOOK_RSEQ_EDGE();
    return false;
}

#endif
