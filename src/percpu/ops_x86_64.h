/* SPDX-License-Identifier: MIT */
/*
 * ops_x86_64.h - the operations that only the library's sections use (percpu/sections.h);
 * stook/arch/ops_x86_64.h has the others, and what an operation is.
 *
 * Sections that may abort apart from leaving have the label `aborted`.
 */
#ifndef STOOK_PERCPU_OPS_X86_64_H
#define STOOK_PERCPU_OPS_X86_64_H

/* to = base + (to << shift), of which the shift is an operand, a constant. */
#define OP_ROW(to, base)                                                                          \
    "shlq %[shift], %[" to "]\n\t"                                                                \
    "addq %[" base "], %[" to "]\n\t" STOOK_OP_STEP
#define OP_LEAVE_IF_NEGATIVE(reg)                                                                 \
    "testq %[" reg "], %[" reg "]\n\t"                                                            \
    "js %l[leave]\n\t" STOOK_OP_STEP
#define OP_ABORT_UNLESS_CPU(cpu)                                                                  \
    "cmpl %k[" cpu "], %%fs:4(%[rseq])\n\t"                                                       \
    "jne %l[aborted]\n\t" STOOK_OP_STEP

#define OP_STORE_NULL(at, offset) "movq $0, " offset "(%[" at "])\n\t" STOOK_OP_STEP
/* The word at `at` is read with acquire; the other one has 32 bits. */
#define OP_LEAVE_IF_EQUAL(at, value)                                                              \
    "cmpq %[" value "], (%[" at "])\n\t"                                                          \
    "je %l[leave]\n\t" STOOK_OP_STEP
#define OP_LEAVE_UNLESS_EQUAL32(at, value)                                                        \
    "cmpl %k[" value "], (%[" at "])\n\t"                                                         \
    "jne %l[leave]\n\t" STOOK_OP_STEP
#define OP_SUBTRACT_OR_LEAVE(reg, value)                                                          \
    "subl %k[" value "], %k[" reg "]\n\t"                                                         \
    "jb %l[leave]\n\t" STOOK_OP_STEP
#define OP_ADD(reg, value) "addl %k[" value "], %k[" reg "]\n\t" STOOK_OP_STEP
#define OP_LEAVE_IF_ABOVE(reg, value)                                                             \
    "cmpl %k[" value "], %k[" reg "]\n\t"                                                         \
    "ja %l[leave]\n\t" STOOK_OP_STEP

/* ---- commits -------------------------------------------------------------------------------- */

#define OP_CLOBBERS_SWAP "rax",
/*
 * was = the pointer at `at`; leave if it is `value`; the pointer = value.  The cmpxchg is the very
 * last instruction: a thread preempted right behind it is outside the section and keeps the flags.
 * Locked, because a remote taker may exchange the same word.
 */
#define OP_COMMIT_SWAP(was, at, value)                                                            \
    "movq (%[" at "]), %%rax\n\t"                                                                 \
    "cmpq %[" value "], %%rax\n\t"                                                                \
    "je %l[leave]\n\t" STOOK_OP_STEP                                                              \
    "movq %%rax, %[" was "]\n\t"                                                                  \
    "lock cmpxchgq %[" value "], (%[" at "])\n"                                                   \
    "2:\n\t"                                                                                      \
    "jne %l[leave]\n\t" /* outside the section: the flags are the thread's own */

#define OP_COMMIT_ADD(at, n)                                                                      \
    "addq %[" n "], (%[" at "])\n"                                                                \
    "2:\n\t"

/* Two sums of 64 bits: one store of 16 bytes, aligned, so an interruption finds all of it or nothing. */
#define OP_CLOBBERS_TWO "xmm0",
typedef long long op_two __attribute__((vector_size(16), may_alias));
#define OP_INPUT_TWO(name, two) [name] "x"(two)
#define OP_COMMIT_ADD_TWO(at, two)                                                                \
    "movdqa (%[" at "]), %%xmm0\n\t" STOOK_OP_STEP                                                \
    "paddq %[" two "], %%xmm0\n\t" STOOK_OP_STEP                                                  \
    "movdqa %%xmm0, (%[" at "])\n"                                                                 \
    "2:\n\t"

/* ---- several pointers at once --------------------------------------------------------------- */

/*
 * k = min(want, pointers between begin n and top); leave if that is 0; n = top - k pointers, which is also where
 * the next copy finds its sheaf's side.  By a branch, so that what is copied need not wait for begin.
 */
