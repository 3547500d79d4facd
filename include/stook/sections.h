/* SPDX-License-Identifier: MIT */
/*
 * sections.h - the pop and push sections, shared by the inlined fast path and the library.
 *
 * A slot begins with three pointers to its main sheaf's array of pointers: to its begin (at 0), behind its last
 * object (`top`, 8), and behind its last place (`end`, 16).
 *
 *   pop:   arm; cpu; slot; b = slot.begin; t = slot.top; if t <= b leave; o = t[-1]; slot.top = t - 1  <- commits
 *   push:  arm; cpu; slot; e = slot.end; t = slot.top; if e <= t leave; *t = o; slot.top = t + 1       <- commits
 *
 * The store that arms is the last instruction before the section, the committing store its last.
 * `begin` and `end` are gates, and are loaded before top: the thread that opens a slot, perhaps on another
 * CPU, stores top first.  In a slot that has no sheaf all three are NULL, and both leave.  In a closed one no top is
 * above `begin`, which is the highest address, nor below `end`, which is NULL.
 * A thread that is not registered has the CPU number -1 or -2: there are areas for those, as for
 * every possible CPU.  An area begins as zero pages.
 * An aborted section leaves by the cold exit; the slow path retries (a bounded number of times:
 * a single-stepped section never completes).
 *
 * Each section is written once, in the operations that stook/arch/ops_*.h turn into machine code.
 */
#ifndef STOOK_INLINE_H
#include <stook/inline.h> /* which includes this file in turn */
#endif
#ifndef STOOK_SECTIONS_H
#define STOOK_SECTIONS_H

#if defined(__aarch64__)
#include <stook/arch/ops_aarch64.h>
#elif defined(__riscv)
#include <stook/arch/ops_riscv64.h>
#else
#include <stook/arch/ops_x86_64.h>
#endif

#include <stdint.h>

/*
 * Stands behind every section and first at every label it jumps to.  It works around PR 113921 of GCC before
 * 14.1, 13.3, 12.4 and 11.5.  These copy the outputs of an asm goto on the same edge as the values of the next
 * block's PHIs, and after them.  Without this, -O1 made "busy" return the main sheaf.  A statement that is
 * not moved keeps the two on different edges.
 */
#define STOOK_SECTION_EDGE() __asm__ __volatile__("")

/*
 * Pop clobbers no memory, so that a loop may keep the cache's head in registers across it: no C code of the
 * caller reads the memory that it writes.  Push clobbers memory.  Otherwise GCC could move a load from the
 * object behind the section, to where its value is used, when another thread already owns the object.
 * (Tests that read sheaves define STOOK_SECTION_CLOBBERS.)
 */
#ifndef STOOK_SECTION_CLOBBERS
#define STOOK_SECTION_CLOBBERS
#endif

/* Takes the top object of this CPU's main sheaf; 0 when empty, closed or aborted. */
STOOK_INLINE __attribute__((always_inline)) int
stook_rseq_pop(const void *slots, intptr_t rseq, void **taken)
{
    uintptr_t m, t;
    void *object;

    /* What `object` holds first is begin. */
    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m")
        STOOK_OP_LOAD_CPU("m")
        STOOK_OP_ROW("m", "slots", STOOK_AREA_SHIFT)
        STOOK_OP_LOAD_GATE("object", "m", "0")
        STOOK_OP_LOAD("t", "m", "8")
        STOOK_OP_LEAVE_UNLESS_ABOVE("t", "object")
        STOOK_OP_TAKE_BELOW("object", "t")
        STOOK_OP_COMMIT("t", "m", "8")
        STOOK_OP_END("leave")
        : [m] "=&r"(m), [t] "=r"(t), [object] "=r"(object)
        : [slots] "r"(slots), [rseq] "r"(rseq)
        : STOOK_SECTION_CLOBBERS STOOK_OP_CLOBBERS "cc"
        : leave);
    STOOK_SECTION_EDGE();
    *taken = object;
    return 1;
leave:
    STOOK_SECTION_EDGE();
    return 0;
}

/* Puts an object on this CPU's main sheaf; 0 when full, closed or aborted. */
STOOK_INLINE __attribute__((always_inline)) int
stook_rseq_push(const void *slots, intptr_t rseq, void *object)
{
    uintptr_t m, t, end;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m")
        STOOK_OP_LOAD_CPU("m")
        STOOK_OP_ROW("m", "slots", STOOK_AREA_SHIFT)
        STOOK_OP_LOAD_GATE("end", "m", "16")
        STOOK_OP_LOAD("t", "m", "8")
        STOOK_OP_LEAVE_UNLESS_ABOVE("end", "t")
        STOOK_OP_PUT_AT("object", "t")
        STOOK_OP_COMMIT("t", "m", "8")
        STOOK_OP_END("leave")
        : [m] "=&r"(m), [t] "=&r"(t), [end] "=&r"(end)
        : [slots] "r"(slots), [rseq] "r"(rseq), [object] "r"(object)
        : STOOK_OP_CLOBBERS "memory", "cc"
        : leave);
    STOOK_SECTION_EDGE();
    return 1;
leave:
    STOOK_SECTION_EDGE();
    return 0;
}

#endif /* STOOK_SECTIONS_H */
