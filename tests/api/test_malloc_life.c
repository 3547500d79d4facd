/* SPDX-License-Identifier: MIT */
/* link: malloc */
/* needs: malloc */
/*
 * malloc at the edges of a process's and a thread's life: constructors, thread-specific data's
 * destructors, atexit handlers, fork handlers of others that allocate, signal handlers.
 */
#include "support/malloc_crowd.h"
#include "support/scale.h"
#include "support/test.h"

#include <signal.h>
#include <sys/time.h>

static void *early;

static __attribute__((constructor)) void before_main(void)
{
    early = MALLOC_NAME(malloc)(12345);
    calls_fill(early, 0, 12345, 3);
}

TEST(test_a_constructor_allocated)
{
    assert_non_null(early);
    assert_true(calls_holds(early, 12345, 3));
    t_free(early);
}

/* ---- a thread's end ---- */

static pthread_key_t key;
static _Atomic int destructed;

static void destruct(void *value)
{
    void *p[50];

    CHECK(calls_holds(value, 1000, 4));
    t_free(value);
    for (int i = 0; i < 50; i++)
        p[i] = t_calloc(1, (size_t)i * 1000);
    for (int i = 0; i < 50; i++)
        t_free(p[i]);
    if (atomic_fetch_add(&destructed, 1) % 3 != 2) { /* comes back a second and a third time */
        void *again = t_malloc(1000);
        calls_fill(again, 0, 1000, 4);
        pthread_setspecific(key, again);
    }
}

static void *short_life(void *arg)
{
    void *value = t_malloc(1000);

    calls_fill(value, 0, 1000, 4);
    CHECK(pthread_setspecific(key, value) == 0);
    return arg;
}

TEST(test_thread_specific_destructors)
{
    assert_int_equal(pthread_key_create(&key, destruct), 0);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, short_life, NULL), 0);
        pthread_join(thread, NULL);
    }
    assert_int_equal(atomic_load(&destructed), 60);
}

/* ---- the process's end ---- */

static void *late;

static void at_exit(void)
{
    void *p = t_malloc(100000);

    CHECK(calls_holds(late, 5000, 5));
    t_free(late);
    p = t_realloc(p, 3000000);
    CHECK(p);
    t_free(p);
    CHECK(write(STDOUT_FILENO, "", 0) == 0);
}

TEST(test_exit_handlers)
{
    int status;
    pid_t pid;

    late = t_malloc(5000);
    calls_fill(late, 0, 5000, 5);
    pid = fork();
    if (pid == 0) {
        alarm(240);
        CHECK(atexit(at_exit) == 0);
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    t_free(late);
}

/* ---- fork handlers of others ---- */

static void *across[3];
static int handlers_run, handlers_on;

static void handler_work(void)
{
    static const size_t sizes[3] = {100, 60000, 5 << 20};

    if (!handlers_on)
        return;
    handlers_run++;
    for (int i = 0; i < 3; i++) {
        void *p = t_malloc(sizes[i]);
        CHECK(p);
        memset(p, 7, sizes[i] < 4096 ? sizes[i] : 4096);
        t_free(across[i]);
        across[i] = t_realloc(p, sizes[i] + sizes[i] / 2);
        CHECK(across[i]);
    }
    for (int i = 0; i < 300; i++) { /* more than sheaves hold */
        void *p = t_calloc(1, 2000 + (size_t)i);
        CHECK(p);
        t_free(p);
    }
}

static __attribute__((constructor(101))) void register_early(void)
{
    pthread_atfork(handler_work, handler_work, handler_work);
}

TEST(test_fork_handlers_may_allocate)
{
    static struct crowd crowd = {.largest = 100000};
    pthread_t thread[8];
    int status;

    pthread_atfork(handler_work, handler_work, handler_work);
    for (int i = 0; i < 8; i++)
        pthread_create(&thread[i], NULL, crowd_member, &crowd);
    handlers_on = 1;
    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(240);
            handlers_on = 0;
            for (int k = 0; k < 3; k++)
                t_free(across[k]);
            _exit(handlers_run == 4 ? 0 : 1); /* two in prepare, two in the child */
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(handlers_run, 4);
        handlers_run = 0;
    }
    handlers_on = 0;
    atomic_store(&crowd.stop, 1);
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    crowd_end(&crowd);
}

/* ---- signals ---- */

static _Atomic int ticks, served;
static _Atomic(void *) box[64]; /* what the thread allocates and handlers free, and back */

static void on_tick(int signal)
{
    int saved = errno;
    int i = atomic_fetch_add(&ticks, 1);
    void *p = atomic_exchange(&box[i % 64], NULL);

    t_free(p);
    p = t_malloc((size_t)(i % 5) * 20000 + 40);
    if (p) { /* NULL is an answer where it interrupted malloc itself */
        served++;
        *(volatile char *)p = 1;
        t_free(p);
    }
    errno = saved;
}

TEST(test_signal_handlers)
{
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    struct mallinfo2 before, after;
    uint64_t random = 99;

    t_malloc_trim(0);
    before = t_mallinfo2();
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    /* As many ticks as the machine has time for, but some. */
    for (uint64_t i = 0;
         i < scaled(100000) || atomic_load(&ticks) < 200 || atomic_load(&served) == 0; i++) {
        uint64_t r = crowd_random(&random);
        size_t size = r % 16 == 0 ? (r >> 8) % 300000 : (r >> 8) % 3000;
        void *p = t_malloc(size);
        assert_non_null(p);
        if ((r >> 40) % 4 == 0)
            p = t_realloc(p, size + 5000);
        t_free(atomic_exchange(&box[(r >> 20) % 64], p));
    }
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 0; i < 64; i++)
        t_free(atomic_exchange(&box[i], NULL));
    after = t_mallinfo2();
    /* Nothing is lost: the work that handlers deferred was done. */
    assert_int_equal(after.hblks, before.hblks);
    assert_true(after.uordblks <= before.uordblks + 4096);
}
