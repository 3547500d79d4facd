/* SPDX-License-Identifier: MIT */
/*
 * rseq_aarch64.h - the pop and push sections, shared by the inlined fast path and the library; what
 * they do is said in rseq_x86_64.h.  Here is what is different on a machine of this kind:
 *
 * Order.  A section on one CPU needs none with others on it: the kernel orders them as it switches.
 * With whoever opened the slot from another CPU (a store-release of main) it is the dependency: every
 * address that is read or written comes from main.  A section that reads beside it loads main with
 * acquire (percpu/rseq_*.h).  Whoever takes a slot from another CPU reads after a fence only.
 *
 * Reach.  A conditional branch spans 1 MiB and the compiler may put a label into another section:
 * branches stay within the subsection behind the code, which goes on to the label.  The abort exit is
 * there too, behind the signature, which is an instruction that traps (brk).
 *
 * The thread pointer is read each time: a stack that moves between threads may go through here.
 */
#ifndef STOOK_INLINE_H
#include <stook/inline.h> /* which includes this file in turn */
#endif
#ifndef STOOK_ARCH_RSEQ_AARCH64_H
#define STOOK_ARCH_RSEQ_AARCH64_H

#include <stdint.h>

#define STOOK_RSEQ_SIG 0xd428bc00 /* glibc's RSEQ_SIG on aarch64: brk #0x45e0 */

#define STOOK_RSEQ_STRING_(text) #text
#define STOOK_RSEQ_STRING(text) STOOK_RSEQ_STRING_(text)

/*
 * Between the steps: empty, but in tests, which spin there to widen every window.  Flags are dead
 * at each; whatever stands there may only write memory (the section can end at any point) and the
 * registers that it names.
 */
#ifndef STOOK_RSEQ_STEP
#define STOOK_RSEQ_STEP ""
#define STOOK_RSEQ_STEP_CLOBBERS
#endif

/*
 * The critical section's descriptor: from local label 1 up to 2, aborting to 4.  "?": a section
 * that is discarded with its COMDAT group takes its descriptor along.
 */
#define STOOK_RSEQ_DESCRIPTOR                                                                     \
    ".pushsection __rseq_cs, \"aw?\"\n\t"                                                          \
    ".balign 32\n"                                                                                \
    "3:\n\t"                                                                                      \
    ".long 0, 0\n\t"                                                                              \
    ".quad 1f, (2f - 1f), 4f\n\t"                                                                 \
    ".popsection\n\t"
/* self = the thread's struct rseq; changes tmp. */
#define STOOK_RSEQ_ARM(tmp, self)                                                                 \
    "mrs %[" self "], tpidr_el0\n\t"                                                              \
    "add %[" self "], %[" self "], %[rseq]\n\t"                                                   \
    "adrp %[" tmp "], 3b\n\t"                                                                     \
    "add %[" tmp "], %[" tmp "], :lo12:3b\n\t"                                                    \
    "str %[" tmp "], [%[" self "], #8]\n"                                                         \
    "1:\n\t" STOOK_RSEQ_STEP
/* tmp = this CPU's slot. */
#define STOOK_RSEQ_SLOT(tmp, self)                                                                \
    "ldrsw %[" tmp "], [%[" self "], #4]\n\t" STOOK_RSEQ_STEP                                     \
    "add %[" tmp "], %[slots], %[" tmp "], lsl #" STOOK_RSEQ_STRING(STOOK_AREA_SHIFT) "\n\t"
/* tmp = the main sheaf of this CPU's slot. */
#define STOOK_RSEQ_MAIN(tmp, self)                                                                \
    STOOK_RSEQ_SLOT(tmp, self)                                                                    \
    "ldr %[" tmp "], [%[" tmp "]]\n\t" STOOK_RSEQ_STEP
/* Label 6 leaves, label 5 (behind the section) and the kernel abort. */
#define STOOK_RSEQ_EXITS(leave, aborted)                                                          \
    ".subsection 1\n"                                                                             \
    "6:\n\t"                                                                                      \
    "b %l[" leave "]\n\t"                                                                         \
    ".inst " STOOK_RSEQ_STRING(STOOK_RSEQ_SIG) "\n"                                               \
    "4:\n"                                                                                        \
    "5:\n\t"                                                                                      \
    "b %l[" aborted "]\n\t"                                                                       \
    ".previous"

/* See rseq_x86_64.h: GCC's bug with outputs of an asm goto is no machine's own. */
#define STOOK_RSEQ_EDGE() __asm__ __volatile__("")

/* See rseq_x86_64.h: pop clobbers no memory, push does. */
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
        STOOK_RSEQ_ARM("m", "n")
        STOOK_RSEQ_MAIN("m", "n")
        "ldr %w[n], [%[m], #8]\n\t" STOOK_RSEQ_STEP
        "subs %w[n], %w[n], #1\n\t"
        "b.lo 6f\n\t"
        "add %[object], %[m], %[n], lsl #3\n\t"
        "ldr %[object], [%[object], #16]\n\t" STOOK_RSEQ_STEP
        "str %w[n], [%[m], #8]\n"
        "2:\n\t"
        STOOK_RSEQ_EXITS("leave", "leave")
        : [m] "=&r"(m), [n] "=&r"(n), [object] "=&r"(object)
        : [slots] "r"(slots), [rseq] "r"(rseq)
        : STOOK_RSEQ_CLOBBERS STOOK_RSEQ_STEP_CLOBBERS "cc"
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
    uintptr_t m, n, t;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m", "n")
        STOOK_RSEQ_MAIN("m", "n")
        "ldr %w[n], [%[m], #8]\n\t" /* no ldp: size alone was stored a moment ago */
        "ldr %w[t], [%[m], #12]\n\t"
        "cmp %w[n], %w[t]\n\t"
        "b.hs 6f\n\t" STOOK_RSEQ_STEP
        "add %[t], %[m], %[n], lsl #3\n\t"
        "str %[object], [%[t], #16]\n\t" STOOK_RSEQ_STEP
        "add %w[n], %w[n], #1\n\t"
        "str %w[n], [%[m], #8]\n"
        "2:\n\t"
        STOOK_RSEQ_EXITS("leave", "leave")
        : [m] "=&r"(m), [n] "=&r"(n), [t] "=&r"(t)
        : [slots] "r"(slots), [rseq] "r"(rseq), [object] "r"(object)
        : STOOK_RSEQ_STEP_CLOBBERS "memory", "cc"
        : leave);
    STOOK_RSEQ_EDGE();
    return 1;
leave:
    STOOK_RSEQ_EDGE();
    return 0;
}

#endif /* STOOK_ARCH_RSEQ_AARCH64_H */
