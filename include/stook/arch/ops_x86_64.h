/* SPDX-License-Identifier: MIT */
/*
 * ops_x86_64.h - the operations that restartable sections are made of, for x86-64.
 *
 * A section is a sequence of operations (stook/sections.h, percpu/sections.h); an operation is a
 * string of assembly over named operands.  Every section has the inputs `rseq` (from the thread
 * pointer to the thread's struct rseq) and the label `leave`.  BEGIN is the first operation, a COMMIT
 * the last one but END: its store is the last instruction of the section.  No operation expects flags
 * of another one.
 */
#ifndef STOOK_ARCH_OPS_X86_64_H
#define STOOK_ARCH_OPS_X86_64_H

#define STOOK_RSEQ_SIG 0x53053053 /* glibc's RSEQ_SIG on x86 */

#define STOOK_OP_STRING_(text) #text
#define STOOK_OP_STRING(text) STOOK_OP_STRING_(text)

/*
 * Between operations: empty except in tests, which spin there to widen every window.  The code there may only
 * write memory, since the section can end at any point.
 */
#ifndef STOOK_OP_STEP
#define STOOK_OP_STEP ""
#endif
#define STOOK_OP_CLOBBERS /* registers that operations change beside their operands */

/*
 * Arms: the section's descriptor, from local label 1 up to 2, aborting to 4, goes into the struct rseq
 * by the last instruction before the section.  "?": a section that is discarded with its COMDAT group
 * takes its descriptor and its abort exit along.  Changes tmp.
 */
#define STOOK_OP_BEGIN(tmp)                                                                       \
    ".pushsection __rseq_cs, \"aw?\"\n\t"                                                          \
    ".balign 32\n"                                                                                \
    "3:\n\t"                                                                                      \
    ".long 0, 0\n\t"                                                                              \
    ".quad 1f, (2f - 1f), 4f\n\t"                                                                 \
    ".popsection\n\t"                                                                             \
    "leaq 3b(%%rip), %[" tmp "]\n\t"                                                              \
    "movq %[" tmp "], %%fs:8(%[rseq])\n"                                                          \
    "1:\n\t" STOOK_OP_STEP
/* The kernel goes on at label 4, behind the signature, which is an instruction that traps. */
#define STOOK_OP_END(aborted)                                                                     \
    ".pushsection __rseq_abort, \"ax?\"\n\t"                                                       \
    ".byte 0x0f, 0xb9, 0x3d\n\t"                                                                  \
    ".long 0x53053053\n"                                                                          \
    "4:\n\t"                                                                                      \
    "jmp %l[" aborted "]\n\t"                                                                     \
    ".popsection"

/* to = the CPU; -1 or -2 for a thread that is not registered. */
#define STOOK_OP_LOAD_CPU(to) "movslq %%fs:4(%[rseq]), %[" to "]\n\t" STOOK_OP_STEP
/* to = base + (to << shift). */
#define STOOK_OP_ROW(to, base, shift)                                                             \
    "shlq $" STOOK_OP_STRING(shift) ", %[" to "]\n\t"                                             \
    "addq %[" base "], %[" to "]\n\t" STOOK_OP_STEP
/* to = the pointer `offset` behind `at`.  GATE: what the section reads next is read after it (acquire). */
#define STOOK_OP_LOAD_GATE(to, at, offset) STOOK_OP_LOAD(to, at, offset)
#define STOOK_OP_LOAD(to, at, offset)                                                             \
    "movq " offset "(%[" at "]), %[" to "]\n\t" STOOK_OP_STEP
#define STOOK_OP_LOAD32(to, at, offset) "movl " offset "(%[" at "]), %k[" to "]\n\t" STOOK_OP_STEP
#define STOOK_OP_LEAVE_IF_NULL(reg)                                                               \
    "testq %[" reg "], %[" reg "]\n\t"                                                            \
    "jz %l[leave]\n\t" STOOK_OP_STEP
/* Unless one address is above the other. */
#define STOOK_OP_LEAVE_UNLESS_ABOVE(reg, other)                                                   \
    "cmpq %[" other "], %[" reg "]\n\t"                                                           \
    "jbe %l[leave]\n\t" STOOK_OP_STEP
#define STOOK_OP_INCREMENT(reg) "addl $1, %k[" reg "]\n\t" STOOK_OP_STEP
/* Unless reg is below the 32-bit word at `at`. */
#define STOOK_OP_LEAVE_UNLESS_BELOW(reg, at, offset)                                              \
    "cmpl " offset "(%[" at "]), %k[" reg "]\n\t"                                                 \
    "jae %l[leave]\n\t" STOOK_OP_STEP
/* The pointer below top, and top goes down to it; a pointer at top, and top goes up. */
#define STOOK_OP_TAKE_BELOW(to, top)                                                              \
    "movq -8(%[" top "]), %[" to "]\n\t"                                                          \
    "subq $8, %[" top "]\n\t" STOOK_OP_STEP
#define STOOK_OP_PUT_AT(from, top)                                                                \
    "movq %[" from "], (%[" top "])\n\t"                                                          \
    "addq $8, %[" top "]\n\t" STOOK_OP_STEP
/* Of an array of pointers that begins `offset` behind `at`. */
#define STOOK_OP_STORE_ELEMENT(from, at, index, offset)                                           \
    "movq %[" from "], " offset "(%[" at "], %[" index "], 8)\n\t" STOOK_OP_STEP
#define STOOK_OP_COMMIT(from, at, offset)                                                         \
    "movq %[" from "], " offset "(%[" at "])\n"                                                   \
    "2:\n\t"
#define STOOK_OP_COMMIT32(from, at, offset)                                                       \
    "movl %k[" from "], " offset "(%[" at "])\n"                                                   \
    "2:\n\t"

#endif /* STOOK_ARCH_OPS_X86_64_H */
