/* SPDX-License-Identifier: MIT */
/*
 * rseq_counter_aarch64.h - the section of percpu/counter.h, as rseq_counter_x86_64.h specifies it.
 */
#ifndef STOOK_PERCPU_RSEQ_COUNTER_AARCH64_H
#define STOOK_PERCPU_RSEQ_COUNTER_AARCH64_H

#include "percpu/rseq_aarch64.h"

static inline __attribute__((always_inline)) bool rseq_count(void *word, intptr_t rseq)
{
    uintptr_t m, n;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m", "n")
        "ldrsw %[m], [%[n], #4]\n\t" STOOK_RSEQ_STEP
        "tbnz %[m], #63, 6f\n\t"
        "add %[m], %[word], %[m], lsl #6\n\t" STOOK_RSEQ_STEP
        "ldr %[n], [%[m], #64]\n\t" STOOK_RSEQ_STEP /* COUNTER_LINE */
        "add %[n], %[n], #1\n\t"
        "str %[n], [%[m], #64]\n"
        "2:\n\t"
        STOOK_RSEQ_EXITS("leave", "leave")
        : [m] "=&r"(m), [n] "=&r"(n)
        : [word] "r"(word), [rseq] "r"(rseq)
        : STOOK_RSEQ_STEP_CLOBBERS "memory", "cc"
        : leave);
    STOOK_RSEQ_EDGE();
    return true;
leave:
    STOOK_RSEQ_EDGE();
    return false;
}

#endif
