/* SPDX-License-Identifier: MIT */
/*
 * run_leaks.h - stook run --leaks: the program runs as a child that is traced, and each process of its tree is searched
 * when it ends.
 */
#ifndef STOOK_TOOL_RUN_LEAKS_H
#define STOOK_TOOL_RUN_LEAKS_H

#include <stdbool.h>

struct stop;

struct run_leaks {
    bool all, json;
    /* Where the report of a process goes: a descriptor, or -1 with a complaint. */
    int (*output)(int pid);
};

enum leaks_end { LEAKS_END_NONE, LEAKS_END_LOST, LEAKS_END_UNKNOWN };

/*
 * Forks.  True in the child, which is to become the program; false in the parent when the program has ended, with the
 * status that this process ends with.  Does not come back if a signal ended the program.
 */
bool run_leaks_fork(const struct run_leaks *options, int *status);

/* Of leaks.c: searches a process that stands still at its end; reports that of the `first`, and what others lost. */
enum leaks_end leaks_at_end(const struct run_leaks *options, int pid, const struct stop *stop,
                            bool first);

#endif
