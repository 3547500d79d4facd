/* SPDX-License-Identifier: MIT */
/*
 * rseq_stock_x86_64.h - the sections of account/group_stock.h, on this CPU's stock of a group, which
 * is {number, bytes}, 4 bytes each:
 *
 *   take:   arm; cpu; s = stock + cpu's row; if s.number != number leave;
 *           b = s.bytes; if b < n leave; s.bytes = b - n      <- commits
 *   give:   the same; b = s.bytes + n; if b > most leave; s.bytes = b      <- commits
 *
 * CPU -1 and -2, where threads that are not registered are, have stocks without a number.  Whoever
 * closes a stock stores another number, fences the CPU, and only then reads the bytes: a
 * section that read the old number has committed before the fence, or never will.
 */
#ifndef STOOK_PERCPU_RSEQ_STOCK_X86_64_H
#define STOOK_PERCPU_RSEQ_STOCK_X86_64_H

#include "percpu/rseq_x86_64.h"

enum { RSEQ_STOCK_ROW_SHIFT = 15 }; /* of the rows, one a CPU; known to the sections */

static inline __attribute__((always_inline)) enum rseq_result
rseq_stock_take(void *stock, intptr_t rseq, uint32_t number, uint32_t n)
{
    uintptr_t s, b;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("s")
        "movslq %%fs:4(%[rseq]), %[s]\n\t" STOOK_RSEQ_STEP
        "shlq $15, %[s]\n\t" /* RSEQ_STOCK_ROW_SHIFT */
        "addq %[stock], %[s]\n\t" STOOK_RSEQ_STEP
        "cmpl %[number], (%[s])\n\t"
        "jne %l[leave]\n\t" STOOK_RSEQ_STEP
        "movl 4(%[s]), %k[b]\n\t" STOOK_RSEQ_STEP
        "subl %[n], %k[b]\n\t"
        "jb %l[leave]\n\t" STOOK_RSEQ_STEP
        "movl %k[b], 4(%[s])\n"
        "2:\n\t"
        STOOK_RSEQ_ABORT("aborted")
        : [s] "=&r"(s), [b] "=&r"(b)
        : [stock] "r"(stock), [rseq] "r"(rseq), [number] "r"(number), [n] "r"(n)
        : "memory", "cc"
        : leave, aborted);
    STOOK_RSEQ_EDGE();
    return RSEQ_DONE;
leave:
    STOOK_RSEQ_EDGE();
    return RSEQ_LEFT;
aborted:
    STOOK_RSEQ_EDGE();
    return RSEQ_ABORTED;
}

/* n and most are below 2^31: their sum does not wrap. */
static inline __attribute__((always_inline)) enum rseq_result
rseq_stock_give(void *stock, intptr_t rseq, uint32_t number, uint32_t n, uint32_t most)
{
    uintptr_t s, b;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("s")
        "movslq %%fs:4(%[rseq]), %[s]\n\t" STOOK_RSEQ_STEP
        "shlq $15, %[s]\n\t" /* RSEQ_STOCK_ROW_SHIFT */
        "addq %[stock], %[s]\n\t" STOOK_RSEQ_STEP
        "cmpl %[number], (%[s])\n\t"
        "jne %l[leave]\n\t" STOOK_RSEQ_STEP
        "movl 4(%[s]), %k[b]\n\t" STOOK_RSEQ_STEP
        "addl %[n], %k[b]\n\t"
        "cmpl %[most], %k[b]\n\t"
        "ja %l[leave]\n\t" STOOK_RSEQ_STEP
        "movl %k[b], 4(%[s])\n"
        "2:\n\t"
        STOOK_RSEQ_ABORT("aborted")
        : [s] "=&r"(s), [b] "=&r"(b)
        : [stock] "r"(stock), [rseq] "r"(rseq), [number] "r"(number), [n] "r"(n),
          [most] "r"(most)
        : "memory", "cc"
        : leave, aborted);
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
