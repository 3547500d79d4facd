/* SPDX-License-Identifier: MIT */
/*
 * apart.h - looks into many processes in a child, so that one that keeps its reader waiting, or ends it, costs its own
 * row only.
 *
 * The child goes through the processes and writes what there is to say of each into a pipe.  Where it takes too long over
 * one, or ends, it is killed, and another child goes on behind that process.  A process that was late is left out for some
 * minutes.  A user of whom several were late gets less time for each of the others, so that no user can make a round long.
 */
#ifndef STOOK_LOOK_APART_H
#define STOOK_LOOK_APART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct apart {
    /* In the child: what there is to say of a process, in bytes of any form. */
    void (*look)(int pid, FILE *to, void *arg);
    /* Here, in the order of the processes: what was said. */
    void (*take)(int pid, char *said, size_t size, void *arg);
    void *arg;
};

/* Of these processes, or (n is 0) of all of this host; how many were late or left out. */
unsigned apart_each(const struct apart *apart, const int *pids, size_t n);

/* All of it, into a pipe; false: there is no reader any more. */
bool apart_write(int fd, const void *from, size_t size);

/* When a process started, in ticks of the kernel; 0: it has ended.  With its number, which process it is. */
uint64_t apart_started(int pid);

#endif
