/* SPDX-License-Identifier: MIT */
/*
 * prog_libc_heap WHAT   uses glibc's own malloc, by libc's handle, beside the one that the process has:
 *
 *   calls     every call that takes an object takes one of glibc's, of any size
 *   threads   … of arenas of other threads, which have ended meanwhile
 *   foreign   then frees what is nobody's
 *   twice, large, inside   … frees an object of the process's malloc twice, or its inside
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "surroundings/figures.h"

#pragma GCC diagnostic ignored "-Wuse-after-free"
#pragma GCC diagnostic ignored "-Wfree-nonheap-object"

enum { THREADS = 4, OBJECTS = 2000 };

static void *(*libc_malloc)(size_t);
static void *(*libc_memalign)(size_t, size_t);

/* Names that this glibc does not have, and the malloc of the process may. */
extern void free_sized(void *, size_t) __attribute__((weak));
extern void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));
extern void delete_plain(void *) __asm__("_ZdlPv") __attribute__((weak));
extern void delete_array(void *) __asm__("_ZdaPv") __attribute__((weak));
extern void delete_sized(void *, size_t) __asm__("_ZdlPvm") __attribute__((weak));
extern void old_free(void *) __asm__("cfree") __attribute__((weak));

/* The compiler does not know what is freed. */
static void put(void *pointer)
{
    __asm__ volatile("" : "+r"(pointer));
    free(pointer);
}

static char *get(size_t size)
{
    char *p = libc_malloc(size);

    memset(p, (int)(size % 251), size);
    return p;
}

static void holds(const char *p, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)p[i] != size % 251)
            give_up("%zu bytes: byte %zu is lost\n", size, i);
}

static void calls_of(size_t size)
{
    char *p = get(size);

    if (malloc_usable_size(p) < size)
        give_up("%zu bytes: %zu are usable\n", size, malloc_usable_size(p));
    holds(p = realloc(p, 3 * size + 100), size);
    holds(p = reallocarray(p, size, 7), size);
    p = realloc(p, size / 2 + 1);
    if (realloc(p, 0) != NULL)
        give_up("realloc to 0 bytes\n");
    put(libc_memalign(4096, size));
    if (free_sized)
        free_sized(get(size), size);
    if (free_aligned_sized)
        free_aligned_sized(libc_memalign(64, size), 64, size);
    if (delete_plain)
        delete_plain(get(size));
    if (delete_array)
        delete_array(get(size));
    if (delete_sized)
        delete_sized(get(size), size);
    if (old_free)
        old_free(get(size));
    put(get(size));
}

static void *object[THREADS][OBJECTS];

static void *exchange(void *number)
{
    unsigned own = (unsigned)(uintptr_t)number;

    for (int i = 0; i < OBJECTS; i++) {
        object[own][i] = get((size_t)i * 37 % 5000 + 1);
        put(get((size_t)i % 500 + 1));
    }
    return NULL;
}

static void *put_all(void *number)
{
    unsigned of = ((unsigned)(uintptr_t)number + 1) % THREADS;

    for (int i = 0; i < OBJECTS; i++)
        put(i % 2 ? object[of][i] : realloc(object[of][i], 7000));
    return NULL;
}

static void threads(void *(*run)(void *))
{
    pthread_t thread[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, run, (void *)i) != 0)
            give_up("no thread\n");
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
    static char unowned[64] __attribute__((aligned(16)));
    const char *what = argc > 1 ? argv[1] : "";
    void *libc = dlopen("libc.so.6", RTLD_NOW), *p;

    libc_malloc = (void *(*)(size_t))(uintptr_t)dlsym(libc, "malloc");
    libc_memalign = (void *(*)(size_t, size_t))(uintptr_t)dlsym(libc, "memalign");
    p = get(100);
    if (strcmp(what, "calls") == 0) {
        for (size_t size = 1; size < 4 << 20; size = size * 3 + 1)
            calls_of(size);
    } else if (strcmp(what, "threads") == 0) {
        threads(exchange);
        threads(put_all);
    } else if (strcmp(what, "foreign") == 0) {
        put(unowned + 16);
    } else if (strcmp(what, "twice") == 0 || strcmp(what, "large") == 0) {
        void *own = malloc(what[0] == 't' ? 200 : 200000);
        put(own);
        put(own);
    } else if (strcmp(what, "inside") == 0) {
        put((char *)malloc(1000) + 16);
    }
    put(p);
    say("done\n");
    return 0;
}
