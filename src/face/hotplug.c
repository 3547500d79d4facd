/* SPDX-License-Identifier: MIT */
/*
 * hotplug.c - CPUs and nodes that come and go while threads run.  When no thread of the process may run on a
 * CPU any more, the CPU's objects go back; and the tables of the topology follow the machine.
 *
 * The kernel does not notify a process whose cpuset was cut.  So the library scans, without a clock and without a
 * thread of its own.  Every PERCPU_SCAN-th allocation on a CPU that finds its main sheaf empty makes a scan due
 * (slot_tick).  An allocation that may wait makes the scan, if its cache is not malloc's, outside all locks
 * (upkeep.h).  Usually a scan is one system call: if this thread may run on every CPU that the process has
 * used, the process can have left none.  Otherwise it asks for the CPUs of all threads.  It does so more often
 * if the calling thread's own CPUs have changed, as a cut cpuset does to every thread that is not confined
 * more narrowly.
 *
 * One scan at a time: a scan that finds another one running does nothing; only the explicit calls wait, outside
 * the library.  A thread may still be on a CPU that is drained, or come back at any moment.  Sheaves are taken as
 * from any other CPU, and a thread that installs one there afterwards makes the CPU a used one again.
 */
#include "face/hotplug.h"

#include "face/affinity.h"
#include "base/placed.h"
#include "base/context.h"
#include "cache/cache_list.h"
#include "base/init.h"
#include "cache/pin.h"
#include "percpu/percpu.h"
#include "page/arena.h"
#include "sheaf/barn.h"
#include "sheaf/slot_drain.h"
#include "slab/node.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <errno.h>
#include <limits.h>

enum {
    HOTPLUG_CPUS = 4,       /* drained by one scan at most */
    HOTPLUG_REREAD = 64,    /* scans from one reading of the nodes to the next */
    HOTPLUG_THREADS = 4096, /* asked by one scan at most */
    HOTPLUG_WAIT = 16,   /* scans without asking all threads, and one more for each four threads */
    HOTPLUG_TRIES = 256, /* attempts to take an offline CPU's slots, while owners move pointers */
};

static struct hotplug {
    struct lock busy; /* without a rank: all of this is the holder's */
    unsigned scans, wait;
    uint64_t memory; /* nodes with memory, as the arena knows them; 0: still those of the start */
    uint64_t idle;   /* nodes where, and near which, no thread may run: their barns hold nothing */
    struct stook_cache *cache[STOOK_CACHES_MAX];
} hotplug LARGE_BSS;

static __thread bool hotplug_inside;
static __thread uint64_t hotplug_seen; /* this thread's CPUs at its last scan, as a hash */

/* A caller that waits is outside the library.  False: another thread is in a scan, or this thread itself. */
LOCK_UNCHECKED LOCK_TRIES(hotplug.busy) static bool hotplug_enter(bool wait)
{
    if (!lock_word_try(&hotplug.busy)) {
        if (!wait || hotplug_inside)
            return false;
        (void)lock_wait(&hotplug.busy, true);
    }
    hotplug_inside = true;
    if (hotplug.memory == 0)
        hotplug.memory = topology.memory_nodes;
    return true;
}

LOCK_DROPS(hotplug.busy) static void hotplug_leave(void)
{
    hotplug_inside = false;
    lock_word_drop(&hotplug.busy);
}

SECOND_TEXT void hotplug_child(void)
{
    if (!hotplug_inside)
        lock_init(&hotplug.busy);
}

/* Whether returning slabs runs the program's code, which may destroy another cache and so wait until no
 * thread has it pinned. */
static bool hotplug_calls_out(const struct stook_cache *cache)
{
    return cache->dtor || (cache->flags & STOOK_CACHE_TYPESAFE);
}

/* ---- CPUs ----------------------------------------------------------------------------------- */

struct hotplug_drain {
    unsigned cpu;
    bool done; /* no slot was left as it was */
};

static bool hotplug_drain_slot(struct stook_cache *cache, void *arg)
{
    struct hotplug_drain *drain = arg;

    if (hotplug_calls_out(cache))
        drain->done &= slot_drain_cpu(&cache, 1, drain->cpu, false);
    return true;
}

