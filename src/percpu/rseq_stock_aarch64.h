/* SPDX-License-Identifier: MIT */
/*
 * rseq_stock_aarch64.h - the sections of account/group_stock.h, as rseq_stock_x86_64.h specifies them.
 *
 * The number is loaded with acquire: it pairs with the release of whoever opened the stock on another
 * CPU, whose bytes are read next; a branch in between orders no loads.
 */
#ifndef STOOK_PERCPU_RSEQ_STOCK_AARCH64_H
#define STOOK_PERCPU_RSEQ_STOCK_AARCH64_H

#include "percpu/rseq_aarch64.h"

enum { RSEQ_STOCK_ROW_SHIFT = 15 }; /* of the rows, one a CPU; known to the sections */

/* s = this CPU's stock, if it has the number; else on to label 6. */
#define RSEQ_STOCK_FIND                                                                           \
    "ldrsw %[s], [%[b], #4]\n\t" STOOK_RSEQ_STEP                                                  \
    "tbnz %[s], #63, 6f\n\t"                                                                      \
    "add %[s], %[stock], %[s], lsl #15\n\t" STOOK_RSEQ_STEP /* RSEQ_STOCK_ROW_SHIFT */            \
    "ldar %w[b], [%[s]]\n\t"                                                                      \
    "cmp %w[b], %w[number]\n\t"                                                                   \
    "b.ne 6f\n\t" STOOK_RSEQ_STEP                                                                 \
    "ldr %w[b], [%[s], #4]\n\t" STOOK_RSEQ_STEP

static inline __attribute__((always_inline)) enum rseq_result
rseq_stock_take(void *stock, intptr_t rseq, uint32_t number, uint32_t n)
{
    uintptr_t s, b;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("s", "b")
        RSEQ_STOCK_FIND
        "subs %w[b], %w[b], %w[n]\n\t"
        "b.lo 6f\n\t" STOOK_RSEQ_STEP
        "str %w[b], [%[s], #4]\n"
        "2:\n\t"
        STOOK_RSEQ_EXITS("leave", "aborted")
        : [s] "=&r"(s), [b] "=&r"(b)
        : [stock] "r"(stock), [rseq] "r"(rseq), [number] "r"(number), [n] "r"(n)
        : STOOK_RSEQ_STEP_CLOBBERS "memory", "cc"
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
        STOOK_RSEQ_ARM("s", "b")
        RSEQ_STOCK_FIND
        "add %w[b], %w[b], %w[n]\n\t"
        "cmp %w[b], %w[most]\n\t"
        "b.hi 6f\n\t" STOOK_RSEQ_STEP
        "str %w[b], [%[s], #4]\n"
        "2:\n\t"
        STOOK_RSEQ_EXITS("leave", "aborted")
        : [s] "=&r"(s), [b] "=&r"(b)
        : [stock] "r"(stock), [rseq] "r"(rseq), [number] "r"(number), [n] "r"(n),
          [most] "r"(most)
        : STOOK_RSEQ_STEP_CLOBBERS "memory", "cc"
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
