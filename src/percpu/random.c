/* SPDX-License-Identifier: MIT */
/*
 * random.c - a generator a CPU, which a first number seeds, and permutations.
 */
#include "percpu/random.h"

#include "base/placed.h"
#include "os/os.h"
#include "percpu/percpu.h"

enum { RANDOM_CPUS = 64 }; /* CPUs with the same remainder share a generator */

/* splitmix64: the state only ever grows by a constant, so an addition is all a step needs. */
static struct {
    _Atomic uint64_t state;
} __attribute__((aligned(64))) random_cpu[RANDOM_CPUS] LARGE_BSS;
static uint64_t random_key; /* constant after random_init() */

void random_init(void)
{
    random_key = os_random();
}

uint64_t random_word(void)
{
    unsigned cpu = (unsigned)percpu_cpu() % RANDOM_CPUS;
    _Atomic uint64_t *state = &random_cpu[cpu].state;

    /* A generator's first number seeds it: most programs ask for none, and their table stays untouched. */
    if (__builtin_expect(atomic_load_explicit(state, memory_order_relaxed) == 0, 0))
        (void)atomic_compare_exchange_strong(state, &(uint64_t){0}, os_mix(random_key + cpu) | 1);
    return os_mix(atomic_fetch_add_explicit(state, 0x9e3779b97f4a7c15u, memory_order_relaxed));
}

/* Unbiased enough below 2^16: the high half of a product. */
uint32_t random_below(uint32_t n)
{
    return (uint32_t)((random_word() >> 32) * n >> 32);
}

void random_permute(uint16_t *index, uint32_t n)
{
    /* Fisher and Yates, from the inside. */
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = random_below(i + 1);
        index[i] = index[j];
        index[j] = (uint16_t)i;
    }
}

/* One number for all, mixed with each position: an atomic addition each would be most of the time. */
void random_shuffle(void **pointer, uint32_t n)
{
    uint64_t z = random_word();

    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)((os_mix(z + i) >> 32) * i >> 32);
        void *last = pointer[i - 1];
        pointer[i - 1] = pointer[j];
        pointer[j] = last;
    }
}
