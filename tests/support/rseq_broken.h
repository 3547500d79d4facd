/* SPDX-License-Identifier: MIT */
/*
 * rseq_broken.h - sections that break a rule of the protocol, for the tests that must see it.
 *
 * close_late breaks rule 1: the section goes on for two harmless instructions behind the
 * cmpxchg.  A thread interrupted there is sent to the abort exit although it has closed the slot.
 * take_late goes on behind the commit of a stock's take: a thread interrupted there gets nothing,
 * although the bytes are gone.  add_two_torn stores the two sums one after the other, so
 * that an interruption finds one of them counted.
 */
#ifndef TESTS_SUPPORT_RSEQ_BROKEN_H
#define TESTS_SUPPORT_RSEQ_BROKEN_H

#include "sheaf/slot_sections.h"

#if defined(__aarch64__)
#define BROKEN_SWAP_LATE                                                                           \
    "ldaxr %[m], [%[slot]]\n\t"                                                                    \
    "cmp %[m], %[closed]\n\t"                                                                      \
    "b.eq 6f\n\t"                                                                                  \
    "stxr w14, %[closed], [%[slot]]\n\t"                                                           \
    "cbnz w14, 5f\n\t" STOOK_OP_STEP                                                               \
    "mov %[m], %[m]\n"                                                                             \
    "2:\n\t"
#define BROKEN_COMMIT32_LATE(from, at, offset)                                                     \
    "str %w[" from "], [%[" at "], #" offset "]\n\t"                                               \
    "mov %[" at "], %[" at "]\n"                                                                   \
    "2:\n\t"
#define BROKEN_ADD_TORN                                                                            \
    "ldr x14, [%[m]]\n\t"                                                                          \
    "add x14, x14, %[count]\n\t"                                                                   \
    "str x14, [%[m]]\n\t"                                                                          \
    "ldr x14, [%[m], #8]\n\t"                                                                      \
    "add x14, x14, %[bytes]\n\t"                                                                   \
    "str x14, [%[m], #8]\n"                                                                        \
    "2:\n\t"
#elif defined(__riscv)
#define BROKEN_SWAP_LATE                                                                           \
    "lr.d.aq %[m], (%[slot])\n\t"                                                                  \
    "beq %[m], %[closed], 6f\n\t"                                                                  \
    "sc.d t1, %[closed], (%[slot])\n\t"                                                            \
    "bnez t1, 5f\n\t" STOOK_OP_STEP                                                                \
    "mv %[m], %[m]\n"                                                                              \
    "2:\n\t"
#define BROKEN_COMMIT32_LATE(from, at, offset)                                                     \
    "sw %[" from "], " offset "(%[" at "])\n\t"                                                    \
    "mv %[" at "], %[" at "]\n"                                                                    \
    "2:\n\t"
#define BROKEN_ADD_TORN                                                                            \
    "ld t1, (%[m])\n\t"                                                                            \
    "add t1, t1, %[count]\n\t"                                                                     \
    "sd t1, (%[m])\n\t"                                                                            \
    "ld t1, 8(%[m])\n\t"                                                                           \
    "add t1, t1, %[bytes]\n\t"                                                                     \
    "sd t1, 8(%[m])\n"                                                                             \
    "2:\n\t"
#else
#define BROKEN_SWAP_LATE                                                                           \
    "movq (%[slot]), %%rax\n\t"                                                                    \
    "cmpq %[closed], %%rax\n\t"                                                                    \
    "je %l[leave]\n\t"                                                                             \
    "movq %%rax, %[m]\n\t"                                                                         \
    "lock cmpxchgq %[closed], (%[slot])\n\t"                                                       \
    "jne %l[leave]\n\t" STOOK_OP_STEP                                                              \
    "movq %[m], %[m]\n"                                                                            \
    "2:\n\t"
#define BROKEN_COMMIT32_LATE(from, at, offset)                                                     \
    "movl %k[" from "], " offset "(%[" at "])\n\t"                                                 \
    "movq %[" at "], %[" at "]\n"                                                                  \
    "2:\n\t"
#define BROKEN_ADD_TORN                                                                            \
    "addq %[count], (%[m])\n\t"                                                                    \
    "addq %[bytes], 8(%[m])\n"                                                                     \
    "2:\n\t"
#endif

static inline __attribute__((always_inline)) enum rseq_result
broken_close_late(void *slot, intptr_t rseq, int cpu, const void *closed, void **begin)
{
    void *m;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m")
        OP_ABORT_UNLESS_CPU("cpu")
        OP_STORE_NULL("slot", "16")
        BROKEN_SWAP_LATE
        STOOK_OP_END("aborted")
        : [m] "=&r"(m)
        : [slot] "r"(slot), [rseq] "r"(rseq), [cpu] "r"(cpu), [closed] "r"(closed)
        : STOOK_OP_CLOBBERS OP_CLOBBERS_SWAP "memory", "cc"
        : leave, aborted);
    SECTION_EXITS(*begin = m);
}

static inline __attribute__((always_inline)) enum rseq_result
broken_take_late(void *stock, const unsigned shift, intptr_t rseq, uint32_t number, uint32_t n)
{
    uintptr_t s, b;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("s")
        STOOK_OP_LOAD_CPU("s")
        OP_LEAVE_IF_NEGATIVE("s")
        OP_ROW("s", "stock")
        OP_LEAVE_UNLESS_EQUAL32("s", "number")
        STOOK_OP_LOAD32("b", "s", "4")
        OP_SUBTRACT_OR_LEAVE("b", "n")
        BROKEN_COMMIT32_LATE("b", "s", "4")
        STOOK_OP_END("aborted")
        : [s] "=&r"(s), [b] "=&r"(b)
        : [stock] "r"(stock), [rseq] "r"(rseq), [number] "r"(number), [n] "r"(n),
          [shift] "i"(shift)
        : STOOK_OP_CLOBBERS "memory", "cc"
        : leave, aborted);
    SECTION_EXITS((void)0);
}

static inline __attribute__((always_inline)) enum rseq_result
broken_add_two_torn(void *words, const unsigned shift, intptr_t rseq, uint64_t count,
                    uint64_t bytes)
{
    uintptr_t m;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m")
        STOOK_OP_LOAD_CPU("m")
        OP_LEAVE_IF_NEGATIVE("m")
        OP_ROW("m", "words")
        BROKEN_ADD_TORN
        STOOK_OP_END("aborted")
        : [m] "=&r"(m)
        : [words] "r"(words), [rseq] "r"(rseq), [count] "r"(count), [bytes] "r"(bytes),
          [shift] "i"(shift)
        : STOOK_OP_CLOBBERS "memory", "cc"
        : leave, aborted);
    SECTION_EXITS((void)0);
}

#endif
