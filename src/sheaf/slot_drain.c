/* SPDX-License-Identifier: MIT */
/* The calls of slot.h on the slots of all CPUs: draining, counting, fork. */
#include "os/topology.h"
#include "sheaf/slot_drain.h"
#include "sheaf/slot_steps.h"

#include <limits.h>

enum {
    SLOT_FORK_PASSES =
        128, /* before fork gives a slot up, and a drain one that a fork gave up: some 10 ms */
    SLOT_ALONE_TURNS = 1024, /* before a drain does that no owner can keep waiting */
};

_Atomic uint32_t slot_lost;

/* slot.forking; the forking thread, under `percpu.lock`. */
enum {
    SLOT_FREE,
    SLOT_TAKEN, /* by slot_take_all() */
    SLOT_LOST,  /* closed when a fork gave up: its owner cannot run, or is no more */
};

/* Sheaves of several caches: sheaf->capacity says which. */
static void slot_flush_taken(struct sheaf *chain)
{
    while (chain) {
        struct sheaf *next = chain->next;
        chain->next = NULL;
        sheaf_drop(cache_table[chain->capacity], chain, false);
        chain = next;
    }
}

/* Puts a sheaf onto the chain, on its way to be freed: its capacity becomes its cache's index.  The objects in it
 * were not checked, so they cannot say whose they are. */
static void slot_chain(const struct stook_cache *cache, struct sheaf *sheaf, struct sheaf **chain)
{
    __atomic_store_n(&sheaf->capacity, cache->index, __ATOMIC_RELAXED);
    sheaf->next = *chain;
    *chain = sheaf;
}

/* All that a closed slot has but deferred frees, onto the chain: it keeps nothing. */
static __attribute__((cold)) void slot_empty(struct stook_cache *cache, struct slot *slot,
                                             struct sheaf *main, struct sheaf **chain)
{
    while (slot->remote) {
        struct sheaf *next = slot->remote->next;
        slot_chain(cache, slot->remote, chain);
        slot->remote = next;
    }
    if (slot->spare)
        slot_chain(cache, slot->spare, chain);
    if (main != SHEAF_NONE)
        slot_chain(cache, main, chain);
    slot->spare = NULL;
    slot->refused = 0;
}

/*
 * A slot that is closed is left to its owner, who is just moving pointers.  `alone`: no thread is, so it
 * is a fork's, which ends, or it is of a thread that died with it closed, and stays so.
 */
static bool slot_take_waiting(struct slot *slot, bool alone)
{
    static const unsigned turns[] = {
        [SLOT_FREE] = SLOT_ALONE_TURNS, [SLOT_TAKEN] = UINT_MAX, [SLOT_LOST] = SLOT_FORK_PASSES};
    unsigned turn = 0;
    bool taken;

    while (!(taken = slot_take(slot, true) != NULL) && alone &&
           turn < turns[atomic_load_explicit(&slot->forking, memory_order_relaxed)])
        lock_pause(turn++);
    return taken;
}

/*
 * No array of the slots that were taken: this is within malloc_trim(), which may be called on a small stack.  Until it
 * opens a slot, this thread owns its `refused`: there it stores the index of the cache whose slot it took before.
 */
__attribute__((cold)) bool slot_drain_cpu(struct stook_cache *const *caches, unsigned n,
                                          unsigned cpu, bool alone)
{
    struct sheaf *chain = NULL;
    uint32_t taken = 0; /* slot 0 is no cache's */
    bool all = true, fenced;

    for (unsigned i = 0; i < n; i++) {
        struct slot *slot = percpu_slot(cpu, percpu_offset(caches[i]->index));
        if (!slot || cache_capacity(caches[i]) == 0)
            continue;
        if (slot_take_waiting(slot, alone)) {
            slot->refused = (uint16_t)taken;
            taken = caches[i]->index;
        } else {
            all = false;
        }
    }
    if (taken == 0)
        return all;
    fenced = alone || percpu_fence(cpu);
    /* All are open again before the first object is flushed: nothing waits while they are closed. */
    while (taken > 0) {
        struct slot *slot = percpu_slot(cpu, percpu_offset(taken));
        struct stook_cache *cache = cache_table[taken];
        taken = slot->refused;
        slot->refused = 0;
        if (fenced) {
            slot_empty(cache, slot, slot_taken(slot), &chain);
            slot_open(slot, SHEAF_NONE);
        } else {
            slot_reopen(slot);
        }
    }
    slot_flush_taken(chain);
    return all && fenced;
}

__attribute__((cold)) bool slot_drain(struct stook_cache *const *caches, unsigned n, bool alone)
{
    bool all = true;

    for (unsigned cpu = 0; cpu < percpu.rows; cpu++)
        if (percpu_slot(cpu, 0) && (alone || percpu_may_fence(cpu)))
            all &= slot_drain_cpu(caches, n, cpu, alone);
    return all;
}

__attribute__((cold)) void slot_drain_near(struct stook_cache *cache)
{
    struct sheaf *main, *chain = NULL;
    struct slot *slot;

    if (!percpu.rseq) {
        (void)slot_drain(&cache, 1, false);
        return;
    }
    main = slot_close(percpu_offset(cache->index), &slot, false);
    if (main) {
        slot_empty(cache, slot, main, &chain);
        slot_open(slot, SHEAF_NONE);
    }
    slot_flush_taken(chain);
}

