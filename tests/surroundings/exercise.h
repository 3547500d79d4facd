/* SPDX-License-Identifier: MIT */
/* All of the malloc family, of all kinds of sizes, checked; for programs in unusual surroundings. */
#ifndef STOOK_TESTS_SURROUNDINGS_EXERCISE_H
#define STOOK_TESTS_SURROUNDINGS_EXERCISE_H

#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>

#include "surroundings/figures.h"

enum { EXERCISE_OBJECTS = 2000 };

struct exercise {
    unsigned random;
    size_t size[EXERCISE_OBJECTS];
    unsigned char *object[EXERCISE_OBJECTS];
};

static inline unsigned exercise_random(struct exercise *e)
{
    e->random = e->random * 1664525u + 1013904223u;
    return e->random >> 8;
}

static inline size_t exercise_size(struct exercise *e)
{
    unsigned r = exercise_random(e);

    switch (r % 100) {
    case 0:
        return exercise_random(e) % 3000000 + 1;
    case 1:
    case 2:
    case 3:
        return exercise_random(e) % 200000 + 1;
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
        return exercise_random(e) % 33000 + 1;
    default:
        return exercise_random(e) % 600 + 1;
    }
}

static inline void *exercise_take(struct exercise *e, size_t size)
{
    unsigned char *object;

    switch (exercise_random(e) % 8) {
    case 0:
        object = calloc(1, size);
        for (size_t i = 0; object && i < size; i += 61)
            if (object[i])
                give_up("calloc gave what is not zero");
        return object;
    case 1: {
        size_t align = (size_t)16 << exercise_random(e) % 9;
        object = aligned_alloc(align, size);
        if ((uintptr_t)object % align)
            give_up("aligned_alloc did not align");
        return object;
    }
    case 2:
        object = malloc(size / 2 + 1);
        if (object) {
            object[0] = 0x33;
            object = realloc(object, size);
            if (object && object[0] != 0x33)
                give_up("realloc lost what was there");
        }
        return object;
    default:
        return malloc(size);
    }
}

/* `steps` objects are taken or given back; a refusal is fatal. */
static inline void exercise_steps(struct exercise *e, unsigned steps)
{
    for (unsigned n = 0; n < steps; n++) {
        unsigned i = exercise_random(e) % EXERCISE_OBJECTS;
        unsigned char *object = e->object[i];
        if (object) {
            if (object[0] != (unsigned char)i || object[e->size[i] - 1] != (unsigned char)i)
                give_up("an object of %zu bytes was overwritten", e->size[i]);
            free(object);
            e->object[i] = NULL;
        } else {
            e->size[i] = exercise_size(e);
            object = exercise_take(e, e->size[i]);
            if (!object)
                give_up("%zu bytes were refused", e->size[i]);
            object[0] = object[e->size[i] - 1] = (unsigned char)i;
            e->object[i] = object;
        }
    }
}

static inline void exercise_end(struct exercise *e)
{
    for (unsigned i = 0; i < EXERCISE_OBJECTS; i++) {
        free(e->object[i]);
        e->object[i] = NULL;
    }
}

static inline void *exercise_thread(void *context)
{
    struct exercise *e = context;

    exercise_steps(e, 10000);
    exercise_end(e);
    return NULL;
}

/* A few threads, and a child that allocates and forks itself. */
static inline __attribute__((unused)) void exercise_all(void)
{
    static struct exercise e[4];
    pthread_t thread[3];
    int status;

    for (unsigned i = 0; i < 4; i++)
        e[i].random = i + 1;
    for (unsigned i = 0; i < 3; i++)
        if (pthread_create(&thread[i], NULL, exercise_thread, &e[i]))
            give_up("a thread cannot be made");
    exercise_thread(&e[3]);
    pid_t child = fork();
    if (child == 0) {
        exercise_thread(&e[3]);
        _exit(0);
    }
    for (unsigned i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    if (child < 0 || waitpid(child, &status, 0) != child || status)
        give_up("the child did not end well");
}

#endif
