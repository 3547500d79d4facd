/* SPDX-License-Identifier: MIT */
/*
 * rseq_aarch64.h - the sections that only the library uses, as rseq_x86_64.h specifies them.
 *
 * close is load-acquire-exclusive, compare, store-exclusive: that store is the very last instruction,
 * and a thread preempted right behind it keeps the status register.  (Any exception before it takes
 * the reservation away, so that nothing else may stand between the two.)  The acquire is for what the
 * slot's earlier owner left in its other words; the store needs no order: whoever sees the slot closed
 * reads nothing of it, and opening it is a release.  No compare-and-swap instruction: the first CPUs
 * have none, and a call of an outlined one would go on behind the commit.
 */
#ifndef STOOK_PERCPU_RSEQ_AARCH64_H
#define STOOK_PERCPU_RSEQ_AARCH64_H

#include "percpu/percpu.h"

#include <stook/arch/rseq_aarch64.h>

enum rseq_result { RSEQ_ABORTED = -1, RSEQ_LEFT = 0, RSEQ_DONE = 1 };

/* Moves w[left] pointers from [src] to [dst], four a turn, and the last three one by one. */
#define RSEQ_COPY(CHECK_4, CHECK_1)                                                               \
    "subs %w[left], %w[k], #4\n\t"                                                                \
    "b.lo 9f\n"                                                                                   \
    "8:\n\t"                                                                                      \
    "ldp %[a], %[b], [%[src]], #16\n\t"                                                           \
    "ldp %[c], %[d], [%[src]], #16\n\t" CHECK_4                                                   \
    "stp %[a], %[b], [%[dst]], #16\n\t"                                                           \
    "stp %[c], %[d], [%[dst]], #16\n\t"                                                           \
    "subs %w[left], %w[left], #4\n\t"                                                             \
    "b.hs 8b\n"                                                                                   \
    "9:\n\t"                                                                                      \
    "tbz %w[left], #1, 10f\n\t"                                                                   \
    "ldr %[a], [%[src]], #8\n\t"                                                                  \
    "ldr %[b], [%[src]], #8\n\t" CHECK_1("a") CHECK_1("b")                                        \
    "str %[a], [%[dst]], #8\n\t"                                                                  \
    "str %[b], [%[dst]], #8\n"                                                                    \
    "10:\n\t"                                                                                     \
    "tbz %w[left], #0, 7f\n\t"                                                                    \
    "ldr %[a], [%[src]]\n\t" CHECK_1("a")                                                         \
    "str %[a], [%[dst]]\n"                                                                        \
    "7:\n\t"

#define RSEQ_POP_CHECK(none)

static inline __attribute__((always_inline)) enum rseq_result
rseq_pop_bulk(const void *slots, intptr_t rseq, void **objects, uint32_t want, uint32_t *taken)
{
    uintptr_t m, n, k, left, a, b, c, d;
    void *src, *dst;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m", "n")
        STOOK_RSEQ_MAIN("m", "n")
        "ldr %w[n], [%[m], #8]\n\t" STOOK_RSEQ_STEP
        "mov %w[k], %w[want]\n\t"
        "subs %w[n], %w[n], %w[want]\n\t" /* a branch, so that what is copied need not wait for the size */
        "b.hs 11f\n\t"
        "adds %w[n], %w[n], %w[want]\n\t"
        "b.eq 6f\n\t"
        "mov %w[k], %w[n]\n\t"
        "mov %w[n], #0\n"
        "11:\n\t"
        "add %[src], %[m], %[n], lsl #3\n\t"
        "add %[src], %[src], #16\n\t"
        "mov %[dst], %[objects]\n\t"
        RSEQ_COPY("", RSEQ_POP_CHECK)
        STOOK_RSEQ_STEP
        "str %w[n], [%[m], #8]\n"
        "2:\n\t"
        STOOK_RSEQ_EXITS("leave", "aborted")
        : [m] "=&r"(m), [n] "=&r"(n), [k] "=&r"(k), [left] "=&r"(left), [src] "=&r"(src),
          [dst] "=&r"(dst), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d)
        : [slots] "r"(slots), [rseq] "r"(rseq), [objects] "r"(objects), [want] "r"(want)
        : STOOK_RSEQ_STEP_CLOBBERS "memory", "cc"
        : leave, aborted);
    STOOK_RSEQ_EDGE();
    *taken = (uint32_t)k;
    return RSEQ_DONE;
