/* SPDX-License-Identifier: MIT */
/*
 * init.c - starts the library once, in the order of its layers, and names the mode that it runs in.
 */
#include "cache/init.h"

#include "base/init.h"
#include "base/report.h"
#include "base/settings.h"
#include "cache/cache_list.h"
#include "percpu/percpu.h"
#include "percpu/random.h"
#include "os/topology.h"
#include "page/arena.h"

#include <stook/stook.h>

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

bool init_later;

void init_memory(void)
{
    random_init();
    percpu_map();
    arena_init();
    cache_boot();
}

/* What the environment and the kernel say.  False: this thread is at it, and has come back. */
static bool init_ask(void)
{
    static struct once asked;

    if (!once_begin(&asked))
        return once_is_done(&asked);
    settings_start();
    topology_init();
    (void)hooks.start(HOOKS_BEFORE_CACHES, NULL);
    percpu_init();
    once_end(&asked);
    /* After: it may allocate. */
    pthread_atfork(fork_prepare, fork_parent, fork_child);
    return true;
}

bool init_slow(void)
{
    if (!init_ask() || !once_begin(&init_state))
        return once_is_done(&init_state);
    init_memory();
    once_end(&init_state);
    return true;
}

const char *stook_mode(const char **why)
{
    (void)init_once();
    if (why)
        *why = percpu.why;
    return percpu.rseq ? "rseq" : "locked";
}

/* ---- objects that stay loaded ---------------------------------------------------------------- */

/* Absent in static programs, which unload nothing.  dlopen by name: ld warns of a reference. */
extern void *dlsym(void *handle, const char *name) __attribute__((weak));
extern int dladdr1(const void *address, Dl_info *info, void **more, int flags)
    __attribute__((weak));
#ifndef RTLD_DL_LINKMAP
#define RTLD_DL_LINKMAP 2
#endif
extern ElfW(Dyn) _DYNAMIC[] __attribute__((weak)); /* of the object that this file is linked into */

/*
 * The kernel reads the descriptor of a thread's last section when it switches the thread, so the object that
 * holds the section must never be unloaded.  False: the loader's dlopen() refuses that.
 */
__attribute__((cold)) static bool init_keep(const void *address)
{
    enum { KEEP = RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE };
    static struct link_map *last; /* constructors of an object's files run in a row */
    void *(*open)(const char *, int);
    struct link_map *map = NULL;
    const char *file;
    Dl_info info;
    bool kept;

    /* What the loader does not know it does not unload; musl unloads nothing. */
    if (!dlsym || !dladdr1 || !dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return true;
    if (!*map->l_name || __atomic_load_n(&last, __ATOMIC_RELAXED) == map)
        return true; /* the program, or it is done */
    open = (void *(*)(const char *, int))(uintptr_t)dlsym(RTLD_DEFAULT, "dlopen");
    file = strrchr(map->l_name, '/');
    /*
     * Objects are found by the names they have, so neither chdir() nor a file that is gone matters.  An older
     * object has this path only if the file was replaced and then opened by its name alone.
     */
    kept = open && (open(map->l_name, KEEP) == map || (file && open(file + 1, KEEP) == map));
    if (kept)
        __atomic_store_n(&last, map, __ATOMIC_RELAXED);
    return kept;
}

__attribute__((cold, noinline)) static void init_keep_or_lock(const void *address)
{
    if (init_keep(address))
        return;
    percpu_refused = "the object that holds the library may be unloaded";
    if (percpu.rseq)
        report_warn("an object with critical sections cannot be kept: to close it may crash");
}

/* Only programs have DT_DEBUG; libstook.so is linked with -z nodelete. */
static bool init_is_kept(void)
{
    for (const ElfW(Dyn) *entry = _DYNAMIC; entry && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_DEBUG ||
            (entry->d_tag == DT_FLAGS_1 && (entry->d_un.d_val & DF_1_NODELETE)))
            return true;
    return !_DYNAMIC;
}

/*
 * Starts before other constructors where the loader lets it, so before threads.  An archive in a plug-in keeps the
 * plug-in; here, since dlopen() allocates, and may not be called before the C library's own constructors.
 */
static __attribute__((constructor(101), used)) void init_constructor(void)
{
    if (!init_is_first())
        return;
    if (!init_is_kept())
        init_keep_or_lock(&init_state);
    (void)(init_later ? init_ask() : init_once());
}

__attribute__((cold)) void stook_inline_layout_3(int layout, const void *address)
{
    if (layout != STOOK_INLINE_LAYOUT)
        report_fatal(
            "the program was compiled with stook/inline.h of layout %d, this library has %d: compile it again",
            layout, STOOK_INLINE_LAYOUT);
    init_keep_or_lock(address);
}
