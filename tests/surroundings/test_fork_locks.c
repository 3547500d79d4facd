/* SPDX-License-Identifier: MIT */
/* link: malloc */
/* needs: malloc native */
/*
 * fork beside what other libraries lock: stdio's streams, and a mutex that a fork handler takes while
 * another thread allocates under it.  prog_fork.c has the scheduling classes.
 */
#include "support/malloc_calls.h"
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* ThreadSanitizer's own fork handlers hang beside stdio's locks. */
#ifndef __SANITIZE_THREAD__

#if defined(__SANITIZE_ADDRESS__)
enum { FORKS = 30, LEAST_FORKS = 10, TIME = 120 }; /* each copies the tables of the shadow */
#else
enum { FORKS = 300, LEAST_FORKS = 30, TIME = 120 };
#endif
enum {
    ENOUGH = 30
}; /* seconds, after which LEAST_FORKS are enough: on a busy machine a fork waits long */

static atomic_bool stop;
static int pipes[2];

static void fork_child(void)
{
    int status;
    pid_t child;

    alarm(TIME); /* ends what hangs */
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        void *p = t_malloc(1000);
        if (!p)
            _exit(1);
        t_free(p);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    alarm(0);
    assert_int_equal(status, 0);
}

static void fork_children(void)
{
    time_t begin = time(NULL);

    for (unsigned i = 0; i < FORKS && (i < LEAST_FORKS || time(NULL) - begin < ENOUGH); i++)
        fork_child();
}

/* ---- stdio ---------------------------------------------------------------------------------- */

/* Holds the stream's lock while its line grows, by realloc. */
static void *read_lines(void *unused)
{
    FILE *stream = fdopen(pipes[0], "r");
    char *line = NULL;
    size_t size = 0;

    while (stream && getline(&line, &size, stream) > 0) {
        free(line);
        line = NULL;
        size = 0;
    }
    free(line);
    return unused;
}

static void *write_lines(void *unused)
{
    static char line[20000];

    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    while (!atomic_load(&stop))
        if (write(pipes[1], line, sizeof(line)) < 0)
            break;
    close(pipes[1]);
    return unused;
}

static void *flush_all(void *unused)
{
    while (!atomic_load(&stop))
        fflush(NULL);
    return unused;
}

/* Allocates and frees all the time: so that a fork holds what it waits for. */
static void *churn(void *unused)
{
    while (!atomic_load(&stop)) {
        void *objects[100];
        for (unsigned i = 0; i < 100; i++)
            objects[i] = t_malloc(64 * i);
        for (unsigned i = 0; i < 100; i++)
            t_free(objects[i]);
    }
    return unused;
}

TEST(test_stdio)
{
    void *(*const bodies[])(void *) = {read_lines, write_lines, flush_all, flush_all, churn};
    pthread_t threads[5];

    atomic_store(&stop, false);
    assert_int_equal(pipe(pipes), 0);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, bodies[i], NULL), 0);
    fork_children();
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
}

/* ---- a handler of another library's --------------------------------------------------------- */

static pthread_mutex_t foreign = PTHREAD_MUTEX_INITIALIZER;

static void foreign_take(void)
{
    pthread_mutex_lock(&foreign);
    t_free(t_malloc(100)); /* handlers may allocate */
}

static void foreign_drop(void)
{
    t_free(t_malloc(100));
    pthread_mutex_unlock(&foreign);
}

static void *allocate_under_it(void *unused)
{
    while (!atomic_load(&stop)) {
        pthread_mutex_lock(&foreign);
        void *objects[50];
        for (unsigned i = 0; i < 50; i++)
            objects[i] = t_malloc(3000);
        for (unsigned i = 0; i < 50; i++)
            t_free(objects[i]);
        pthread_mutex_unlock(&foreign);
    }
    return unused;
}

TEST(test_a_foreign_handler)
{
    pthread_t threads[2];

    atomic_store(&stop, false);
    assert_int_equal(pthread_atfork(foreign_take, foreign_drop, foreign_drop), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_under_it, NULL), 0);
    fork_children();
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
#endif
