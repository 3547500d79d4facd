/* SPDX-License-Identifier: MIT */
/* The calls of slot.h on the slots of all CPUs: draining, counting, fork. */
#include "base/report.h"
#include "os/topology.h"
#include "sheaf/sheaf.h"
#include "sheaf/slot.h"
#include "slab/node.h"
#include "slab/stat.h"

#include <sched.h>
#include <time.h>

enum {
    SLOT_DRAIN_MAX = 128, /* slots of one CPU taken under one fence */
    SLOT_FORK_YIELDS = 16,
    SLOT_FORK_NAP = 50000, /* nanoseconds */
};

static struct sheaf *slot_real(struct sheaf *main)
{
    return main == PERCPU_NONE ? NULL : main;
}

static void slot_flush_taken(struct stook_cache *cache, struct sheaf *sheaf)
{
    if (sheaf) {
        sheaf_flush(cache, sheaf, false);
        stat_add(cache, STAT_sheaf_free, 1);
        sheaf_free(sheaf, false);
    }
}

/* At most SLOT_DRAIN_MAX caches; false: a slot was left as it is. */
static bool slot_drain_some(struct stook_cache *const *caches, unsigned n, unsigned cpu, bool alone)
{
    struct sheaf *main[SLOT_DRAIN_MAX], *spare[SLOT_DRAIN_MAX], *remote[SLOT_DRAIN_MAX];
    unsigned taken = 0, wanted = 0;
    bool fenced;

    for (unsigned i = 0; i < n; i++) {
        struct slot *slot = percpu_slot(cpu, percpu_offset(caches[i]->index));
        main[i] = NULL;
        if (!slot || cache_capacity(caches[i]) == 0)
            continue;
        /* Closed by its owner, who is just moving pointers; or by a fork, which ends. */
        while (!(main[i] = percpu_take(slot)) && alone)
            sched_yield();
        taken += main[i] != NULL;
        wanted++;
    }
    fenced = taken > 0 && (alone || percpu_fence(cpu));
    /* All are open again before the first object is flushed: nothing waits while they are closed. */
    for (unsigned i = 0; i < n; i++) {
        struct slot *slot = percpu_slot(cpu, percpu_offset(caches[i]->index));
        struct sheaf *held = main[i];
        spare[i] = remote[i] = NULL;
        main[i] = NULL;
        if (!held)
            continue;
        if (fenced) {
            main[i] = slot_real(held);
            spare[i] = slot->spare;
            slot->spare = NULL;
            remote[i] = slot->remote;
            slot->remote = NULL;
            slot->fill = 0;
        }
        percpu_open(slot, fenced ? PERCPU_NONE : held);
    }
    for (unsigned i = 0; i < n; i++) {
        slot_flush_taken(caches[i], main[i]);
        slot_flush_taken(caches[i], spare[i]);
        while (remote[i]) {
            struct sheaf *next = remote[i]->next;
            slot_flush_taken(caches[i], remote[i]);
            remote[i] = next;
        }
    }
    return taken == wanted && (taken == 0 || fenced);
}

bool slot_drain_cpu(struct stook_cache *const *caches, unsigned n, unsigned cpu, bool alone)
{
    bool all = true;

    for (unsigned i = 0; i < n; i += SLOT_DRAIN_MAX)
        all &= slot_drain_some(caches + i, n - i < SLOT_DRAIN_MAX ? n - i : SLOT_DRAIN_MAX, cpu,
                               alone);
    return all;
}

void slot_drain(struct stook_cache *const *caches, unsigned n, bool alone)
{
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++)
        if (percpu_slot(cpu, 0) && (alone || percpu_may_fence(cpu)))
            (void)slot_drain_cpu(caches, n, cpu, alone);
}

