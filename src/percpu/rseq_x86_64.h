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
#ifndef STOOK_PERCPU_RSEQ_X86_64_H
#define STOOK_PERCPU_RSEQ_X86_64_H

#include "percpu/percpu.h"

#include <stook/arch/rseq_x86_64.h>

enum rseq_result { RSEQ_ABORTED = -1, RSEQ_LEFT = 0, RSEQ_DONE = 1 };

/*
 * Copies move 64 bytes a turn where the CPU has AVX2 (`wide`), else and below eight pointers 32, and
 * the last three pointers one by one: pointers that were pushed singly a moment ago are still in
 * the store buffer, which forwards no two stores to one load.
 *
 * rdx: where the caller's array is at, rcx: pointers left, i: from there to the other side.  The
 * steps of a move are the macros' arguments: 8, 32 and 64 bytes.
 */
#define RSEQ_COPY(COPY_8, COPY_32, COPY_64, BEFORE, NARROW, AFTER)                                \
    "movq %[objects], %%rdx\n\t"                                                                   \
    "movl %k[k], %%ecx\n\t" BEFORE                                                                 \
    "subl $8, %%ecx\n\t"                                                                           \
    "jb 5f\n\t"                                                                                    \
    "cmpb $0, %[wide]\n\t"                                                                         \
    "je 5f\n"                                                                                      \
    "9:\n\t" COPY_64                                                                               \
    "addq $64, %%rdx\n\t"                                                                          \
    "subl $8, %%ecx\n\t"                                                                           \
    "jae 9b\n\t" NARROW                                                                            \
    "vzeroupper\n"                                                                                 \
    "5:\n\t"                                                                                       \
    "addl $4, %%ecx\n\t"                                                                           \
    "js 10f\n"                                                                                     \
    "8:\n\t" COPY_32                                                                               \
    "addq $32, %%rdx\n\t"                                                                          \
    "subl $4, %%ecx\n\t"                                                                           \
    "jae 8b\n"                                                                                     \
    "10:\n\t" AFTER                                                                                \
    "testl $2, %%ecx\n\t"                                                                          \
    "jz 12f\n\t" COPY_8("") "addq $8, %%rdx\n\t" COPY_8("") "addq $8, %%rdx\n"                       \
    "12:\n\t"                                                                                      \
    "testl $1, %%ecx\n\t"                                                                          \
    "jz 7f\n\t" COPY_8("") "7:\n\t"

#define RSEQ_POP_8(none)                                                                           \
    "movq (%%rdx, %[i]), %%r8\n\t"                                                                 \
    "movq %%r8, (%%rdx)\n\t"
#define RSEQ_POP_32                                                                                \
    "movups (%%rdx, %[i]), %%xmm0\n\t"                                                             \
    "movups 16(%%rdx, %[i]), %%xmm1\n\t"                                                           \
    "movups %%xmm0, (%%rdx)\n\t"                                                                   \
    "movups %%xmm1, 16(%%rdx)\n\t"
#define RSEQ_POP_64                                                                                \
    "vmovdqu (%%rdx, %[i]), %%ymm0\n\t"                                                            \
    "vmovdqu 32(%%rdx, %[i]), %%ymm1\n\t"                                                          \
    "vmovdqu %%ymm0, (%%rdx)\n\t"                                                                  \
    "vmovdqu %%ymm1, 32(%%rdx)\n\t"

