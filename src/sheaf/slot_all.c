/* SPDX-License-Identifier: MIT */
/* The calls of slot.h on the slots of all CPUs: draining, counting, fork. */
#include "base/report.h"
#include "os/topology.h"
#include "sheaf/sheaf.h"
#include "sheaf/slot.h"
#include "slab/node.h"
#include "slab/stat.h"

enum {
    SLOT_DRAIN_MAX = 128, /* slots of one CPU taken under one fence */
    SLOT_FORK_PASSES = 128, /* before fork gives a slot up: some 10 ms */
};

/* slot.forking; the forking thread, under `percpu.lock`. */
enum {
    SLOT_FREE,
    SLOT_TAKEN, /* by slot_take_all() */
    SLOT_LOST,  /* closed when a fork gave up: its owner cannot run, or is no more */
};

static void slot_flush_taken(struct stook_cache *cache, struct sheaf *chain)
{
    while (chain) {
        struct sheaf *next = chain->next;
        chain->next = NULL;
        sheaf_flush(cache, chain, false);
        stat_add(cache, STAT_sheaf_free, 1);
        sheaf_free(chain, false);
        chain = next;
    }
}

/* All that a closed slot has but deferred frees, chained: it keeps nothing. */
static struct sheaf *slot_empty(struct slot *slot, struct sheaf *main)
{
    struct sheaf *chain = slot->remote;

    slot->remote = NULL;
    if (slot->spare) {
        slot->spare->next = chain;
        chain = slot->spare;
        slot->spare = NULL;
    }
    if (main != PERCPU_NONE) {
        main->next = chain;
        chain = main;
    }
    slot->fill = 0;
    return chain;
}

/* At most SLOT_DRAIN_MAX caches; false: a slot was left as it is. */
static bool slot_drain_some(struct stook_cache *const *caches, unsigned n, unsigned cpu, bool alone)
{
    struct sheaf *taken[SLOT_DRAIN_MAX]; /* the main sheaf, then all sheaves */
    unsigned count = 0, wanted = 0;
    bool fenced;

    for (unsigned i = 0; i < n; i++) {
        struct slot *slot = percpu_slot(cpu, percpu_offset(caches[i]->index));
        taken[i] = NULL;
        if (!slot || cache_capacity(caches[i]) == 0)
            continue;
        /* Closed by its owner, who is just moving pointers; or by a fork, which ends. */
        for (unsigned turn = 0; !(taken[i] = percpu_take(slot)) && alone; turn++)
            lock_pause(turn);
        count += taken[i] != NULL;
        wanted++;
    }
    fenced = count > 0 && (alone || percpu_fence(cpu));
    /* All are open again before the first object is flushed: nothing waits while they are closed. */
    for (unsigned i = 0; i < n; i++) {
        struct slot *slot = percpu_slot(cpu, percpu_offset(caches[i]->index));
        struct sheaf *main = taken[i];
        if (!main)
            continue;
        taken[i] = fenced ? slot_empty(slot, main) : NULL;
        percpu_open(slot, fenced ? PERCPU_NONE : main);
    }
    for (unsigned i = 0; i < n; i++)
        slot_flush_taken(caches[i], taken[i]);
    return count == wanted && (count == 0 || fenced);
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

void slot_drain_near(struct stook_cache *cache)
{
    struct sheaf *main, *chain = NULL;
    struct slot *slot;

    if (cache_capacity(cache) == 0)
        return;
    if (!percpu.rseq) {
        slot_drain(&cache, 1, false);
        return;
    }
    main = percpu_close(percpu_offset(cache->index), &slot, false);
    if (main) {
        chain = slot_empty(slot, main);
        percpu_open(slot, PERCPU_NONE);
    }
    slot_flush_taken(cache, chain);
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

/* ---- fork ----------------------------------------------------------------------------------- */

/*
 * Owners move a few pointers and never wait, but where many threads share a CPU it may be a while until
 * one of them runs, so the rest are taken meanwhile.  No fence: the sheaves are not read, and a section
 * that is under way on another CPU either commits before the pages are copied or not at all in the
 * child.  How many there are that a fork still waits for.
 */
static unsigned slot_take_pass(void)
{
    unsigned missing = 0;

    for (unsigned cpu = 0; cpu < percpu.rows; cpu++) {
        for (unsigned i = 1; percpu_slot(cpu, 0) && i < percpu.slots; i++) {
            struct slot *slot = percpu_slot(cpu, percpu_offset(i));
            struct sheaf *main = slot->forking == SLOT_TAKEN ? NULL : percpu_take(slot);
            if (main) {
                slot->held = main;
                slot->forking = SLOT_TAKEN;
            }
            missing += slot->forking == SLOT_FREE;
        }
    }
    return missing;
}

/* Those that are closed still stay so: the next fork does not wait for them again. */
static void slot_give_up(void)
{
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++)
        for (unsigned i = 1; percpu_slot(cpu, 0) && i < percpu.slots; i++) {
            struct slot *slot = percpu_slot(cpu, percpu_offset(i));
            if (slot->forking == SLOT_FREE)
                slot->forking = SLOT_LOST;
        }
}

void slot_take_all(void)
{
    unsigned pass = 0;

    while (slot_take_pass() > 0) {
        if (pass == SLOT_FORK_PASSES) {
            slot_give_up();
            break;
        }
        lock_pause(pass++);
    }
}

void slot_open_all(void)
{
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++) {
        for (unsigned i = 1; percpu_slot(cpu, 0) && i < percpu.slots; i++) {
            struct slot *slot = percpu_slot(cpu, percpu_offset(i));
            /* Not taken where an atfork handler of the program's made a cache meanwhile, or was
             * the first on a CPU; or it is lost, until its owner opens it after all. */
            if (slot->forking == SLOT_TAKEN) {
                slot->forking = SLOT_FREE;
                percpu_open(slot, slot->held);
            }
        }
    }
}

/* A slot that another thread had closed, in a child without that thread. */
static void slot_renew(struct slot *slot)
{
    slot->spare = slot->remote = slot->rcu = NULL;
    slot->fill = slot->remote_size = slot->wary = 0;
    percpu_open(slot, PERCPU_NONE);
}

/* Without a write: each page that a child writes to is copied. */
static bool slot_is_closed(const struct slot *slot)
{
    return percpu.rseq
               ? atomic_load_explicit(&slot->main, memory_order_relaxed) == PERCPU_CLOSED
               : atomic_load_explicit(&slot->lock, memory_order_relaxed) != 0;
}

void slot_child(void)
{
    slot_open_all();
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++) {
        for (unsigned i = 1; percpu_slot(cpu, 0) && i < percpu.slots; i++) {
            struct slot *slot = percpu_slot(cpu, percpu_offset(i));
            if (slot_is_closed(slot))
                slot_renew(slot);
            if (slot->forking != SLOT_FREE)
                slot->forking = SLOT_FREE;
        }
    }
}
