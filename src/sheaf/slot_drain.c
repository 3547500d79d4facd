/* SPDX-License-Identifier: MIT */
/* The calls of slot.h on the slots of all CPUs: draining, counting, fork. */
#include "base/report.h"
#include "os/topology.h"
#include "sheaf/sheaf.h"
#include "sheaf/slot_drain.h"
#include "slab/node.h"
#include "slab/stat.h"

enum {
    SLOT_DRAIN_MAX = 256, /* slots of one CPU taken under one fence */
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

static void slot_flush_taken(struct sheaf *chain)
{
    while (chain) {
        struct sheaf *next = chain->next;
        struct stook_cache *cache = cache_table[chain->capacity];
        chain->next = NULL;
        sheaf_flush(cache, chain, false);
        stat_add(cache, STAT_sheaf_free, 1);
        sheaf_free(chain, false);
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
static void slot_empty(struct stook_cache *cache, struct slot *slot, struct sheaf *main,
                       struct sheaf **chain)
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
    slot->fill = slot->refused = 0;
}

/*
 * A slot that is closed is left to its owner, who is just moving pointers.  `alone`: no thread is, so it
 * is a fork's, which ends, or it is of a thread that died with it closed, and stays so.
 */
static bool slot_take_waiting(struct slot *slot, bool alone)
{
    struct sheaf *main;

    for (unsigned turn = 0; !(main = slot_take(slot)) && alone; turn++) {
        uint32_t forking = __atomic_load_n(&slot->forking, __ATOMIC_RELAXED);
        if (forking != SLOT_TAKEN &&
            turn >= (forking == SLOT_LOST ? SLOT_FORK_PASSES : SLOT_ALONE_TURNS))
            break;
        lock_pause(turn);
    }
    if (main)
        slot->held = main; /* what a taker has says the slot, for a fork and for itself */
    return main != NULL;
}

/* At most SLOT_DRAIN_MAX caches; false: a slot was left as it is.  No array of what was taken: this
 * is within malloc_trim(), which may be called on a small stack. */
static bool slot_drain_some(struct stook_cache *const *caches, unsigned n, unsigned cpu, bool alone)
{
    uint64_t taken[SLOT_DRAIN_MAX / 64] = {0};
    struct sheaf *chain = NULL;
    unsigned count = 0, wanted = 0;
    bool fenced;

    for (unsigned i = 0; i < n; i++) {
        struct slot *slot = percpu_slot(cpu, percpu_offset(caches[i]->index));
        if (!slot || cache_capacity(caches[i]) == 0)
            continue;
        wanted++;
        if (slot_take_waiting(slot, alone)) {
            taken[i / 64] |= (uint64_t)1 << i % 64;
            count++;
        }
    }
    fenced = count > 0 && (alone || percpu_fence(cpu));
    /* All are open again before the first object is flushed: nothing waits while they are closed. */
    for (unsigned i = 0; i < n; i++) {
        struct slot *slot = percpu_slot(cpu, percpu_offset(caches[i]->index));
        struct sheaf *main;
        if (!(taken[i / 64] >> i % 64 & 1))
            continue;
        main = slot->held;
        if (fenced)
            slot_empty(caches[i], slot, main, &chain);
        slot_open(slot, fenced ? SHEAF_NONE : main);
    }
    slot_flush_taken(chain);
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
    main = slot_close(percpu_offset(cache->index), &slot, false);
    if (main) {
        slot_empty(cache, slot, main, &chain);
        slot_open(slot, SHEAF_NONE);
    }
    slot_flush_taken(chain);
}

/* What a slot's main and spare sheaf may hold, at least one that is not to be seen now. */
static uint32_t slot_capacity(struct slot *slot)
{
    struct sheaf *main = slot_peek(slot), *spare;
    uint32_t capacity, more;

    if (!main)
        return UINT32_MAX;
    spare = __atomic_load_n(&slot->spare, __ATOMIC_RELAXED);
    capacity = __atomic_load_n(&main->capacity, __ATOMIC_RELAXED);
    more = spare ? __atomic_load_n(&spare->capacity, __ATOMIC_RELAXED) : 0;
    slot_unpeek(slot, main);
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

__attribute__((cold)) void slot_count_cpu(const struct stook_cache *cache, unsigned cpu,
                                          struct slot_counts *counts)
{
    struct slot *slot = percpu_slot(cpu, percpu_offset(cache->index));
    struct sheaf *main, *spare;

    if (!slot)
        return;
    main = slot_peek(slot);
    if (!main)
        return;
    spare = __atomic_load_n(&slot->spare, __ATOMIC_RELAXED);
    if (main != SHEAF_NONE) {
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
    slot_unpeek(slot, main);
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
            struct sheaf *main = slot->forking == SLOT_TAKEN ? NULL : slot_take(slot);
            if (main) {
                slot->held = main;
                __atomic_store_n(&slot->forking, SLOT_TAKEN, __ATOMIC_RELAXED);
            }
            missing += slot->forking == SLOT_FREE;
        }
    }
    return missing;
}

/* Those that are closed still stay so: the next fork does not wait for them again. */
static __attribute__((cold)) void slot_give_up(void)
{
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++)
        for (unsigned i = 1; percpu_slot(cpu, 0) && i < percpu.slots; i++) {
            struct slot *slot = percpu_slot(cpu, percpu_offset(i));
            if (slot->forking == SLOT_FREE) {
                __atomic_store_n(&slot->forking, SLOT_LOST, __ATOMIC_RELAXED);
                atomic_fetch_add_explicit(&slot_lost, 1, memory_order_relaxed);
            }
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
                __atomic_store_n(&slot->forking, SLOT_FREE, __ATOMIC_RELAXED);
                slot_open(slot, slot->held);
            }
        }
    }
}

/* A slot that another thread had closed, in a child without that thread. */
static void slot_renew(struct slot *slot)
{
    slot->spare = slot->remote = slot->rcu = NULL;
    slot->fill = slot->remote_size = slot->wary = slot->refused = 0;
    slot_open(slot, SHEAF_NONE);
}

/* Without a write: each page that a child writes to is copied. */
static bool slot_is_closed(const struct slot *slot)
{
    return percpu.rseq ? atomic_load_explicit(&slot->main, memory_order_relaxed) == SHEAF_CLOSED
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
                __atomic_store_n(&slot->forking, SLOT_FREE, __ATOMIC_RELAXED);
        }
    }
}
