/* SPDX-License-Identifier: MIT */
/*
 * rseq_broken.h - sections that break a rule of the protocol, for the tests that must see it.
 *
 * close_late breaks rule 1: the section goes on for two harmless instructions behind the
 * cmpxchg.  A thread interrupted there is sent to the abort exit although it has closed the slot.
 */
#ifndef TESTS_SUPPORT_RSEQ_BROKEN_H
#define TESTS_SUPPORT_RSEQ_BROKEN_H

#include <stook/inline.h>

#include "percpu/rseq.h"

static inline __attribute__((always_inline)) enum rseq_result
broken_close_late(const void *slots, intptr_t rseq, const void *closed, void **at, void **main)
{
    void *s, *m;

#if defined(__aarch64__)
    uintptr_t self;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("s", "self")
        STOOK_RSEQ_SLOT("s", "self")
        "ldaxr %[m], [%[s]]\n\t"
        "cmp %[m], %[closed]\n\t"
        "b.eq 6f\n\t"
        "stxr %w[self], %[closed], [%[s]]\n\t"
        "cbnz %w[self], 5f\n\t" STOOK_RSEQ_STEP
        "mov %[s], %[s]\n"
        "2:\n\t"
        STOOK_RSEQ_EXITS("busy", "aborted")
        : [s] "=&r"(s), [m] "=&r"(m), [self] "=&r"(self)
        : [slots] "r"(slots), [rseq] "r"(rseq), [closed] "r"(closed)
        : STOOK_RSEQ_STEP_CLOBBERS "memory", "cc"
        : busy, aborted);
#else
    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("s")
        "movslq %%fs:4(%[rseq]), %[s]\n\t"
        "shlq $" STOOK_RSEQ_STRING(STOOK_AREA_SHIFT) ", %[s]\n\t"
        "addq %[slots], %[s]\n\t"
        "movq (%[s]), %%rax\n\t"
        "cmpq %[closed], %%rax\n\t"
        "je %l[busy]\n\t"
        "movq %%rax, %[m]\n\t"
        "lock cmpxchgq %[closed], (%[s])\n\t"
        "jne %l[busy]\n\t" STOOK_RSEQ_STEP
        "movq %[s], %[s]\n"
        "2:\n\t"
        STOOK_RSEQ_ABORT("aborted")
        : [s] "=&r"(s), [m] "=&r"(m)
        : [slots] "r"(slots), [rseq] "r"(rseq), [closed] "r"(closed)
        : "memory", "cc", "rax"
        : busy, aborted);
#endif
    STOOK_RSEQ_EDGE();
    *at = s;
    *main = m;
    return RSEQ_DONE;
busy:
    STOOK_RSEQ_EDGE();
    return RSEQ_LEFT;
aborted:
    STOOK_RSEQ_EDGE();
    return RSEQ_ABORTED;
}

#endif
