/* SPDX-License-Identifier: MIT */
/*
 * ops_aarch64.h - the operations that only the library's sections use (percpu/sections.h), as
 * ops_x86_64.h says; stook/arch/ops_aarch64.h has the others.
 *
 * Commits that read before they write are load-exclusive ... store-exclusive: that store is the very
 * last instruction, and a thread preempted right behind it keeps the status register.  (Any exception
 * before it takes the reservation away, so that nothing else may stand between the two.)  No
 * compare-and-swap instruction: the first CPUs have none, and a call of an outlined one would go on
 * behind the commit.
 */
#ifndef STOOK_PERCPU_OPS_AARCH64_H
#define STOOK_PERCPU_OPS_AARCH64_H

#define OP_ROW(to, base)                                                                          \
    "add %[" to "], %[" base "], %[" to "], lsl %[shift]\n\t" STOOK_OP_STEP
#define OP_LEAVE_IF_NEGATIVE(reg) "tbnz %[" reg "], #63, 6f\n\t" STOOK_OP_STEP
#define OP_ABORT_UNLESS_CPU(cpu)                                                                  \
    "ldr w14, [x15, #4]\n\t"                                                                      \
    "cmp w14, %w[" cpu "]\n\t"                                                                    \
    "b.ne 5f\n\t" STOOK_OP_STEP

#define OP_STORE_NULL(at, offset) "str xzr, [%[" at "], #" offset "]\n\t" STOOK_OP_STEP
/* Acquire: pairs with the release of the thread that opened the slot or the stock on another CPU.
 * The section's next reads depend on this word by a branch only. */
#define OP_LEAVE_IF_EQUAL(at, value)                                                              \
    "ldar x14, [%[" at "]]\n\t"                                                                   \
    "cmp x14, %[" value "]\n\t"                                                                   \
    "b.eq 6f\n\t" STOOK_OP_STEP
#define OP_LEAVE_UNLESS_EQUAL32(at, value)                                                        \
    "ldar w14, [%[" at "]]\n\t"                                                                   \
    "cmp w14, %w[" value "]\n\t"                                                                  \
    "b.ne 6f\n\t" STOOK_OP_STEP
#define OP_SUBTRACT_OR_LEAVE(reg, value)                                                          \
    "subs %w[" reg "], %w[" reg "], %w[" value "]\n\t"                                            \
    "b.lo 6f\n\t" STOOK_OP_STEP
#define OP_ADD(reg, value) "add %w[" reg "], %w[" reg "], %w[" value "]\n\t" STOOK_OP_STEP
#define OP_LEAVE_IF_ABOVE(reg, value)                                                             \
    "cmp %w[" reg "], %w[" value "]\n\t"                                                          \
    "b.hi 6f\n\t" STOOK_OP_STEP

/* ---- commits -------------------------------------------------------------------------------- */

#define OP_CLOBBERS_SWAP
/* The acquire is for what the slot's earlier owner left in its other words.  The store needs no order:
 * a thread that sees the slot closed reads nothing of it, and opening it is a release. */
#define OP_COMMIT_SWAP(was, at, value)                                                            \
    "ldaxr %[" was "], [%[" at "]]\n\t"                                                           \
    "cmp %[" was "], %[" value "]\n\t"                                                            \
    "b.eq 6f\n\t"                                                                                 \
    "stxr w14, %[" value "], [%[" at "]]\n"                                                       \
    "2:\n\t"                                                                                      \
    "cbnz w14, 5f\n\t" /* outside the section: the status is the thread's own */

#define OP_COMMIT_ADD(at, n)                                                                      \
    "ldr x14, [%[" at "]]\n\t"                                                                    \
    "add x14, x14, %[" n "]\n\t"                                                                  \
    "str x14, [%[" at "]]\n"                                                                      \
    "2:\n\t"

/*
 * A store of two registers may be interrupted between them; a store-exclusive pair is done or not, on
 * any CPU.  It is a release: a reader of frees first and then of allocations finds no more frees, of
 * one thread's too.
 */
