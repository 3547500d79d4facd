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

/* What follows from the topology.  Again by sim/, on another one, when what the first start made is undone. */
void init_above_topology(void);

/* Forks between the first process and this one: what is counted by threads may be stale. */
extern _Atomic uint32_t fork_count __attribute__((visibility("hidden")));

/* Registered with pthread_atfork() by init. */
void fork_prepare(void);
void fork_parent(void);
void fork_child(void);

#endif