#define OP_TAKE(k, n, want, m, top)                                                               \
    "movq " top "(%[" m "]), %%r9\n\t"                                                            \
    "movl %k[" want "], %k[" k "]\n\t"                                                            \
    "movq %%r9, %%rax\n\t"                                                                        \
    "subq %[" n "], %%rax\n\t"                                                                    \
    "jbe %l[leave]\n\t"                                                                           \
    "shrq $3, %%rax\n\t"                                                                          \
    "cmpq %[" k "], %%rax\n\t"                                                                    \
    "jae 11f\n\t"                                                                                 \
    "movl %%eax, %k[" k "]\n"                                                                      \
    "11:\n\t"                                                                                     \
    "movq %[" k "], %%rax\n\t"                                                                    \
    "negq %%rax\n\t"                                                                              \
    "leaq (%%r9, %%rax, 8), %%r9\n\t"                                                             \
    "movq %%r9, %[" n "]\n\t"
/* k = min(have, places between top and end n); leave if that is 0; n = top + k pointers, and the copy goes to top. */
#define OP_FIT(k, n, have, m, top)                                                                \
    "movq " top "(%[" m "]), %%r9\n\t"                                                            \
    "movl %k[" have "], %k[" k "]\n\t"                                                            \
    "subq %%r9, %[" n "]\n\t"                                                                     \
    "jbe %l[leave]\n\t"                                                                           \
    "shrq $3, %[" n "]\n\t"                                                                       \
    "cmpq %[" k "], %[" n "]\n\t"                                                                 \
    "jae 11f\n\t"                                                                                 \
    "movl %k[" n "], %k[" k "]\n"                                                                  \
    "11:\n\t"                                                                                     \
    "leaq (%%r9, %[" k "], 8), %[" n "]\n\t"

/*
 * Up to four pointers have a path of their own, with one taken branch each.  Its end and the other path each begin a line of
 * code: that costs no instruction, and a line that is crossed costs a cycle.  Others move 64 bytes a turn
 * where the CPU has AVX2 (`wide`), else and below eight pointers 32.  The last three pointers go one by
 * one: pointers that were pushed singly a moment ago are still in the store buffer, which forwards
 * no two stores to one load.
 *
 * rax: where the caller's array is at, r8: pointers left, then a pointer; r9: the sheaf's side, then from
 * the array there.  No register of arguments is clobbered, so that the caller of a section keeps
 * its own without saving others.  The steps of a move are the macros' arguments: a pointer at a
 * place of both sides, then 32 and 64 bytes.
 */
#define OP_CLOBBERS_COPY "rax", "r8", "r9", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
#define OP_INPUT_WIDE [wide] "m"(percpu.wide)
#define OP_COPY(objects, k, COPY_8, COPY_32, COPY_64, BEFORE, NARROW, AFTER)                      \
    "cmpl $2, %k[" k "]\n\t"                                                                      \
    "jb 5f\n\t"                                                                                   \
    "je 14f\n\t"                                                                                   \
    "cmpl $4, %k[" k "]\n\t"                                                                      \
    "ja 6f\n\t" COPY_8("-8(%[" objects "], %[" k "], 8)", "-8(%%r9, %[" k "], 8)")                \
    COPY_8("16(%[" objects "])", "16(%%r9)") "jmp 14f\n\t.p2align 6\n"                             \
    "6:\n\t"                                                                                       \
    "movq %[" objects "], %%rax\n\t"                                                               \
    "subq %%rax, %%r9\n\t"                                                                         \
    "movl %k[" k "], %%r8d\n\t" BEFORE                                                             \
    "subl $8, %%r8d\n\t"                                                                           \
    "jb 12f\n\t"                                                                                   \
    "cmpb $0, %[wide]\n\t"                                                                         \
    "je 12f\n"                                                                                     \
    "9:\n\t" COPY_64                                                                               \
    "addq $64, %%rax\n\t"                                                                          \
    "subl $8, %%r8d\n\t"                                                                           \
    "jae 9b\n\t" NARROW                                                                            \
    "vzeroupper\n"                                                                                 \
    "12:\n\t"                                                                                      \
    "addl $4, %%r8d\n\t"                                                                           \
    "js 10f\n"                                                                                     \
    "8:\n\t" COPY_32                                                                               \
    "addq $32, %%rax\n\t"                                                                          \
    "subl $4, %%r8d\n\t"                                                                           \
    "jae 8b\n"                                                                                     \
    "10:\n\t" AFTER                                                                                \
    "testl $3, %k[" k "]\n\t"                                                                      \
    "jz 7f\n\t"                                                                                    \
    "testl $2, %k[" k "]\n\t"                                                                      \
    "jz 13f\n\t" COPY_8("(%%rax)", "(%%rax, %%r9)") COPY_8("8(%%rax)", "8(%%rax, %%r9)")           \
    "addq $16, %%rax\n"                                                                            \
    "13:\n\t"                                                                                      \
    "testl $1, %k[" k "]\n\t"                                                                      \
    "jz 7f\n\t" COPY_8("(%%rax)", "(%%rax, %%r9)") "jmp 7f\n\t.p2align 6\n"                       \
    "14:\n\t" COPY_8("8(%[" objects "])", "8(%%r9)")                                               \
    "5:\n\t" COPY_8("(%[" objects "])", "(%%r9)")                                                  \
    "7:\n\t" STOOK_OP_STEP