/* The sheaves of one CPU go back: under the list's lock with one fence, and those of caches that call out without it. */
static bool hotplug_drain_cpu(unsigned cpu)
{
    struct hotplug_drain drain = {.cpu = cpu};
    unsigned n = 0;

    percpu_change_use(cpu, PERCPU_USED, PERCPU_LEFT);
    lock_take(&cache_list.lock, LOCK_CACHES);
    for (struct list *l = cache_list.all.next; l != &cache_list.all; l = l->next) {
        struct stook_cache *cache = LIST_ENTRY(l, struct stook_cache, link);
        if (cache->alive && !hotplug_calls_out(cache))
            hotplug.cache[n++] = cache;
    }
    drain.done = slot_drain_cpu(hotplug.cache, n, cpu, false);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    pin_each(hotplug_drain_slot, &drain);
    if (!drain.done)
        percpu_change_use(cpu, PERCPU_LEFT, PERCPU_USED); /* for the next time */
    return drain.done;
}

/* CPUs with sheaves of ours, but those that no fence may interrupt; whether all are among `cpus`. */
static bool hotplug_used(uint64_t used[AFFINITY_WORDS], const uint64_t cpus[AFFINITY_WORDS])
{
    bool within = true;

    for (unsigned i = 0; i < AFFINITY_WORDS; i++) {
        used[i] = 0;
        for (unsigned cpu = i * 64; cpu < percpu.rows && cpu < (i + 1) * 64; cpu++)
            if (percpu_use_of(cpu) == PERCPU_USED && percpu_may_fence(cpu))
                used[i] |= (uint64_t)1 << cpu % 64;
        within &= (used[i] & ~cpus[i]) == 0;
    }
    return within;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static bool hotplug_retire_barn(struct stook_cache *cache, void *arg)
{
    unsigned node = *(unsigned *)arg;
    struct barn *barn = &cache->nodes[node].barn;

    /* Misses raise the limit again when a thread comes back. */
    lock_take(&barn->lock, LOCK_BARN);
    __atomic_store_n(&barn->full_limit, 0, __ATOMIC_RELAXED);
    lock_drop(&barn->lock, LOCK_BARN);
    barn_drain(cache, node);
    return true;
}

/* The barns of nodes where, and near which, no thread may run any more. */
static void hotplug_retire_barns(const uint64_t cpus[AFFINITY_WORDS])
{
    uint64_t live = 0;

    for (unsigned cpu = 0; cpu < topology.cpus; cpu++)
        if (affinity_has(cpus, cpu))
            live |= (uint64_t)1 << topology_node(cpu) | (uint64_t)1 << topology_home(cpu);
    for (unsigned node = 0; node < topology.nodes; node++)
        if (!((live | hotplug.idle) >> node & 1))
            pin_each(hotplug_retire_barn, &node);
    hotplug.idle = ~live;
}

static bool hotplug_shrink_node(struct stook_cache *cache, void *arg)
{
    unsigned node = *(unsigned *)arg;

    barn_drain(cache, node);
    (void)node_shrink(cache, node);
    return true;
}

/* After the tables: nothing is kept of a node whose memory went, but objects that are in use. */
static void hotplug_apply_memory(void)
{
    uint64_t now = topology.memory_nodes, changed = now ^ hotplug.memory;

    hotplug.memory = now;
    for (unsigned node = 0; node < topology.nodes; node++) {
        if (!(changed >> node & 1))
            continue;
        arena_node_set(node, now >> node & 1);
        if (!(now >> node & 1))
            pin_each(hotplug_shrink_node, &node);
    }
}

/* ---- scanning ------------------------------------------------------------------------------- */

/* Whether this thread's CPUs are other ones than at its last scan. */
static bool hotplug_has_moved(const uint64_t cpus[AFFINITY_WORDS])
{
    uint64_t hash = 1, before = hotplug_seen;

    for (unsigned i = 0; i <= percpu.rows / 64 && i < AFFINITY_WORDS; i++)
        hash = (hash ^ cpus[i]) * 0x9e3779b97f4a7c15u;
    hotplug_seen = hash;
    return before != 0 && before != hash;
}

/* True: there is more to do soon. */
static bool hotplug_scan_cpus(void)
{
    uint64_t used[AFFINITY_WORDS], cpus[AFFINITY_WORDS];
    unsigned threads, left = 0, done = 0;
    bool moved;

    if (!affinity_thread(cpus))
        return false;
    moved = hotplug_has_moved(cpus);
    if (hotplug_used(used, cpus))
        return false;
    if (!moved && hotplug.wait > 0) {
        hotplug.wait--;
        return false;
    }
    threads = affinity_process(cpus, used, HOTPLUG_THREADS);
    hotplug.wait = HOTPLUG_WAIT + (threads ? threads : HOTPLUG_THREADS) / 4;
    for (unsigned cpu = 0; cpu < percpu.rows && threads > 0 && left <= HOTPLUG_CPUS; cpu++)
        if (affinity_has(used, cpu) && !affinity_has(cpus, cpu) && ++left <= HOTPLUG_CPUS)
            done += hotplug_drain_cpu(cpu);
    if (left > HOTPLUG_CPUS) {
        hotplug.wait = 0;
        return true;
    }
    if (done > 0 && topology.nodes > 1)
        hotplug_retire_barns(cpus);
    return false;
}

void hotplug_scan(void)
{
    bool strange, more;

    if (!hotplug_enter(false))
        return;
    hotplug.scans++;
    strange = atomic_exchange_explicit(&percpu.strange, false, memory_order_relaxed);
    if (strange || (topology.nodes > 1 && hotplug.scans % HOTPLUG_REREAD == 0)) {
        (void)topology_reread();
        hotplug_apply_memory();
    }
    more = hotplug_scan_cpus();
    atomic_store_explicit(&percpu.scan_every, more ? PERCPU_SCAN_SOON : PERCPU_SCAN,
                          memory_order_relaxed);
    hotplug_leave();
}

void hotplug_again(void)
{
    hotplug.memory = hotplug.idle = 0;
}

/* ---- explicit calls ------------------------------------------------------------------------- */

/* What was freed under readers on a CPU that was left is handed to RCU. */
static bool hotplug_push_deferred(struct stook_cache *cache, void *cpu)
{
    const struct slot *slot = percpu_slot(*(unsigned *)cpu, percpu_offset(cache->index));

    if (slot && cache_capacity(cache) > 0 && __atomic_load_n(&slot->rcu, __ATOMIC_RELAXED))
        hooks_rcu()(HOOKS_RCU_PUSH, cache, NULL);
    return true;
}

static unsigned hotplug_leave_cpus(const uint64_t cpus[AFFINITY_WORDS])
{
    unsigned left = 0;

    for (unsigned cpu = 0; cpu < percpu.rows; cpu++) {
        enum percpu_use use = percpu_use_of(cpu);
        if (use == PERCPU_UNUSED || affinity_has(cpus, cpu) || !percpu_may_fence(cpu))
            continue;
        /* Also if the CPU was left already: a thread may have come in between. */
        for (unsigned i = 0; !hotplug_drain_cpu(cpu) && i < HOTPLUG_TRIES; i++)
            lock_pause(i);
        if (hooks_rcu())
            pin_each(hotplug_push_deferred, &cpu);
        left += use == PERCPU_USED;
    }
    if (topology.nodes > 1)
        hotplug_retire_barns(cpus);
    return left;
}

int stook_topology_update(unsigned *changes)
{
    uint64_t cpus[AFFINITY_WORDS];
    unsigned changed, n = 0;
    int saved = errno;

    if (!init_once() || context_self()->depth > 0 || !hotplug_enter(true)) {
        errno = EDEADLK; /* not from within the library */
        return -1;
    }
    context_enter();
    changed = topology_reread();
    hotplug_apply_memory();
    if (topology.simulated || affinity_process(cpus, NULL, UINT_MAX - 1) == 0)
        for (unsigned i = 0; i < AFFINITY_WORDS; i++)
            cpus[i] = topology.online_cpus[i];
    changed += hotplug_leave_cpus(cpus);
    for (unsigned i = 0; i < AFFINITY_WORDS; i++)
        n += (unsigned)__builtin_popcountll(cpus[i]);
    topology.allowed_cpus = n;
    context_leave();
    errno = saved;
    if (changes)
        *changes = changed;
    hotplug_leave();
    return 0;
}
