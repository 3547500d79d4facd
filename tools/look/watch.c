/* SPDX-License-Identifier: MIT */
/*
 * watch.c - the thread that ends a command whose reads make no progress.
 */
#include "look/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum { WATCH_PAUSE = 500000000 /* ns */, WATCH_PAUSES = 10 };

static struct {
    _Atomic unsigned depth;
    _Atomic unsigned steps;
    _Atomic(void (*)(void)) end;
    clockid_t clock; /* CPU time of the thread that is watched */
} watch;

static uint64_t watch_time(void)
{
    struct timespec time = {0, 0};

    (void)clock_gettime(watch.clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *watch_run(void *unused)
{
    static const char text[] =
        "stook: the process, or a file system of its own, does not let its memory or its files be read: given up\n";
    const struct timespec pause = {0, WATCH_PAUSE};
    void (*end)(void);
    uint64_t time = 0;
    unsigned steps = 0;

    for (unsigned same = 0; same < WATCH_PAUSES; same++) {
        (void)nanosleep(&pause, NULL);
        if (atomic_load(&watch.depth) == 0 || atomic_load(&watch.steps) != steps ||
            watch_time() != time)
            same = 0;
        steps = atomic_load(&watch.steps);
        time = watch_time();
    }
    if ((end = atomic_load(&watch.end)) != NULL)
        end();
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(1);
    return unused;
}

static void watch_start(void)
{
    pthread_t thread;

    if (pthread_getcpuclockid(pthread_self(), &watch.clock) == 0 &&
        pthread_create(&thread, NULL, watch_run, NULL) == 0)
        (void)pthread_detach(thread);
}

void watch_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, watch_start);
    atomic_fetch_add(&watch.depth, 1);
    atomic_fetch_add(&watch.steps, 1);
}

void watch_end(void)
{
    atomic_fetch_add(&watch.steps, 1);
    atomic_fetch_sub(&watch.depth, 1);
}

void watch_at_end(void (*fn)(void))
{
    atomic_store(&watch.end, fn);
}
