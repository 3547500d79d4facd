/* SPDX-License-Identifier: MIT */
/*
 * sections.h - the pop and push sections, shared by the inlined fast path and the library.
 *
 *   pop:   arm; cpu; m = main of the slot in the cpu's area; if m is NULL leave; n = m.size;
 *          if n == 0 leave; o = m.object[n-1]; m.size = n-1  <- commits
 *   push:  arm; cpu; m; if m is NULL leave; n = m.size; if n >= m.capacity leave;
 *          m.object[n] = o; m.size += 1  <- commits
 *
 * The store that arms is the last instruction before the section, the committing store its last.
 * A thread that is not registered has the CPU number -1 or -2: there are areas for those, as for
 * every possible CPU.  An area begins as zero pages, so a slot that no thread has installed a sheaf in
 * has no main sheaf.  The main sheaf of a closed slot is empty to a pop and full to a push.
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
    uintptr_t m, n;
    void *object;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m")
        STOOK_OP_LOAD_CPU("m")
        STOOK_OP_LOAD_ROW("m", "slots", STOOK_AREA_SHIFT)
        STOOK_OP_LEAVE_IF_NULL("m")
        STOOK_OP_LOAD32("n", "m", "8")
        STOOK_OP_DECREMENT_OR_LEAVE("n")
        STOOK_OP_LOAD_ELEMENT("object", "m", "n", "16")
        STOOK_OP_COMMIT32("n", "m", "8")
        STOOK_OP_END("leave")
        : [m] "=&r"(m), [n] "=&r"(n), [object] "=r"(object)
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
    uintptr_t m, n;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m")
        STOOK_OP_LOAD_CPU("m")
        STOOK_OP_LOAD_ROW("m", "slots", STOOK_AREA_SHIFT)
        STOOK_OP_LEAVE_IF_NULL("m")
        STOOK_OP_LOAD32("n", "m", "8")
        STOOK_OP_LEAVE_UNLESS_BELOW("n", "m", "12")
        STOOK_OP_STORE_ELEMENT("object", "m", "n", "16")
        STOOK_OP_COMMIT_INCREMENT("n", "m", "8")
        STOOK_OP_END("leave")
        : [m] "=&r"(m), [n] "=&r"(n)
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
