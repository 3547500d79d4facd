/* SPDX-License-Identifier: MIT */
/* link: malloc */
/* needs: malloc native */
/* timeout: 120 */
/*
 * 64 threads on whatever CPUs there are, 16 bytes to 4 MiB, objects freed by others than made
 * them, contents checked; then the same while the process forks over and over.
 * STOOK_STRESS_SECONDS makes each part longer.
 */
#include "support/malloc_crowd.h"
#include "support/test.h"

enum { THREADS = 64 };

static unsigned part_milliseconds(void)
{
    const char *text = getenv("STOOK_STRESS_SECONDS");

    return text ? (unsigned)atoi(text) * 1000 : 2000;
}

static void crowd_start(struct crowd *crowd, pthread_t *thread)
{
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, crowd_member, crowd), 0);
}

static void crowd_join(struct crowd *crowd, pthread_t *thread)
{
    atomic_store(&crowd->stop, 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    crowd_end(crowd);
}

TEST(test_threads)
{
    static struct crowd crowd = {.largest = 4 << 20};
    pthread_t thread[THREADS];
    size_t large = t_mallinfo2().hblks;

    crowd_start(&crowd, thread);
    crowd_sleep(part_milliseconds());
    crowd_join(&crowd, thread);
    assert_true(atomic_load(&crowd.steps) >= (uint64_t)THREADS * CROWD_LEAST);
    assert_int_equal(t_mallinfo2().hblks, large);
}

/* A child of the crowd: everything it inherits that was shared is whole, and malloc works. */
static void child(struct crowd *crowd)
{
    uint64_t random = (uint64_t)getpid() << 20 | 1;
    struct crowd_object *object[200];

    alarm(240);
    for (int i = 0; i < 200; i++)
        object[i] = crowd_make(crowd, &random);
    for (int i = 0; i < 200; i++)
        crowd_drop(object[i]);
    CHECK(t_malloc_trim(0) >= 0);
    _exit(0);
}

TEST(test_forks_of_a_crowd)
{
    static struct crowd crowd = {.largest = 300000};
    pthread_t thread[THREADS];
    struct timespec start, now;
    int forks = 0, status;

    crowd_start(&crowd, thread);
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        pid_t pid = fork();
        if (pid == 0)
            child(&crowd);
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        forks++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 <
             (long)part_milliseconds());
    crowd_join(&crowd, thread);
    assert_true(forks >= 1); /* few where the machine is busy with much else */
}
