/* SPDX-License-Identifier: MIT */
/* needs: native */
/* timeout: 120 */
/*
 * Every usual way to start a program, beside threads that allocate and free: posix_spawn, vfork and
 * exec, vfork and _exit, system, popen, fork and exec.  Those children share the parent's memory
 * for a moment and may only exec or exit; nothing of the parent's objects changes by it.
 */
#include "support/test.h"

#include <stook/inline.h>

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>

/* LEAST: what each thread does even where it first runs when all programs are through. */
enum { THREADS = 4, HELD = 600, SIZE = 128, EACH = 40, LEAST = 5000 };

extern char **environ;

static struct stook_cache *cache;
static atomic_bool stop;
static _Atomic unsigned errors;
static _Atomic uint64_t operations;

static void *worker(void *arg)
{
    static __thread void *held[HELD];
    uintptr_t me = (uintptr_t)arg;
    uint64_t random = me * 0x9e3779b97f4a7c15u, done = 0;
    unsigned n = 0;

    while (done < LEAST || !atomic_load_explicit(&stop, memory_order_relaxed)) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        for (unsigned i = 0; i < (random >> 20 & 255); i++, done++) {
            if ((random & 1) && n < HELD) {
                uintptr_t *object = stook_alloc_inline(cache, 0);
                if (!object) {
                    atomic_fetch_add(&errors, 1);
                    continue;
                }
                object[0] = me;
                object[SIZE / sizeof(*object) - 1] = ~me;
                held[n++] = object;
            } else if (n > 0) {
                uintptr_t *object = held[--n];
                if (object[0] != me || object[SIZE / sizeof(*object) - 1] != ~me)
                    atomic_fetch_add(&errors, 1);
                object[0] = 0;
                stook_free_inline(cache, object);
            }
        }
        if ((random >> 50 & 255) == 0)
            usleep(100);
    }
    while (n > 0)
        stook_free(cache, held[--n]);
    atomic_fetch_add(&operations, done);
    return NULL;
}

static int wait_for(pid_t child)
{
    int status;

    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

static char *const say_seven[] = {"sh", "-c", "exit 7", NULL};

static int by_posix_spawn(void)
{
    pid_t child;

    return posix_spawn(&child, "/bin/sh", NULL, NULL, say_seven, environ) == 0 ? wait_for(child)
                                                                               : -1;
}

static int by_vfork_exec(void)
{
    pid_t child = vfork();

    if (child == 0) {
        execve("/bin/sh", say_seven, environ);
        _exit(99);
    }
    return wait_for(child);
}

static int by_vfork_exit(void)
{
    pid_t child = vfork();

    if (child == 0)
        _exit(7);
    return wait_for(child);
}

static int by_system(void)
{
    int status = system("exit 7");

    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int by_popen(void)
{
    char line[16] = "";
    FILE *pipe = popen("echo seven; exit 7", "r");

    if (!pipe || !fgets(line, sizeof(line), pipe) || strcmp(line, "seven\n") != 0)
        return -1;
    return WEXITSTATUS(pclose(pipe));
}

static int by_fork_exec(void)
{
    pid_t child = fork();

    if (child == 0) {
        void *object = stook_alloc(cache, 0); /* after fork it may */
        stook_free(cache, object);
        execve("/bin/sh", say_seven, environ);
        _exit(99);
    }
    return wait_for(child);
}

TEST(test_programs_are_started)
{
    static const struct {
        int (*start)(void);
        const char *name;
    } ways[] = {
        {by_posix_spawn, "posix_spawn"},
        {by_vfork_exec, "vfork, exec"},
        {by_vfork_exit, "vfork, _exit"},
        {by_system, "system"},
        {by_popen, "popen"},
        {by_fork_exec, "fork, exec"},
    };
    pthread_t threads[THREADS];
    unsigned started = 0;

    assert_non_null(cache = stook_cache_create("posix_spawn", SIZE, NULL));
    for (uintptr_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, worker, (void *)(t + 1)), 0);
    for (unsigned i = 0; i < EACH; i++) {
        for (unsigned w = 0; w < sizeof(ways) / sizeof(ways[0]); w++, started++) {
            void *object = stook_alloc_inline(cache, 0);
            assert_non_null(object);
            memset(object, 0x5a, SIZE);
            int result = ways[w].start();
            if (result != 7)
                fail_msg("%s: %d", ways[w].name, result);
            for (unsigned b = 0; b < SIZE; b++)
                assert_int_equal(((unsigned char *)object)[b], 0x5a);
            stook_free_inline(cache, object);
        }
    }
    atomic_store(&stop, true);
    for (unsigned t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    print_message("%s: %u programs beside %llu operations\n", stook_mode(NULL), started,
                  (unsigned long long)atomic_load(&operations));
    assert_int_equal(atomic_load(&errors), 0);
    assert_true(atomic_load(&operations) >= (uint64_t)THREADS * LEAST);
    assert_int_equal(stook_cache_destroy(cache), 0);
}
