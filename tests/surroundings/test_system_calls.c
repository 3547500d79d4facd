/* SPDX-License-Identifier: MIT */
/* link: malloc */
/* needs: malloc native */
/*
 * Which system calls malloc makes once the process runs: those that glibc's makes, and no others.  A
 * filter kills the process at any other one, in every situation that once asked the kernel for more:
 * CPUs that were left, memory that is refused, a limit, threads, sheaves on other CPUs.
 *
 * Then a filter that refuses with an error what the library's own calls ask for: all goes on.
 */
#include "support/malloc_calls.h"
#include "support/test.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* The sanitizers make calls of their own. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

enum { OBJECTS = 4000, ROUNDS = 60, THREADS = 3 };
enum { DONE = 0, NO_FILTER = 77, WRONG = 1 };

#define ALLOW(name)                                                                                \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                                         \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static bool enter_sandbox(unsigned otherwise)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        /* glibc's malloc */
        ALLOW(mmap),
        ALLOW(munmap),
        ALLOW(mremap),
        ALLOW(mprotect),
        ALLOW(madvise),
        ALLOW(brk),
        ALLOW(futex),
        /* the test itself */
        ALLOW(write),
        ALLOW(exit),
        ALLOW(exit_group),
        BPF_STMT(BPF_RET | BPF_K, otherwise),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

static bool churn(void **objects, unsigned rounds)
{
    static const size_t sizes[] = {16, 64, 512, 3000, 20000, 100000, 3000000};

    for (unsigned round = 0; round < rounds; round++)
        for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            unsigned n = sizes[s] > 1000000 ? 4 : sizes[s] > 10000 ? 100 : OBJECTS;
            for (unsigned i = 0; i < n; i++)
                if (!(objects[i] = round % 2 ? t_malloc(sizes[s]) : t_calloc(1, sizes[s])))
                    return false;
            for (unsigned i = 0; i < n; i += 7)
                if (!(objects[i] = t_realloc(objects[i], sizes[s] * (1 + i % 5) / 2)))
                    return false;
            for (unsigned i = 0; i < n; i++)
                t_free(objects[i]);
        }
    return true;
}

static void pin(unsigned wanted)
{
    cpu_set_t all, one;
    unsigned seen = 0;

    if (sched_getaffinity(0, sizeof(all), &all) != 0)
        return;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && (CPU_COUNT(&one) == 0 || seen <= wanted)) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            seen++;
        }
    (void)sched_setaffinity(0, sizeof(one), &one);
}

/* ---- the situations, in a process of their own ---------------------------------------------- */

static void *shared_objects[OBJECTS];

static int alone(void)
{
    (void)churn(shared_objects, 2);
    if (!enter_sandbox(SECCOMP_RET_KILL_PROCESS))
        return NO_FILTER;
    return churn(shared_objects, ROUNDS) ? DONE : WRONG;
}

/* The CPU that it allocated on is left to others. */
static int left_cpu(void)
{
    pin(0);
    (void)churn(shared_objects, 2);
    pin(1);
    if (!enter_sandbox(SECCOMP_RET_KILL_PROCESS))
        return NO_FILTER;
    return churn(shared_objects, ROUNDS) ? DONE : WRONG;
}

static atomic_bool go, wrong;
static atomic_uint ready;

static void *thread_churn(void *number)
{
    void **objects = t_malloc(OBJECTS * sizeof(void *));

    pin((unsigned)(uintptr_t)number);
    atomic_fetch_add(&ready, 1);
    while (!atomic_load(&go))
        ;
    if (!objects || !churn(objects, ROUNDS / 4))
        atomic_store(&wrong, true);
    t_free(objects);
    syscall(SYS_exit, 0); /* pthread_exit asks the kernel for more */
    return NULL;
}

static int threads(void)
{
    pthread_t thread[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, thread_churn, (void *)(uintptr_t)i) != 0)
            return WRONG;
    while (atomic_load(&ready) < THREADS)
        usleep(1000);
    if (!enter_sandbox(SECCOMP_RET_KILL_PROCESS))
        return NO_FILTER;
    atomic_store(&go, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    return atomic_load(&wrong) ? WRONG : DONE;
}

