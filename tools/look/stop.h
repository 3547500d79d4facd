/* SPDX-License-Identifier: MIT */
/*
 * stop.h - all threads of a process stand still, by ptrace, until stop_end(); they go on, too, if this process dies.
 *
 * In a process that ends, a thread that is killed for that has all its registers at PTRACE_EVENT_EXIT, and memory lasts
 * until the last thread is let go.
 */
#ifndef STOOK_LOOK_STOP_H
#define STOOK_LOOK_STOP_H

#include "look/target.h"

struct stop;

/* NULL with an error: another debugger has it, or the kernel does not permit it. */
struct stop *stop_begin(int pid, struct target_error *error);
void stop_end(struct stop *stop);
/*
 * The same of a process that this one traces and one of whose threads, `first`, is at PTRACE_EVENT_EXIT: the others come
 * there, too.  NULL: they do not, since another thread of the process is in execve().
 */
struct stop *stop_at_end(int pid, int first);
/* Whether a thread is one of these; `stopped`: and has stopped. */
bool stop_has(const struct stop *stop, int number, bool stopped);
/* The main thread's stack pointer; UINT64_MAX: it is not known. */
uint64_t stop_stack(const struct stop *stop, int pid);
/* The system call that a traced thread, which has stopped, is in; -1: it is not known. */
long stop_call(int number);
/* Calls fn with the registers of each thread, as words. */
void stop_registers(const struct stop *stop, void (*fn)(const uint64_t *words, size_t n, void *arg),
                    void *arg);

#endif
