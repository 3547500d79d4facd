/* SPDX-License-Identifier: MIT */
/*
 *   prog_limits exercise                 the malloc family, threads and a child; limits came from outside
 *   prog_limits later LIMIT BYTES        the same, after setting the limit on itself
 *   prog_limits fill SIZE                objects until malloc refuses, and again when all are freed
 *   prog_limits fill-later LIMIT BYTES SIZE
 *   prog_limits fill-between SIZE LARGER   as fill, with objects of another size between the two
 *   prog_limits scatter SIZE             objects until malloc refuses, of which every second is freed for a large one
 *   prog_limits space BYTES LIBRARY      after RLIMIT_AS was set: threads, mmap, dlopen; then filled
 */
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "surroundings/exercise.h"

enum { FILL_MAX = 1 << 20, THREADS = 8 };

static void *fill_object[FILL_MAX];

static unsigned fill(size_t size)
{
    unsigned n = 0;

    while (n < FILL_MAX && (fill_object[n] = malloc(size)))
        n++;
    if (n < FILL_MAX && errno != ENOMEM)
        give_up("malloc refuses with errno %d", errno);
    for (unsigned i = 0; i < n; i++)
        free(fill_object[i]);
    return n;
}

static void fill_twice(size_t size)
{
    unsigned first = fill(size);

    say("first %u\n", first);
    say("again %u\n", fill(size));
}

static void fill_between(size_t size, size_t larger)
{
    unsigned first = fill(size);

    say("first %u\n", first);
    say("between %u\n", fill(larger));
    say("again %u\n", fill(size));
}

/* Half of the objects are freed, and then one as large as nearly all of these. */
static void scatter(size_t size)
{
    unsigned n = 0;

    while (n < FILL_MAX && (fill_object[n] = malloc(size)))
        n++;
    for (unsigned i = 0; i < n; i += 2)
        free(fill_object[i]);
    say("first %u\n", n);
    if (!(fill_object[0] = malloc((n / 2 - 1) * size)))
        give_up(
            "%u of %zu bytes were freed, and no object as large as all of them can be allocated",
            n / 2, size);
}

static void limit(const char *name, const char *bytes)
{
    static const struct {
        const char *name;
        int number;
    } limits[] = {
        {"AS", RLIMIT_AS},           {"DATA", RLIMIT_DATA},     {"FSIZE", RLIMIT_FSIZE},
        {"MEMLOCK", RLIMIT_MEMLOCK}, {"NOFILE", RLIMIT_NOFILE},
    };
    rlim_t value = strtoul(bytes, NULL, 10);

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (strcmp(limits[i].name, name) == 0 &&
            setrlimit((__rlimit_resource_t)limits[i].number, &(struct rlimit){value, value}) == 0)
            return;
    give_up("RLIMIT_%s cannot be %s", name, bytes);
}

static void *thread_main(void *context)
{
    for (int i = 0; i < 1000; i++) {
        *(volatile char *)memset(malloc(100), 1, 100);
        free(malloc(200000));
    }
    return context;
}

static void space(const char *library)
{
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, thread_main, NULL))
            give_up("thread %d cannot be made", i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    void *map = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        give_up("64 MiB cannot be mapped");
    munmap(map, 64 << 20);
    if (!dlopen(library, RTLD_NOW))
        give_up("%s", dlerror());
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    free(malloc(100));
    if (strcmp(what, "exercise") == 0) {
        exercise_all();
    } else if (strcmp(what, "later") == 0 && argc > 3) {
        limit(argv[2], argv[3]);
        exercise_all();
    } else if (strcmp(what, "fill") == 0 && argc > 2) {
        fill_twice(strtoul(argv[2], NULL, 10));
    } else if (strcmp(what, "fill-later") == 0 && argc > 4) {
        limit(argv[2], argv[3]);
        fill_twice(strtoul(argv[4], NULL, 10));
    } else if (strcmp(what, "fill-between") == 0 && argc > 3) {
        fill_between(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
    } else if (strcmp(what, "scatter") == 0 && argc > 2) {
        scatter(strtoul(argv[2], NULL, 10));
    } else if (strcmp(what, "space") == 0 && argc > 3) {
        limit("AS", argv[2]);
        space(argv[3]);
        fill_twice(1 << 20);
        space(argv[3]);
    } else {
        give_up("prog_limits: what?");
    }
    say("done 1\n");
    return 0;
}
