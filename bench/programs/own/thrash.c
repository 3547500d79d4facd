/* SPDX-License-Identifier: MIT */
/*
 * Threads write to small objects of theirs again and again: slow if objects of two threads share a line of the
 * cache. The first objects come from one thread, and each thread frees its own and goes on with new ones.
 */
#include "own.h"

enum { THREADS = 4, SIZE = 8 };

struct part {
    _Alignas(OWN_APART) volatile unsigned char *object;
    unsigned rounds;
    uint64_t sum;
};

static void *work(void *arg)
{
    struct part *part = arg;

    for (unsigned n = 0; n < part->rounds; n++) {
        for (int i = 0; i < 200; i++)
            part->object[i % SIZE] = (unsigned char)(part->object[i % SIZE] + 1);
        part->sum += part->object[0];
        free((void *)part->object);
        part->object = memset(own_alloc(SIZE), 0, SIZE);
    }
    free((void *)part->object);
    return NULL;
}

uint64_t own_thrash(unsigned scale)
{
    struct part part[THREADS];
    pthread_t thread[THREADS];
    uint64_t sum = 0;

    for (int t = 0; t < THREADS; t++) {
        part[t].object = memset(own_alloc(SIZE), 0, SIZE);
        part[t].rounds = scale * 15000;
        part[t].sum = 0;
    }
    for (int t = 0; t < THREADS; t++)
        own_thread(&thread[t], work, &part[t]);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
        sum += part[t].sum;
    }
    return sum;
}
