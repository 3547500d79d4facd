/* SPDX-License-Identifier: MIT */
/* link: malloc */
/*
 * A process whose memory is kept by a few objects, for test_why.py:
 *
 *   prog_holes SHAPE SEED [MIB]
 *
 * The seed says which objects survive, how large they are and how many.  It prints "ready".  For each line "FROM TO" of its
 * input it frees, in a fork, the objects that the file FROM names.  It writes to the file TO how many bytes that brought,
 * and prints "done".
 */
#include "programs/holes.h"

#include <stook/group.h>
#include <stook/stook.h>

#include <pthread.h>

enum { WASTE = 48, THREADS = 4 };

static __thread uint64_t state;
static pthread_barrier_t allocated;
static struct stook_cache *typed;
static size_t size, waste;
static unsigned one_in;

static uint64_t draw(uint64_t least, uint64_t most)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return least + (state >> 33) % (most - least + 1);
}

/* The one that keeps slabs, and the one whose objects go again. */
__attribute__((noinline)) static void *keep_row(size_t bytes)
{
    void *volatile row = typed ? stook_alloc(typed, STOOK_WAIT) : malloc(bytes);

    return memset(row, 1, bytes);
}

__attribute__((noinline)) static void *pass_row(size_t bytes)
{
    void *volatile row = typed ? stook_alloc(typed, STOOK_WAIT) : malloc(bytes);

    return memset(row, 2, bytes);
}

static void give(void *object)
{
    if (typed)
        stook_free_any(object);
    else
        free(object);
}

static void trim(void)
{
    if (typed)
        stook_cache_shrink(typed);
    malloc_trim(0);
}

/* Of n objects those that survive are drawn, or every one_in-th does (`even`); the others are freed, in the order of
 * their addresses or not. */
static void plant(size_t n, int even)
{
    void **passing = calloc(n, sizeof(*passing));

    for (size_t i = 0; i < n; i++)
        if (even ? i % one_in == 0 : draw(1, one_in) == 1)
            (void)keep_row(size);
        else
            passing[i] = pass_row(size);
    pthread_barrier_wait(&allocated); /* or the holes of a thread would be filled by the next */
    for (size_t i = n; i-- > 1 && !even;) {
        size_t j = draw(0, i);
        void *other = passing[i];
        passing[i] = passing[j];
        passing[j] = other;
    }
    for (size_t i = 0; i < n; i++)
        if (passing[i])
            give(passing[i]);
    free(passing);
}

static void *plant_some(void *seed)
{
    state = (uint64_t)(uintptr_t)seed;
    plant(waste / size / THREADS, 0);
    return NULL;
}

/* Objects that are all in use. */
static void plant_full(struct stook_cache *cache, size_t bytes, size_t each)
{
    for (size_t i = 0; i < bytes / each; i++)
        memset(cache ? stook_alloc(cache, STOOK_WAIT) : malloc(each), 3, each);
}

static void plant_shape(const char *shape)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    size_t n = waste / size;

    if (strncmp(shape, "typed", 5) == 0)
        typed =
            stook_cache_create("session", size, strcmp(shape, "typed-group") == 0 ? &args : NULL);
    if (strcmp(shape, "typed-group") == 0)
        stook_group_enter(stook_group_create("tenant-7", STOOK_NO_GROUP, STOOK_UNLIMITED));
    if (strcmp(shape, "typed-decoy") == 0)
        plant_full(stook_cache_create("decoy", 200, NULL), waste, 200);
    if (strcmp(shape, "malloc-full") == 0)
        plant_full(NULL, waste, size * 3);
    if (strcmp(shape, "malloc-large") == 0)
        plant_full(NULL, waste, 3 << 20);
    pthread_barrier_init(&allocated, NULL, strcmp(shape, "malloc-threads") == 0 ? THREADS : 1);
    if (strcmp(shape, "malloc-threads") == 0) {
        pthread_t thread[THREADS];
        for (int i = 0; i < THREADS; i++)
            pthread_create(&thread[i], NULL, plant_some, (void *)(uintptr_t)draw(1, 1 << 20));
        for (int i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
    } else {
        plant(n, strcmp(shape, "malloc-even") == 0);
    }
}

int main(int argc, char **argv)
{
    char line[8192], from[4096], to[4096];

    state = strtoull(argv[2], NULL, 10);
    waste = (size_t)(argc > 3 ? atoi(argv[3]) : WASTE) << 20;
    size = draw(3, 25) * 16; /* so that slabs have survivors */
    one_in = (unsigned)draw(6, 6 + 2400 / size);
    plant_shape(argv[1]);
    if (strcmp(argv[1], "typed-decoy") == 0)
        trim(); /* or most is free pages that are kept */
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        if (sscanf(line, "%4095s %4095s", from, to) == 2)
            holes_measure(from, to, give, trim);
        printf("done\n");
        fflush(stdout);
    }
    return 0;
}
