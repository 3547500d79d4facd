/* SPDX-License-Identifier: MIT */
#include "sheaf/slot.h"

#include "base/report.h"
#include "os/topology.h"
#include "sheaf/barn.h"
#include "slab/node.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

enum {
    SLOT_DRAIN_MAX = 128, /* slots of one CPU taken under one fence */
    SLOT_FORK_YIELDS = 16,
    SLOT_FORK_NAP = 50000, /* nanoseconds */
};

/* The node whose barn and slabs this thread uses; the CPU may change right after. */
static unsigned slot_node(int cpu)
{
    return cpu < 0 ? (unsigned)__builtin_ctzll(topology.memory_nodes)
                   : topology_home((unsigned)cpu);
}

static struct sheaf *slot_real(struct sheaf *main)
{
    return main == PERCPU_NONE ? NULL : main;
}

/* Past the sheaves: a closed slot, an unregistered thread, a cache without sheaves. */
static void *slot_alloc_direct(struct stook_cache *cache, int cpu, bool nospin)
{
    unsigned node = slot_node(cpu);
    void *object = cpu < 0 && cache->capacity ? barn_take_object(cache, node, nospin) : NULL;

    if (!object && node_take(cache, node, &object, 1, 1, nospin) == 0)
        object = cache->capacity ? barn_take_object(cache, node, nospin) : NULL;
    return object;
}

/* How much the next refill brings: a slab's worth first, then twice as much each time. */
static uint32_t slot_fill(const struct stook_cache *cache, struct slot *slot)
{
    uint32_t fill = slot->fill * 2;

    if (fill < cache->layout.objects)
        fill = cache->layout.objects;
    if (fill > cache->capacity)
        fill = cache->capacity;
    slot->fill = fill;
    return fill;
}

/* Flushes a chain of full sheaves; returns one of them as an empty sheaf if `keep`. */
static struct sheaf *slot_flush(struct stook_cache *cache, unsigned node, struct sheaf *chain,
                                bool keep, bool nospin)
{
    struct sheaf *kept = NULL;

    while (chain) {
        struct sheaf *next = chain->next;
        chain->next = NULL;
        sheaf_flush(cache, chain, nospin);
        if (keep && !kept)
            kept = chain;
        else
            barn_put_empty(cache, node, chain, nospin);
        chain = next;
    }
    return kept;
}

/* A full sheaf that found no place in a slot. */
static void slot_return_full(struct stook_cache *cache, unsigned node, struct sheaf *full,
                             bool nospin)
{
    slot_flush(cache, node, barn_put_full(cache, node, full, NULL, nospin), false, nospin);
}

/* ---- alloc ---------------------------------------------------------------------------------- */

/*
 * Installs a sheaf with objects and takes one; the slot may have changed since it was found empty.
 * Consumes `full`.  NULL: somebody has the slot closed, and an object comes from the slabs.
 */
static void *slot_install_full(struct stook_cache *cache, unsigned node, struct sheaf *full,
                               bool nospin)
{
    uintptr_t offset = percpu_offset(cache->index);
    struct sheaf *empty = NULL, *main;
    struct slot *slot;
    void *object;

    main = percpu_close(offset, &slot, nospin);
    if (!main) {
        object = full->object[--full->size];
        if (full->size > 0)
            slot_return_full(cache, node, full, nospin);
        else
            barn_put_empty(cache, node, full, nospin);
        return object;
    }
    if (main->size > 0) {
        object = main->object[--main->size];
        if (!slot->spare) {
            slot->spare = full;
            full = NULL;
        }
    } else {
        if (!slot->spare)
            slot->spare = slot_real(main);
        else
            empty = slot_real(main);
        main = full;
        full = NULL;
        object = main->object[--main->size];
    }
    percpu_open(slot, main);
    if (full)
        slot_return_full(cache, node, full, nospin);
    if (empty)
        barn_put_empty(cache, node, empty, nospin);
    return object;
}

/* A sheaf with objects: from the barn for an empty one, else refilled from slabs. */
static struct sheaf *slot_fetch_full(struct stook_cache *cache, unsigned node, struct sheaf *empty,
                                     uint32_t fill, bool nospin)
{
    struct sheaf *full = barn_get_full(cache, node, &empty, nospin);

    if (full) {
        if (empty)
            barn_put_empty(cache, node, empty, nospin);
        return full;
    }
    if (!empty)
        empty = sheaf_alloc(cache->capacity, node, nospin);
    if (!empty)
        return NULL;
    if (fill > empty->capacity)
        fill = empty->capacity;
    empty->size = node_take(cache, node, empty->object, 1, fill, nospin);
    if (empty->size > 0)
        return empty;
    barn_put_empty(cache, node, empty, nospin);
    return NULL;
}