#define OP_CLOBBERS_TWO "x12", "x13",
typedef struct __attribute__((may_alias)) {
    long long count, bytes;
} op_two;
#define OP_INPUT_TWO(name, two) [name##_count] "r"((two).count), [name##_bytes] "r"((two).bytes)
#define OP_COMMIT_ADD_TWO(at, two)                                                                \
    "ldxp x12, x13, [%[" at "]]\n\t"                                                              \
    "add x12, x12, %[" two "_count]\n\t"                                                          \
    "add x13, x13, %[" two "_bytes]\n\t"                                                          \
    "stlxp w14, x12, x13, [%[" at "]]\n"                                                          \
    "2:\n\t"                                                                                      \
    "cbnz w14, 5f\n\t"

/* ---- several pointers at once --------------------------------------------------------------- */

/* x13: the sheaf's side; x12: the array's; w14: pointers left; four a turn, and the last three one by
 * one. */
#define OP_TAKE(k, n, want, m, top)                                                               \
    "ldr x13, [%[" m "], #" top "]\n\t"                                                           \
    "mov %w[" k "], %w[" want "]\n\t"                                                             \
    "subs x14, x13, %[" n "]\n\t"                                                                 \
    "b.ls 6f\n\t"                                                                                 \
    "lsr x14, x14, #3\n\t"                                                                        \
    "cmp x14, %[" k "]\n\t"                                                                       \
    "b.hs 11f\n\t"                                                                                \
    "mov %w[" k "], w14\n"                                                                         \
    "11:\n\t"                                                                                     \
    "sub x13, x13, %[" k "], lsl #3\n\t"                                                          \
    "mov %[" n "], x13\n\t"
#define OP_FIT(k, n, have, m, top)                                                                \
    "ldr x13, [%[" m "], #" top "]\n\t"                                                           \
    "mov %w[" k "], %w[" have "]\n\t"                                                             \
    "subs x14, %[" n "], x13\n\t"                                                                 \
    "b.ls 6f\n\t"                                                                                 \
    "lsr x14, x14, #3\n\t"                                                                        \
    "cmp x14, %[" k "]\n\t"                                                                       \
    "b.hs 11f\n\t"                                                                                \
    "mov %w[" k "], w14\n"                                                                         \
    "11:\n\t"                                                                                     \
    "add %[" n "], x13, %[" k "], lsl #3\n\t"
#define OP_CLOBBERS_COPY "x8", "x9", "x10", "x11", "x12", "x13",
#define OP_INPUT_WIDE [wide] "m"(percpu.wide)
#define OP_COPY(objects, k, from, to, CHECK_4, CHECK_8, CHECK_9)                                  \
    "mov x12, %[" objects "]\n\t"                                                                 \
    "subs w14, %w[" k "], #4\n\t"                                                                 \
    "b.lo 9f\n"                                                                                   \
    "8:\n\t"                                                                                      \
    "ldp x8, x9, [" from "], #16\n\t"                                                             \
    "ldp x10, x11, [" from "], #16\n\t" CHECK_4                                                   \
    "stp x8, x9, [" to "], #16\n\t"                                                               \
    "stp x10, x11, [" to "], #16\n\t"                                                             \
    "subs w14, w14, #4\n\t"                                                                       \
    "b.hs 8b\n"                                                                                   \
    "9:\n\t"                                                                                      \
    "tbz w14, #1, 10f\n\t"                                                                        \
    "ldr x8, [" from "], #8\n\t"                                                                  \
    "ldr x9, [" from "], #8\n\t" CHECK_8 CHECK_9                                                  \
    "str x8, [" to "], #8\n\t"                                                                    \
    "str x9, [" to "], #8\n"                                                                      \
    "10:\n\t"                                                                                     \
    "tbz w14, #0, 7f\n\t"                                                                         \
    "ldr x8, [" from "]\n\t" CHECK_8                                                              \
    "str x8, [" to "]\n"                                                                          \
    "7:\n\t" STOOK_OP_STEP

#define OP_COPY_OUT(objects, k) OP_COPY(objects, k, "x13", "x12", "", "", "")
#define OP_COPY_IN(objects, k)                                                                    \
    OP_COPY(objects, k, "x12", "x13",                                                             \
            "cmp x8, #0\n\t"                                                                      \
            "ccmp x9, #0, #4, ne\n\t"                                                             \
            "ccmp x10, #0, #4, ne\n\t"                                                            \
            "ccmp x11, #0, #4, ne\n\t"                                                            \
            "b.eq 6f\n\t",                                                                        \
            "cbz x8, 6f\n\t", "cbz x9, 6f\n\t")

#endif
