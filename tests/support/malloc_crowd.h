/* SPDX-License-Identifier: MIT */
/*
 * malloc_crowd.h - threads that allocate, resize and free random sizes, hand objects to one
 * another, and check every byte they own.
 */
#ifndef TESTS_SUPPORT_MALLOC_CROWD_H
#define TESTS_SUPPORT_MALLOC_CROWD_H

#include "support/malloc_calls.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* CROWD_LEAST: steps of each member, however late it first runs. */
enum { CROWD_HELD = 24, CROWD_SHARED = 512, CROWD_LEAST = 50 };

struct crowd_object { /* at the head of each object */
    uint64_t seed;
    size_t size;
};

struct crowd {
    _Atomic(struct crowd_object *) shared[CROWD_SHARED];
    _Atomic int stop;
    _Atomic uint64_t steps;
    size_t largest;
};

static inline uint64_t crowd_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return *state = x;
}

/* Sizes from 16 bytes to `largest`, each power of two about as often; now and then aligned. */
static inline struct crowd_object *crowd_make(const struct crowd *crowd, uint64_t *random)
{
    uint64_t r = crowd_random(random);
    unsigned bits = 4 + (unsigned)(r % 19);
    size_t size = ((size_t)1 << bits) + ((r >> 8) & (((size_t)1 << bits) - 1));
    struct crowd_object *object;

    if (bits > 15 && (r >> 50) % 8) /* large ones are rarer: they are slow to check */
        size = 16 + (r >> 20) % 2000;
    if (size > crowd->largest)
        size = crowd->largest;
    if (size < sizeof(*object))
        size = sizeof(*object);
    object = (r >> 40) % 16 == 0   ? t_aligned_alloc((size_t)16 << (r >> 44) % 9, size)
             : (r >> 40) % 16 == 1 ? t_calloc(1, size)
                                   : t_malloc(size);
    CHECK(object);
    object->seed = r;
    object->size = size;
    calls_fill(object, sizeof(*object), size, r);
    return object;
}

static inline void crowd_check(const struct crowd_object *object)
{
    const unsigned char *p = (const unsigned char *)object;

    for (size_t i = sizeof(*object); i < object->size; i++)
        CHECK(p[i] == calls_byte(object->seed, i));
}

static inline void crowd_drop(struct crowd_object *object)
{
    if (object) {
        crowd_check(object);
        t_free(object);
    }
}

static inline struct crowd_object *crowd_resize(struct crowd_object *object, size_t size)
{
    uint64_t seed = object->seed;
    size_t had = object->size;

    if (size < sizeof(*object))
        size = sizeof(*object);
    object = t_realloc(object, size);
    CHECK(object);
    CHECK(object->seed == seed);
    if (size > had)
        calls_fill(object, had, size, seed);
    object->size = size;
    crowd_check(object);
    return object;
}

static inline void crowd_step(struct crowd *crowd, struct crowd_object **held, uint64_t *random)
{
    uint64_t r = crowd_random(random);
    struct crowd_object **mine = &held[r % CROWD_HELD];

    switch ((r >> 8) % 4) {
    case 0:
        crowd_drop(*mine);
        *mine = crowd_make(crowd, random);
        break;
    case 1:
        if (*mine && (*mine)->size < 100000)
            *mine = crowd_resize(*mine, 16 + (r >> 16) % 5000);
        break;
    default: /* another thread frees it */
        *mine = atomic_exchange(&crowd->shared[(r >> 16) % CROWD_SHARED], *mine);
        if (!*mine)
            *mine = crowd_make(crowd, random);
    }
}

static inline void *crowd_member(void *arg)
{
    struct crowd *crowd = arg;
    struct crowd_object *held[CROWD_HELD] = {0};
    uint64_t random = (uintptr_t)&held * 0x9e3779b97f4a7c15u | 1, steps = 0;

    while (steps < CROWD_LEAST || !atomic_load_explicit(&crowd->stop, memory_order_relaxed)) {
        crowd_step(crowd, held, &random);
        steps++;
    }
    for (int i = 0; i < CROWD_HELD; i++)
        crowd_drop(held[i]);
    atomic_fetch_add(&crowd->steps, steps);
    return NULL;
}

static inline void crowd_end(struct crowd *crowd)
{
    for (int i = 0; i < CROWD_SHARED; i++)
        crowd_drop(atomic_exchange(&crowd->shared[i], NULL));
}

static inline void crowd_sleep(unsigned milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};

    nanosleep(&time, NULL);
}

#endif
