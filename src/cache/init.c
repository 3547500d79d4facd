/* SPDX-License-Identifier: MIT */
#include "cache/init.h"

#include "base/context.h"
#include "base/init.h"
#include "base/report.h"
#include "base/settings.h"
#include "cache/cache_list.h"
#include "percpu/percpu.h"
#include "percpu/random.h"
#include "os/topology.h"
#include "page/arena.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

/* What follows from the topology. */
static void init_above_topology(void)
{
    percpu_init();
    random_init();
    arena_init();
    cache_boot();
}

bool init_slow(void)
{
    if (!once_begin(&init_state))
        return once_is_done(&init_state);
    settings_start();
    if (hooks.topology && !topology.simulated)
        hooks.topology();
    topology_init();
    if (hooks.before_caches)
        cache_list.closed = hooks.before_caches();
    init_above_topology();
    once_end(&init_state);
    /* After: it may allocate. */
    pthread_atfork(fork_prepare, fork_parent, fork_child);
    return true;
}

/* Starts before other constructors where the loader lets it, so before threads. */
static __attribute__((constructor(101), used)) void init_constructor(void)
{
    (void)init_once();
}

const char *stook_mode(const char **why)
{
    init_once();
    if (why)
        *why = percpu.why;
    return percpu.rseq ? "rseq" : "locked";
}

/* Every cache's descriptor and every large object is from the arena. */
__attribute__((cold)) bool init_is_unused(void)
{
    struct arena_stat stat;

    context_enter();
    arena_stat(&stat);
    context_leave();
    return stat.blocks == 0;
}

__attribute__((cold)) void init_again(void)
{
    memset(cache_table, 0, percpu.slots * sizeof(cache_table[0]));
    cache_list = (struct cache_list){.closed = cache_list.closed};
    arena_exit();
    percpu_exit();
    init_above_topology();
}

__attribute__((cold)) int stook_topology_cpu(int cpu)
{
    int before;

    init_once();
    if (!topology.simulated) {
        errno = ENOTSUP;
        return -1;
    }
    if (cpu < 0 || !topology_is_online(&topology, (unsigned)cpu)) {
        errno = EINVAL;
        return -1;
    }
    before = (int)topology_cpu();
    topology_stated = (unsigned)cpu + 1;
    return before;
}

/* Absent in static programs, which unload nothing.  dlopen by name: ld warns of a reference. */
extern void *dlsym(void *handle, const char *name) __attribute__((weak));
extern int dladdr(const void *address, Dl_info *info) __attribute__((weak));

__attribute__((cold)) void stook_inline_layout_2(int layout, const void *address)
{
    static const void *pinned; /* the last object: its other files' constructors run in a row */
    void *(*open)(const char *, int);
    Dl_info info;

    if (layout != STOOK_INLINE_LAYOUT)
        report_fatal(
            "the program was compiled with stook/inline.h of layout %d, this library has %d: compile it again",
            layout, STOOK_INLINE_LAYOUT);
    if (!dlsym || !dladdr)
        return;
    open = (void *(*)(const char *, int))(uintptr_t)dlsym(RTLD_DEFAULT, "dlopen");
    if (open && dladdr(address, &info) && info.dli_fname &&
        __atomic_exchange_n(&pinned, info.dli_fbase, __ATOMIC_RELAXED) != info.dli_fbase)
        (void)open(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}
