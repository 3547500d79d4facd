/* SPDX-License-Identifier: MIT */
/*
 * rseq_stock_late.h - a take that goes on for an instruction behind its commit, for the test that must
 * see it: a thread interrupted there is told that it has nothing, although the bytes are gone.
 */
#ifndef TESTS_SUPPORT_RSEQ_STOCK_LATE_H
#define TESTS_SUPPORT_RSEQ_STOCK_LATE_H

#if defined(__aarch64__)
#include "percpu/rseq_stock_aarch64.h"
#else
#include "percpu/rseq_stock_x86_64.h"
#endif

static inline __attribute__((always_inline)) enum rseq_result
late_stock_take(void *stock, intptr_t rseq, uint32_t number, uint32_t n)
{
    uintptr_t s, b;

#if defined(__aarch64__)
    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("s", "b")
        RSEQ_STOCK_FIND
        "subs %w[b], %w[b], %w[n]\n\t"
        "b.lo 6f\n\t"
        "str %w[b], [%[s], #4]\n\t"
        "mov %[s], %[s]\n"
        "2:\n\t"
        STOOK_RSEQ_EXITS("leave", "aborted")
        : [s] "=&r"(s), [b] "=&r"(b)
        : [stock] "r"(stock), [rseq] "r"(rseq), [number] "r"(number), [n] "r"(n)
        : STOOK_RSEQ_STEP_CLOBBERS "memory", "cc"
        : leave, aborted);
#else
    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("s")
        "movslq %%fs:4(%[rseq]), %[s]\n\t"
        "shlq $15, %[s]\n\t"
        "addq %[stock], %[s]\n\t"
        "cmpl %[number], (%[s])\n\t"
        "jne %l[leave]\n\t"
        "movl 4(%[s]), %k[b]\n\t"
        "subl %[n], %k[b]\n\t"
        "jb %l[leave]\n\t"
        "movl %k[b], 4(%[s])\n\t"
        "movq %[s], %[s]\n"
        "2:\n\t"
        STOOK_RSEQ_ABORT("aborted")
        : [s] "=&r"(s), [b] "=&r"(b)
        : [stock] "r"(stock), [rseq] "r"(rseq), [number] "r"(number), [n] "r"(n)
        : "memory", "cc"
        : leave, aborted);
#endif
    STOOK_RSEQ_EDGE();
    return RSEQ_DONE;
leave:
    STOOK_RSEQ_EDGE();
    return RSEQ_LEFT;
aborted:
    STOOK_RSEQ_EDGE();
    return RSEQ_ABORTED;
}

#endif
