/* SPDX-License-Identifier: MIT */
/*
 * counter.h - how many came and how many went, counted by any thread in any context without an
 * atomic instruction: two words a CPU, in a cache line of its own, and a line that is everybody's.
 *
 * In locked mode, and where sections do not complete or a thread is not registered, an atomic
 * addition does it; in rseq mode to the line that is everybody's, so that no word sees both kinds.
 */
#ifndef STOOK_PERCPU_COUNTER_H
#define STOOK_PERCPU_COUNTER_H

#include "percpu/percpu.h"

#if STOOK_RSEQ && defined(STOOK_INLINE_SECTIONS)
#if defined(__aarch64__)
#include "percpu/rseq_counter_aarch64.h"
#else
#include "percpu/rseq_counter_x86_64.h"
#endif
#define COUNTER_HAS_SECTIONS 1
#else
#define COUNTER_HAS_SECTIONS 0
#endif

enum { COUNTER_LINE = 64 };
/* Not the second word: a sheaf's size is there, and lines 4 KiB apart would be waited for. */
enum counter_word { COUNTER_CAME = 0, COUNTER_WENT = 2 };

/* `lines` of counter_size() zeroed bytes, aligned to COUNTER_LINE: everybody's, then the CPUs'. */
static inline size_t counter_size(void)
{
    return ((size_t)percpu.rows + 1) * COUNTER_LINE;
}

void counter_count_slow(void *lines, enum counter_word word);

static inline __attribute__((always_inline)) void counter_count(void *lines, enum counter_word word)
{
#if COUNTER_HAS_SECTIONS
    if (__builtin_expect(percpu.rseq && rseq_count((int64_t *)lines + word, percpu.rseq_offset), 1))
        return;
#endif
    counter_count_slow(lines, word);
}

/* Those that came and did not go: exact once nobody counts any more. */
int64_t counter_left(const void *lines);

#endif
