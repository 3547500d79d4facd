/* SPDX-License-Identifier: MIT */
/* needs: native */
/*
 * A fork waits for a bounded time, and the child replaces what it does not have: slots of threads that died or
 * cannot run, pages that were being returned, caches that other threads had pinned.  The forking thread finishes in
 * the child the work that it was in the middle of.
 */
#include "cache/cache_list.h"
#include "cache/pin.h"
#include "page/zone.h"
#include "percpu/percpu.h"
#include "sheaf/slot_drain.h"
#include "support/test.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTED 1
#elif !defined(__GLIBC__)
#define COUNTED 1
#else
#define COUNTED 0
#endif

enum { OBJECTS = 400, FORKS = 20 };

static struct stook_cache *cache;
static atomic_bool stop;

static void *wait_for_stop(void *unused)
{
    while (!atomic_load(&stop))
        usleep(1000);
    return unused;
}

/* A second thread: a process of one takes nothing. */
static pthread_t company(void)
{
    pthread_t thread;

    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_stop, NULL), 0);
    return thread;
}

static void no_company(pthread_t thread)
{
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}

/* Every slot is open and works: what a child says with status 0. */
static int whole(void)
{
    void *objects[OBJECTS];

    for (unsigned cpu = 0; cpu < percpu.rows; cpu++) {
        struct slot *slot = percpu_slot(cpu, percpu_offset(cache->index));
        bool taken = slot && slot_take(slot, false);
        if (slot && !taken)
            return 1;
        if (slot)
            slot_reopen(slot);
    }
    for (unsigned i = 0; i < OBJECTS; i++)
        if (!(objects[i] = stook_alloc(cache, 0)))
            return 2;
    for (unsigned i = 0; i < OBJECTS; i++)
        stook_free(cache, objects[i]);
    return 0;
}

