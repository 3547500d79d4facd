/* SPDX-License-Identifier: MIT */
#include "os/counter.h"

static _Atomic int64_t *counter_word(const void *words, unsigned line)
{
    return (_Atomic int64_t *)((uintptr_t)words + (size_t)line * COUNTER_LINE);
}

void counter_add_slow(void *words, int64_t n)
{
    int cpu = percpu.rseq ? -1 : percpu_cpu();

#if COUNTER_HAS_SECTIONS
    for (int i = 1; percpu.rseq && i < PERCPU_RETRIES; i++)
        if (rseq_add(words, percpu.rseq_offset, n))
            return;
#endif
    atomic_fetch_add_explicit(counter_word(words, (unsigned)(cpu + 1)), n, memory_order_relaxed);
}

int64_t counter_sum(const void *words)
{
    int64_t sum = 0;

    for (unsigned line = 0; line <= percpu.rows; line++)
        sum += atomic_load_explicit(counter_word(words, line), memory_order_relaxed);
    return sum;
}
