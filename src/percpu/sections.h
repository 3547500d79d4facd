/* SPDX-License-Identifier: MIT */
/*
 * sections.h - the sections on rows (percpu/rows.h), each written once, and what sections of other layers
 * are written with.  Pop and push stand in stook/sections.h, those on slots in sheaf/slot_sections.h.
 * An operation is a line of the specification; percpu/ops_*.h and stook/arch/ops_*.h turn it into
 * machine code.
 *
 * Nothing that a section copied counts until its commit, which is its last instruction.  If a
 * section left or was aborted, its caller takes the slow path.  Without sections (other machines, other C
 * libraries, builds with -DSTOOK_RSEQ=OFF) they all leave, so no caller needs an #if.
 */
#ifndef STOOK_PERCPU_SECTIONS_H
#define STOOK_PERCPU_SECTIONS_H

#include "percpu/percpu.h"

enum rseq_result { RSEQ_ABORTED = -1, RSEQ_LEFT = 0, RSEQ_DONE = 1 };

#define SECTION static inline __attribute__((always_inline))

#ifdef STOOK_INLINE_SECTIONS
#if defined(__aarch64__)
#include "percpu/ops_aarch64.h"
#else
#include "percpu/ops_x86_64.h"
#endif

/* Behind the asm goto of a section: what it brings when it has committed, and its two other exits. */
#define SECTION_EXITS(outputs)                                                                    \
    STOOK_SECTION_EDGE();                                                                         \
    outputs;                                                                                      \
    return RSEQ_DONE;                                                                             \
    leave:                                                                                        \
    STOOK_SECTION_EDGE();                                                                         \
    return RSEQ_LEFT;                                                                             \
    aborted:                                                                                      \
    STOOK_SECTION_EDGE();                                                                         \
    return RSEQ_ABORTED

/* add:        arm; cpu; if cpu < 0 leave; the word of the cpu's row += n                   <- commits */
SECTION enum rseq_result rseq_add(void *word, const unsigned shift, intptr_t rseq, uint64_t n)
{
    uintptr_t m;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m")
        STOOK_OP_LOAD_CPU("m")
        OP_LEAVE_IF_NEGATIVE("m")
        OP_ROW("m", "word")
        OP_COMMIT_ADD("m", "n")
        STOOK_OP_END("aborted")
        : [m] "=&r"(m)
        : [word] "r"(word), [rseq] "r"(rseq), [n] "r"(n), [shift] "i"(shift)
        : STOOK_OP_CLOBBERS "memory", "cc"
        : leave, aborted);
    SECTION_EXITS((void)0);
}

/* add two:    arm; cpu; if cpu < 0 leave; both words of the cpu's row += two               <- commits */
SECTION enum rseq_result rseq_add_two(void *words, const unsigned shift, intptr_t rseq, op_two two)
{
    uintptr_t m;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m")
        STOOK_OP_LOAD_CPU("m")
        OP_LEAVE_IF_NEGATIVE("m")
        OP_ROW("m", "words")
        OP_COMMIT_ADD_TWO("m", "two")
        STOOK_OP_END("aborted")
        : [m] "=&r"(m)
        : [words] "r"(words), [rseq] "r"(rseq), OP_INPUT_TWO(two, two), [shift] "i"(shift)
        : STOOK_OP_CLOBBERS OP_CLOBBERS_TWO "memory", "cc"
        : leave, aborted);
    SECTION_EXITS((void)0);
}

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
        STOOK_OP_BEGIN("s")
        STOOK_OP_LOAD_CPU("s")
        OP_LEAVE_IF_NEGATIVE("s")
        OP_ROW("s", "stock")
        OP_LEAVE_UNLESS_EQUAL32("s", "number")
        STOOK_OP_LOAD32("b", "s", "4")
        OP_SUBTRACT_OR_LEAVE("b", "n")
        STOOK_OP_COMMIT32("b", "s", "4")
        STOOK_OP_END("aborted")
        : [s] "=&r"(s), [b] "=&r"(b)
        : [stock] "r"(stock), [rseq] "r"(rseq), [number] "r"(number), [n] "r"(n),
          [shift] "i"(shift)
        : STOOK_OP_CLOBBERS "memory", "cc"
        : leave, aborted);
    SECTION_EXITS((void)0);
}

SECTION enum rseq_result rseq_give(void *stock, const unsigned shift, intptr_t rseq,
                                   uint32_t number, uint32_t n, uint32_t most)
{
    uintptr_t s, b;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("s")
        STOOK_OP_LOAD_CPU("s")
        OP_LEAVE_IF_NEGATIVE("s")
        OP_ROW("s", "stock")
        OP_LEAVE_UNLESS_EQUAL32("s", "number")
        STOOK_OP_LOAD32("b", "s", "4")
        OP_ADD("b", "n")
        OP_LEAVE_IF_ABOVE("b", "most")
        STOOK_OP_COMMIT32("b", "s", "4")
        STOOK_OP_END("aborted")
        : [s] "=&r"(s), [b] "=&r"(b)
        : [stock] "r"(stock), [rseq] "r"(rseq), [number] "r"(number), [n] "r"(n),
          [most] "r"(most), [shift] "i"(shift)
        : STOOK_OP_CLOBBERS "memory", "cc"
        : leave, aborted);
    SECTION_EXITS((void)0);
}

#else /* they all leave */

#define SECTION_NONE(name, ...)                                                                    \
    SECTION enum rseq_result name(__VA_ARGS__)                                                     \
    {                                                                                              \
        return RSEQ_LEFT;                                                                          \
    }

typedef struct {
    long long count, bytes;
} op_two;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
SECTION_NONE(rseq_add, void *word, unsigned shift, intptr_t rseq, uint64_t n)
SECTION_NONE(rseq_add_two, void *words, unsigned shift, intptr_t rseq, op_two two)
SECTION_NONE(rseq_take, void *stock, unsigned shift, intptr_t rseq, uint32_t number, uint32_t n)
SECTION_NONE(rseq_give, void *stock, unsigned shift, intptr_t rseq, uint32_t number, uint32_t n,
             uint32_t most)
#pragma GCC diagnostic pop

#endif

#endif
