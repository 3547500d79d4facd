/* SPDX-License-Identifier: MIT */
/*
 * rseq_tally_x86_64.h - the section of percpu/tally.h:
 *
 *   add:   arm; cpu; if cpu < 0 leave; t = pair[1 + cpu]; t += {count, bytes};
 *          pair[1 + cpu] = t                                          <- commits both
 *
 * The store is one instruction of 16 bytes, aligned: an interruption finds all of it done or nothing.
 */
#ifndef STOOK_PERCPU_RSEQ_TALLY_X86_64_H
#define STOOK_PERCPU_RSEQ_TALLY_X86_64_H

#include "percpu/rseq_x86_64.h"

typedef long long rseq_pair __attribute__((vector_size(16), may_alias));

static inline __attribute__((always_inline)) bool rseq_tally(void *everybody, intptr_t rseq,
                                                             rseq_pair more)
{
    rseq_pair sum;
    uintptr_t m;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m")
        "movslq %%fs:4(%[rseq]), %[m]\n\t" STOOK_RSEQ_STEP
        "testq %[m], %[m]\n\t"
        "js %l[leave]\n\t"
        "shlq $15, %[m]\n\t" STOOK_RSEQ_STEP
        "movdqa 0x8000(%[everybody], %[m]), %[sum]\n\t" STOOK_RSEQ_STEP /* TALLY_STRIDE */
        "paddq %[more], %[sum]\n\t" STOOK_RSEQ_STEP
        "movdqa %[sum], 0x8000(%[everybody], %[m])\n"
        "2:\n\t"
        STOOK_RSEQ_ABORT("leave")
        : [m] "=&r"(m), [sum] "=&x"(sum)
        : [everybody] "r"(everybody), [rseq] "r"(rseq), [more] "x"(more)
        : "memory", "cc"
        : leave);
    STOOK_RSEQ_EDGE();
    return true;
leave:
    STOOK_RSEQ_EDGE();
    return false;
}

#endif
