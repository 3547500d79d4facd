/* SPDX-License-Identifier: MIT */
/*
 * rseq_x86_64.h - the sections that only the library uses; pop and push stand in
 * stook/arch/rseq_x86_64.h, with the macros that all of them are made of.
 *
 *   pop bulk:   arm; cpu; slot; m = slot.main; k = min(want, m.size); if k == 0 leave;
 *               copy m.object[m.size-k .. m.size) to the caller; m.size -= k       <- commits
 *   push bulk:  arm; cpu; slot; m; if m.size >= m.capacity leave; k = min(have, m.capacity -
 *               m.size); copy k pointers to m.object[m.size ..), and leave if one of them could be
 *               NULL; m.size += k                                                  <- commits
 *   close:      arm; cpu; slot; m = slot.main; if m is `closed` leave busy;
 *               lock cmpxchg slot.main: m -> closed                                <- commits
 *
 * Nothing a bulk section copied counts until its commit.  The cmpxchg is the very last instruction
 * of close: a thread preempted right behind it is outside the section and keeps the flags (two
 * harmless instructions in between lost slots for ever).  It is locked because a remote taker may
 * exchange the same word.
 */
#ifndef STOOK_OS_RSEQ_X86_64_H
#define STOOK_OS_RSEQ_X86_64_H

#include <stook/arch/rseq_x86_64.h>

enum rseq_result { RSEQ_ABORTED = -1, RSEQ_LEFT = 0, RSEQ_DONE = 1 };

/*
 * Copies move 32 bytes a turn in two halves, and the last three pointers one by one: pointers that
 * were pushed singly a moment ago are still in the store buffer, which forwards no two stores to
 * one load.
 */
static inline __attribute__((always_inline)) enum rseq_result
rseq_pop_bulk(const void *slots, intptr_t rseq, void **objects, uint32_t want,
              uint32_t *taken)
{
    uintptr_t m, n, k, i;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m")
        STOOK_RSEQ_MAIN("m")
        "movl 8(%[m]), %k[n]\n\t" STOOK_RSEQ_STEP
        "movl %[want], %k[k]\n\t"
        "cmpl %k[k], %k[n]\n\t"
        "cmovb %k[n], %k[k]\n\t"
        "subl %k[k], %k[n]\n\t"
        "testl %k[k], %k[k]\n\t"
        "jz %l[leave]\n\t"
        "leaq 16(%[m], %[n], 8), %[i]\n\t" /* source */
        "subq %[objects], %[i]\n\t" /* source - destination */
        "movq %[objects], %%rdx\n\t"
        "leaq (%[objects], %[k], 8), %[k]\n\t" /* end of destination */
        "leaq -32(%[k]), %%rcx\n\t"
        "cmpq %%rcx, %%rdx\n\t"
        "ja 6f\n"
        "5:\n\t"
        "movups (%%rdx, %[i]), %%xmm0\n\t"
        "movups 16(%%rdx, %[i]), %%xmm1\n\t"
        "movups %%xmm0, (%%rdx)\n\t"
        "movups %%xmm1, 16(%%rdx)\n\t"
        "addq $32, %%rdx\n\t"
        "cmpq %%rcx, %%rdx\n\t"
        "jbe 5b\n"
        "6:\n\t"
        "cmpq %[k], %%rdx\n\t"
        "jae 7f\n\t"
        "movq (%%rdx, %[i]), %%rcx\n\t"
        "movq %%rcx, (%%rdx)\n\t"
        "addq $8, %%rdx\n\t"
        "jmp 6b\n"
        "7:\n\t" STOOK_RSEQ_STEP
        "movl %k[n], 8(%[m])\n"
        "2:\n\t"
        STOOK_RSEQ_ABORT("aborted")
        : [m] "=&r"(m), [n] "=&r"(n), [k] "=&r"(k), [i] "=&r"(i)
        : [slots] "r"(slots), [rseq] "r"(rseq), [objects] "r"(objects),
          [want] "m"(want)
        : "memory", "cc", "rcx", "rdx", "xmm0", "xmm1"
        : leave, aborted);
    STOOK_RSEQ_EDGE();
    *taken = (uint32_t)((void **)k - objects);
    return RSEQ_DONE;
leave:
    STOOK_RSEQ_EDGE();
    return RSEQ_LEFT;
