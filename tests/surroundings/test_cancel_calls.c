/* SPDX-License-Identifier: MIT */
/* link: malloc */
/* needs: malloc native */
/*
 * No call is a point of cancellation: a thread with a pending cancel makes all of them, over and over,
 * in situations that open files and wait, and is still there; callbacks that contain such points
 * return.  Then everything works, fork and stook_topology_update() too.
 */
#include "support/malloc_calls.h"

#include <stook/group.h>
#include <stook/kmalloc.h>
#include <stook/stat.h>
#include <stook/stook.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { OBJECTS = 3000, TIME = 120 };

static struct stook_cache *cache;
static _Atomic unsigned made; /* calls that returned */

static void pin(unsigned wanted)
{
    cpu_set_t all, one;
    unsigned seen = 0;

    if (sched_getaffinity(0, sizeof(all), &all) != 0)
        return;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && seen <= wanted) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            seen++;
        }
    (void)sched_setaffinity(0, sizeof(one), &one);
}

/* ---- what a thread does with a cancel pending ----------------------------------------------- */

static void use_malloc(void)
{
    static const size_t sizes[] = {16, 512, 3000, 20000, 300000};
    static void *objects[OBJECTS];

    for (unsigned s = 0; s < 5; s++) {
        unsigned n = sizes[s] > 10000 ? 50 : OBJECTS;
        for (unsigned i = 0; i < n; i++)
            objects[i] = i % 2 ? t_malloc(sizes[s]) : t_calloc(1, sizes[s]);
        for (unsigned i = 0; i < n; i++)
            objects[i] = t_realloc(objects[i], sizes[s] * 2);
        for (unsigned i = 0; i < n; i++)
            t_free(objects[i]);
        if (t_posix_memalign(&objects[0], 4096, sizes[s]) == 0)
            t_free(objects[0]);
    }
    (void)t_malloc_trim(0);
    (void)t_mallinfo2();
}

static void use_caches(void)
{
    static void *objects[OBJECTS];

    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < OBJECTS; i++)
            objects[i] = stook_alloc(cache, 0);
        for (unsigned i = 0; i < OBJECTS; i++)
            stook_free(cache, objects[i]);
        if (stook_alloc_bulk(cache, 0, OBJECTS, objects) == OBJECTS)
            stook_free_bulk(cache, OBJECTS, objects);
    }
    (void)stook_cache_shrink(cache);
    (void)stook_cache_set_capacity(cache, 20);
    stook_kfree(stook_kmalloc(100, 0));
    stook_kfree(stook_kmalloc(1000000, STOOK_ZERO));
}

static void use_explicit(void)
{
    struct stook_cache *other = stook_cache_create("other", 100, NULL);
    struct stook_group *group = stook_group_create("cancel", NULL, 1 << 20);

    (void)stook_topology_update();
    (void)stook_cached_bytes_set_max(64 << 20);
    stook_free(other, stook_alloc(other, 0));
    (void)stook_cache_destroy(other);
    if (group)
        (void)stook_group_destroy(group);
}

static int null;

static void use_reports(void)
{
    (void)stook_report(null, STOOK_REPORT_TABLE);
    (void)stook_report(null, STOOK_REPORT_JSON);
    (void)stook_cache_show_json(cache, null);
}

static void use_pools(void)
{
    struct stook_bag *bag = stook_bag_create(4);
    int token;

    if (bag) {
        (void)stook_bag_put(bag, &token);
        (void)stook_bag_take(bag);
        (void)stook_bag_wait(bag); /* nothing comes: it sleeps for a moment */
        stook_bag_destroy(bag);
    }
}

static void use_fork(void)
{
    for (unsigned i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
    }
}

/* A point of cancellation in a destructor. */
static _Atomic unsigned destroyed;

static void destroy(void *object)
{
    (void)object;
    pthread_testcancel();
    usleep(1);
    atomic_fetch_add(&destroyed, 1);
}

static void use_callbacks(void)
{
    struct stook_cache_args args = {.size = sizeof(args), .dtor = destroy, .ctor = destroy};
    struct stook_cache *hooked = stook_cache_create("hooked", 2000, &args);
    void *objects[40];

    for (unsigned i = 0; i < 40; i++)
        objects[i] = stook_alloc(hooked, 0);
    for (unsigned i = 0; i < 40; i++)
        stook_free(hooked, objects[i]);
    (void)stook_cache_shrink(hooked);
    (void)stook_topology_update();
    (void)stook_cache_destroy(hooked);
}

static void (*const uses[])(void) = {use_malloc, use_caches, use_explicit, use_reports,
                                     use_pools,  use_fork,   use_callbacks};
enum { USES = sizeof(uses) / sizeof(uses[0]) };

static void *cancelled(void *which)
{
    pin(1);
    pthread_cancel(pthread_self());
    uses[(uintptr_t)which]();
    atomic_fetch_add(&made, 1);
    pthread_testcancel();
    return NULL;
}

static void *busy(void *stop)
{
    pin(0);
    while (!atomic_load((atomic_bool *)stop)) {
        void *p = t_malloc(300000);
        memset(p, 1, 300000);
        t_free(p);
        stook_free(cache, stook_alloc(cache, 0));
    }
    return NULL;
}

static void all_works(void)
{
    pid_t child;
    int status;

    assert_true(stook_topology_update() >= 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        t_free(t_malloc(1000));
        stook_free(cache, stook_alloc(cache, 0));
        _exit(stook_topology_update() >= 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    while (waitpid(-1, &status, WNOHANG) > 0)
        ;
}

static void test_pending_cancel(void **state)
{
    atomic_bool stop = false;
    pthread_t other;

    (void)state;
    assert_int_equal(pthread_create(&other, NULL, busy, &stop), 0);
    for (uintptr_t which = 0; which < USES; which++) {
        pthread_t thread;
        void *ended;
        alarm(TIME); /* ends what hangs */
        atomic_store(&made, 0);
        assert_int_equal(pthread_create(&thread, NULL, cancelled, (void *)which), 0);
        pthread_join(thread, &ended);
        print_message("calls of kind %u: %s\n", (unsigned)which,
                      atomic_load(&made) ? "all returned" : "cancelled inside");
        assert_int_equal(atomic_load(&made), 1);
        assert_ptr_equal(ended, PTHREAD_CANCELED); /* it was pending */
        all_works();
    }
    assert_true(atomic_load(&destroyed) > 0);
    alarm(0);
    atomic_store(&stop, true);
    pthread_join(other, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pending_cancel),
    };

    pin(0); /* another CPU than the threads': it is left */
    cache = stook_cache_create("cancel", 512, NULL);
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (!cache || null < 0)
        return 1;
    for (unsigned i = 0; i < 100; i++)
        stook_free(cache, stook_alloc(cache, 0));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
