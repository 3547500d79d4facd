/* SPDX-License-Identifier: MIT */
/*
 * A server: each thread replaces random objects of its own set, and hands the set to a successor when it
 * ends, which frees what others allocated.
 */
#include "own.h"

enum { THREADS = 4, OBJECTS = 2000, LIVES = 8 };

struct shift {
    struct own_random random;
    unsigned rounds;
    unsigned char *object[OBJECTS];
    uint64_t sum;
};

static void *work(void *arg)
{
    struct shift *shift = arg;

    for (unsigned n = 0; n < shift->rounds; n++) {
        unsigned i = own_below(&shift->random, OBJECTS);
        size_t size = 10 + own_below(&shift->random, 490);
        if (shift->object[i])
            shift->sum += shift->object[i][0];
        free(shift->object[i]);
        shift->object[i] = own_alloc(size);
        shift->object[i][0] = (unsigned char)n;
        shift->object[i][size - 1] = (unsigned char)n;
    }
    return NULL;
}

uint64_t own_larson(unsigned scale)
{
    struct shift *shift = own_alloc(THREADS * sizeof(*shift));
    uint64_t sum = 0;

    memset(shift, 0, THREADS * sizeof(*shift));
    for (unsigned t = 0; t < THREADS; t++)
        shift[t].random.state = t + 5;
    for (unsigned life = 0; life < LIVES; life++) {
        pthread_t thread[THREADS];
        for (unsigned t = 0; t < THREADS; t++) {
            shift[t].rounds = scale * 15000;
            own_thread(&thread[t], work, &shift[t]);
        }
        for (unsigned t = 0; t < THREADS; t++)
            pthread_join(thread[t], NULL);
    }
    for (unsigned t = 0; t < THREADS; t++) {
        sum += shift[t].sum;
        for (unsigned i = 0; i < OBJECTS; i++)
            free(shift[t].object[i]);
    }
    free(shift);
    return sum;
}
