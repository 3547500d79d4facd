/* SPDX-License-Identifier: MIT */
/*
 * A littered heap (Berger and van Kempen 2026): before a program runs, this library allocates as many objects as the program
 * has at its peak, of the program's own sizes and from its malloc. Then it frees a share of them, drawn at random.
 *
 * Two libraries to preload, from this file. With LITTER_RECORD it counts sizes, over glibc's malloc, and leaves
 * BENCH_LITTER/NAME for each program of that name. Without it a constructor reads that file and litters by
 * BENCH_LITTER_SHARE; it appends to BENCH_LITTER/cost the user and system microseconds that it took. The loader starts the
 * libraries of LD_PRELOAD in the reverse order, so this one stands before the malloc.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Sizes in steps of 16 bytes; larger objects have mappings of their own in most mallocs, and are not littered. */
enum { STEP = 16, KINDS = 2048, MOST = 1 << 22 };

static int litter_path(char *path, size_t size, const char *name)
{
    const char *folder = getenv("BENCH_LITTER");
    return folder && snprintf(path, size, "%s/%s", folder, name) < (int)size;
}

#ifdef LITTER_RECORD

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *object, size_t size);
void __libc_free(void *object);

static _Atomic uint64_t counts[KINDS];
static _Atomic int64_t live, peak;

static void *taken(void *object, size_t size)
{
    if (object && size / STEP < KINDS) {
        counts[size / STEP]++;
        int64_t now = ++live, before = peak;
        while (now > before && !atomic_compare_exchange_weak(&peak, &before, now))
            ;
    }
    return object;
}

static void given(void *object)
{
    if (object && malloc_usable_size(object) / STEP < KINDS)
        live--;
}

void *malloc(size_t size)
{
    return taken(__libc_malloc(size), size);
}

void *calloc(size_t n, size_t size)
{
    return taken(__libc_calloc(n, size), n * size);
}

void *realloc(void *object, size_t size)
{
    given(object);
    return taken(__libc_realloc(object, size), size);
}

void free(void *object)
{
    given(object);
    __libc_free(object);
}

/* Of several processes of one name the last one that ends is kept. */
__attribute__((destructor)) static void litter_write(void)
{
    char path[512];
    FILE *file;

    if (!litter_path(path, sizeof(path), program_invocation_short_name) ||
        !(file = fopen(path, "w")))
        return;
    fprintf(file, "%lld\n", (long long)peak);
    for (size_t kind = 0; kind < KINDS; kind++)
        if (counts[kind])
            fprintf(file, "%zu %llu\n", kind * STEP + 1, (unsigned long long)counts[kind]);
    fclose(file);
}

#else

static uint64_t state = 1;

static uint64_t litter_random(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

/* The sizes and how many allocations there were up to each; returns how many sizes. */
static size_t litter_read(const char *path, long *objects, size_t *sizes, uint64_t *sums)
{
    FILE *file = fopen(path, "r");
    size_t kinds = 0;
    unsigned long long count;
    uint64_t sum = 0;

    if (!file)
        return 0;
    if (fscanf(file, "%ld", objects) != 1)
        *objects = 0;
    while (kinds < KINDS && fscanf(file, "%zu %llu", &sizes[kinds], &count) == 2)
        sums[kinds++] = sum += count;
    fclose(file);
    return kinds;
}

static size_t litter_size(const size_t *sizes, const uint64_t *sums, size_t kinds)
{
    uint64_t at = litter_random(sums[kinds - 1]);
    size_t kind = 0;
    while (sums[kind] <= at)
        kind++;
    return sizes[kind];
}

static void litter_objects(long objects, const size_t *sizes, const uint64_t *sums, size_t kinds,
                           double share)
{
    size_t count = (size_t)(objects < MOST ? objects : MOST);
    void **array = malloc(count * sizeof(*array));

    for (size_t i = 0; array && i < count; i++) {
        size_t size = litter_size(sizes, sums, kinds);
        array[i] = malloc(size);
        if (array[i])
            memset(array[i], 1, size);
    }
    for (size_t left = count; array && left > count - (size_t)((double)count * share); left--) {
        size_t at = litter_random(left);
        free(array[at]);
        array[at] = array[left - 1];
    }
    free(array);
}

__attribute__((constructor)) static void litter(void)
{
    static size_t sizes[KINDS];
    static uint64_t sums[KINDS];
    const char *share = getenv("BENCH_LITTER_SHARE");
    struct rusage before, after;
    char path[512], line[64];
    long objects = 0;
    size_t kinds;

    if (!share || !litter_path(path, sizeof(path), program_invocation_short_name))
        return;
    getrusage(RUSAGE_SELF, &before);
    kinds = litter_read(path, &objects, sizes, sums);
    if (kinds && objects > 0)
        litter_objects(objects, sizes, sums, kinds, strtod(share, NULL));
    getrusage(RUSAGE_SELF, &after);
    int file = litter_path(path, sizeof(path), "cost")
                   ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600)
                   : -1;
    int length = snprintf(line, sizeof(line), "%ld %ld\n",
                          (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000 +
                              after.ru_utime.tv_usec - before.ru_utime.tv_usec,
                          (after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000 +
                              after.ru_stime.tv_usec - before.ru_stime.tv_usec);
    if (file >= 0 && write(file, line, (size_t)length) != length)
        abort();
    if (file >= 0)
        close(file);
}

#endif
