/* SPDX-License-Identifier: MIT */
/*
 * sections.h - the sections that only the library uses, each written once; pop and push stand in
 * stook/sections.h.  An operation is a line of the specification; percpu/ops_*.h and
 * stook/arch/ops_*.h turn it into machine code.
 *
 * Nothing that a section copied counts until its commit, which is its last instruction.  A caller of a
 * section that left or was aborted goes the slow way; where there are no sections (other machines, other C
 * libraries, builds with -DSTOOK_RSEQ=OFF) they all leave, so that no caller needs an #if.
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

/* ---- slots ---------------------------------------------------------------------------------- */

/*
 * pop bulk:   arm; cpu; m = slot.main; if m is NULL leave; n = m.size; k = min(want, n); if k is 0
 *             leave; n -= k; copy m.object[n .. n+k) to the caller; m.size = n        <- commits
 *
 * want is not 0.  n and k take the registers of slots and rseq, which nothing reads after the main
 * sheaf is loaded: a section that saves fewer registers of its caller is the faster one.
 */
SECTION enum rseq_result rseq_pop_bulk(const void *slots, intptr_t rseq, void **objects,
                                       uint32_t want, uint32_t *taken)
{
    uintptr_t m, n, k;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m")
        STOOK_OP_LOAD_CPU("m")
        STOOK_OP_LOAD_ROW("m", "slots", STOOK_AREA_SHIFT)
        STOOK_OP_LEAVE_IF_NULL("m")
        STOOK_OP_LOAD32("n", "m", "8")
        OP_TAKE("k", "n", "want")
        OP_POINT("m", "n", "16")
        OP_COPY_OUT("objects", "k")
        STOOK_OP_COMMIT32("n", "m", "8")
        STOOK_OP_END("aborted")
        : [m] "=&r"(m), [n] "=&r"(n), [k] "=&r"(k)
        : [slots] "[n]"(slots), [rseq] "[k]"(rseq), [objects] "r"(objects), [want] "r"(want),
          OP_INPUT_WIDE
        : STOOK_OP_CLOBBERS OP_CLOBBERS_COPY "memory", "cc"
        : leave, aborted);
    SECTION_EXITS(*taken = (uint32_t)k);
}

/*
 * push bulk:  arm; cpu; m = slot.main; if m is NULL leave; n = m.size; k = min(have, m.capacity - n);
 *             if k is 0 leave (a sheaf may hold more than its capacity); copy k pointers to m.object[n
 *             ..), and leave if one of them could be NULL; m.size = n + k             <- commits
 *
 * have is not 0.  Registers are shared as in pop bulk.
 */
SECTION enum rseq_result rseq_push_bulk(const void *slots, intptr_t rseq, void *const *objects,
                                        uint32_t have, uint32_t *put)
{
    uintptr_t m, n, k;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m")
        STOOK_OP_LOAD_CPU("m")
        STOOK_OP_LOAD_ROW("m", "slots", STOOK_AREA_SHIFT)
        STOOK_OP_LEAVE_IF_NULL("m")
        STOOK_OP_LOAD32("n", "m", "8")
        OP_POINT("m", "n", "16")
        OP_FIT("k", "n", "have", "m", "12")
        OP_COPY_IN("objects", "k")
        STOOK_OP_COMMIT32("n", "m", "8")
        STOOK_OP_END("aborted")
        : [m] "=&r"(m), [n] "=&r"(n), [k] "=&r"(k)
        : [slots] "[n]"(slots), [rseq] "[k]"(rseq), [objects] "r"(objects), [have] "r"(have),
          OP_INPUT_WIDE
        : STOOK_OP_CLOBBERS OP_CLOBBERS_COPY "memory", "cc"
        : leave, aborted);
    SECTION_EXITS(*put = (uint32_t)k);
}

/*
 * close:      arm; abort unless this is `cpu`, whose slot it is; m = slot.main; if m is `closed` leave;
 *             slot.main: m -> closed, if it is still m, else leave                    <- commits
 *
 * When it is done the caller owns *main, which may be NULL, and the slot until it opens it.
 */
