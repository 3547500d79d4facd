/* SPDX-License-Identifier: MIT */
/* link: none */
/*
 * Threads that come and go allocate, resize and free objects of 8 bytes to 4 MiB, most of which
 * others have made, while some of them fork; every byte is checked, in the children too.
 *
 *   prog_storm SECONDS [THREADS]
 */

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HELD = 24, SHARED = 1024, THREADS_MAX = 256, LIFE = 4000, FORKS_LIFE = 8 };

struct object { /* what is left of its size is filled */
    uint32_t size, seed;
};
_Static_assert(sizeof(struct object) == 8, "the smallest object");

static _Atomic(struct object *) shared[SHARED];
static atomic_bool stop;
static _Atomic uint64_t steps, forks, lives;
static atomic_int forking;

#define CHECK(condition)                                                                           \
    ((condition) ? (void)0                                                                         \
                 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), abort()))

static uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return *state = x;
}

/* Words are checked in full up to a page; of larger objects both ends and a word of each page. */
static uint64_t word(const struct object *o, size_t at)
{
    return (o->seed * 0x9e3779b97f4a7c15u ^ at * 0xd1342543de82ef95u) + at;
}

static size_t word_next(size_t at, size_t size)
{
    return at < 4096 || at + 4096 > size ? at + 8 : at + 512 - at % 8;
}

static void fill(struct object *o, size_t from)
{
    for (size_t at = from; at + 8 <= o->size; at = word_next(at, o->size)) {
        uint64_t w = word(o, at);
        memcpy((char *)o + at, &w, 8);
    }
}

static void check(const struct object *o)
{
    for (size_t at = sizeof(*o); at + 8 <= o->size; at = word_next(at, o->size)) {
        uint64_t w;
        memcpy(&w, (const char *)o + at, 8);
        CHECK(w == word(o, at));
    }
}

static size_t random_size(uint64_t r)
{
    unsigned bits = 3 + (unsigned)(r % 19);
    size_t size = ((size_t)1 << bits) + ((r >> 8) & (((size_t)1 << bits) - 1));

    return bits > 15 && (r >> 50) % 8 ? 8 + (r >> 20) % 2000 : size;
}

static struct object *make(uint64_t *random)
{
    uint64_t r = random_next(random);
    size_t size = random_size(r), align = 1;
    struct object *o;

    switch ((r >> 40) % 16) {
    case 0:
        align = (size_t)16 << (r >> 44) % 10;
        o = aligned_alloc(align, size);
        break;
    case 1:
        o = calloc(1, size);
        for (size_t i = 0; o && i < size; i += 61)
            CHECK(((const char *)o)[i] == 0);
        break;
    default:
        o = malloc(size);
    }
    CHECK(o && (uintptr_t)o % align == 0 && malloc_usable_size(o) >= size);
    o->size = (uint32_t)size;
    o->seed = (uint32_t)(r >> 32);
    fill(o, sizeof(*o));
    return o;
}

static void drop(struct object *o)
{
    if (!o)
        return;
    check(o);
    o->seed = ~o->seed; /* the check of a thread that still has it finds this */
    free(o);
}

static struct object *resize(struct object *o, size_t size)
{
    uint32_t seed = o->seed, had = o->size;

    if (had < 100000)
        check(o);
    o = realloc(o, size);
    CHECK(o && o->seed == seed && o->size == had);
    if (size <= had && had <= 4096) {
        o->size = (uint32_t)size;
        check(o);
    } else {
        o->size = (uint32_t)size;
        fill(o, sizeof(*o)); /* which words were filled depends on the size */
    }
    return o;
}

static void step(struct object **held, uint64_t *random)
{
    uint64_t r = random_next(random);
    struct object **mine = &held[r % HELD];

    switch ((r >> 8) % 4) {
    case 0:
        drop(*mine);
        *mine = make(random);
        break;
    case 1:
        if (*mine)
            *mine = resize(*mine, random_size(random_next(random)));
        break;
    default:
        *mine = atomic_exchange(&shared[(r >> 16) % SHARED], *mine);
        if (!*mine)
            *mine = make(random);
    }
}

static void *child_thread(void *arg)
{
    uint64_t random = (uintptr_t)arg;
    struct object *object[50];

    for (int i = 0; i < 50; i++)
        object[i] = make(&random);
    for (int i = 0; i < 50; i++)
        drop(object[i]);
    return NULL;
}

/* What the forking thread held is whole; malloc works, with threads, and in a child of the child. */
static __attribute__((noreturn)) void child(struct object **held, uint64_t random, int depth)
{
    pthread_t thread;
    int status;

    alarm(240);
    for (int i = 0; i < HELD; i++)
        drop(held[i]);
    memset(held, 0, HELD * sizeof(*held));
    for (int i = 0; i < 200; i++)
        step(held, &random);
    CHECK(pthread_create(&thread, NULL, child_thread, (void *)(uintptr_t)(random | 1)) == 0);
    if (depth < 2 && random % 4 == 0) {
        pid_t pid = fork();
        if (pid == 0)
            child(held, random ^ 0x5555, depth + 1);
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    _exit(0);
}

static void *member(void *arg)
{
    struct object *held[HELD] = {0};
    uint64_t random = (uintptr_t)arg * 0x9e3779b97f4a7c15u | 1, n;
    bool forks_too = atomic_fetch_add(&forking, 1) % 8 == 0;

    for (n = 0; n < LIFE && !stop; n++) {
        step(held, &random);
        if (forks_too && n % (LIFE / FORKS_LIFE) == 0) {
            int status;
            pid_t pid = fork();
            if (pid == 0)
                child(held, random, 0);
            CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            forks++;
        }
    }
    for (int i = 0; i < HELD; i++)
        drop(held[i]);
    steps += n;
    lives++;
    return NULL;
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    double end = now() + (argc > 1 ? atof(argv[1]) : 2);
    unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 64;
    static pthread_t thread[THREADS_MAX];
    uintptr_t seed = (uintptr_t)time(NULL) << 16;

    CHECK(threads >= 1 && threads <= THREADS_MAX);
    for (unsigned i = 0; i < threads; i++)
        CHECK(pthread_create(&thread[i], NULL, member, (void *)++seed) == 0);
    /* A thread that is done gets a successor; on a busy machine the first threads may take longer. */
    for (unsigned i = 0; now() < end || forks == 0 || steps <= 1000; i = (i + 1) % threads) {
        struct timespec soon;
        clock_gettime(CLOCK_REALTIME, &soon);
        if (pthread_timedjoin_np(thread[i], NULL, &soon) == 0)
            CHECK(pthread_create(&thread[i], NULL, member, (void *)++seed) == 0);
        else
            usleep(100);
    }
    stop = true;
    for (unsigned i = 0; i < threads; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    for (int i = 0; i < SHARED; i++)
        drop(shared[i]);
    fprintf(stderr, "%llu steps, %llu forks, %llu threads\n", (unsigned long long)steps,
            (unsigned long long)forks, (unsigned long long)lives);
    CHECK(steps > 1000 && forks > 0 && lives >= threads);
    puts("whole");
    return 0;
}
