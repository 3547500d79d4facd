/* SPDX-License-Identifier: MIT */
/*
 * prog_phases BYTES THREADS KEPT [SIZE...]
 *
 * A program whose needs change.  In each phase THREADS threads together fill BYTES with objects of one SIZE, write
 * to each byte of them, and end.  Then the first thread frees them, except one in KEPT (0: none), which stays until the end.  Behind
 * the sizes: another round of them.  malloc may refuse: the phase goes on with what it has.
 *
 * A SIZE of "trim" calls malloc_trim(); "map" maps BYTES beside malloc, writes to them and unmaps them.
 */
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "surroundings/figures.h"

enum { THREADS_MAX = 8, ROUNDS = 2 };

struct part {
    size_t size, n;
    void **object;
};

static size_t refused;

static void *fill(void *arg)
{
    struct part *part = arg;

    for (size_t i = 0; i < part->n; i++) {
        part->object[i] = malloc(part->size);
        if (part->object[i])
            memset(part->object[i], 0x5a, part->size);
        else
            __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void phase(size_t bytes, unsigned threads, size_t kept, size_t size)
{
    struct part part[THREADS_MAX];
    pthread_t thread[THREADS_MAX];

    for (unsigned t = 0; t < threads; t++) {
        part[t] = (struct part){size, bytes / size / threads, NULL};
        part[t].object = calloc(part[t].n, sizeof(void *));
        if (!part[t].object)
            give_up("no memory for %zu addresses", part[t].n);
        if (threads == 1)
            fill(&part[t]);
        else if (pthread_create(&thread[t], NULL, fill, &part[t]) != 0)
            give_up("no thread");
    }
    for (unsigned t = 0; t < threads && threads > 1; t++)
        pthread_join(thread[t], NULL);
    for (unsigned t = 0; t < threads; t++) {
        for (size_t i = 0; i < part[t].n; i++)
            if (kept == 0 || i % kept != 0)
                free(part[t].object[i]);
        free(part[t].object);
    }
}

static void map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        give_up("%zu bytes cannot be mapped", bytes);
    memset(at, 0x5a, bytes);
    munmap(at, bytes);
}

int main(int argc, char **argv)
{
    size_t bytes = argc > 4 ? strtoul(argv[1], NULL, 10) : 0, kept = 0;
    unsigned threads = argc > 4 ? (unsigned)atoi(argv[2]) : 0;

    if (bytes == 0 || threads == 0 || threads > THREADS_MAX)
        give_up("prog_phases: what?");
    kept = strtoul(argv[3], NULL, 10);
    for (unsigned round = 0; round < ROUNDS; round++)
        for (int i = 4; i < argc; i++)
            if (strcmp(argv[i], "trim") == 0)
                malloc_trim(0);
            else if (strcmp(argv[i], "map") == 0)
                map(bytes);
            else
                phase(bytes, threads, kept, strtoul(argv[i], NULL, 10));
    say("refused %zu\nafter %ld\n", refused, resident_kib());
    say("done 1\n");
    return 0;
}
