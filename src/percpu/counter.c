/* SPDX-License-Identifier: MIT */
#include "percpu/counter.h"

static _Atomic int64_t *counter_at(const void *lines, unsigned line, enum counter_word word)
{
    return (_Atomic int64_t *)((uintptr_t)lines + (size_t)line * COUNTER_LINE) + word;
}

void counter_count_slow(void *lines, enum counter_word word)
{
    int cpu = percpu.rseq ? -1 : percpu_cpu();

#if COUNTER_HAS_SECTIONS
    for (int i = 1; percpu.rseq && i < PERCPU_RETRIES; i++)
        if (rseq_count((int64_t *)lines + word, percpu.rseq_offset))
            return;
#endif
    atomic_fetch_add_explicit(counter_at(lines, (unsigned)(cpu + 1), word), 1,
                              memory_order_relaxed);
}

int64_t counter_left(const void *lines)
{
    int64_t left = 0;

    for (unsigned line = 0; line <= percpu.rows; line++) {
        left += atomic_load_explicit(counter_at(lines, line, COUNTER_CAME), memory_order_relaxed);
        left -= atomic_load_explicit(counter_at(lines, line, COUNTER_WENT), memory_order_relaxed);
    }
    return left;
}