/* Until ENOMEM, twice, with sheaves on another CPU. */
static int refused(void)
{
    struct rlimit limit = {(rlim_t)256 << 20, (rlim_t)256 << 20};
    static void *held[100000];

    pin(0);
    (void)churn(shared_objects, 2);
    pin(1);
    if (setrlimit(RLIMIT_DATA, &limit) != 0 || !enter_sandbox(SECCOMP_RET_KILL_PROCESS))
        return NO_FILTER;
    for (unsigned round = 0; round < 2; round++) {
        unsigned n = 0;
        while (n < 100000 && (held[n] = t_malloc(3000 + n % 60000)) != NULL)
            n++;
        if (n == 100000 || errno != ENOMEM)
            return WRONG;
        while (n > 0)
            t_free(held[--n]);
    }
    return churn(shared_objects, 2) ? DONE : WRONG;
}

/* STOOK_LIMIT is at hand: each CPU has bytes of it in stock. */
static int limited(void)
{
    static void *held[100000];

    for (unsigned cpu = 0; cpu < 2; cpu++) {
        pin(cpu);
        (void)churn(shared_objects, 2);
    }
    if (!enter_sandbox(SECCOMP_RET_KILL_PROCESS))
        return NO_FILTER;
    for (unsigned round = 0; round < 3; round++) {
        unsigned n = 0;
        while (n < 100000 && (held[n] = t_malloc(1000 + n % 3000)) != NULL)
            n++;
        if (n == 100000 || errno != ENOMEM)
            return WRONG;
        while (n > 0)
            t_free(held[--n]);
    }
    return DONE;
}

/* Other caches grow and fall: malloc has nothing to do with it. */
static int adaptive(void)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ADAPTIVE};
    struct stook_cache *cache = stook_cache_create("adaptive", 256, &args);
    static void *held[12000];

    for (unsigned round = 0; cache && round < 20; round++) {
        for (unsigned i = 0; i < 12000; i++)
            held[i] = stook_alloc(cache, 0);
        for (unsigned i = 0; i < 12000; i++)
            stook_free(cache, held[i]);
    }
    if (!cache || !enter_sandbox(SECCOMP_RET_KILL_PROCESS))
        return cache ? NO_FILTER : WRONG;
    return churn(shared_objects, ROUNDS) ? DONE : WRONG;
}

/* Everything that the library's own calls ask for is refused. */
static int errors(void)
{
    struct stook_cache *cache = stook_cache_create("errors", 200, NULL);
    static void *held[OBJECTS];

    pin(0);
    (void)churn(shared_objects, 2);
    pin(1);
    if (!enter_sandbox(SECCOMP_RET_ERRNO | EPERM))
        return NO_FILTER;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < OBJECTS; i++)
            if (!(held[i] = stook_alloc(cache, 0)))
                return WRONG;
        for (unsigned i = 0; i < OBJECTS; i++)
            stook_free(cache, held[i]);
        (void)stook_cache_shrink(cache);
        (void)t_malloc_trim(0);
        (void)stook_topology_update(NULL);
    }
    return churn(shared_objects, 4) ? DONE : WRONG;
}

static const struct situation {
    const char *name;
    int (*body)(void);
    const char *limit;
} situations[] = {
    {"alone", alone, NULL},       {"left_cpu", left_cpu, NULL}, {"threads", threads, NULL},
    {"refused", refused, NULL},   {"limited", limited, "96M"},  {"all_of_it", alone, "2G"},
    {"adaptive", adaptive, NULL}, {"errors", errors, NULL},
};

static const char *self;

static void test_situation(void **state)
{
    const struct situation *situation = *state;
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        if (situation->limit)
            setenv("STOOK_LIMIT", situation->limit, 1);
        execl(self, self, situation->name, NULL);
        _exit(WRONG);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_FILTER)
        skip();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != DONE)
        fail_msg("%s: status %#x", situation->name, (unsigned)status);
}

int main(int argc, char **argv)
{
    enum { COUNT = sizeof(situations) / sizeof(situations[0]) };
    struct CMUnitTest tests[COUNT];

    for (unsigned i = 0; i < COUNT; i++) {
        if (argc > 1 && strcmp(argv[1], situations[i].name) == 0)
            _exit(situations[i].body());
        tests[i] = (struct CMUnitTest){.name = situations[i].name,
                                       .test_func = test_situation,
                                       .initial_state = (void *)(uintptr_t)&situations[i]};
    }
    self = argv[0];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
