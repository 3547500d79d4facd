/* SPDX-License-Identifier: MIT */
/*
 * counter.h - a sum that any thread adds to, in any context, without an atomic instruction: a word
 * a CPU, a cache line each, and one that is everybody's.
 * In locked mode, and where sections do not complete or a thread is not registered, an atomic
 * addition does it; the word that is everybody's has the latter, so no word sees both kinds.
 */
#ifndef STOOK_OS_COUNTER_H
#define STOOK_OS_COUNTER_H

#include "os/percpu.h"

#if STOOK_RSEQ && defined(STOOK_INLINE_SECTIONS)
#include "os/rseq_counter_x86_64.h"
#define COUNTER_HAS_SECTIONS 1
#else
#define COUNTER_HAS_SECTIONS 0
#endif

enum { COUNTER_LINE = 64 };

/* `words` of counter_size() zeroed bytes, aligned to COUNTER_LINE: everybody's, then the CPUs'. */
static inline size_t counter_size(void)
{
    return ((size_t)percpu.rows + 1) * COUNTER_LINE;
}

void counter_add_slow(void *words, int64_t n);

static inline void counter_add(void *words, int64_t n)
{
#if COUNTER_HAS_SECTIONS
    if (__builtin_expect(percpu.rseq && rseq_add(words, percpu.rseq_offset, n), 1))
        return;
#endif
    counter_add_slow(words, n);
}

/* Exact once nobody adds any more. */
int64_t counter_sum(const void *words);

#endif