/* What a slot's main and spare sheaf may hold, at least one that is not to be seen now. */
static uint32_t slot_capacity(struct slot *slot)
{
    struct sheaf *main = percpu_peek(slot), *spare;
    uint32_t capacity, more;

    if (!main)
        return UINT32_MAX;
    spare = __atomic_load_n(&slot->spare, __ATOMIC_RELAXED);
    capacity = __atomic_load_n(&main->capacity, __ATOMIC_RELAXED);
    more = spare ? __atomic_load_n(&spare->capacity, __ATOMIC_RELAXED) : 0;
    percpu_unpeek(slot, main);
    return capacity > more ? capacity : more;
}

bool slot_exceeds(const struct stook_cache *cache, uint32_t capacity)
{
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++) {
        struct slot *slot = percpu_slot(cpu, percpu_offset(cache->index));
        if (slot && percpu_may_fence(cpu) && slot_capacity(slot) > capacity)
            return true;
    }
    return false;
}

static uint32_t slot_size(const struct sheaf *sheaf)
{
    uint32_t size = __atomic_load_n(&sheaf->size, __ATOMIC_RELAXED);

    return size < STOOK_SHEAF_CAPACITY_MAX ? size : STOOK_SHEAF_CAPACITY_MAX;
}

void slot_count_cpu(const struct stook_cache *cache, unsigned cpu, struct slot_counts *counts)
{
    struct slot *slot = percpu_slot(cpu, percpu_offset(cache->index));
    struct sheaf *main, *spare;

    if (!slot)
        return;
    main = percpu_peek(slot);
    if (!main)
        return;
    spare = __atomic_load_n(&slot->spare, __ATOMIC_RELAXED);
    if (main != PERCPU_NONE) {
        counts->objects += slot_size(main);
        counts->sheaves++;
    }
    if (spare) {
        counts->objects += slot_size(spare);
        counts->sheaves++;
    }
    if (__atomic_load_n(&slot->remote, __ATOMIC_RELAXED)) {
        uint32_t size = __atomic_load_n(&slot->remote_size, __ATOMIC_RELAXED);
        counts->objects += size;
        counts->remote += size;
        counts->sheaves++;
    }
    percpu_unpeek(slot, main);
}

void slot_count(const struct stook_cache *cache, uint64_t *objects, uint64_t *sheaves)
{
    struct slot_counts counts = {0};

    for (unsigned cpu = 0; cpu < percpu.rows; cpu++)
        slot_count_cpu(cache, cpu, &counts);
    *objects = counts.objects;
    *sheaves = counts.sheaves;
}

/*
 * fork.  An owner keeps a slot closed only while it moves pointers, so it is waited for; but where
 * many threads share a CPU it may be a while until it runs, so the rest are taken meanwhile.  No
 * fence: the sheaves are not read, and a section that is under way on another CPU either commits
 * before the pages are copied or not at all in the child.
 */
static unsigned slot_take_pass(void)
{
    unsigned missing = 0;

    for (unsigned cpu = 0; cpu < percpu.rows; cpu++) {
        for (unsigned i = 1; percpu_slot(cpu, 0) && i < percpu.slots; i++) {
            struct slot *slot = percpu_slot(cpu, percpu_offset(i));
            struct sheaf *main = slot->forking ? NULL : percpu_take(slot);
            if (main) {
                slot->held = main;
                slot->forking = 1;
            }
            missing += !slot->forking;
        }
    }
    return missing;
}

void slot_take_all(void)
{
    const struct timespec moment = {0, SLOT_FORK_NAP};

    /* Yields first; an owner of lower priority runs only while this thread sleeps. */
    for (unsigned pass = 0; slot_take_pass() > 0; pass++)
        if (pass < SLOT_FORK_YIELDS)
            sched_yield();
        else
            nanosleep(&moment, NULL);
}

void slot_open_all(void)
{
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++) {
        for (unsigned i = 1; percpu_slot(cpu, 0) && i < percpu.slots; i++) {
            struct slot *slot = percpu_slot(cpu, percpu_offset(i));
            /* Not taken where an atfork handler of the program's made a cache meanwhile, or was
             * the first on a CPU. */
            if (slot->forking) {
                slot->forking = 0;
                percpu_open(slot, slot->held);
            }
        }
    }
}
