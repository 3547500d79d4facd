/* SPDX-License-Identifier: MIT */
/*
 * A server: each thread replaces random objects of its own set, and hands the set to a successor when it
 * ends, which frees what others allocated.
 */
#include "own.h"

enum { THREADS = 4, OBJECTS = 2000, LIVES = 8 };

static struct shift {
    _Alignas(OWN_APART) struct own_random random;
    unsigned rounds;
    unsigned char *object[OBJECTS];
    uint64_t sum;
} shift[THREADS];

static void *work(void *arg)
{
    struct shift *mine = arg;

    for (unsigned n = 0; n < mine->rounds; n++) {
        unsigned i = own_below(&mine->random, OBJECTS);
        size_t size = 10 + own_below(&mine->random, 490);
        if (mine->object[i])
            mine->sum += mine->object[i][0];
        free(mine->object[i]);
        mine->object[i] = own_alloc(size);
        mine->object[i][0] = (unsigned char)n;
        mine->object[i][size - 1] = (unsigned char)n;
    }
    return NULL;
}

uint64_t own_larson(unsigned scale)
{
    uint64_t sum = 0;

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
    return sum;
}
