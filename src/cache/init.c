/* SPDX-License-Identifier: MIT */
#include "cache/init.h"

#include "base/context.h"
#include "base/report.h"
#include "cache/cache_list.h"
#include "os/percpu.h"
#include "os/topology.h"
#include "page/arena.h"
#include "page/large.h"
#include "slab/node.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>

_Atomic unsigned init_state;

void init_slow(void)
{
    unsigned none = INIT_NONE;

    if (!atomic_compare_exchange_strong_explicit(&init_state, &none, INIT_RUNNING,
                                                 memory_order_acquire, memory_order_acquire)) {
        while (atomic_load_explicit(&init_state, memory_order_acquire) != INIT_DONE)
            sched_yield();
        return;
    }
    topology_init();
    percpu_init();
    arena_init();
    context_settler = node_settle_deferred;
    context_large_settler = large_settle;
    cache_boot();
    atomic_store_explicit(&init_state, INIT_DONE, memory_order_release);
    /* After: it may allocate. */
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* Starts before other constructors where the loader lets it, so before threads. */
static __attribute__((constructor(101), used)) void init_constructor(void)
{
    init_once();
}

const char *stook_mode(const char **why)
{
    init_once();
    if (why)
        *why = percpu.why;
    return percpu.rseq ? "rseq" : "locked";
}

/* Absent in static programs, which unload nothing.  dlopen by name: ld warns of a reference. */
extern void *dlsym(void *handle, const char *name) __attribute__((weak));
extern int dladdr(const void *address, Dl_info *info) __attribute__((weak));

void stook_inline_layout_1(int layout, const void *address)
{
    static const void *pinned; /* the last object: its other files' constructors run in a row */
    void *(*open)(const char *, int);
    Dl_info info;

    if (layout != STOOK_INLINE_LAYOUT)
        report_fatal("stook/inline.h of layout %d was compiled in, this library has %d", layout,
                     STOOK_INLINE_LAYOUT);
    if (!dlsym || !dladdr)
        return;
    open = (void *(*)(const char *, int))(uintptr_t)dlsym(RTLD_DEFAULT, "dlopen");
    if (open && dladdr(address, &info) && info.dli_fname &&
        __atomic_exchange_n(&pinned, info.dli_fbase, __ATOMIC_RELAXED) != info.dli_fbase)
        (void)open(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}