/* k pointers from the point to the array. */
#define OP_COPY_OUT_8(array, sheaf)                                                               \
    "movq " sheaf ", %%r8\n\t"                                                                     \
    "movq %%r8, " array "\n\t"
#define OP_COPY_OUT(objects, k)                                                                   \
    OP_COPY(objects, k, OP_COPY_OUT_8,                                                            \
            "movups (%%rax, %%r9), %%xmm0\n\t"                                                    \
            "movups 16(%%rax, %%r9), %%xmm1\n\t"                                                  \
            "movups %%xmm0, (%%rax)\n\t"                                                          \
            "movups %%xmm1, 16(%%rax)\n\t",                                                       \
            "vmovdqu (%%rax, %%r9), %%ymm0\n\t"                                                   \
            "vmovdqu 32(%%rax, %%r9), %%ymm1\n\t"                                                 \
            "vmovdqu %%ymm0, (%%rax)\n\t"                                                         \
            "vmovdqu %%ymm1, 32(%%rax)\n\t",                                                      \
            "", "", "")

/*
 * k pointers from the array to the point; leave at a NULL, which no sheaf may hold.  32 bytes at a
 * time are compared by the low halves of pointers, so that an object at a multiple of 4 GiB is taken
 * for one; the caller puts that down another way.
 */
#define OP_COPY_IN_8(array, sheaf)                                                                \
    "movq " array ", %%r8\n\t"                                                                     \
    "testq %%r8, %%r8\n\t"                                                                         \
    "jz %l[leave]\n\t"                                                                             \
    "movq %%r8, " sheaf "\n\t"
#define OP_COPY_IN(objects, k)                                                                    \
    OP_COPY(objects, k, OP_COPY_IN_8,                                                             \
            "movups (%%rax), %%xmm0\n\t"                                                          \
            "movups 16(%%rax), %%xmm1\n\t"                                                        \
            "movups %%xmm0, (%%rax, %%r9)\n\t"                                                    \
            "movups %%xmm1, 16(%%rax, %%r9)\n\t"                                                  \
            "shufps $0x88, %%xmm1, %%xmm0\n\t"                                                    \
            "pcmpeqd %%xmm2, %%xmm0\n\t"                                                          \
            "por %%xmm0, %%xmm3\n\t",                                                             \
            "vmovdqu (%%rax), %%ymm0\n\t"                                                         \
            "vmovdqu 32(%%rax), %%ymm1\n\t"                                                       \
            "vmovdqu %%ymm0, (%%rax, %%r9)\n\t"                                                   \
            "vmovdqu %%ymm1, 32(%%rax, %%r9)\n\t"                                                 \
            "vpcmpeqq %%ymm2, %%ymm0, %%ymm0\n\t"                                                 \
            "vpcmpeqq %%ymm2, %%ymm1, %%ymm1\n\t"                                                 \
            "vpor %%ymm0, %%ymm3, %%ymm3\n\t"                                                     \
            "vpor %%ymm1, %%ymm4, %%ymm4\n\t",                                                    \
            "pxor %%xmm2, %%xmm2\n\t"                                                             \
            "pxor %%xmm3, %%xmm3\n\t" /* all ones where a pointer was NULL */                     \
            "pxor %%xmm4, %%xmm4\n\t",                                                            \
            "vpor %%ymm4, %%ymm3, %%ymm3\n\t"                                                     \
            "vextracti128 $1, %%ymm3, %%xmm0\n\t"                                                 \
            "vpor %%xmm0, %%xmm3, %%xmm3\n\t",                                                    \
            "pmovmskb %%xmm3, %%r8d\n\t"                                                          \
            "testl %%r8d, %%r8d\n\t"                                                              \
            "jnz %l[leave]\n\t")

#endif