SECTION enum rseq_result rseq_close(void *slot, intptr_t rseq, int cpu, const void *closed,
                                    void **main)
{
    void *m;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m")
        OP_ABORT_UNLESS_CPU("cpu")
        OP_COMMIT_SWAP("m", "slot", "closed")
        STOOK_OP_END("aborted")
        : [m] "=&r"(m)
        : [slot] "r"(slot), [rseq] "r"(rseq), [cpu] "r"(cpu), [closed] "r"(closed)
        : STOOK_OP_CLOBBERS OP_CLOBBERS_SWAP "memory", "cc"
        : leave, aborted);
    SECTION_EXITS(*main = m);
}

/*
 * defer:      arm; cpu; slot; if slot.main is `closed` leave; m = slot.rcu; if there is none leave;
 *             n = m.size + 1; if n >= m.capacity leave; m.object[n-1] = o; m.size = n <- commits
 *
 * The thread that closes the slot has its rcu sheaf too; a taker from another CPU reads nothing of it
 * before a fence.  The last object of a sheaf is not put here, so one in a slot is never full: the
 * thread that puts the last one closes the slot and takes the sheaf away.  CPUs -1 and -2 have no rcu
 * sheaf, nor has slot 0, which stands in for a cache's while its calls are counted.
 */
SECTION enum rseq_result rseq_defer(const void *slots, intptr_t rseq, const void *closed,
                                    void *object)
{
    uintptr_t m, n;

    __asm__ __volatile__ goto(
        STOOK_OP_BEGIN("m")
        STOOK_OP_LOAD_CPU("m")
        OP_ROW("m", "slots")
        OP_LEAVE_IF_EQUAL("m", "closed")
        OP_LOAD("m", "m", "rcu")
        STOOK_OP_LEAVE_IF_NULL("m")
        STOOK_OP_LOAD32("n", "m", "8")
        STOOK_OP_INCREMENT("n")
        STOOK_OP_LEAVE_UNLESS_BELOW("n", "m", "12")
        STOOK_OP_STORE_ELEMENT("object", "m", "n", "8")
        STOOK_OP_COMMIT32("n", "m", "8")
        STOOK_OP_END("aborted")
        : [m] "=&r"(m), [n] "=&r"(n)
        : [slots] "r"(slots), [rseq] "r"(rseq), [closed] "r"(closed), [object] "r"(object),
          [rcu] "i"(offsetof(struct slot, rcu)), [shift] "i"(STOOK_AREA_SHIFT)
        : STOOK_OP_CLOBBERS "memory", "cc"
        : leave, aborted);
    SECTION_EXITS((void)0);
}

/* ---- rows (percpu/rows.h) ------------------------------------------------------------------- */

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
 * the CPU, and only then reads the bytes: a section that read the old number has committed before the
 * fence, or never will.  n and most are below 2^31: their sum does not wrap.
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

typedef struct {
    long long count, bytes;
} op_two;

#define SECTION_NONE(name, ...)                                                                    \
    SECTION enum rseq_result name(__VA_ARGS__)                                                     \
    {                                                                                              \
        return RSEQ_LEFT;                                                                          \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
SECTION_NONE(rseq_pop_bulk, const void *slots, intptr_t rseq, void **objects, uint32_t want,
             uint32_t *taken)
SECTION_NONE(rseq_push_bulk, const void *slots, intptr_t rseq, void *const *objects, uint32_t have,
             uint32_t *put)
SECTION_NONE(rseq_close, void *slot, intptr_t rseq, int cpu, const void *closed, void **main)
SECTION_NONE(rseq_defer, const void *slots, intptr_t rseq, const void *closed, void *object)
SECTION_NONE(rseq_add, void *word, unsigned shift, intptr_t rseq, uint64_t n)
SECTION_NONE(rseq_add_two, void *words, unsigned shift, intptr_t rseq, op_two two)
SECTION_NONE(rseq_take, void *stock, unsigned shift, intptr_t rseq, uint32_t number, uint32_t n)
SECTION_NONE(rseq_give, void *stock, unsigned shift, intptr_t rseq, uint32_t number, uint32_t n,
             uint32_t most)
#pragma GCC diagnostic pop
#undef SECTION_NONE

#endif

#endif
