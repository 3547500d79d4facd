/* SPDX-License-Identifier: MIT */
/*
 * random.c - a generator a thread, which a number that the kernel gave the process seeds, and permutations.
 */
#include "percpu/random.h"

#include "os/os.h"

#include <stdatomic.h>

#define RANDOM_STEP 0x9e3779b97f4a7c15u /* splitmix64's: the state only ever grows by it */

static _Atomic uint64_t random_key; /* a secret: it seeds the threads */
static __thread uint64_t random_state
    __attribute__((tls_model("initial-exec"))); /* 0: not seeded */

void random_init(void)
{
    random_state = random_key = os_random();
}

uint64_t random_word(void)
{
    if (__builtin_expect(random_state == 0, 0))
        random_state = os_mix(atomic_fetch_add(&random_key, RANDOM_STEP)) | 1;
    return os_mix(random_state += RANDOM_STEP);
}

/* Unbiased enough below 2^16: the high half of a product. */
uint32_t random_below(uint32_t n)
{
    return (uint32_t)((random_word() >> 32) * n >> 32);
}

__attribute__((cold)) void random_permute(uint16_t *index, uint32_t n)
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
