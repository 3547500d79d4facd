/* SPDX-License-Identifier: MIT */
/*
 * rseq.h - the sections that only the library uses, of this machine.
 */
#ifndef STOOK_PERCPU_RSEQ_H
#define STOOK_PERCPU_RSEQ_H

#if defined(__aarch64__)
#include "percpu/rseq_aarch64.h"
#else
#include "percpu/rseq_x86_64.h"
#endif

#endif
