/* SPDX-License-Identifier: MIT */
/*
 * ops_riscv64.h - the operations that only the library's sections use (percpu/sections.h), as
 * ops_x86_64.h says; stook/arch/ops_riscv64.h has the others.
 *
 * A commit that reads before it writes is load-reserved ... store-conditional: that store is the very
 * last instruction, and a thread preempted right behind it keeps the status register.  Linux takes the
 * reservation away as it returns from any exception.
 *
 * Copies move one pointer a turn: nothing else was measured.
 */
#ifndef STOOK_PERCPU_OPS_RISCV64_H
#define STOOK_PERCPU_OPS_RISCV64_H

#define OP_ROW(to, base)                                                                          \
    "slli %[" to "], %[" to "], %[shift]\n\t"                                                     \
    "add %[" to "], %[" to "], %[" base "]\n\t" STOOK_OP_STEP
#define OP_LEAVE_IF_NEGATIVE(reg) "bltz %[" reg "], 6f\n\t" STOOK_OP_STEP
#define OP_ABORT_UNLESS_CPU(cpu)                                                                  \
    "lw t1, 4(t0)\n\t"                                                                            \
    "sext.w t0, %[" cpu "]\n\t"                                                                   \
    "bne t1, t0, 5f\n\t" STOOK_OP_STEP

#define OP_STORE_NULL(at, offset) "sd zero, " offset "(%[" at "])\n\t" STOOK_OP_STEP
/* Acquire: pairs with the release of the thread that opened the slot or the stock on another CPU. */
#define OP_LEAVE_IF_EQUAL(at, value)                                                              \
    "ld t1, (%[" at "])\n\t"                                                                      \
    "fence r, rw\n\t"                                                                             \
    "beq t1, %[" value "], 6f\n\t" STOOK_OP_STEP
#define OP_LEAVE_UNLESS_EQUAL32(at, value)                                                        \
    "lw t1, (%[" at "])\n\t"                                                                      \
    "fence r, rw\n\t"                                                                             \
    "subw t1, t1, %[" value "]\n\t"                                                               \
    "bnez t1, 6f\n\t" STOOK_OP_STEP
#define OP_SUBTRACT_OR_LEAVE(reg, value)                                                          \
    "sext.w t1, %[" value "]\n\t"                                                                 \
    "bltu %[" reg "], t1, 6f\n\t"                                                                 \
    "sub %[" reg "], %[" reg "], t1\n\t" STOOK_OP_STEP
#define OP_ADD(reg, value) "addw %[" reg "], %[" reg "], %[" value "]\n\t" STOOK_OP_STEP
#define OP_LEAVE_IF_ABOVE(reg, value)                                                             \
    "sext.w t1, %[" value "]\n\t"                                                                 \
    "bltu t1, %[" reg "], 6f\n\t" STOOK_OP_STEP

/* ---- commits -------------------------------------------------------------------------------- */

#define OP_CLOBBERS_SWAP
/* The acquire is for what the slot's earlier owner left in its other words. */
#define OP_COMMIT_SWAP(was, at, value)                                                            \
    "lr.d.aq %[" was "], (%[" at "])\n\t"                                                         \
    "beq %[" was "], %[" value "], 6f\n\t"                                                        \
    "sc.d t1, %[" value "], (%[" at "])\n"                                                        \
    "2:\n\t"                                                                                      \
    "bnez t1, 5f\n\t" /* outside the section: the status is the thread's own */

#define OP_COMMIT_ADD(at, n)                                                                      \
    "ld t1, (%[" at "])\n\t"                                                                      \
    "add t1, t1, %[" n "]\n\t"                                                                    \
    "sd t1, (%[" at "])\n"                                                                        \
    "2:\n\t"

/* No store of 16 bytes is done or not, before Zacas: the section leaves, and the caller adds to the row of
 * no CPU with two atomic instructions (percpu/rows.h). */
#define OP_CLOBBERS_TWO
typedef struct __attribute__((may_alias)) {
    long long count, bytes;
} op_two;
#define OP_INPUT_TWO(name, two) [name##_count] "r"((two).count), [name##_bytes] "r"((two).bytes)
#define OP_COMMIT_ADD_TWO(at, two)                                                                \
    "j 6f\n"                                                                                      \
    "2:\n\t"

/* ---- several pointers at once --------------------------------------------------------------- */

/* t2: the sheaf's side; t3: the array's; t4: pointers left; t5: a pointer. */
#define OP_TAKE(k, n, want, m, top)                                                               \
    "ld t2, " top "(%[" m "])\n\t"                                                                \
    "sext.w %[" k "], %[" want "]\n\t"                                                            \
    "bleu t2, %[" n "], 6f\n\t"                                                                   \
    "sub t1, t2, %[" n "]\n\t"                                                                    \
    "srli t1, t1, 3\n\t"                                                                          \
    "bgeu t1, %[" k "], 11f\n\t"                                                                  \
    "mv %[" k "], t1\n"                                                                            \
    "11:\n\t"                                                                                     \
    "slli t1, %[" k "], 3\n\t"                                                                    \
    "sub t2, t2, t1\n\t"                                                                          \
    "mv %[" n "], t2\n\t"
#define OP_FIT(k, n, have, m, top)                                                                \
    "ld t2, " top "(%[" m "])\n\t"                                                                \
    "sext.w %[" k "], %[" have "]\n\t"                                                            \
    "bleu %[" n "], t2, 6f\n\t"                                                                   \
    "sub t1, %[" n "], t2\n\t"                                                                    \
    "srli t1, t1, 3\n\t"                                                                          \
    "bgeu t1, %[" k "], 11f\n\t"                                                                  \
    "mv %[" k "], t1\n"                                                                            \
    "11:\n\t"                                                                                     \
    "slli t1, %[" k "], 3\n\t"                                                                    \
    "add %[" n "], t2, t1\n\t"
#define OP_CLOBBERS_COPY "t2", "t3", "t4", "t5",
#define OP_INPUT_WIDE [wide] "m"(percpu.wide)
#define OP_COPY(objects, k, from, to, CHECK)                                                      \
    "mv t3, %[" objects "]\n\t"                                                                   \
    "mv t4, %[" k "]\n"                                                                           \
    "8:\n\t"                                                                                      \
    "ld t5, (" from ")\n\t" CHECK                                                                 \
    "sd t5, (" to ")\n\t"                                                                         \
    "addi t2, t2, 8\n\t"                                                                          \
    "addi t3, t3, 8\n\t"                                                                          \
    "addi t4, t4, -1\n\t"                                                                         \
    "bnez t4, 8b\n\t" STOOK_OP_STEP
#define OP_COPY_OUT(objects, k) OP_COPY(objects, k, "t2", "t3", "")
#define OP_COPY_IN(objects, k) OP_COPY(objects, k, "t3", "t2", "beqz t5, 6f\n\t")

#endif