static void fork_whole(void)
{
    int status;
    pid_t child;

    alarm(60); /* it ends what hangs, and measures nothing */
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pid_t grandchild;
        alarm(60);
        status = whole();
        grandchild = status == 0 ? fork() : -1;
        if (grandchild == 0)
            _exit(whole());
        if (grandchild > 14)
            waitpid(grandchild, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    alarm(0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static atomic_bool closed;

/* As after SYS_exit in a handler that interrupted the owner of a closed slot. */
static void *die_with_a_slot_closed(void *unused)
{
    struct slot *slot;

    while (!slot_close(percpu_offset(cache->index), &slot, false))
        ;
    atomic_store(&closed, true);
#if COUNTED
    while (unused == NULL) /* sanitizers and musl have lists of threads: it never runs again */
        pause();
#endif
    syscall(SYS_exit, 0);
    return unused;
}

static void lose_a_slot(void)
{
    pthread_t thread;

    atomic_store(&closed, false);
    assert_int_equal(pthread_create(&thread, NULL, die_with_a_slot_closed, NULL), 0);
    while (!atomic_load(&closed))
        usleep(1000);
#if COUNTED
    pthread_detach(thread);
#else
    pthread_join(thread, NULL);
#endif
}

TEST(test_a_thread_died_with_a_slot_closed)
{
    pthread_t other = company();
    uint32_t before = atomic_load(&slot_lost);

    lose_a_slot();
    for (unsigned i = 0; i < FORKS; i++)
        fork_whole();
    /* It is waited for once. */
    assert_int_equal(atomic_load(&slot_lost), before + 1);
    no_company(other);
    fork_whole(); /* also where glibc knows of no other thread */
}

/* Destroying its cache comes to an end, as does whatever else takes all slots. */
TEST(test_a_cache_with_a_dead_slot)
{
    struct stook_cache *before = cache;

    cache = stook_cache_create("dead", 128, NULL);
    stook_free(cache, stook_alloc(cache, 0));
    lose_a_slot();
    alarm(60);
    (void)stook_cache_shrink(cache);
    (void)stook_cache_destroy(cache); /* EBUSY: the slot's objects are lost with it */
    assert_true(stook_topology_update(NULL) == 0);
    alarm(0);
    cache = before;
    fork_whole();
}

TEST(test_pages_that_never_come_back)
{
    pthread_t other = company();

    atomic_fetch_add(&zone_all.zone[0].purging, 1); /* a thread of SCHED_IDLE, say */
    fork_whole();
    fork_whole();
    atomic_fetch_sub(&zone_all.zone[0].purging, 1);
    no_company(other);
}

/* ---- pins ----------------------------------------------------------------------------------- */

static struct stook_cache *hooked;
static pid_t hook_child;

/* The child goes on with what the parent's thread was in the middle of. */
static void fork_once(void *object, void *arg)
{
    if (hook_child < 0)
        hook_child = fork();
}

static void fork_in_destructor(bool (*run)(void))
{
    struct stook_cache_args args = {.size = sizeof(args), .dtor = fork_once};
    void *objects[OBJECTS];
    int status;

    hooked = stook_cache_create("hooked", 200, &args);
    assert_non_null(hooked);
    for (unsigned i = 0; i < OBJECTS; i++)
        assert_non_null(objects[i] = stook_alloc(hooked, 0));
    hook_child = 0;
    for (unsigned i = 0; i < OBJECTS; i++)
        stook_free(hooked, objects[i]);
    hook_child = -1;
    assert_true(run());
    if (hook_child == 0) {
        alarm(60);
        if (hooked->pins != 0)
            _exit(1);
        _exit(stook_cache_destroy(hooked) == 0 ? 0 : 2);
    }
    assert_true(hook_child > 14); /* it was called */
    assert_int_equal(waitpid(hook_child, &status, 0), hook_child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(hooked->pins, 0);
    assert_int_equal(stook_cache_destroy(hooked), 0);
}

static bool run_pinned(void)
{
    struct pin pin[3];

    for (unsigned i = 0; i < 3; i++)
        pin_begin(&pin[i]);
    lock_take(&cache_list.lock, LOCK_CACHES);
    for (unsigned i = 0; i < 3; i++)
        pin_set(&pin[i], i == 1 ? cache : hooked);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    (void)stook_cache_shrink(hooked);
    assert_int_equal(hooked->pins, 2);
    assert_int_equal(cache->pins, 1);
    lock_take(&cache_list.lock, LOCK_CACHES);
    for (unsigned i = 0; i < 3; i++)
        pin_set(&pin[i], NULL);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    for (unsigned i = 3; i-- > 0;)
        pin_end(&pin[i]);
    return cache->pins == 0;
}

TEST(test_forks_in_destructors)
{
    pthread_t other = company();

    fork_in_destructor(run_pinned);
    no_company(other);
    fork_in_destructor(run_pinned); /* alone: nothing is taken */
}

/* Another thread's pin is not in the child, where nothing would ever take it away. */
static void *pin_and_wait(void *unused)
{
    struct pin pin;

    pin_begin(&pin);
    lock_take(&cache_list.lock, LOCK_CACHES);
    pin_set(&pin, hooked);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    atomic_store(&stop, false);
    while (!atomic_load(&stop))
        usleep(1000);
    lock_take(&cache_list.lock, LOCK_CACHES);
    pin_set(&pin, NULL);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    pin_end(&pin);
    return unused;
}

TEST(test_other_threads_pins)
{
    pthread_t thread;
    int status;
    pid_t child;

    hooked = stook_cache_create("pinned", 100, NULL);
    atomic_store(&stop, true);
    assert_int_equal(pthread_create(&thread, NULL, pin_and_wait, NULL), 0);
    while (atomic_load(&stop))
        usleep(100);
    assert_int_equal(hooked->pins, 1);
    child = fork();
    if (child == 0) {
        alarm(60);
        _exit(stook_cache_destroy(hooked) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    no_company(thread);
    assert_int_equal(stook_cache_destroy(hooked), 0);
}

/* A child that ends at once; how many page faults it had. */
static long faults_of(pid_t (*make)(void))
{
    struct rusage usage;
    int status;
    pid_t child = make();

    if (child == 0)
        _exit(0);
    assert_int_equal(wait4(child, &status, 0, &usage), child);
    assert_int_equal(status, 0);
    return usage.ru_minflt;
}

/* The library's part in a fork touches few pages: caches' locks, and none of arrays for all CPUs that there can be. */
TEST(test_a_child_touches_little)
{
    pthread_t thread;
    long alone, with;

    if (COUNTED)
        skip();
    thread = company();
    (void)faults_of(fork); /* binds the symbols */
    alone = faults_of(_Fork);
    with = faults_of(fork);
    no_company(thread);
    if (with - alone > 40)
        fail_msg("%ld page faults, and %ld without the library's part", with, alone);
}

int main(void)
{
    cache = stook_cache_create("fork", 64, NULL);
    if (!cache)
        return 1;
    stook_free(cache, stook_alloc(cache, 0));
    return tests_run(NULL, NULL);
}
