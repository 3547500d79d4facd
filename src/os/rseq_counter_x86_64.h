/* SPDX-License-Identifier: MIT */
/*
 * rseq_counter_x86_64.h - the section of os/counter.h:
 *
 *   add:   arm; cpu; if cpu < 0 leave; words[1 + cpu] += n     <- commits
 */
#ifndef STOOK_OS_RSEQ_COUNTER_X86_64_H
#define STOOK_OS_RSEQ_COUNTER_X86_64_H

#include "os/rseq_x86_64.h"

static inline __attribute__((always_inline)) bool rseq_add(void *words, intptr_t rseq,
                                                                  int64_t n)
{
    uintptr_t m;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m")
        "movslq %%fs:4(%[rseq]), %[m]\n\t" STOOK_RSEQ_STEP
        "testq %[m], %[m]\n\t"
        "js %l[leave]\n\t"
        "shlq $6, %[m]\n\t" STOOK_RSEQ_STEP
        "addq %[n], 64(%[words], %[m])\n" /* COUNTER_LINE */
        "2:\n\t"
        STOOK_RSEQ_ABORT("leave")
        : [m] "=&r"(m)
        : [words] "r"(words), [rseq] "r"(rseq), [n] "er"(n)
        : "memory", "cc"
        : leave);
    STOOK_RSEQ_EDGE();
    return true;
leave:
    STOOK_RSEQ_EDGE();
    return false;
}

#endif
