/* SPDX-License-Identifier: MIT */
/*
 * vdso.h - the CPU and the clock, by the functions that the kernel maps into each process: libc's can be another
 * library's, which allocates in them, and system calls take ten times as long.
 */
#ifndef STOOK_OS_VDSO_H
#define STOOK_OS_VDSO_H

#include <stdint.h>

/* The CPU that this thread runs on, as the kernel says; -1. */
int vdso_cpu(void);
/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t vdso_clock(void);

#endif