static inline __attribute__((always_inline)) enum rseq_result
rseq_pop_bulk(const void *slots, intptr_t rseq, void **objects, uint32_t want, uint32_t *taken)
{
    uintptr_t m, n, k, i;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m")
        STOOK_RSEQ_MAIN("m")
        "movl 8(%[m]), %k[n]\n\t" STOOK_RSEQ_STEP
        "movl %k[want], %k[k]\n\t"
        "subl %k[want], %k[n]\n\t" /* a branch, so that what is copied need not wait for the size */
        "jae 11f\n\t"
        "addl %k[want], %k[n]\n\t"
        "jz %l[leave]\n\t"
        "movl %k[n], %k[k]\n\t"
        "xorl %k[n], %k[n]\n"
        "11:\n\t"
        "leaq 16(%[m], %[n], 8), %[i]\n\t" /* source */
        "subq %[objects], %[i]\n\t" /* source - destination */
        RSEQ_COPY(RSEQ_POP_8, RSEQ_POP_32, RSEQ_POP_64, "", "", "")
        STOOK_RSEQ_STEP
        "movl %k[n], 8(%[m])\n"
        "2:\n\t"
        STOOK_RSEQ_ABORT("aborted")
        : [m] "=&r"(m), [n] "=&r"(n), [k] "=&r"(k), [i] "=&r"(i)
        : [slots] "r"(slots), [rseq] "r"(rseq), [objects] "r"(objects), [want] "r"(want),
          [wide] "m"(percpu.wide)
        : "memory", "cc", "rcx", "rdx", "r8", "xmm0", "xmm1"
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

/*
 * A push also looks for NULL, which no sheaf may hold: 32 bytes at a time by the low halves of
 * pointers, so that an object at a multiple of 4 GiB is taken for one; the caller puts that down
 * another way.
 */
#define RSEQ_PUSH_8(none)                                                                          \
    "movq (%%rdx), %%r8\n\t"                                                                       \
    "testq %%r8, %%r8\n\t"                                                                         \
    "jz %l[leave]\n\t"                                                                             \
    "movq %%r8, (%%rdx, %[i])\n\t"
#define RSEQ_PUSH_32                                                                               \
    "movups (%%rdx), %%xmm0\n\t"                                                                   \
    "movups 16(%%rdx), %%xmm1\n\t"                                                                 \
    "movups %%xmm0, (%%rdx, %[i])\n\t"                                                             \
    "movups %%xmm1, 16(%%rdx, %[i])\n\t"                                                           \
    "shufps $0x88, %%xmm1, %%xmm0\n\t"                                                             \
    "pcmpeqd %%xmm2, %%xmm0\n\t"                                                                   \
    "por %%xmm0, %%xmm3\n\t"
#define RSEQ_PUSH_64                                                                               \
    "vmovdqu (%%rdx), %%ymm0\n\t"                                                                  \
    "vmovdqu 32(%%rdx), %%ymm1\n\t"                                                                \
    "vmovdqu %%ymm0, (%%rdx, %[i])\n\t"                                                            \
    "vmovdqu %%ymm1, 32(%%rdx, %[i])\n\t"                                                          \
    "vpcmpeqq %%ymm2, %%ymm0, %%ymm0\n\t"                                                          \
    "vpcmpeqq %%ymm2, %%ymm1, %%ymm1\n\t"                                                          \
    "vpor %%ymm0, %%ymm3, %%ymm3\n\t"                                                              \
    "vpor %%ymm1, %%ymm4, %%ymm4\n\t"

static inline __attribute__((always_inline)) enum rseq_result
rseq_push_bulk(const void *slots, intptr_t rseq, void *const *objects, uint32_t have,
               uint32_t *put)
{
    uintptr_t m, n, k, i;

    __asm__ __volatile__ goto(
        STOOK_RSEQ_DESCRIPTOR
        STOOK_RSEQ_ARM("m")
        STOOK_RSEQ_MAIN("m")
        "movl 8(%[m]), %k[n]\n\t" STOOK_RSEQ_STEP
        "leaq 16(%[m], %[n], 8), %[i]\n\t"
        "subq %[objects], %[i]\n\t" /* destination - source */
        "movl %k[have], %k[k]\n\t"
        "addl %k[have], %k[n]\n\t"
        "cmpl 12(%[m]), %k[n]\n\t"
        "jbe 11f\n\t"
        "subl %k[have], %k[n]\n\t"
        "movl 12(%[m]), %k[k]\n\t"
        "subl %k[n], %k[k]\n\t" /* room; a sheaf may hold more than its capacity */
        "jbe %l[leave]\n\t"
        "addl %k[k], %k[n]\n"
        "11:\n\t"
        RSEQ_COPY(RSEQ_PUSH_8, RSEQ_PUSH_32, RSEQ_PUSH_64,
                  "pxor %%xmm2, %%xmm2\n\t"
                  "pxor %%xmm3, %%xmm3\n\t" /* all ones where a pointer was NULL */
                  "pxor %%xmm4, %%xmm4\n\t",
                  "vpor %%ymm4, %%ymm3, %%ymm3\n\t"
                  "vextracti128 $1, %%ymm3, %%xmm0\n\t"
                  "vpor %%xmm0, %%xmm3, %%xmm3\n\t",
                  "pmovmskb %%xmm3, %%r8d\n\t"
                  "testl %%r8d, %%r8d\n\t"
                  "jnz %l[leave]\n")
        STOOK_RSEQ_STEP
        "movl %k[n], 8(%[m])\n"
        "2:\n\t"
        STOOK_RSEQ_ABORT("aborted")
        : [m] "=&r"(m), [n] "=&r"(n), [k] "=&r"(k), [i] "=&r"(i)
        : [slots] "r"(slots), [rseq] "r"(rseq), [objects] "r"(objects), [have] "r"(have),
          [wide] "m"(percpu.wide)
        : "memory", "cc", "rcx", "rdx", "r8", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4"
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
