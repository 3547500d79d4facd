/* SPDX-License-Identifier: MIT */
/* link: malloc */
/*
 * prog_cancel calls     each call, again and again, by a thread with a pending cancel that holds a mutex, while
 *                       another thread allocates: it is cancelled nowhere but at its own
 *                       pthread_testcancel(), callbacks that contain such points return, and fork works after it
 * prog_cancel fork N    N times a real-time thread with a pending cancel forks beside threads that
 *                       allocate on its CPU, and is not cancelled in fork()
 */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <stook/group.h>
#include <stook/kmalloc.h>
#include <stook/reserve.h>
#include <stook/stat.h>
#include <stook/stook.h>
#include <stook/topology.h>
#include <sys/syscall.h>

#include "surroundings/exercise.h"

enum { OBJECTS = 3000, WORKERS = 4 };

static struct stook_cache *cache;
static void *object[OBJECTS];
static _Atomic int stop;
static _Atomic int round_now;

static void malloc_free(void)
{
    for (int i = 0; i < OBJECTS; i++)
        object[i] = malloc(512);
    for (int i = 0; i < OBJECTS; i++)
        free(object[i]);
}

static void calloc_free(void)
{
    for (int i = 0; i < OBJECTS / 10; i++)
        object[i] = calloc(10, 5000);
    for (int i = 0; i < OBJECTS / 10; i++)
        free(object[i]);
}

static void realloc_free(void)
{
    char *one = NULL;

    for (size_t size = 16; size < 8 << 20; size += size / 2)
        one = realloc(one, size);
    for (size_t size = 8 << 20; size > 16; size /= 3)
        one = realloc(one, size);
    free(one);
}

static void aligned_free(void)
{
    for (size_t align = 16; align <= 1 << 20; align *= 4)
        free(aligned_alloc(align, align));
}

static void large_free(void)
{
    for (int i = 0; i < 50; i++)
        object[i] = memset(malloc(300000), 1, 300000);
    for (int i = 0; i < 50; i++)
        free(object[i]);
}

static void trim(void)
{
    malloc_free();
    malloc_trim(0);
}

static void info(void)
{
    (void)mallinfo2();
    (void)malloc_usable_size(object[0] = malloc(10));
    free(object[0]);
}

static void forked(void)
{
    pid_t child = fork();

    if (child == 0)
        _exit(0);
    /* waitpid() would be a cancellation point. */
    while (syscall(SYS_wait4, child, NULL, WNOHANG, NULL) == 0)
        sched_yield();
}

/* So often that in all rounds a scan for CPUs is due on each CPU several times, which reads files. */
static void typed(void)
{
    for (int turn = 0; turn < 6; turn++) {
        for (int i = 0; i < OBJECTS; i++)
            object[i] = stook_alloc(cache, 0);
        for (int i = 0; i < OBJECTS; i++)
            stook_free(cache, object[i]);
    }
}

static void typed_bulk(void)
{
    size_t n = stook_alloc_bulk(cache, 0, OBJECTS, object) == 0 ? OBJECTS : 0;

    stook_free_bulk(cache, n, object);
}

static void typed_cache(void)
{
    struct stook_cache *one = stook_cache_create("cancelled", 100, NULL);

    stook_free(one, stook_alloc(one, 0));
    stook_cache_shrink(one);
    stook_cache_destroy(one);
}

static void typed_topology(void)
{
    (void)stook_topology_update(NULL);
}

static void kmalloc_free(void)
{
    stook_free_any(stook_kmalloc(100, 0));
    stook_free_any(stook_kmalloc(1000000, STOOK_ZERO));
}

static void capacity(void)
{
    if (stook_cache_set_capacity(cache, 20))
        give_up("no capacity of 20");
    (void)stook_cached_bytes_set_max(64 << 20);
}

static void group(void)
{
    struct stook_group one = stook_group_create("cancelled", STOOK_NO_GROUP, 1 << 20);

    if (!one.id || stook_group_destroy(one))
        give_up("no group");
}

static int null;

static void report(void)
{
    (void)stook_report(null, STOOK_REPORT_TABLE);
    (void)stook_report(null, STOOK_REPORT_JSON);
}

static void bag(void)
{
    struct stook_pool *one = stook_pool_create_of(NULL, 0, 4);
    int token;

    (void)stook_pool_put(one, &token);
    if (stook_pool_take(one, STOOK_NORECLAIM) != &token)
        abort();
    /* Nothing comes: it sleeps for a second. */
    if (round_now == 0 && stook_pool_take(one, STOOK_WAIT))
        abort();
    (void)stook_pool_destroy(one);
}

static unsigned called_back;

static void cancellation_point(void *one, void *arg)
{
    pthread_testcancel();
    usleep(1);
    called_back++;
}

