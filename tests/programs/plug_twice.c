/* SPDX-License-Identifier: MIT */
/* link: none */
/*
 * A malloc to preload that is worse by a known amount.  What it does is in its file's name (test_compare.py copies it): with
 * "memory" it takes and touches twice the bytes, with "cpu" the process uses its CPU time a second time before it ends.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void *__libc_malloc(size_t size);

static int is_named(const char *what)
{
    Dl_info info;

    return dladdr((void *)(size_t)is_named, &info) != 0 && strstr(info.dli_fname, what) != NULL;
}

void *malloc(size_t size)
{
    static int twice = -1;
    char *memory;

    if (size < 4096)
        return __libc_malloc(size);
    if (twice < 0)
        twice = is_named("memory");
    memory = __libc_malloc(twice ? 2 * size : size);
    if (memory && twice)
        memset(memory + size, 1, size);
    return memory;
}

static double used(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

__attribute__((destructor)) static void use_again(void)
{
    double end = 2 * used();

    while (is_named("cpu") && used() < end)
        continue;
}
