/* SPDX-License-Identifier: MIT */
/*
 * rseq_torn.h - the section of percpu/tally.h done wrong, for the test that must see it: the two sums are
 * stored one after the other, so that an interruption finds one of them counted.
 */
#ifndef TESTS_SUPPORT_RSEQ_TORN_H
#define TESTS_SUPPORT_RSEQ_TORN_H

#include "percpu/rseq.h"

static inline __attribute__((always_inline)) bool torn_tally(void *everybody, intptr_t rseq,
                                                             uint64_t count, uint64_t bytes)
{
    uintptr_t m;

#if defined(__aarch64__)
    uintptr_t n;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m", "n")
        "ldrsw %[m], [%[n], #4]\n\t"
        "add %[m], %[everybody], %[m], lsl #15\n\t"
        "add %[m], %[m], #8, lsl #12\n\t"
        "ldr %[n], [%[m]]\n\t"
        "add %[n], %[n], %[count]\n\t"
        "str %[n], [%[m]]\n\t"
        "ldr %[n], [%[m], #8]\n\t"
        "add %[n], %[n], %[bytes]\n\t"
        "str %[n], [%[m], #8]\n"
        "2:\n\t"
        STOOK_RSEQ_EXITS("leave", "leave")
        : [m] "=&r"(m), [n] "=&r"(n)
        : [everybody] "r"(everybody), [rseq] "r"(rseq), [count] "r"(count), [bytes] "r"(bytes)
        : STOOK_RSEQ_STEP_CLOBBERS "memory", "cc"
        : leave);
#else
    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m")
        "movslq %%fs:4(%[rseq]), %[m]\n\t"
        "shlq $15, %[m]\n\t"
        "addq %[count], 0x8000(%[everybody], %[m])\n\t"
        "addq %[bytes], 0x8008(%[everybody], %[m])\n"
        "2:\n\t"
        STOOK_RSEQ_ABORT("leave")
        : [m] "=&r"(m)
        : [everybody] "r"(everybody), [rseq] "r"(rseq), [count] "r"(count), [bytes] "r"(bytes)
        : "memory", "cc"
        : leave);
#endif
    STOOK_RSEQ_EDGE();
    return true;
leave:
    STOOK_RSEQ_EDGE();
    return false;
}

#endif
