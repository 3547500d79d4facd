/* SPDX-License-Identifier: MIT */
/* stook-bench programs and long: whole programs, run by scripts of bench/programs/. */
#ifndef STOOK_BENCH_PROGRAMS_H
#define STOOK_BENCH_PROGRAMS_H

/* If this is the name of such a case, becomes its script with these arguments, NULL-terminated. */
void programs_exec(const char *name, char **arguments);

#endif
