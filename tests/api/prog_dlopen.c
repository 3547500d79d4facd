/* SPDX-License-Identifier: MIT */
/*
 * A program that knows nothing of Stook loads libstook.so (argv[1]), uses it, unloads it, and
 * continues, many times.  Memory of the library that its threads still refer to must stay mapped.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct stook_cache;

static const char *library;

static void go_on(long milliseconds)
{
    struct timespec from, now;

    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 <
           milliseconds);
}

static void *load_use_unload(void *arg)
{
    for (int i = 0; i < 20; i++) {
        void *stook = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        if (!stook) {
            fprintf(stderr, "%s\n", dlerror());
            exit(1);
        }
        struct stook_cache *(*create)(const char *, size_t, const void *) =
            (struct stook_cache * (*)(const char *, size_t, const void *))
                dlsym(stook, "stook_cache_create");
        void *(*alloc)(struct stook_cache *, unsigned) =
            (void *(*)(struct stook_cache *, unsigned))dlsym(stook, "stook_alloc");
        void (*release)(struct stook_cache *, void *) =
            (void (*)(struct stook_cache *, void *))dlsym(stook, "stook_free");
        int (*destroy)(struct stook_cache *) =
            (int (*)(struct stook_cache *))dlsym(stook, "stook_cache_destroy");
        if (!create || !alloc || !release || !destroy)
            exit(2);
        struct stook_cache *cache = create("dlopen", 64, NULL);
        void *object[100];
        for (int k = 0; k < 100; k++)
            if (!cache || !(object[k] = alloc(cache, 0)))
                exit(3);
        for (int k = 0; k < 100; k++)
            release(cache, object[k]);
        if (destroy(cache) != 0)
            exit(4);
        dlclose(stook);
        go_on(8);
    }
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t threads[3];

    if (argc != 2)
        return 5;
    library = argv[1];
    for (int t = 0; t < 3; t++)
        if (pthread_create(&threads[t], NULL, load_use_unload, NULL) != 0)
            return 6;
    load_use_unload(NULL);
    for (int t = 0; t < 3; t++)
        pthread_join(threads[t], NULL);
    return 0;
}
