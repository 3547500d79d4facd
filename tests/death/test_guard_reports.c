/* SPDX-License-Identifier: MIT */
/* link: malloc-static */
/* needs: malloc native */
/*
 * What is said of a sampled object (guard/) before the process ends, against golden/guard_NAME: a pattern of
 * fnmatch(3).  Every allocation that is not cached is sampled here.  STOOK_TEST_UPDATE=1 prints what is said.
 */
#define GOLDEN_PREFIX "guard_"
#include "guard/guard_fault.h"
#include "support/environment.h"
#include "support/golden.h"
#include "support/malloc_calls.h"
#include "support/test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

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

DEATH(overflow_write, SIGSEGV)
{
    take(48, RIGHT)[48] = 1;
}

DEATH(overflow_read, SIGSEGV)
{
    sink = take(32, RIGHT)[40];
}

DEATH(overflow_far, SIGSEGV)
{
    take(48, LEFT)[4096 + 100] = 1;
}

DEATH(underflow_write, SIGSEGV)
{
    take(48, LEFT)[-1] = 1;
}

DEATH(freed_read, SIGSEGV)
{
    volatile char *p = take(100, EITHER);

    t_free((char *)p);
    sink = p[99];
}

DEATH(freed_write, SIGSEGV)
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

DEATH(freed_by_another, SIGSEGV)
{
    volatile char *p = take(100, EITHER);
    pthread_t thread;

    pthread_create(&thread, NULL, free_it, (char *)p);
    pthread_join(thread, NULL);
    p[3] = 1;
}

DEATH(freed_twice, SIGABRT)
{
    char *p = (char *)take(100, EITHER);

    t_free(p);
    t_free(p);
}

DEATH(inside, SIGABRT)
{
    t_free((char *)take(100, EITHER) + 16);
}

DEATH(between, SIGABRT)
{
    t_free((char *)take(100, LEFT) - 100);
}

DEATH(slack_behind, SIGABRT)
{
    volatile char *p = take(41, RIGHT);

    for (int i = 0; i < 3; i++)
        p[41 + i] = 1;
    t_free((char *)p);
}

DEATH(far_behind, SIGABRT)
{
    volatile char *p = take(41, LEFT);

    p[60] = 1;
    t_free((char *)p);
}

DEATH(slack_before, SIGABRT)
{
    volatile char *p = take(48, RIGHT);

    p[-8] = 1;
    t_free((char *)p);
}

DEATH(realloc_freed, SIGABRT)
{
    char *p = (char *)take(100, EITHER);

    t_free(p);
    t_realloc(p, 1000);
}

DEATH(size_of_freed, SIGABRT)
{
    char *p = (char *)take(100, EITHER);

    t_free(p);
    t_malloc_usable_size(p);
}

DEATH(operator_array, SIGSEGV)
{
    volatile char *p = t_calloc(3, 16);

    while (!guard_covers((char *)p) || (uintptr_t)p % 4096 == 0)
        p = t_calloc(3, 16);
    p[48] = 1;
}

DEATH(aligned, SIGSEGV)
{
    volatile char *p = t_aligned_alloc(256, 256);

    while (!guard_covers((char *)p) || (uintptr_t)p % 4096 == 0)
        p = t_aligned_alloc(256, 256);
    p[256] = 1;
}

/* AddressSanitizer gives the first thread an alternate stack.  A handler that runs there knows one frame of the stack that it
 * interrupted, and the reports below have them all. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "use_sigaltstack=0";
}

static void begin(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (!guard_catch()) /* child_run() took cmocka's handlers away, and ours with them */
        _exit(9);
}

int main(int argc, char **argv)
{
    environment_need("STOOK_GUARD", "1", argv);
    calls_make_classes();
    golden_before = begin;
    return tests_run(NULL, NULL);
}
