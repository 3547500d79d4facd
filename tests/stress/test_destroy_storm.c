/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/* debug: no */
/*
 * A thread makes caches, frees all their objects and destroys them, which is never refused.  Meanwhile other threads fork,
 * report and shrink.  One thread frees its last objects in a handler, or by its own frees out of the quarantine.
 */
#include "slab/slab.h"
#include "support/scale.h"
#include "support/test.h"

#include <stook/stook.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

enum { ROUNDS = 250, OBJECTS = 800, MAILED = 500, BUSY = 300 };

static atomic_bool stop, mailed;
static struct stook_cache *mail_cache;
static void *mail[MAILED];
static unsigned quarantined; /* a flag of all caches, or none */

static struct stook_cache *make(size_t size)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = quarantined};

    return stook_cache_create("destroyed", size, &args);
}

static void on_signal(int signal)
{
    int saved = errno;

    if (!atomic_load(&mailed)) /* acquires what the sender wrote */
        return;
    for (unsigned i = 0; i < MAILED; i++)
        stook_free(mail_cache, mail[i]);
    atomic_store(&mailed, false);
    errno = saved;
}

/* Mostly inside the library when the signal comes. */
static void *free_and_shrink(void *unused)
{
    struct stook_cache *cache = make(100);
    void *objects[BUSY];

    while (!atomic_load(&stop)) {
        for (unsigned i = 0; i < BUSY; i++)
            if (!(objects[i] = stook_alloc(cache, 0)))
                abort();
        for (unsigned i = 0; i < BUSY; i++)
            stook_free(cache, objects[i]);
        (void)stook_cache_shrink(cache);
    }
    if (stook_cache_destroy(cache) != 0)
        abort();
    return unused;
}

static void *forks(void *unused)
{
    while (!atomic_load(&stop)) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child > 0)
            waitpid(child, NULL, 0);
    }
    return unused;
}

static int shrink_one(struct stook_cache *cache, void *unused)
{
    (void)stook_cache_shrink(cache);
    return 0;
}

static void *reports(void *unused)
{
    int to = open("/dev/null", O_WRONLY);

    while (!atomic_load(&stop)) {
        (void)stook_report(to, STOOK_REPORT_JSON);
        (void)stook_cache_each(shrink_one, NULL);
        sched_yield();
    }
    close(to);
    return unused;
}

/* Whether its destruction is refused. */
static bool one_cache(unsigned round, pthread_t interrupted)
{
    struct stook_cache *cache = make(64 + round % 9 * 100);
    static void *objects[OBJECTS];
    unsigned n = OBJECTS - round % 7 * 40;
    cpu_set_t cpus;

    assert_non_null(cache);
    for (unsigned i = 0; i < n; i++)
        assert_non_null(objects[i] = stook_alloc(cache, 0));
    CPU_ZERO(&cpus);
    CPU_SET(round / 3 % 2, &cpus);
    (void)sched_setaffinity(0, sizeof(cpus), &cpus);
    if (round % 2) {
        mail_cache = cache;
        for (unsigned i = 0; i < MAILED; i++)
            mail[i] = objects[--n];
        atomic_store(&mailed, true);
        assert_int_equal(pthread_kill(interrupted, SIGUSR1), 0);
    }
    while (n > 0)
        stook_free(cache, objects[--n]);
    while (atomic_load(&mailed))
        sched_yield();
    return stook_cache_destroy(cache) != 0;
}

static void storm(unsigned flags)
{
    void *(*const runs[])(void *) = {free_and_shrink, forks, reports};
    pthread_t threads[3];
    unsigned refused = 0;

    quarantined = flags;
    atomic_store(&stop, false);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, runs[i], NULL), 0);
    for (unsigned round = 0; round < scaled(ROUNDS); round++)
        refused += one_cache(round, threads[0]);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(refused, 0);
}

TEST(plain)
{
    storm(0);
}

TEST(with_quarantine)
{
    storm(STOOK_CACHE_QUARANTINE);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGUSR1, &action, NULL);
    return tests_run(NULL, NULL);
}
