/* SPDX-License-Identifier: MIT */
/*
 * stop.h - all threads of a process stand still, by ptrace, until stop_end(); they go on, too, if this process dies.
 */
#ifndef STOOK_LOOK_STOP_H
#define STOOK_LOOK_STOP_H

#include "look/target.h"

struct stop;

/* NULL with an error: another debugger has it, or the kernel does not permit it. */
struct stop *stop_begin(int pid, struct target_error *error);
void stop_end(struct stop *stop);
/* Calls fn with the registers of each thread, as words. */
void stop_registers(const struct stop *stop, void (*fn)(const uint64_t *words, size_t n, void *arg),
                    void *arg);

#endif
