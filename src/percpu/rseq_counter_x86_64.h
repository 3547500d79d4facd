/* SPDX-License-Identifier: MIT */
/*
 * rseq_counter_x86_64.h - the section of percpu/counter.h:
 *
 *   count:   arm; cpu; if cpu < 0 leave; lines[1 + cpu][word] += 1     <- commits
 */
#ifndef STOOK_PERCPU_RSEQ_COUNTER_X86_64_H
#define STOOK_PERCPU_RSEQ_COUNTER_X86_64_H

#include "percpu/rseq_x86_64.h"

static inline __attribute__((always_inline)) bool rseq_count(void *word, intptr_t rseq)
{
    uintptr_t m;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m")
        "movslq %%fs:4(%[rseq]), %[m]\n\t" STOOK_RSEQ_STEP
        "testq %[m], %[m]\n\t"
        "js %l[leave]\n\t"
        "shlq $6, %[m]\n\t" STOOK_RSEQ_STEP
        "addq $1, 64(%[word], %[m])\n" /* COUNTER_LINE */
        "2:\n\t"
        STOOK_RSEQ_ABORT("leave")
        : [m] "=&r"(m)
        : [word] "r"(word), [rseq] "r"(rseq)
        : "memory", "cc"
        : leave);
    STOOK_RSEQ_EDGE();
    return true;
leave:
    STOOK_RSEQ_EDGE();
    return false;
}

#endif
