/* SPDX-License-Identifier: MIT */
/*
 * one.c - a program of test_one.py, which links it with -lstook, with -lstook-malloc, and with both in either order.
 * It is compiled as a program, as a plug-in (PLUG), and as a program without the library that opens plug-ins (BARE).
 *
 *   one PLUG...    fails where two allocators serve; says how often fork handlers of the library were registered, and
 *                  how many objects have it
 */
#include <stook/kmalloc.h>
#include <stook/stook.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(good)                                                                                \
    do                                                                                             \
        if (!(good)) {                                                                             \
            printf("line %d: %s\n", __LINE__, #good);                                              \
            return 1;                                                                              \
        }                                                                                          \
    while (0)

int plug_one(void);

#ifndef BARE
static int one_pair(struct stook_cache *cache)
{
    void *object = stook_alloc(cache, STOOK_ZERO), *small = malloc(8), *large = malloc(100 << 10);

    CHECK(object && small && large);
    CHECK(stook_cache_of(object) == cache);
    CHECK(stook_cache_of(small) &&
          strncmp(stook_cache_name(stook_cache_of(small)), "malloc-", 7) == 0);
    CHECK(stook_usable_size(large) >= 100 << 10);
    stook_free_any(small);
    stook_free_any(large);
    stook_free_any(object);
    stook_free_any(stook_kmalloc(100, STOOK_WAIT));
    return 0;
}

/* Objects of both, in this process and in a child. */
int plug_one(void)
{
    struct stook_cache *cache = stook_cache_create("one", 48, NULL);
    int status;
    pid_t child;

    CHECK(cache && one_pair(cache) == 0);
    child = fork();
    if (child == 0)
        _exit(one_pair(cache));
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    return stook_cache_destroy(cache);
}
#endif

#ifndef PLUG
static int forks;

/* What pthread_atfork() calls, also in libraries. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                      void *object);
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                      void *object)
{
    Dl_info info;

    forks += prepare && dladdr((void *)prepare, &info) && strstr(info.dli_fname, "libstook");
    return ((int (*)(void (*)(void), void (*)(void), void (*)(void), void *))dlsym(
        RTLD_NEXT, "__register_atfork"))(prepare, parent, child, object);
}

static int one_plug(const char *path, int flags)
{
    void *plug = dlopen(path, RTLD_NOW | flags);
    int (*use)(void) = plug ? (int (*)(void))dlsym(plug, "plug_one") : NULL;

    if (!use)
        printf("%s\n", dlerror());
    return use ? use() : 1;
}

int main(int argc, char **argv)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    int files = 0;

#ifdef BARE /* knows nothing of the library */
    int wrong = 0;
#else
    int wrong = plug_one();
#endif
    for (int i = 1; i < argc && !wrong; i++)
        wrong = one_plug(argv[i], RTLD_LOCAL) || one_plug(argv[i], RTLD_LOCAL | RTLD_DEEPBIND);
    while (maps && fgets(line, sizeof(line), maps))
        files += strstr(line, "libstook") && strstr(line, " 00000000 "); /* of a file's start */
    printf("forks %d\nobjects %d\n", forks, files);
    return wrong;
}
#endif
