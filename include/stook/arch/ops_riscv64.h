/* SPDX-License-Identifier: MIT */
/*
 * ops_riscv64.h - the operations that restartable sections are made of, for RISC-V (RV64GC);
 * ops_x86_64.h says what they are.  Here is what is different on a machine of this kind:
 *
 * Order.  As on aarch64 (ops_aarch64.h): dependencies order what comes from main, and a section that
 * reads beside it loads with acquire, which is a load and a fence here.
 *
 * Reach.  A conditional branch spans 4 KiB: the assembler turns one that is too short round a jump.
 * The exits stand in the subsection behind the code and jump to the compiler's labels by way of t1.
 *
 * Width.  32-bit values are sign-extended in registers; those of sheaves and stocks are below 2^31.
 *
 * Signature.  No instruction that traps has room for a number, so Linux and glibc have chosen a write to
 * a register that may only be read (csrw mhartid, zero).
 *
 * t0 holds the struct rseq from BEGIN to LOAD_CPU, t1 is each operation's own.
 */
#ifndef STOOK_ARCH_OPS_RISCV64_H
#define STOOK_ARCH_OPS_RISCV64_H

#define STOOK_RSEQ_SIG 0xf1401073 /* RSEQ_SIG on RISC-V, from Linux 5.18 on */

#define STOOK_OP_STRING_(text) #text
#define STOOK_OP_STRING(text) STOOK_OP_STRING_(text)

/* What stands between operations in tests may write memory and the registers that it names. */
#ifndef STOOK_OP_STEP
#define STOOK_OP_STEP ""
#define STOOK_OP_STEP_CLOBBERS
#endif
#define STOOK_OP_CLOBBERS STOOK_OP_STEP_CLOBBERS "t0", "t1",

#define STOOK_OP_BEGIN(tmp)                                                                       \
    ".pushsection __rseq_cs, \"aw?\"\n\t"                                                          \
    ".balign 32\n"                                                                                \
    "3:\n\t"                                                                                      \
    ".long 0, 0\n\t"                                                                              \
    ".quad 1f, (2f - 1f), 4f\n\t"                                                                 \
    ".popsection\n\t"                                                                             \
    "add t0, tp, %[rseq]\n\t"                                                                     \
    "lla %[" tmp "], 3b\n\t"                                                                      \
    "sd %[" tmp "], 8(t0)\n"                                                                      \
    "1:\n\t" STOOK_OP_STEP
/* Label 6 leaves, label 5 (behind the section) and the kernel abort. */
#define STOOK_OP_END(aborted)                                                                     \
    ".subsection 1\n"                                                                             \
    "6:\n\t"                                                                                      \
    "jump %l[leave], t1\n\t"                                                                      \
    ".balign 4\n\t"                                                                               \
    ".4byte " STOOK_OP_STRING(STOOK_RSEQ_SIG) "\n"                                                \
    "4:\n"                                                                                        \
    "5:\n\t"                                                                                      \
    "jump %l[" aborted "], t1\n\t"                                                                \
    ".previous"

#define STOOK_OP_LOAD_CPU(to) "lw %[" to "], 4(t0)\n\t" STOOK_OP_STEP
#define STOOK_OP_ROW(to, base, shift)                                                             \
    "slli %[" to "], %[" to "], " STOOK_OP_STRING(shift) "\n\t"                                   \
    "add %[" to "], %[" to "], %[" base "]\n\t" STOOK_OP_STEP
/* Acquire: pairs with the release of the thread that opened the slot on another CPU. */
#define STOOK_OP_LOAD_GATE(to, at, offset)                                                        \
    "ld %[" to "], " offset "(%[" at "])\n\t"                                                     \
    "fence r, rw\n\t" STOOK_OP_STEP
#define STOOK_OP_LOAD(to, at, offset) "ld %[" to "], " offset "(%[" at "])\n\t" STOOK_OP_STEP
#define STOOK_OP_LOAD32(to, at, offset) "lw %[" to "], " offset "(%[" at "])\n\t" STOOK_OP_STEP
#define STOOK_OP_LEAVE_IF_NULL(reg) "beqz %[" reg "], 6f\n\t" STOOK_OP_STEP
#define STOOK_OP_LEAVE_UNLESS_ABOVE(reg, other)                                                   \
    "bleu %[" reg "], %[" other "], 6f\n\t" STOOK_OP_STEP
#define STOOK_OP_INCREMENT(reg) "addi %[" reg "], %[" reg "], 1\n\t" STOOK_OP_STEP
#define STOOK_OP_LEAVE_UNLESS_BELOW(reg, at, offset)                                              \
    "lw t1, " offset "(%[" at "])\n\t"                                                            \
    "bgeu %[" reg "], t1, 6f\n\t" STOOK_OP_STEP
#define STOOK_OP_TAKE_BELOW(to, top)                                                              \
    "addi %[" top "], %[" top "], -8\n\t"                                                         \
    "ld %[" to "], (%[" top "])\n\t" STOOK_OP_STEP
#define STOOK_OP_PUT_AT(from, top)                                                                \
    "sd %[" from "], (%[" top "])\n\t"                                                            \
    "addi %[" top "], %[" top "], 8\n\t" STOOK_OP_STEP
#define STOOK_OP_STORE_ELEMENT(from, at, index, offset)                                           \
    "slli t1, %[" index "], 3\n\t"                                                                \
    "add t1, t1, %[" at "]\n\t"                                                                   \
    "sd %[" from "], " offset "(t1)\n\t" STOOK_OP_STEP
#define STOOK_OP_COMMIT(from, at, offset)                                                         \
    "sd %[" from "], " offset "(%[" at "])\n"                                                      \
    "2:\n\t"
#define STOOK_OP_COMMIT32(from, at, offset)                                                       \
    "sw %[" from "], " offset "(%[" at "])\n"                                                      \
    "2:\n\t"

#endif /* STOOK_ARCH_OPS_RISCV64_H */
