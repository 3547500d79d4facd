/* SPDX-License-Identifier: MIT */
/*
 * vdso.h - the CPU and the clock, by the functions that the kernel maps into each process: libc's can be another
 * library's, which allocates in them, and system calls take ten times as long.
 */
#ifndef STOOK_OS_VDSO_H
#define STOOK_OS_VDSO_H

#include <stdint.h>
#include <time.h>

/* The CPU that this thread runs on, as the kernel says; -1. */
int vdso_cpu(void);
/* A coarse clock (CLOCK_..._COARSE) in ns: the time of the kernel's last tick, which lies in memory.  Finer ones read the
 * processor's counter, which a process may be denied (PR_SET_TSC). */
uint64_t vdso_clock(clockid_t coarse);

#endif
