/* SPDX-License-Identifier: MIT */
/*
 * A program that is to run with STOOK_LIMIT; the preloaded library's groups are asked by dlsym.
 *
 *   prog_limit fill SIZE     how many objects of SIZE malloc gives, and again once they were freed
 *   prog_limit random SEED   malloc's family at random: what the group "malloc" has is what was
 *                            handed out, after each call, and nothing is lost where one is refused
 *   prog_limit threads       threads that allocate for each other; children that have the limit too
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct group_stat {
    size_t size;
    uint64_t usage, own, stocked, peak, limit, soft_limit, refused, reclaims, soft_events, children;
    const char *name;
};

static int (*group_stat)(const void *group, struct group_stat *stat);
static void *group;

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "prog_limit.c:%d: %s\n", __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static struct group_stat read_group(void)
{
    struct group_stat stat = {.size = sizeof(stat)};

    MUST(group_stat(group, &stat) == 0);
    return stat;
}

static void find_group(void)
{
    void *(*next)(const void *group);

    *(void **)(void *)&next = dlsym(RTLD_DEFAULT, "stook_group_next");
    *(void **)(void *)&group_stat = dlsym(RTLD_DEFAULT, "stook_group_stat");
    MUST(next && group_stat);
    group = next(NULL);
    MUST(group && strcmp(read_group().name, "malloc") == 0);
}

static size_t fill(size_t size, void ***last)
{
    void **object;
    size_t n = 0;

    errno = 0;
    *last = NULL;
    while ((object = malloc(size)) != NULL) {
        *object = *last;
        *last = object;
        n++;
    }
    MUST(errno == ENOMEM);
    return n;
}

static void empty(void **last)
{
    while (last) {
        void **before = *last;
        free(last);
        last = before;
    }
}

static int mode_fill(size_t size)
{
    void **objects;
    uint64_t before = read_group().usage;
    size_t n = fill(size, &objects), again;

    empty(objects);
    MUST(read_group().usage == before);
    again = fill(size, &objects);
    MUST(read_group().refused == 2);
    MUST(read_group().peak <= read_group().limit);
    empty(objects);
    MUST(read_group().usage == before);
    printf("%zu %zu\n", n, again);
    return 0;
}

/* ---- at random ---- */

enum { OBJECTS = 400, CALLS = 20000 };
static struct {
    unsigned char *at;
    size_t size;
} object[OBJECTS];
static uint64_t state, handed_out;

/* What an object is charged: above 2 MiB whole blocks, of which the last pages may have no access. */
static uint64_t charge_of(void *at)
{
    uint64_t block = 2 << 20, usable = malloc_usable_size(at);

    return usable > block ? (usable + block - 1) / block * block : usable;
}

static uint32_t below(uint32_t end)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 32) * end >> 32);
}

/* Mostly small, sometimes of pages and of blocks. */
static size_t some_size(void)
{
    return 1 + below(1u << (3 + below(below(20) ? 13 : 21)));
}

static void forget(unsigned i)
{
    if (object[i].at) {
        MUST(object[i].at[0] == (unsigned char)i &&
             object[i].at[object[i].size - 1] == (unsigned char)i);
        handed_out -= charge_of(object[i].at);
    }
}

static void keep(unsigned i, void *at, size_t size)
{
    object[i].at = at;
    object[i].size = size;
    if (at) {
        memset(at, (int)i, size < 64 ? size : 1);
        object[i].at[size - 1] = (unsigned char)i;
        handed_out += charge_of(at);
    }
}

static void *resized(unsigned i, size_t size)
{
    unsigned char *had = object[i].at;
    size_t usable = had ? malloc_usable_size(had) : 0;
    uint64_t charged = had ? charge_of(had) : 0;
    void *fresh = realloc(had, size);

    if (!fresh) { /* it is as it was */
        MUST(errno == ENOMEM);
        MUST(!had || malloc_usable_size(had) == usable);
        return NULL;
    }
    handed_out -= charged;
    return fresh;
}

static void call_once(void)
{
    unsigned i = below(OBJECTS), what = below(10);
    size_t size = some_size();
    void *at = NULL;

    errno = 0;
    if (what < 4) {
        void *fresh = resized(i, size);
        if (fresh)
            keep(i, fresh, size);
        return;
    }
    forget(i);
    free(object[i].at);
    if (what < 6)
        at = malloc(size);
    else if (what == 6)
        at = calloc(1, size);
    else if (what == 7)
        at = memalign((size_t)1 << below(16), size);
    else if (what == 8 && posix_memalign(&at, (size_t)8 << below(20), size) != 0)
        at = NULL;
    MUST(at || what >= 8 || errno == ENOMEM);
    keep(i, at, size);
}

static int mode_random(uint64_t seed)
{
    uint64_t before = read_group().usage;
    struct group_stat stat;

    state = seed;
    for (unsigned n = 0; n < CALLS; n++) {
        call_once();
        stat = read_group();
        MUST(stat.usage == before + handed_out);
        MUST(stat.usage + stat.stocked <= stat.limit);
    }
    for (unsigned i = 0; i < OBJECTS; i++) {
        forget(i);
        free(object[i].at);
    }
    MUST(read_group().usage == before);
    printf("%llu refused\n", (unsigned long long)stat.refused);
    return 0;
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 20000, SHELF = 256 };
static _Atomic(void *) shelf[SHELF];

static void *trade(void *arg)
{
    uint64_t own = (uintptr_t)arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        own = own * 6364136223846793005u + 1442695040888963407u;
        void *fresh = malloc(16 + (own >> 40) % 9000);
        MUST(fresh || errno == ENOMEM);
        free(atomic_exchange_explicit(&shelf[(own >> 33) % SHELF], fresh, memory_order_acq_rel));
        if (i % (ROUNDS / 4) == 0) {
            pid_t child = fork();
            int status;
            if (child == 0) {
                void *large = malloc(read_group().limit);
                free(malloc(100));
                _exit(large != NULL);
            }
            MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        }
    }
    return NULL;
}

static int mode_threads(void)
{
    uint64_t usage = 0, before;
    pthread_t thread[THREADS];

    /* What threads cost themselves is there from here on. */
    for (int round = 0; round < 2; round++) {
        before = read_group().usage;
        for (uintptr_t i = 0; i < THREADS; i++)
            MUST(pthread_create(&thread[i], NULL, trade, (void *)(i + 1)) == 0);
        for (int i = 0; i < THREADS; i++)
            MUST(pthread_join(thread[i], NULL) == 0);
        usage = 0;
        for (int i = 0; i < SHELF; i++) {
            usage += shelf[i] ? malloc_usable_size(shelf[i]) : 0;
            free(shelf[i]);
            shelf[i] = NULL;
        }
    }
    MUST(usage > 0 && read_group().usage == before);
    MUST(read_group().peak <= read_group().limit);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "secure") == 0) { /* of a set-uid program */
        void *large = malloc(1 << 20);
        printf("%s\n", large ? "free" : "limited");
        return 0;
    }
    find_group();
    setvbuf(stdout, NULL, _IONBF, 0);
    if (argc == 3 && strcmp(argv[1], "fill") == 0)
        return mode_fill(strtoul(argv[2], NULL, 10));
    if (argc == 3 && strcmp(argv[1], "random") == 0)
        return mode_random(strtoul(argv[2], NULL, 10));
    return mode_threads();
}
