/* SPDX-License-Identifier: MIT */
/*
 * registration.h - where the struct rseq of each thread lies: its offset from the thread pointer.
 */
#ifndef STOOK_PERCPU_REGISTRATION_H
#define STOOK_PERCPU_REGISTRATION_H

#define STOOK_INLINE_NO_PIN /* the library's own constructor does that (cache/init.c) */
#include <stook/inline.h>

#include <stdbool.h>
#include <stdint.h>

/* Stores where the threads' areas lie, and why there (static); false: this thread has none. */
bool registration_find(intptr_t *offset, const char **why);

/* Of the library's own area.  In locked mode it stays as it is: cpu_id -1. */
intptr_t registration_own(void);

/* This thread's own registration ends, if it has one: a machine that is simulated from now on has other CPUs. */
void registration_drop(void);

/* Registers the library's own area for this thread, once, if it is what threads use; the kernel's answer, or 0. */
long registration_add(void);

/* The CPU as the C library's registration has it; without one, as the kernel says. */
int registration_machine_cpu(void);

/* In a child that fork() made: its threads may register. */
void registration_child(void);

/* The CPU in the area there; negative for threads that are not registered. */
static inline __attribute__((always_inline)) int registration_cpu(intptr_t offset)
{
    const char *rseq = (const char *)__builtin_thread_pointer() + offset;

    return (int)*(const volatile int32_t *)(const void *)(rseq + 4);
}

#endif
