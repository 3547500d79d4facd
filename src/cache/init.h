/* SPDX-License-Identifier: MIT */
/*
 * init.h - the start of the library (init_once() is in base/init.h), and what fork needs.
 */
#ifndef STOOK_CACHE_INIT_H
#define STOOK_CACHE_INIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* hooks.start */
bool init_slow(void);

/* By malloc, before the library's constructor: that one asks what a sandbox may refuse later.  The first object starts
 * the rest, so that a program without one has no pages for it. */
extern bool init_later __attribute__((visibility("hidden")));

/* The second half of a start, behind percpu_init(): maps memory, and makes no system call that a malloc does not make.
 * Again by sim/, on another topology, when what the first start made is undone. */
void init_memory(void);

/* Forks between the first process and this one: what is counted by threads may be stale. */
extern _Atomic uint32_t fork_count __attribute__((visibility("hidden")));

/* Registered with pthread_atfork() by init. */
void fork_prepare(void);
void fork_parent(void);
void fork_child(void);

#endif
