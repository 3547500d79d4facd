/* SPDX-License-Identifier: MIT */
/*
 * Allocation programs: each does one kind of work that is known to be hard on allocators, in a process of its
 * own, under whatever malloc is preloaded. It prints a sum that depends on its work alone, so that a run that
 * went wrong is seen.
 */
#ifndef OWN_H
#define OWN_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `scale`: about a second of work is 100.  What it returns is printed. */
uint64_t own_nbody(unsigned scale);
uint64_t own_factor(unsigned scale);
uint64_t own_minimise(unsigned scale);
uint64_t own_large(unsigned scale);
uint64_t own_larson(unsigned scale);
uint64_t own_relay(unsigned scale);
uint64_t own_stages(unsigned scale);
uint64_t own_thrash(unsigned scale);
uint64_t own_sequence(unsigned scale);
uint64_t own_strings(unsigned scale);
uint64_t own_document(unsigned scale);
uint64_t own_mixed(unsigned scale);

/* ---- random numbers: the same in every run ---- */

struct own_random {
    uint64_t state;
};

static inline uint32_t own_next(struct own_random *random)
{
    random->state = random->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random->state >> 32);
}

static inline uint32_t own_below(struct own_random *random, uint32_t end)
{
    return (uint32_t)((uint64_t)own_next(random) * end >> 32);
}

/* Between `least` and `most`, each power of two as likely as the next. */
static inline size_t own_log_uniform(struct own_random *random, unsigned least_log,
                                     unsigned most_log)
{
    unsigned log = least_log + own_below(random, most_log - least_log);
    return ((size_t)1 << log) + own_below(random, 1u << log);
}

/* ---- memory: a program that gets none ends ---- */

static inline void *own_alloc(size_t size)
{
    void *object = malloc(size);

    if (!object) {
        fprintf(stderr, "no memory for %zu bytes\n", size);
        exit(1);
    }
    return object;
}

/* Two threads' own data: in lines of their own, since what is measured is where malloc places objects. */
enum { OWN_APART = 128 };

static inline void own_thread(pthread_t *thread, void *(*run)(void *), void *arg)
{
    if (pthread_create(thread, NULL, run, arg) != 0) {
        fprintf(stderr, "no thread\n");
        exit(1);
    }
}

#endif
