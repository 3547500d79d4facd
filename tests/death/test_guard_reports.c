/* SPDX-License-Identifier: MIT */
/* link: malloc-static */
/* needs: malloc native */
/*
 * What is said of a sampled object (guard/) before the process ends, against golden/guard_NAME: a pattern of
 * fnmatch(3).  Every allocation that is not cached is sampled here.  STOOK_TEST_UPDATE=1 prints what is said.
 */
#include "guard/guard_fault.h"
#include "support/child.h"
#include "support/environment.h"
#include "support/golden.h"
#include "support/malloc_calls.h"
#include "support/test.h"

#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { RIGHT, LEFT, EITHER };

static volatile char sink;

/* A guarded object at that end of its page; others on the way stay. */
static volatile char *take(size_t size, int end)
{
    for (int i = 0; i < 1000; i++) {
        char *object = t_malloc(size);
        if (guard_covers(object) && (end == EITHER || ((uintptr_t)object % 4096 == 0) == end))
            return object;
        if (guard_covers(object))
            t_free(object);
    }
    _exit(8);
}

static void overflow_write(void)
{
    take(48, RIGHT)[48] = 1;
}

static void overflow_read(void)
{
    sink = take(32, RIGHT)[40];
}

static void overflow_far(void)
{
    take(48, LEFT)[4096 + 100] = 1;
}

static void underflow_write(void)
{
    take(48, LEFT)[-1] = 1;
}

static void freed_read(void)
{
    volatile char *p = take(100, EITHER);

    t_free((char *)p);
    sink = p[99];
}

static void freed_write(void)
{
    volatile char *p = take(100, EITHER);

    t_free((char *)p);
    p[3] = 1;
}

static void *free_it(void *p)
{
    t_free(p);
    return NULL;
}

static void freed_by_another(void)
{
    volatile char *p = take(100, EITHER);
    pthread_t thread;

    pthread_create(&thread, NULL, free_it, (char *)p);
    pthread_join(thread, NULL);
    p[3] = 1;
}

static void freed_twice(void)
{
    char *p = (char *)take(100, EITHER);

    t_free(p);
    t_free(p);
}

static void inside(void)
{
    t_free((char *)take(100, EITHER) + 16);
}

static void between(void)
{
    t_free((char *)take(100, LEFT) - 100);
}

static void slack_behind(void)
{
    volatile char *p = take(41, RIGHT);

    for (int i = 0; i < 3; i++)
        p[41 + i] = 1;
    t_free((char *)p);
}

static void far_behind(void)
{
    volatile char *p = take(41, LEFT);

    p[60] = 1;
    t_free((char *)p);
}

static void slack_before(void)
{
    volatile char *p = take(48, RIGHT);

    p[-8] = 1;
    t_free((char *)p);
}

static void realloc_freed(void)
{
    char *p = (char *)take(100, EITHER);

    t_free(p);
    t_realloc(p, 1000);
}

static void size_of_freed(void)
{
    char *p = (char *)take(100, EITHER);

    t_free(p);
    t_malloc_usable_size(p);
}

static void operator_array(void)
{
    volatile char *p = t_calloc(3, 16);

    while (!guard_covers((char *)p) || (uintptr_t)p % 4096 == 0)
        p = t_calloc(3, 16);
    p[48] = 1;
}

static void aligned(void)
{
    volatile char *p = t_aligned_alloc(256, 256);

    while (!guard_covers((char *)p) || (uintptr_t)p % 4096 == 0)
        p = t_aligned_alloc(256, 256);
    p[256] = 1;
}

#define DEATH(name, signal)                                                                        \
    {                                                                                              \
#name, name, signal                                                                        \
    }

static const struct death {
    const char *name;
    void (*call)(void);
    int signal;
} deaths[] = {
    DEATH(overflow_write, SIGSEGV),   DEATH(overflow_read, SIGSEGV), DEATH(overflow_far, SIGSEGV),
    DEATH(underflow_write, SIGSEGV),  DEATH(freed_read, SIGSEGV),    DEATH(freed_write, SIGSEGV),
    DEATH(freed_by_another, SIGSEGV), DEATH(freed_twice, SIGABRT),   DEATH(inside, SIGABRT),
    DEATH(between, SIGABRT),          DEATH(slack_behind, SIGABRT),  DEATH(far_behind, SIGABRT),
    DEATH(slack_before, SIGABRT),     DEATH(realloc_freed, SIGABRT), DEATH(size_of_freed, SIGABRT),
    DEATH(operator_array, SIGSEGV),   DEATH(aligned, SIGSEGV),
};

static int run(void *arg)
{
    const struct death *death = arg;

    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (!guard_catch()) /* child_run() took cmocka's handlers away, and ours with them */
        return 1;
    death->call();
    return 0;
}

TEST(reports)
{
    unsigned failed = 0;

    for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++) {
        struct child child;
        char golden[4096];
        child_run(&child, run, (void *)(uintptr_t)&deaths[i]);
        if (getenv("STOOK_TEST_UPDATE")) {
            printf("== %s\n%s", deaths[i].name, child.error);
            continue;
        }
        golden_read("guard_", deaths[i].name, golden, sizeof(golden));
        if (!WIFSIGNALED(child.status) || WTERMSIG(child.status) != deaths[i].signal ||
            fnmatch(golden, child.error, 0) != 0) {
            printf("%s: status %#x\nwanted: %sgot:    %s", deaths[i].name, (unsigned)child.status,
                   golden, child.error);
            failed++;
        }
    }
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    environment_need("STOOK_GUARD", "1", argv);
    calls_make_classes();
    return tests_run(NULL, NULL);
}
