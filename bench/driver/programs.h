/* SPDX-License-Identifier: MIT */
/* stook-bench programs: whole programs, run by bench/programs/main.py. */
#ifndef STOOK_BENCH_PROGRAMS_H
#define STOOK_BENCH_PROGRAMS_H

/* Becomes that script with these arguments, NULL-terminated; ends the program if it cannot. */
_Noreturn void programs_exec(char **arguments);

#endif