void *slot_alloc(struct stook_cache *cache, bool nospin)
{
    uintptr_t offset = percpu_offset(cache->index);
    int cpu = percpu_cpu();
    unsigned node = slot_node(cpu);
    struct sheaf *main, *spare, *full;
    struct slot *slot;
    uint32_t fill;
    void *object;

    if (cache->capacity == 0)
        return slot_alloc_direct(cache, cpu, nospin);
    if (percpu_pop(offset, &object))
        return object;
    main = percpu_close(offset, &slot, nospin);
    if (!main)
        return slot_alloc_direct(cache, cpu, nospin);
    if (main->size > 0) {
        object = main->object[--main->size];
        percpu_open(slot, main);
        return object;
    }
    spare = slot->spare;
    if (spare && spare->size > 0) {
        slot->spare = slot_real(main);
        object = spare->object[--spare->size];
        percpu_open(slot, spare);
        return object;
    }
    slot->spare = NULL;
    fill = slot_fill(cache, slot);
    percpu_open(slot, main);
    full = slot_fetch_full(cache, node, spare, fill, nospin);
    if (!full)
        return slot_alloc_direct(cache, cpu, nospin); /* one object needs no sheaf */
    return slot_install_full(cache, node, full, nospin);
}

/* ---- free ----------------------------------------------------------------------------------- */

/* Installs an empty sheaf and puts the object on it.  Consumes `empty`. */
static void slot_install_empty(struct stook_cache *cache, unsigned node, struct sheaf *empty,
                               void *object, bool decline, bool nospin)
{
    struct sheaf *full = NULL, *main;
    struct slot *slot;

    main = percpu_close(percpu_offset(cache->index), &slot, nospin);
    if (!main) {
        node_put(cache, &object, 1, nospin);
        barn_put_empty(cache, node, empty, nospin);
        return;
    }
    if (main->size < main->capacity) {
        main->object[main->size++] = object;
        if (!slot->spare) {
            slot->spare = empty;
            empty = NULL;
        }
    } else {
        if (!decline && !slot->spare)
            slot->spare = slot_real(main);
        else
            full = slot_real(main);
        main = empty;
        empty = NULL;
        main->object[main->size++] = object;
    }
    percpu_open(slot, main);
    if (full)
        slot_return_full(cache, node, full, nospin);
    if (empty)
        barn_put_empty(cache, node, empty, nospin);
}

void slot_free(struct stook_cache *cache, void *object, bool nospin)
{
    uintptr_t offset = percpu_offset(cache->index);
    int cpu = percpu_cpu();
    unsigned node = slot_node(cpu);
    bool decline = barn_declines(cache, node);
    struct sheaf *main, *spare, *empty = NULL;
    struct slot *slot;

    if (cache->capacity > 0 && percpu_push(offset, object))
        return;
    main = cache->capacity > 0 ? percpu_close(offset, &slot, nospin) : NULL;
    if (!main) {
        node_put(cache, &object, 1, nospin);
        return;
    }
    if (main->size < main->capacity) {
        main->object[main->size++] = object;
        percpu_open(slot, main);
        return;
    }
    spare = slot->spare;
    if (spare && spare->size < spare->capacity && !decline) {
        slot->spare = slot_real(main);
        spare->object[spare->size++] = object;
        percpu_open(slot, spare);
        return;
    }
    slot->spare = NULL;
    percpu_open(slot, main);
    if (spare && spare->size > 0) {
        struct sheaf *chain = barn_put_full(cache, node, spare, &empty, nospin);
        struct sheaf *kept = slot_flush(cache, node, chain, !empty, nospin);
        if (!empty)
            empty = kept;
    } else {
        empty = spare ? spare : barn_get_empty(cache, node, nospin);
    }
    if (!empty)
        empty = sheaf_alloc(cache->capacity, node, nospin);
    if (empty)
        slot_install_empty(cache, node, empty, object, decline, nospin);
    else
        node_put(cache, &object, 1, nospin);
}

/* ---- bulk ----------------------------------------------------------------------------------- */

uint32_t slot_alloc_bulk(struct stook_cache *cache, void **objects, uint32_t n, bool nospin)
{
    uintptr_t offset = percpu_offset(cache->index);
    unsigned node = slot_node(percpu_cpu());
    struct sheaf *main, *spare, *full, *empty = NULL;
    uint32_t got = 0;
    struct slot *slot;

    if (cache->capacity == 0)
        return 0;
    got = percpu_pop_bulk(offset, objects, n);
    if (got < n && (main = percpu_close(offset, &slot, nospin)) != NULL) {
        spare = slot->spare;
        if (main->size == 0 && spare && spare->size > 0) {
            uint32_t k = n - got < spare->size ? n - got : spare->size;
            slot->spare = slot_real(main);
            main = spare;
            main->size -= k;
            memcpy(objects + got, &main->object[main->size], k * sizeof(void *));
            got += k;
        }
        percpu_open(slot, main);
    }
    /* Whole sheaves from the barn straight into the caller's array; the empty one goes back. */
    while (n - got >= cache->capacity &&
           (full = barn_get_full(cache, node, &empty, nospin)) != NULL) {
        if (full->size > n - got) { /* made when the capacity was larger */
            slot_return_full(cache, node, full, nospin);
            break;
        }
        memcpy(objects + got, full->object, full->size * sizeof(void *));
        got += full->size;
        full->size = 0;
        empty = full;
    }
    if (empty)
        barn_put_empty(cache, node, empty, nospin);
    return got;
}