/* The owner may go on meanwhile: sheaves are never unmapped, so a stale pointer reads an old size, or what lies there
 * now. */
__attribute__((no_sanitize("thread"))) static uint64_t slot_size(const struct sheaf *sheaf)
{
    return sheaf ? __atomic_load_n(&sheaf->size, __ATOMIC_RELAXED) : 0;
}

static uint64_t slot_count_objects(uint64_t size, struct slot_counts *counts)
{
    if (size > STOOK_SHEAF_CAPACITY_MAX)
        size = STOOK_SHEAF_CAPACITY_MAX;
    counts->objects += size;
    return size;
}

__attribute__((cold, no_sanitize("thread"))) void slot_count_cpu(const struct stook_cache *cache,
                                                                 unsigned cpu,
                                                                 struct slot_counts *counts)
{
    struct slot *slot = percpu_slot(cpu, percpu_offset(cache->index));
    struct sheaf *spare, *remote;
    void **begin, **top;

    if (!slot)
        return;
    begin = atomic_load_explicit(&slot->begin, memory_order_acquire);
    top = atomic_load_explicit(&slot->top, memory_order_relaxed);
    if (begin == SLOT_CLOSED)
        return;
    spare = __atomic_load_n(&slot->spare, __ATOMIC_RELAXED);
    remote = __atomic_load_n(&slot->remote, __ATOMIC_RELAXED);
    (void)slot_count_objects(top > begin ? (uint64_t)(top - begin) : 0, counts);
    (void)slot_count_objects(slot_size(spare), counts);
    counts->sheaves += (begin != NULL) + (spare != NULL) + (remote != NULL);
    /* One a node at most: the chain may be another one by now. */
    for (unsigned i = 0; remote && i < topology.nodes; i++) {
        counts->remote += slot_count_objects(slot_size(remote), counts);
        remote = __atomic_load_n(&remote->next, __ATOMIC_RELAXED);
    }
}

__attribute__((cold)) void slot_count(const struct stook_cache *cache, uint64_t *objects,
                                      uint64_t *sheaves)
{
    struct slot_counts counts = {0};

    for (unsigned cpu = 0; cpu < percpu.rows; cpu++)
        slot_count_cpu(cache, cpu, &counts);
    *objects = counts.objects;
    *sheaves = counts.sheaves;
}

/* ---- fork ----------------------------------------------------------------------------------- */

/* All slots there are; the sum of the results. */
static unsigned slot_each(unsigned (*act)(struct slot *slot))
{
    unsigned sum = 0;

    for (unsigned cpu = 0; cpu < percpu.rows; cpu++)
        for (unsigned i = 1; percpu_slot(cpu, 0) && i < percpu.slots; i++)
            sum += act(percpu_slot(cpu, percpu_offset(i)));
    return sum;
}

/*
 * Owners move a few pointers and never wait, but where many threads share a CPU it may be a while until
 * one of them runs, so the rest are taken meanwhile.  No fence: the sheaves are not read, and a section
 * that is under way on another CPU either commits before the pages are copied or not at all in the
 * child.  1: a fork still waits for this slot.
 */
static unsigned slot_take_for_fork(struct slot *slot)
{
    if (slot->forking != SLOT_TAKEN && slot_take(slot, false))
        slot->forking = SLOT_TAKEN;
    return slot->forking == SLOT_FREE;
}

/* The slot is closed still, and stays so: the next fork does not wait for it again. */
static __attribute__((cold)) unsigned slot_give_up(struct slot *slot)
{
    if (slot->forking != SLOT_FREE)
        return 0;
    slot->forking = SLOT_LOST;
    return 1;
}

__attribute__((cold)) void slot_take_all(void)
{
    unsigned pass = 0;

    while (slot_each(slot_take_for_fork) > 0 && pass < SLOT_FORK_PASSES)
        lock_pause(pass++);
    if (pass == SLOT_FORK_PASSES)
        atomic_fetch_add_explicit(&slot_lost, slot_each(slot_give_up), memory_order_relaxed);
}

/* Not taken where an atfork handler of the program's made a cache meanwhile, or was the first on a CPU; or it is
 * lost, until its owner opens it after all. */
static unsigned slot_open_taken(struct slot *slot)
{
    if (slot->forking == SLOT_TAKEN) {
        slot->forking = SLOT_FREE;
        slot_reopen(slot);
    }
    return 0;
}

void slot_open_all(void)
{
    (void)slot_each(slot_open_taken);
}

/* The child has not the thread that had closed the slot. */
static unsigned slot_renew(struct slot *slot)
{
    (void)slot_open_taken(slot);
    /* Without a write to those that are open: each page that a child writes to is copied. */
    if (slot->begin == SLOT_CLOSED) {
        slot->spare = slot->remote = slot->rcu = NULL;
        slot->refused = 0;
        slot_open(slot, SHEAF_NONE);
    }
    if (slot->forking != SLOT_FREE)
        slot->forking = SLOT_FREE;
    return 0;
}

void slot_child(void)
{
    (void)slot_each(slot_renew);
}
