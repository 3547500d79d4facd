/* SPDX-License-Identifier: MIT */
/*
 * sections_widened.h - delays between the steps of the sections; included before sheaf/slot.c.
 *
 * Each step first counts storm_step_skip down; once that is negative it spins while
 * storm_step_spin lasts.  Both are thread-local words of the test (storm.h), so an abort in the
 * middle leaves nothing behind; the compiler knows that the sections write memory.
 */
#ifndef TESTS_SUPPORT_SECTIONS_WIDENED_H
#define TESTS_SUPPORT_SECTIONS_WIDENED_H

#define STOOK_SECTION_CLOBBERS "memory",
#if defined(__x86_64__)
#define STOOK_OP_STEP                                                                              \
    "decl %%fs:storm_step_skip@tpoff\n\t"                                                          \
    "jns 9f\n"                                                                                     \
    "8:\n\t"                                                                                       \
    "decl %%fs:storm_step_spin@tpoff\n\t"                                                          \
    "jg 8b\n"                                                                                      \
    "9:\n\t"
#elif defined(__aarch64__)
#define STOOK_OP_STEP_WORD(name)                                                                   \
    "mrs x16, tpidr_el0\n\t"                                                                       \
    "add x16, x16, #:tprel_hi12:" name ", lsl #12\n\t"                                             \
    "add x16, x16, #:tprel_lo12_nc:" name "\n\t"
#define STOOK_OP_STEP                                                                              \
    STOOK_OP_STEP_WORD("storm_step_skip")                                                          \
    "ldr w17, [x16]\n\t"                                                                           \
    "subs w17, w17, #1\n\t"                                                                        \
    "str w17, [x16]\n\t"                                                                           \
    "b.pl 9f\n\t" STOOK_OP_STEP_WORD("storm_step_spin") "8:\n\t"                                   \
                                                        "ldr w17, [x16]\n\t"                       \
                                                        "subs w17, w17, #1\n\t"                    \
                                                        "str w17, [x16]\n\t"                       \
                                                        "b.gt 8b\n"                                \
                                                        "9:\n\t"
#define STOOK_OP_STEP_CLOBBERS "x16", "x17",
#endif
extern __thread int storm_step_skip, storm_step_spin;

#endif
