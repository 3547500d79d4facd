/* SPDX-License-Identifier: MIT */
/*
 * sections.h - the section on rows (percpu/rows.h), and what sections of other layers are written with.
 * Pop and push stand in stook/sections.h, those on slots in sheaf/slot_sections.h, on sums of call sites in
 * site/rows_two.h, on groups' stocks in charge/stock_sections.h.
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
#elif defined(__riscv)
#include "percpu/ops_riscv64.h"
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

#else /* they all leave */

#define SECTION_NONE(name, ...)                                                                    \
    SECTION enum rseq_result name(__VA_ARGS__)                                                     \
    {                                                                                              \
        return RSEQ_LEFT;                                                                          \
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
SECTION_NONE(rseq_add, void *word, unsigned shift, intptr_t rseq, uint64_t n)
#pragma GCC diagnostic pop

#endif

#endif