static void callbacks(void)
{
    struct stook_cache_args args = {
        .size = sizeof(args), .ctor = cancellation_point, .dtor = cancellation_point};
    struct stook_cache *one = stook_cache_create("called back", 2000, &args);

    called_back = 0;
    for (int i = 0; i < 40; i++)
        object[i] = stook_alloc(one, 0);
    for (int i = 0; i < 40; i++)
        stook_free(one, object[i]);
    stook_cache_shrink(one);
    if (stook_cache_destroy(one) || called_back < 80)
        give_up("%u callbacks of 80", called_back);
}

static const struct {
    const char *name;
    void (*run)(void);
} calls[] = {
    {"malloc, free", malloc_free},
    {"calloc", calloc_free},
    {"realloc", realloc_free},
    {"aligned_alloc", aligned_free},
    {"large", large_free},
    {"malloc_trim", trim},
    {"mallinfo2", info},
    {"fork", forked},
    {"stook_alloc", typed},
    {"stook_alloc_bulk", typed_bulk},
    {"stook_cache_create", typed_cache},
    {"stook_topology_update", typed_topology},
    {"stook_kmalloc", kmalloc_free},
    {"stook_cache_set_capacity", capacity},
    {"stook_group_create", group},
    {"stook_report", report},
    {"stook_pool_take", bag},
    {"constructors and destructors", callbacks},
};

enum { CALLS = sizeof(calls) / sizeof(calls[0]), ROUNDS = 30 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *cancelled_main(void *context)
{
    int call = (int)(intptr_t)context;

    pthread_mutex_lock(&mutex);
    pthread_cancel(pthread_self());
    for (round_now = 0; round_now < ROUNDS; round_now++) {
        pin(round_now); /* what is done first on a CPU is done, too */
        calls[call].run();
    }
    pthread_mutex_unlock(&mutex);
    pthread_testcancel();
    return NULL;
}

static void *neighbour_main(void *context)
{
    while (!stop) {
        free(memset(malloc(300000), 1, 300000));
        stook_free(cache, stook_alloc(cache, 0));
    }
    return NULL;
}

static int all_calls(void)
{
    int bad = 0;
    pthread_t neighbour;

    cache = stook_cache_create("objects", 300, NULL);
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (!cache || null < 0 || pthread_create(&neighbour, NULL, neighbour_main, NULL))
        give_up("no cache, file or thread");
    for (int i = 0; i < CALLS; i++) {
        pthread_t thread;
        void *result = NULL;
        if (pthread_create(&thread, NULL, cancelled_main, (void *)(intptr_t)i))
            give_up("a thread cannot be made");
        pthread_join(thread, &result);
        if (result != PTHREAD_CANCELED)
            give_up("%s: no cancel was pending", calls[i].name);
        if (pthread_mutex_trylock(&mutex)) {
            say("cancelled inside %s, round %d\n", calls[i].name, round_now);
            bad++;
            pthread_mutex_init(&mutex, NULL);
        } else {
            pthread_mutex_unlock(&mutex);
        }
        forked(); /* no lock is left, no slot closed */
        typed_topology();
    }
    stop = 1;
    pthread_join(neighbour, NULL);
    return bad;
}

static void *worker_main(void *context)
{
    void *mine[600];
    unsigned random = (unsigned)(uintptr_t)context;

    pin(0);
    while (!stop) {
        int n = 200 + (int)((random = random * 1103515245u + 12345u) >> 16) % 400;
        for (int i = 0; i < n; i++)
            mine[i] = malloc(512);
        for (int i = 0; i < n; i++)
            free(mine[i]);
    }
    return NULL;
}

static _Atomic int returned;

static void *forker_main(void *context)
{
    struct sched_param priority = {.sched_priority = 10};

    pin(0);
    if (sched_setscheduler(0, SCHED_FIFO, &priority))
        _exit(77);
    usleep(200 + (unsigned)(uintptr_t)context % 800);
    pthread_cancel(pthread_self());
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    returned = 1;
    while (waitpid(child, NULL, WNOHANG) == 0)
        usleep(100); /* cancelled here, or at the end */
    return NULL;
}

static int many_forks(int times)
{
    pthread_t worker[WORKERS], thread;
    int bad = 0;

    pin(1);
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&worker[i], NULL, worker_main, (void *)(intptr_t)(i + 1));
    for (int i = 0; i < times && bad < 3; i++) {
        returned = 0;
        if (pthread_create(&thread, NULL, forker_main, (void *)(intptr_t)(i * 37)))
            give_up("a thread cannot be made");
        pthread_join(thread, NULL);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (!returned) {
            say("cancelled inside fork(), try %d\n", i);
            bad++;
        }
    }
    stop = 1;
    for (int i = 0; i < WORKERS; i++)
        pthread_join(worker[i], NULL);
    return bad;
}

int main(int argc, char **argv)
{
    int bad = argc > 2 ? many_forks(atoi(argv[2])) : all_calls();

    if (bad)
        return 1;
    say("done 1\n");
    return 0;
}
