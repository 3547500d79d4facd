/* SPDX-License-Identifier: MIT */
/*
 * prog_deepbind WHAT PLUG    opens a plug-in of test_deepbind.py with RTLD_DEEPBIND:
 *
 *   frees        each side frees and resizes what the other one allocated
 *   gives        the plug-in allocates alone
 *   inner        the plug-in opens libraries that its RUNPATH and $ORIGIN alone find
 *   threads      the same from threads whose calls are the process's first
 *   errors       dlopen(NULL), RTLD_NOLOAD, dlerror()
 *   spaces       whose malloc a plug-in has in the base namespace, and in another one
 *   wins PLUG2   which of two symbols of one name a plug-in gets
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "surroundings/figures.h"

enum { THREADS = 8 };

static const char *plug_path;
static const int flags = RTLD_NOW | RTLD_DEEPBIND;
static pthread_barrier_t barrier;

static void *open_or_give_up(const char *path, int mode)
{
    void *plug = dlopen(path, mode);

    if (!plug)
        give_up("%s\n", dlerror());
    return plug;
}

static uintptr_t call_of(void *plug, const char *name)
{
    void *call = dlsym(plug, name);

    if (!call)
        give_up("%s\n", dlerror());
    return (uintptr_t)call;
}

static void frees(bool both)
{
    void *plug = open_or_give_up(plug_path, flags);
    void *(*get)(size_t) = (void *(*)(size_t))call_of(plug, "plug_get");
    char *(*copy)(const char *) = (char *(*)(const char *))call_of(plug, "plug_copy");
    void (*put)(void *) = (void (*)(void *))call_of(plug, "plug_put");

    for (size_t i = 0; i < 3000; i++) {
        char *p = get(100);
        strcpy(p, "kept");
        p = realloc(p, 200 + 100 * i);
        if (strcmp(p, "kept") != 0)
            give_up("realloc lost the contents\n");
        free(p);
        free(copy("text"));
        if (both)
            put(malloc(i * 100));
    }
    say("exchanged\n");
}

static void inner(void)
{
    void *plug = open_or_give_up(plug_path, flags);
    const char *(*look)(const char *, int) =
        (const char *(*)(const char *, int))call_of(plug, "plug_look");

    say("by RUNPATH: %s\n", look("libinner.so", flags));
    say("by $ORIGIN: %s\n", look("$ORIGIN/inner/libother.so", flags));
    say("from here: %s\n", dlopen("libinner.so.1", flags) ? "found" : dlerror());
}

static void *open_and_put(void *unused)
{
    pthread_barrier_wait(&barrier);
    void *plug = open_or_give_up(plug_path, flags);
    const char *(*look)(const char *, int) =
        (const char *(*)(const char *, int))call_of(plug, "plug_look");
    void (*put)(void *) = (void (*)(void *))call_of(plug, "plug_put");
    put(malloc(100));
    return (void *)(uintptr_t)look("libinner.so", flags);
}

static void threads(void)
{
    pthread_t thread[THREADS];
    void *said;

    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, open_and_put, NULL) != 0)
            give_up("no thread\n");
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &said);
        say("%s\n", (char *)said);
    }
}

static void errors(void)
{
    const char *text;
    void *plug;

    say("itself: %d\n", dlsym(dlopen(NULL, RTLD_NOW), "malloc") == dlsym(RTLD_DEFAULT, "malloc"));
    say("not loaded: %d\n", dlopen(plug_path, flags | RTLD_NOLOAD) == NULL);
    say("%s\n", (text = dlerror()) ? text : "no error");
    say("missing: %d\n", dlopen("/nowhere/lib.so", flags) == NULL);
    say("%s\n", dlerror());
    say("no binding: %d\n", dlopen(plug_path, RTLD_DEEPBIND) == NULL);
    say("%s\n", dlerror());
    plug = open_or_give_up(plug_path, flags);
    say("loaded: %d\n", dlopen(plug_path, flags | RTLD_NOLOAD) == plug);
    say("%s\n", (text = dlerror()) ? text : "no error");
    say("no space: %d\n", dlmopen(1000, plug_path, flags) == NULL);
    say("closed: %d\n", dlclose(plug));
}

static bool has_our_malloc(void *plug)
{
    void *(*where)(void) = (void *(*)(void))(plug ? call_of(plug, "plug_malloc") : 0);

    if (!where)
        give_up("%s\n", dlerror());
    return where() == dlsym(RTLD_DEFAULT, "malloc");
}

static void spaces(void)
{
    say("another: %d\n", has_our_malloc(dlmopen(LM_ID_NEWLM, plug_path, flags)));
    say("the base: %d\n", has_our_malloc(dlmopen(LM_ID_BASE, plug_path, flags)));
    say("here: %d\n", has_our_malloc(open_or_give_up(plug_path, flags)));
}

static void wins(const char *second)
{
    (void)open_or_give_up(plug_path, RTLD_NOW | RTLD_GLOBAL);
    const char *(*who)(void) =
        (const char *(*)(void))call_of(open_or_give_up(second, flags), "who");

    say("%s\n", who());
}

int main(int argc, char **argv)
{
    if (argc < 3)
        give_up("usage: prog_deepbind WHAT PLUG [PLUG2]\n");
    plug_path = argv[2];
    if (strcmp(argv[1], "frees") == 0 || strcmp(argv[1], "gives") == 0)
        frees(argv[1][0] == 'f');
    else if (strcmp(argv[1], "inner") == 0)
        inner();
    else if (strcmp(argv[1], "threads") == 0)
        threads();
    else if (strcmp(argv[1], "errors") == 0)
        errors();
    else if (strcmp(argv[1], "spaces") == 0)
        spaces();
    else if (strcmp(argv[1], "wins") == 0 && argc > 3)
        wins(argv[3]);
    return 0;
}
