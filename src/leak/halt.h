/* SPDX-License-Identifier: MIT */
/*
 * halt.h - runs a function while all other threads of the process are stopped, with their registers.
 *
 * A helper process that shares the memory stops them by ptrace, and runs the function; the calling thread waits for
 * it.  If the helper dies the kernel lets the threads go on.  Where the kernel does not allow that, as in a sandbox
 * or under a debugger, the function runs beside them.
 */
#ifndef STOOK_LEAK_HALT_H
#define STOOK_LEAK_HALT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct halt {
    bool alone;      /* no other thread runs */
    unsigned others; /* threads that were stopped */
    const uint64_t *registers;
    uint64_t begin, end; /* the helper's own memory */
    size_t words;        /* of these */
};

/* `work` takes no lock and no memory of libc's: threads may have been stopped with any lock. */
void halt_run(void (*work)(void *arg, const struct halt *halt), void *arg);

#endif
