/* SPDX-License-Identifier: MIT */
/*
 * rseq_x86_64.h - the pop and push sections, shared by the inlined fast path and the library.
 *
 *   pop:   arm; cpu; slot = area(cpu) + the cache's offset; m = slot.main; n = m.size;
 *          if n == 0 leave; o = m.object[n-1]; m.size = n-1  <- commits
 *   push:  arm; cpu; slot; m = slot.main; n = m.size; if n >= m.capacity leave;
 *          m.object[n] = o; m.size = n+1  <- commits
 *
 * The store that arms is the last instruction before the section, the committing store its last.
 * A thread that is not registered has the CPU number -1 or -2: there are areas for those, as for
 * every possible CPU, and a slot that nobody has installed a sheaf in holds one that is empty to a
 * pop and full to a push.  So there is nothing to test.
 * An aborted section leaves by the cold exit; the slow path retries (a bounded number of times:
 * a single-stepped section never completes).
 */
#ifndef STOOK_INLINE_H
#include <stook/inline.h> /* which includes this file in turn */
#endif
#ifndef STOOK_ARCH_RSEQ_X86_64_H
#define STOOK_ARCH_RSEQ_X86_64_H

#include <stdint.h>

#define STOOK_RSEQ_SIG 0x53053053 /* glibc's RSEQ_SIG on x86 */

#define STOOK_RSEQ_STRING_(text) #text
#define STOOK_RSEQ_STRING(text) STOOK_RSEQ_STRING_(text)

/*
 * Between the steps: empty, but in tests, which spin there to widen every window.  Flags are dead
 * at each; whatever stands there may only write memory (the section can end at any point).
 */
#ifndef STOOK_RSEQ_STEP
#define STOOK_RSEQ_STEP ""
#endif

/*
 * The critical section's descriptor: from local label 1 up to 2, aborting to 4.  "?": a section
 * that is discarded with its COMDAT group takes its descriptor and its abort exit along.
 */
#define STOOK_RSEQ_DESCRIPTOR                                                                     \
    ".pushsection __rseq_cs, \"aw?\"\n\t"                                                          \
    ".balign 32\n"                                                                                \
    "3:\n\t"                                                                                      \
    ".long 0, 0\n\t"                                                                              \
    ".quad 1f, (2f - 1f), 4f\n\t"                                                                 \
    ".popsection\n\t"
#define STOOK_RSEQ_ARM(tmp)                                                                       \
    "leaq 3b(%%rip), %[" tmp "]\n\t"                                                              \
    "movq %[" tmp "], %%fs:8(%[rseq])\n"                                                          \
    "1:\n\t" STOOK_RSEQ_STEP
/* tmp = the main sheaf of this CPU's slot. */
#define STOOK_RSEQ_MAIN(tmp)                                                                      \
    "movslq %%fs:4(%[rseq]), %[" tmp "]\n\t" STOOK_RSEQ_STEP                                      \
    "shlq $" STOOK_RSEQ_STRING(STOOK_AREA_SHIFT) ", %[" tmp "]\n\t"                               \
    "movq (%[slots], %[" tmp "]), %[" tmp "]\n\t" STOOK_RSEQ_STEP
#define STOOK_RSEQ_ABORT(label)                                                                   \
    ".pushsection __rseq_abort, \"ax?\"\n\t"                                                       \
    ".byte 0x0f, 0xb9, 0x3d\n\t"                                                                  \
    ".long 0x53053053\n"                                                                          \
    "4:\n\t"                                                                                      \
    "jmp %l[" label "]\n\t"                                                                       \
    ".popsection"

/*
 * Stands behind every section and first at every label it jumps to.  GCC before 14.1, 13.3, 12.4
 * and 11.5 copies the outputs of an asm goto after the values that the next block's PHIs were
 * given on the same edge (PR 113921): without this, -O1 made "busy" return the main sheaf.  A
 * statement that is not moved keeps the two on different edges.
 */
#define STOOK_RSEQ_EDGE() __asm__ __volatile__("")

/*
 * Pop clobbers no memory, so that a loop may keep the cache's head in registers across it: what it
 * writes, no C code of the caller sees.  Push does, or a load from the object could be moved behind
 * the section to where its value is used (GCC does so), when the object is somebody else's
 * already.  (Tests look at sheaves themselves.)
 */
#ifndef STOOK_RSEQ_CLOBBERS
#define STOOK_RSEQ_CLOBBERS
#endif

/* Takes the top object of this CPU's main sheaf; 0 when empty, closed or aborted. */
static inline __attribute__((always_inline)) int
stook_rseq_pop(const void *slots, intptr_t rseq, void **taken)
{
    uintptr_t m, n;
    void *object;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m")
        STOOK_RSEQ_MAIN("m")
        "movl 8(%[m]), %k[n]\n\t" STOOK_RSEQ_STEP
        "subl $1, %k[n]\n\t"
        "jb %l[leave]\n\t"
        "movq 16(%[m], %[n], 8), %[object]\n\t" STOOK_RSEQ_STEP
        "movl %k[n], 8(%[m])\n"
        "2:\n\t"
        STOOK_RSEQ_ABORT("leave")
        : [m] "=&r"(m), [n] "=&r"(n), [object] "=r"(object)
        : [slots] "r"(slots), [rseq] "r"(rseq)
        : STOOK_RSEQ_CLOBBERS "cc"
        : leave);
    STOOK_RSEQ_EDGE();
    *taken = object;
    return 1;
leave:
    STOOK_RSEQ_EDGE();
    return 0;
}

/* Puts an object on this CPU's main sheaf; 0 when full, closed or aborted. */
static inline __attribute__((always_inline)) int
stook_rseq_push(const void *slots, intptr_t rseq, void *object)
{
    uintptr_t m, n;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m")
        STOOK_RSEQ_MAIN("m")
        "movl 8(%[m]), %k[n]\n\t"
        "cmpl 12(%[m]), %k[n]\n\t"
        "jae %l[leave]\n\t" STOOK_RSEQ_STEP
        "movq %[object], 16(%[m], %[n], 8)\n\t" STOOK_RSEQ_STEP
        "addl $1, %k[n]\n\t"
        "movl %k[n], 8(%[m])\n"
        "2:\n\t"
        STOOK_RSEQ_ABORT("leave")
        : [m] "=&r"(m), [n] "=&r"(n)
        : [slots] "r"(slots), [rseq] "r"(rseq), [object] "r"(object)
        : "memory", "cc"
        : leave);
    STOOK_RSEQ_EDGE();
    return 1;
leave:
    STOOK_RSEQ_EDGE();
    return 0;
}

#endif /* STOOK_ARCH_RSEQ_X86_64_H */
