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

/* A generator's first number seeds it: most programs ask for none, and their table stays untouched. */
static __attribute__((noinline, cold)) void random_seed(unsigned cpu)
{
    uint64_t none = 0;

    (void)atomic_compare_exchange_strong(&random_cpu[cpu].state, &none,
                                         os_mix(random_key + cpu) | 1);
}

uint32_t random_below(uint32_t n)
{
    unsigned cpu = (unsigned)percpu_cpu() % RANDOM_CPUS;
    _Atomic uint64_t *state = &random_cpu[cpu].state;
    uint64_t z;

    if (__builtin_expect(atomic_load_explicit(state, memory_order_relaxed) == 0, 0))
        random_seed(cpu);
    z = atomic_fetch_add_explicit(state, 0x9e3779b97f4a7c15u, memory_order_relaxed);
    /* Unbiased enough below 2^16: the high half of a product. */
    return (uint32_t)((os_mix(z) >> 32) * n >> 32);
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

void random_shuffle(void **pointer, uint32_t n)
{
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = random_below(i);
        void *last = pointer[i - 1];
        pointer[i - 1] = pointer[j];
        pointer[j] = last;
    }
}