uint32_t slot_free_bulk(struct stook_cache *cache, void **objects, uint32_t n, bool nospin)
{
    uintptr_t offset = percpu_offset(cache->index);
    unsigned node = slot_node(percpu_cpu());
    struct sheaf *main, *spare;
    uint32_t put = 0;
    struct slot *slot;

    (void)node;
    if (cache->capacity == 0)
        return 0;
    put = percpu_push_bulk(offset, objects, n);
    if (put < n && !barn_declines(cache, node) &&
        (main = percpu_close(offset, &slot, nospin)) != NULL) {
        spare = slot->spare;
        if (main->size == main->capacity && spare && spare->size < spare->capacity) {
            uint32_t room = spare->capacity - spare->size, k = n - put < room ? n - put : room;
            slot->spare = slot_real(main);
            main = spare;
            memcpy(&main->object[main->size], objects + put, k * sizeof(void *));
            main->size += k;
            put += k;
        }
        percpu_open(slot, main);
    }
    return put;
}

/* ---- all CPUs ------------------------------------------------------------------------------- */

static void slot_flush_taken(struct stook_cache *cache, struct sheaf *sheaf)
{
    if (sheaf) {
        sheaf_flush(cache, sheaf, false);
        sheaf_free(sheaf, false);
    }
}

static void slot_drain_cpu(struct stook_cache *const *caches, unsigned n, unsigned cpu, bool alone)
{
    struct sheaf *main[SLOT_DRAIN_MAX], *spare[SLOT_DRAIN_MAX];
    unsigned taken = 0;
    bool fenced;

    for (unsigned i = 0; i < n; i++) {
        struct slot *slot = percpu_slot(cpu, percpu_offset(caches[i]->index));
        main[i] = NULL;
        if (!slot || caches[i]->capacity == 0)
            continue;
        /* Closed by its owner, who is just moving pointers; or by a fork, which ends. */
        while (!(main[i] = percpu_take(slot)) && alone)
            sched_yield();
        taken += main[i] != NULL;
    }
    fenced = taken > 0 && (alone || percpu_fence(cpu));
    /* All are open again before the first object is flushed: nothing waits while they are closed. */
    for (unsigned i = 0; i < n; i++) {
        struct slot *slot = percpu_slot(cpu, percpu_offset(caches[i]->index));
        struct sheaf *held = main[i];
        spare[i] = NULL;
        main[i] = NULL;
        if (!held)
            continue;
        if (fenced) {
            main[i] = slot_real(held);
            spare[i] = slot->spare;
            slot->spare = NULL;
            slot->fill = 0;
        }
        percpu_open(slot, fenced ? PERCPU_NONE : held);
    }
    for (unsigned i = 0; i < n; i++) {
        slot_flush_taken(caches[i], main[i]);
        slot_flush_taken(caches[i], spare[i]);
    }
}

void slot_drain(struct stook_cache *const *caches, unsigned n, bool alone)
{
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++)
        if (percpu_slot(cpu, 0) && (alone || percpu_may_fence(cpu)))
            for (unsigned i = 0; i < n; i += SLOT_DRAIN_MAX)
                slot_drain_cpu(caches + i, n - i < SLOT_DRAIN_MAX ? n - i : SLOT_DRAIN_MAX, cpu,
                               alone);
}

static uint32_t slot_size(const struct stook_cache *cache, const struct sheaf *sheaf)
{
    uint32_t size = __atomic_load_n(&sheaf->size, __ATOMIC_RELAXED);

    return size < cache->capacity ? size : cache->capacity;
}

void slot_count(const struct stook_cache *cache, uint64_t *objects, uint64_t *sheaves)
{
    *objects = *sheaves = 0;
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++) {
        struct slot *slot = percpu_slot(cpu, percpu_offset(cache->index));
        struct sheaf *main, *spare;
        if (!slot)
            continue;
        /* With sections the owner may go on meanwhile: sheaves are never unmapped, so a stale
         * pointer reads an old size, or whatever lies there now.  Locks are there to be taken. */
        main = percpu.rseq ? atomic_load_explicit(&slot->main, memory_order_acquire)
                           : percpu_take(slot);
        if (!main || main == PERCPU_CLOSED)
            continue;
        spare = __atomic_load_n(&slot->spare, __ATOMIC_RELAXED);
        if (main != PERCPU_NONE) {
            *objects += slot_size(cache, main);
            ++*sheaves;
        }
        if (spare) {
            *objects += slot_size(cache, spare);
            ++*sheaves;
        }
        if (!percpu.rseq)
            percpu_open(slot, main);
    }
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
