/* SPDX-License-Identifier: MIT */
/* debug: no */
/* needs: native glibc */
/*
 * Modules with the fast path inlined come and go while threads run in them, and so does the library
 * itself in a program that was not linked to it.  Memory that a thread still refers to stays mapped.  A
 * module that is not pinned (rule 7 of the per-CPU protocol broken) must be seen to crash.
 */
#include "support/rseq_registration.h"
#include "support/test.h"

#include <stook/stook.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/resource.h>

enum { THREADS = 4, LOADS = 200 };

typedef unsigned long churn(struct stook_cache *, const atomic_bool *, unsigned long);

extern char **environ;

static struct stook_cache *cache;
static atomic_bool stop;
static _Atomic unsigned long operations;
static _Atomic unsigned loads, failures;
static char plug[4096], unpinned[4096], prog[4096], library[4096];

static void *load(const char *path, churn **run)
{
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    *run = module ? (churn *)(uintptr_t)dlsym(module, "plug_churn") : NULL;
    return *run ? module : NULL;
}

/* Each closes the module it has just run in, and goes on for a while. */
static void *load_run_unload(void *arg)
{
    while (!atomic_load(&stop)) {
        churn *run;
        void *module = load(plug, &run);
        unsigned long done = module ? run(cache, &stop, 20000) : 0;
        if (!module || (done == 0 && !atomic_load(&stop)))
            atomic_fetch_add(&failures, 1);
        atomic_fetch_add(&operations, done);
        if (module)
            dlclose(module);
        atomic_fetch_add(&loads, 1);
        sched_yield();
    }
    return NULL;
}

static void *run_all_along(void *arg)
{
    atomic_fetch_add(&operations, ((churn *)(uintptr_t)arg)(cache, &stop, ~0ul));
    return NULL;
}

TEST(test_module_comes_and_goes)
{
    pthread_t threads[THREADS + 1];
    churn *run;
    void *module = load(plug, &run);

    if (!module)
        fail_msg("%s", dlerror());
    assert_non_null(cache = stook_cache_create("dlopen", 96, NULL));
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&threads[THREADS], NULL, run_all_along, (void *)(uintptr_t)run),
                     0);
    for (unsigned t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, load_run_unload, NULL), 0);
    dlclose(module); /* one thread runs in it all the time */
    while (atomic_load(&loads) < LOADS)
        usleep(10000);
    atomic_store(&stop, true);
    for (unsigned t = 0; t <= THREADS; t++)
        pthread_join(threads[t], NULL);
    print_message("%s: %u loads, %lu operations\n", stook_mode(NULL), atomic_load(&loads),
                  atomic_load(&operations));
    assert_int_equal(atomic_load(&failures), 0);
    assert_true(atomic_load(&operations) > 100);
    module = dlopen(plug, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(module); /* it was pinned */
    dlclose(module);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* In a child: runs in a module, unloads it, goes on until it is switched off its CPU. */
static int unload_and_go_on(const char *path)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        for (int i = 0; i < 10; i++) {
            struct rusage from, now;
            churn *run;
            void *module = load(path, &run);
            if (!module || run(cache, &stop, 10) == 0)
                _exit(1);
            dlclose(module);
            getrusage(RUSAGE_THREAD, &from);
            do
                getrusage(RUSAGE_THREAD, &now);
            while (now.ru_nivcsw == from.ru_nivcsw);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) ? -1 : 0;
}

static void *spin(void *arg)
{
    while (!atomic_load(&stop))
        ;
    return arg;
}

TEST(test_module_without_pin)
{
    pthread_t others[2];
    cpu_set_t before, one;

    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_non_null(cache = stook_cache_create("dlopen", 96, NULL));
    atomic_store(&stop, false);
    for (unsigned t = 0; t < 2; t++) /* on the child's CPU, so that it is switched off it */
        assert_int_equal(pthread_create(&others[t], NULL, spin, NULL), 0);
    int pinned = unload_and_go_on(plug), loose = unload_and_go_on(unpinned);
    atomic_store(&stop, true);
    for (unsigned t = 0; t < 2; t++)
        pthread_join(others[t], NULL);
    sched_setaffinity(0, sizeof(before), &before);
    assert_int_equal(pinned, 0);
    assert_int_equal(loose, rseq_is_registered() ? SIGSEGV : 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

TEST(test_library_comes_and_goes)
{
    char *arguments[] = {prog, library, NULL};
    pid_t child;
    int status;

    assert_int_equal(posix_spawn(&child, prog, NULL, NULL, arguments, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const char *here = getenv("STOOK_TEST_DIR"), *build = getenv("STOOK_BUILD_DIR");

    if (!here || !build) {
        fputs("run me through ctest: STOOK_TEST_DIR, STOOK_BUILD_DIR\n", stderr);
        return 1;
    }
    snprintf(plug, sizeof(plug), "%s/plug_inline.so", here);
    snprintf(unpinned, sizeof(unpinned), "%s/plug_unpinned.so", here);
    snprintf(prog, sizeof(prog), "%s/prog_dlopen", here);
    snprintf(library, sizeof(library), "%s/lib/libstook.so", build);
    return tests_run(NULL, NULL);
}