leave:
    STOOK_RSEQ_EDGE();
    return RSEQ_LEFT;
aborted:
    STOOK_RSEQ_EDGE();
    return RSEQ_ABORTED;
}

/* A push also looks for NULL, which no sheaf may hold. */
#define RSEQ_PUSH_CHECK_4                                                                         \
    "cmp %[a], #0\n\t"                                                                            \
    "ccmp %[b], #0, #4, ne\n\t"                                                                   \
    "ccmp %[c], #0, #4, ne\n\t"                                                                   \
    "ccmp %[d], #0, #4, ne\n\t"                                                                   \
    "b.eq 6f\n\t"
#define RSEQ_PUSH_CHECK_1(pointer) "cbz %[" pointer "], 6f\n\t"

static inline __attribute__((always_inline)) enum rseq_result
rseq_push_bulk(const void *slots, intptr_t rseq, void *const *objects, uint32_t have,
               uint32_t *put)
{
    uintptr_t m, n, k, left, a, b, c, d;
    void *src, *dst;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m", "n")
        STOOK_RSEQ_MAIN("m", "n")
        "ldr %w[n], [%[m], #8]\n\t" STOOK_RSEQ_STEP
        "add %[dst], %[m], %[n], lsl #3\n\t"
        "add %[dst], %[dst], #16\n\t"
        "ldr %w[left], [%[m], #12]\n\t"
        "mov %w[k], %w[have]\n\t"
        "add %w[n], %w[n], %w[have]\n\t"
        "cmp %w[n], %w[left]\n\t"
        "b.ls 11f\n\t"
        "sub %w[n], %w[n], %w[have]\n\t"
        "subs %w[k], %w[left], %w[n]\n\t" /* room; a sheaf may hold more than its capacity */
        "b.ls 6f\n\t"
        "add %w[n], %w[n], %w[k]\n"
        "11:\n\t"
        "mov %[src], %[objects]\n\t"
        RSEQ_COPY(RSEQ_PUSH_CHECK_4, RSEQ_PUSH_CHECK_1)
        STOOK_RSEQ_STEP
        "str %w[n], [%[m], #8]\n"
        "2:\n\t"
        STOOK_RSEQ_EXITS("leave", "aborted")
        : [m] "=&r"(m), [n] "=&r"(n), [k] "=&r"(k), [left] "=&r"(left), [src] "=&r"(src),
          [dst] "=&r"(dst), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d)
        : [slots] "r"(slots), [rseq] "r"(rseq), [objects] "r"(objects), [have] "r"(have)
        : STOOK_RSEQ_STEP_CLOBBERS "memory", "cc"
        : leave, aborted);
    STOOK_RSEQ_EDGE();
    *put = (uint32_t)k;
    return RSEQ_DONE;
leave:
    STOOK_RSEQ_EDGE();
    return RSEQ_LEFT;
aborted:
    STOOK_RSEQ_EDGE();
    return RSEQ_ABORTED;
}

/* On RSEQ_DONE the caller owns *main and the slot at *at until it opens it. */
static inline __attribute__((always_inline)) enum rseq_result
rseq_close(const void *slots, intptr_t rseq, const void *closed, void **at, void **main)
{
    void *s, *m;
    uintptr_t self;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("s", "self")
        STOOK_RSEQ_SLOT("s", "self") STOOK_RSEQ_STEP
        "ldaxr %[m], [%[s]]\n\t"
        "cmp %[m], %[closed]\n\t"
        "b.eq 6f\n\t"
        "stxr %w[self], %[closed], [%[s]]\n"
        "2:\n\t"
        "cbnz %w[self], 5f\n\t" /* outside the section: the status is the thread's own */
        STOOK_RSEQ_EXITS("busy", "aborted")
        : [s] "=&r"(s), [m] "=&r"(m), [self] "=&r"(self)
        : [slots] "r"(slots), [rseq] "r"(rseq), [closed] "r"(closed)
        : STOOK_RSEQ_STEP_CLOBBERS "memory", "cc"
        : busy, aborted);
    STOOK_RSEQ_EDGE();
    *at = s;
    *main = m;
    return RSEQ_DONE;
busy:
    STOOK_RSEQ_EDGE();
    return RSEQ_LEFT;
aborted:
    STOOK_RSEQ_EDGE();
    return RSEQ_ABORTED;
}

#endif
