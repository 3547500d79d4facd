/* SPDX-License-Identifier: MIT */
/*
 * tally.h - two sums that change together, by any thread in any context without an atomic
 * instruction: how many, and of how many bytes.
 *
 * A pair a CPU, TALLY_STRIDE apart, behind one that is everybody's.  One store commits both, so what
 * is counted is counted once and whole.  In locked mode, and where sections do not complete or a
 * thread is not registered, atomic additions do it; in rseq mode to the pair that is everybody's, so
 * that no pair sees both kinds.
 */
#ifndef STOOK_PERCPU_TALLY_H
#define STOOK_PERCPU_TALLY_H

#include "percpu/percpu.h"

#if STOOK_RSEQ && defined(STOOK_INLINE_SECTIONS)
#define TALLY_HAS_SECTIONS 1
#else
#define TALLY_HAS_SECTIONS 0
#endif

enum { TALLY_SHIFT = 15, TALLY_STRIDE = 1 << TALLY_SHIFT };

struct tally {
    uint64_t count, bytes;
} __attribute__((aligned(16)));

#if TALLY_HAS_SECTIONS
#if defined(__aarch64__)
#include "percpu/rseq_tally_aarch64.h"
#else
#include "percpu/rseq_tally_x86_64.h"
#endif

static inline rseq_pair tally_pair(uint64_t count, uint64_t bytes)
{
    return (rseq_pair){(long long)count, (long long)bytes};
}
#endif

/* Bytes that the pairs of one index, or of neighbours within TALLY_STRIDE, take. */
static inline size_t tally_size(void)
{
    return ((size_t)percpu.rows + 1) << TALLY_SHIFT;
}

void tally_add_slow(struct tally *everybody, uint64_t count, uint64_t bytes);

static inline __attribute__((always_inline)) void tally_add(struct tally *everybody, uint64_t count,
                                                            uint64_t bytes)
{
#if TALLY_HAS_SECTIONS
    if (__builtin_expect(
            percpu.rseq && rseq_tally(everybody, percpu.rseq_offset, tally_pair(count, bytes)), 1))
        return;
#endif
    tally_add_slow(everybody, count, bytes);
}

/* Sums over all CPUs: exact for what came before, whole or not for what comes meanwhile. */
struct tally tally_read(const struct tally *everybody);

#endif