aborted:
    STOOK_RSEQ_EDGE();
    return RSEQ_ABORTED;
}

static inline __attribute__((always_inline)) enum rseq_result
rseq_push_bulk(const void *slots, intptr_t rseq, void *const *objects,
               uint32_t have, uint32_t *put)
{
    uintptr_t m, n, k, i;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m")
        STOOK_RSEQ_MAIN("m")
        "movl 8(%[m]), %k[n]\n\t" STOOK_RSEQ_STEP
        "movl 12(%[m]), %k[k]\n\t"
        "subl %k[n], %k[k]\n\t" /* room; a sheaf may hold more than its capacity */
        "jbe %l[leave]\n\t"
        "cmpl %[have], %k[k]\n\t"
        "cmova %[have], %k[k]\n\t"
        "leaq 16(%[m], %[n], 8), %[i]\n\t"
        "subq %[objects], %[i]\n\t" /* destination - source */
        "addl %k[k], %k[n]\n\t"
        "movq %[objects], %%rdx\n\t"
        "leaq (%[objects], %[k], 8), %[k]\n\t" /* end of source */
        "leaq -32(%[k]), %%rcx\n\t"
        "cmpq %%rcx, %%rdx\n\t"
        "ja 6f\n\t"
        "pxor %%xmm3, %%xmm3\n\t" /* all ones where the low half of a pointer was zero */
        "pxor %%xmm2, %%xmm2\n"
        "5:\n\t"
        "movups (%%rdx), %%xmm0\n\t"
        "movups 16(%%rdx), %%xmm1\n\t"
        "movups %%xmm0, (%%rdx, %[i])\n\t"
        "movups %%xmm1, 16(%%rdx, %[i])\n\t"
        "shufps $0x88, %%xmm1, %%xmm0\n\t"
        "pcmpeqd %%xmm2, %%xmm0\n\t"
        "por %%xmm0, %%xmm3\n\t"
        "addq $32, %%rdx\n\t"
        "cmpq %%rcx, %%rdx\n\t"
        "jbe 5b\n\t"
        "pmovmskb %%xmm3, %%ecx\n\t"
        "testl %%ecx, %%ecx\n\t"
        "jnz %l[leave]\n"
        "6:\n\t"
        "cmpq %[k], %%rdx\n\t"
        "jae 7f\n\t"
        "movq (%%rdx), %%rcx\n\t"
        "testq %%rcx, %%rcx\n\t"
        "jz %l[leave]\n\t"
        "movq %%rcx, (%%rdx, %[i])\n\t"
        "addq $8, %%rdx\n\t"
        "jmp 6b\n"
        "7:\n\t" STOOK_RSEQ_STEP
        "movl %k[n], 8(%[m])\n"
        "2:\n\t"
        STOOK_RSEQ_ABORT("aborted")
        : [m] "=&r"(m), [n] "=&r"(n), [k] "=&r"(k), [i] "=&r"(i)
        : [slots] "r"(slots), [rseq] "r"(rseq), [objects] "r"(objects),
          [have] "m"(have)
        : "memory", "cc", "rcx", "rdx", "xmm0", "xmm1", "xmm2", "xmm3"
        : leave, aborted);
    STOOK_RSEQ_EDGE();
    *put = (uint32_t)((void *const *)k - objects);
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
rseq_close(const void *slots, intptr_t rseq, const void *closed, void **at,
           void **main)
{
    void *s, *m;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("s")
        "movslq %%fs:4(%[rseq]), %[s]\n\t" STOOK_RSEQ_STEP
        "shlq $" STOOK_RSEQ_STRING(STOOK_AREA_SHIFT) ", %[s]\n\t"
        "addq %[slots], %[s]\n\t"
        "movq (%[s]), %%rax\n\t"
        "cmpq %[closed], %%rax\n\t"
        "je %l[busy]\n\t" STOOK_RSEQ_STEP
        "movq %%rax, %[m]\n\t"
        "lock cmpxchgq %[closed], (%[s])\n"
        "2:\n\t"
        "jne %l[busy]\n\t" /* outside the section: the flags are the thread's own */
        STOOK_RSEQ_ABORT("aborted")
        : [s] "=&r"(s), [m] "=&r"(m)
        : [slots] "r"(slots), [rseq] "r"(rseq), [closed] "r"(closed)
        : "memory", "cc", "rax"
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
