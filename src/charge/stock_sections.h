/* SPDX-License-Identifier: MIT */
/*
 * stock_sections.h - the sections on a CPU's stock of a group (charge/group_stock.h).  percpu/sections.h says what a
 * section is made of.
 */
#ifndef STOOK_CHARGE_STOCK_SECTIONS_H
#define STOOK_CHARGE_STOCK_SECTIONS_H

#include "percpu/sections.h"

#ifdef STOOK_INLINE_SECTIONS

/*
 * take:       arm; cpu; if cpu < 0 leave; s = stock in the cpu's row; if s.number is another leave;
 *             b = s.bytes; if b < n leave; s.bytes = b - n                                 <- commits
 * give:       the same; b = s.bytes + n; if b > most leave; s.bytes = b                    <- commits
 *
 * A stock is {number, bytes}, 4 bytes each.  The thread that closes one stores another number, fences
 * the CPU, and only then reads the bytes.  A section that read the old number has committed before the fence, or
 * never will.  n and most are below 2^31: their sum does not wrap.
 */
SECTION enum rseq_result rseq_take(void *stock, const unsigned shift, intptr_t rseq,
                                   uint32_t number, uint32_t n)
{
    uintptr_t s, b;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("s") STOOK_OP_LOAD_CPU("s") OP_LEAVE_IF_NEGATIVE("s") OP_ROW("s", "stock")
            OP_LEAVE_UNLESS_EQUAL32("s", "number") STOOK_OP_LOAD32("b", "s", "4")
                OP_SUBTRACT_OR_LEAVE("b", "n") STOOK_OP_COMMIT32("b", "s", "4")
                    STOOK_OP_END("aborted")
        : [s] "=&r"(s), [b] "=&r"(b)
        : [stock] "r"(stock), [rseq] "r"(rseq), [number] "r"(number), [n] "r"(n), [shift] "i"(shift)
        : STOOK_OP_CLOBBERS "memory", "cc"
        : leave, aborted);
    SECTION_EXITS((void)0);
}

SECTION enum rseq_result rseq_give(void *stock, const unsigned shift, intptr_t rseq,
                                   uint32_t number, uint32_t n, uint32_t most)
{
    uintptr_t s, b;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("s") STOOK_OP_LOAD_CPU("s") OP_LEAVE_IF_NEGATIVE("s") OP_ROW("s", "stock")
            OP_LEAVE_UNLESS_EQUAL32("s", "number") STOOK_OP_LOAD32("b", "s", "4") OP_ADD("b", "n")
                OP_LEAVE_IF_ABOVE("b", "most") STOOK_OP_COMMIT32("b", "s", "4")
                    STOOK_OP_END("aborted")
        : [s] "=&r"(s), [b] "=&r"(b)
        : [stock] "r"(stock), [rseq] "r"(rseq), [number] "r"(number), [n] "r"(n), [most] "r"(most),
          [shift] "i"(shift)
        : STOOK_OP_CLOBBERS "memory", "cc"
        : leave, aborted);
    SECTION_EXITS((void)0);
}

#else /* they all leave */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
SECTION_NONE(rseq_take, void *stock, unsigned shift, intptr_t rseq, uint32_t number, uint32_t n)
SECTION_NONE(rseq_give, void *stock, unsigned shift, intptr_t rseq, uint32_t number, uint32_t n,
             uint32_t most)
#pragma GCC diagnostic pop

#endif

#endif
