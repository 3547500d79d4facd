/* SPDX-License-Identifier: MIT */
/*
 * ops_aarch64.h - the operations that restartable sections are made of, for aarch64; ops_x86_64.h
 * says what they are.  Here is what is different on a machine of this kind:
 *
 * Order.  A section on one CPU needs none with others on it: the kernel orders them as it switches.
 * With a thread that opened the slot from another CPU (a store-release of main) it is the dependency:
 * every address that is read or written comes from main.  A section that reads beside it loads with
 * acquire (LEAVE_IF_EQUAL, LEAVE_UNLESS_EQUAL32).  A thread that takes a slot of another CPU reads
 * after a fence only.
 *
 * Reach.  A conditional branch spans 1 MiB and the compiler may put a label into another section:
 * branches stay within the subsection behind the code, which goes on to the label.  The abort exit is
 * there too, behind the signature, which is an instruction that traps (brk).
 *
 * The thread pointer is read each time: a stack that moves between threads may go through here.
 *
 * x15 holds the struct rseq from BEGIN to LOAD_CPU, x14 is each operation's own.
 */
#ifndef STOOK_ARCH_OPS_AARCH64_H
#define STOOK_ARCH_OPS_AARCH64_H

#define STOOK_RSEQ_SIG 0xd428bc00 /* glibc's RSEQ_SIG on aarch64: brk #0x45e0 */

#define STOOK_OP_STRING_(text) #text
#define STOOK_OP_STRING(text) STOOK_OP_STRING_(text)

/* What stands between operations in tests may write memory and the registers that it names. */
#ifndef STOOK_OP_STEP
#define STOOK_OP_STEP ""
#define STOOK_OP_STEP_CLOBBERS
#endif
#define STOOK_OP_CLOBBERS STOOK_OP_STEP_CLOBBERS "x14", "x15",

#define STOOK_OP_BEGIN(tmp)                                                                       \
    ".pushsection __rseq_cs, \"aw?\"\n\t"                                                          \
    ".balign 32\n"                                                                                \
    "3:\n\t"                                                                                      \
    ".long 0, 0\n\t"                                                                              \
    ".quad 1f, (2f - 1f), 4f\n\t"                                                                 \
    ".popsection\n\t"                                                                             \
    "mrs x15, tpidr_el0\n\t"                                                                      \
    "add x15, x15, %[rseq]\n\t"                                                                   \
    "adrp %[" tmp "], 3b\n\t"                                                                     \
    "add %[" tmp "], %[" tmp "], :lo12:3b\n\t"                                                    \
    "str %[" tmp "], [x15, #8]\n"                                                                 \
    "1:\n\t" STOOK_OP_STEP
/* Label 6 leaves, label 5 (behind the section) and the kernel abort. */
#define STOOK_OP_END(aborted)                                                                     \
    ".subsection 1\n"                                                                             \
    "6:\n\t"                                                                                      \
    "b %l[leave]\n\t"                                                                             \
    ".inst " STOOK_OP_STRING(STOOK_RSEQ_SIG) "\n"                                                 \
    "4:\n"                                                                                        \
    "5:\n\t"                                                                                      \
    "b %l[" aborted "]\n\t"                                                                       \
    ".previous"

#define STOOK_OP_LOAD_CPU(to) "ldrsw %[" to "], [x15, #4]\n\t" STOOK_OP_STEP
#define STOOK_OP_ROW(to, base, shift)                                                             \
    "add %[" to "], %[" base "], %[" to "], lsl #" STOOK_OP_STRING(shift) "\n\t" STOOK_OP_STEP
/* Acquire: pairs with the release of the thread that opened the slot on another CPU. */
#define STOOK_OP_LOAD_GATE(to, at, offset)                                                        \
    "add x14, %[" at "], #" offset "\n\t"                                                         \
    "ldar %[" to "], [x14]\n\t" STOOK_OP_STEP
#define STOOK_OP_LOAD(to, at, offset)                                                             \
    "ldr %[" to "], [%[" at "], #" offset "]\n\t" STOOK_OP_STEP
#define STOOK_OP_LOAD32(to, at, offset)                                                           \
    "ldr %w[" to "], [%[" at "], #" offset "]\n\t" STOOK_OP_STEP
#define STOOK_OP_LEAVE_IF_NULL(reg) "cbz %[" reg "], 6f\n\t" STOOK_OP_STEP
#define STOOK_OP_LEAVE_UNLESS_ABOVE(reg, other)                                                   \
    "cmp %[" reg "], %[" other "]\n\t"                                                            \
    "b.ls 6f\n\t" STOOK_OP_STEP
#define STOOK_OP_INCREMENT(reg) "add %w[" reg "], %w[" reg "], #1\n\t" STOOK_OP_STEP
/* No ldp of the word and its neighbour: one alone was stored a moment ago. */
#define STOOK_OP_LEAVE_UNLESS_BELOW(reg, at, offset)                                              \
    "ldr w14, [%[" at "], #" offset "]\n\t"                                                       \
    "cmp %w[" reg "], w14\n\t"                                                                    \
    "b.hs 6f\n\t" STOOK_OP_STEP
#define STOOK_OP_TAKE_BELOW(to, top) "ldr %[" to "], [%[" top "], #-8]!\n\t" STOOK_OP_STEP
#define STOOK_OP_PUT_AT(from, top) "str %[" from "], [%[" top "]], #8\n\t" STOOK_OP_STEP
#define STOOK_OP_STORE_ELEMENT(from, at, index, offset)                                           \
    "add x14, %[" at "], %[" index "], lsl #3\n\t"                                                \
    "str %[" from "], [x14, #" offset "]\n\t" STOOK_OP_STEP
#define STOOK_OP_COMMIT(from, at, offset)                                                         \
    "str %[" from "], [%[" at "], #" offset "]\n"                                                  \
    "2:\n\t"
#define STOOK_OP_COMMIT32(from, at, offset)                                                       \
    "str %w[" from "], [%[" at "], #" offset "]\n"                                                 \
    "2:\n\t"

#endif /* STOOK_ARCH_OPS_AARCH64_H */
