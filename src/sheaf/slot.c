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
    SLOT_FILL_MAX = 510,  /* objects a refill brings at most … */
    SLOT_FILL_BYTES = 256 << 10, /* … and bytes, unless a sheaf's capacity is more */
    SLOT_TURNS = 4,
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

/* How many objects a refill may bring at most: more than a sheaf's capacity to who only takes. */
static uint32_t slot_fill_max(const struct stook_cache *cache)
{
    uint32_t most = SLOT_FILL_BYTES / cache->layout.stride;

    if (most > SLOT_FILL_MAX)
        most = SLOT_FILL_MAX;
    return most > cache->capacity ? most : cache->capacity;
}

/*
 * How much the next refill brings: a slab's worth first, then twice as much each time as long as
 * nobody frees in between, so what lies here unused is never more than what was taken before.
 */
static uint32_t slot_fill(const struct stook_cache *cache, struct slot *slot)
{
    uint32_t fill = slot->fill * 2, most = slot_fill_max(cache);
    uint32_t least = cache->layout.objects < cache->capacity ? cache->layout.objects
                                                             : cache->capacity;

    if (fill < least)
        fill = least;
    if (fill > most)
        fill = most;
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

/* Past the sheaves: a closed slot, an unregistered thread, a cache without sheaves. */
static uint32_t slot_alloc_direct(struct stook_cache *cache, int cpu, void **objects, uint32_t n,
                                  bool nospin)
{
    unsigned node = slot_node(cpu);
    uint32_t got = 0;

    if (cpu < 0 && cache->capacity)
        while (got < n && (objects[got] = barn_take_object(cache, node, nospin)) != NULL)
            got++;
    if (got < n)
        got += node_take(cache, node, objects + got, n - got, n - got, nospin);
    if (cpu >= 0 && cache->capacity)
        while (got < n && (objects[got] = barn_take_object(cache, node, nospin)) != NULL)
            got++;
    return got;
}

/* A sheaf with objects becomes main; the slot may have changed since it was found empty. */
static void slot_install_full(struct stook_cache *cache, unsigned node, struct sheaf *full,
                              bool nospin)
{
    struct sheaf *empty = NULL, *main;
    struct slot *slot;

    main = percpu_close(percpu_offset(cache->index), &slot, nospin);
    if (main) {
        struct sheaf *spare = slot->spare;
        if (main->size == 0) {
            if (!spare)
                slot->spare = slot_real(main);
            else
                empty = slot_real(main);
            main = full;
            full = NULL;
        } else if (!spare) {
            slot->spare = full;
            full = NULL;
        }
        percpu_open(slot, main);
    }
    if (full)
        slot_return_full(cache, node, full, nospin);
    if (empty)
        barn_put_empty(cache, node, empty, nospin);
}

/* The empty sheaf, or a larger one, to be filled with `fill` objects; NULL without memory. */
static struct sheaf *slot_container(struct stook_cache *cache, unsigned node, struct sheaf *empty,
                                    uint32_t fill, bool nospin)
{
    struct sheaf *over;

    if (!empty)
        empty = barn_get_empty(cache, node, nospin);
    if (fill > cache->capacity && (!empty || sheaf_room(empty) < fill)) {
        over = sheaf_alloc_over(cache->capacity, fill, node, nospin);
        if (over && empty)
            barn_put_empty(cache, node, empty, nospin);
        if (over)
            return over;
    }
    return empty ? empty : sheaf_alloc(cache->capacity, node, nospin);
}

/*
 * Objects for a slot with nothing left: from the barn, whole sheaves straight into the array while
 * it holds that many; else from slabs, straight into the array or, where less is wanted than a
 * refill brings, by way of a sheaf, which stays.  Consumes `empty`.
 */
static uint32_t slot_refill(struct stook_cache *cache, unsigned node, struct sheaf *empty,
                            uint32_t fill, void **objects, uint32_t n, bool nospin)
{
    uint32_t got = 0, k;
    struct sheaf *full;

    while (got < n && (full = barn_get_full(cache, node, &empty, nospin)) != NULL) {
        k = full->size < n - got ? full->size : n - got;
        full->size -= k;
        memcpy(objects + got, &full->object[full->size], k * sizeof(void *));
        got += k;
        if (full->size > 0) {
            slot_install_full(cache, node, full, nospin);
            full = NULL;
        }
        if (!empty) {
            empty = full;
        } else if (full) {
            barn_put_empty(cache, node, full, nospin);
        }
    }
    k = n - got - (n - got) % cache->layout.objects;
    if (k > 0) /* slabs that are consumed whole */
        got += node_take(cache, node, objects + got, k, k, nospin);
    if (got < n && (full = slot_container(cache, node, empty, fill, nospin)) != NULL) {
        uint32_t room = sheaf_room(full);
        if (fill > room)
            fill = room;
        empty = full;
        k = n - got < fill ? n - got : fill;
        full->size = node_take(cache, node, full->object, k > fill / 2 ? k : fill / 2, fill, nospin);
        if (k > full->size)
            k = full->size;
        full->size -= k;
        memcpy(objects + got, &full->object[full->size], k * sizeof(void *));
        got += k;
        if (full->size > 0) {
            slot_install_full(cache, node, full, nospin);
            empty = NULL;
        }
    }
    if (empty)
        barn_put_empty(cache, node, empty, nospin);
    return got;
}

uint32_t slot_alloc(struct stook_cache *cache, void **objects, uint32_t n, bool nospin)
{
    uintptr_t offset = percpu_offset(cache->index);
    int cpu = percpu_cpu();
    unsigned node = slot_node(cpu);
    struct sheaf *main, *spare;
    struct slot *slot;
    uint32_t got = 0, fill;

    if (cache->capacity > 0 && !percpu.rseq) /* the caller has tried the section already */
        got = percpu_pop_bulk(offset, objects, n);
    /* Turns are bounded: others may empty what was filled, and a section may never complete. */
    for (int turn = 0; got < n && turn < SLOT_TURNS && cache->capacity > 0; turn++) {
        main = percpu_close(offset, &slot, nospin);
        if (!main)
            break;
        spare = slot->spare;
        if (main->size > 0) { /* another CPU by now, or others were here */
            percpu_open(slot, main);
        } else if (spare && spare->size > 0) {
            slot->spare = slot_real(main);
            percpu_open(slot, spare);
        } else {
            slot->spare = NULL;
            fill = slot_fill(cache, slot);
            percpu_open(slot, main);
            got += slot_refill(cache, node, spare, fill, objects + got, n - got, nospin);
            break;
        }
        got += percpu_pop_bulk(offset, objects + got, n - got);
    }
    if (got < n)
        got += slot_alloc_direct(cache, cpu, objects + got, n - got, nospin);
    return got;
}

/* ---- free ----------------------------------------------------------------------------------- */

/* An empty sheaf becomes main; the slot may have changed since it was found full. */
static void slot_install_empty(struct stook_cache *cache, unsigned node, struct sheaf *empty,
                               bool decline, bool nospin)
{
    struct sheaf *full = NULL, *main;
    struct slot *slot;

    main = percpu_close(percpu_offset(cache->index), &slot, nospin);
    if (main) {
        slot->fill /= 2;
        if (main->size >= main->capacity) {
            if (!decline && !slot->spare)
                slot->spare = slot_real(main);
            else
                full = slot_real(main);
            main = empty;
            empty = NULL;
        } else if (!slot->spare) {
            slot->spare = empty;
            empty = NULL;
        }
        percpu_open(slot, main);
    }
    if (full)
        slot_return_full(cache, node, full, nospin);
    if (empty)
        barn_put_empty(cache, node, empty, nospin);
}

/* Room in the slot, whose sheaves were full; `spare` was taken out of it. */
static bool slot_make_room(struct stook_cache *cache, unsigned node, struct sheaf *spare,
                           bool decline, bool nospin)
{
    struct sheaf *empty = NULL;

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
        slot_install_empty(cache, node, empty, decline, nospin);
    return empty != NULL;
}

/* Closes the gaps that NULL entries leave; how many objects there are. */
static uint32_t slot_strip(void **objects, uint32_t n)
{
    uint32_t real = 0;

    while (real < n && objects[real])
        real++;
    for (uint32_t i = real; i < n; i++)
        if (objects[i])
            objects[real++] = objects[i];
    return real;
}

/* Whole sheaves straight from the array to the barn, while it takes them; how many objects. */
static uint32_t slot_free_sheaves(struct stook_cache *cache, unsigned node, void *const *objects,
                                  uint32_t n, bool nospin)
{
    uint32_t put = 0, capacity = cache->capacity;
    struct sheaf *empty, *chain = NULL;

    while (n - put >= capacity && !chain && barn_accepts(cache, node)) {
        empty = barn_get_empty(cache, node, nospin);
        if (!empty)
            empty = sheaf_alloc(capacity, node, nospin);
        if (!empty)
            break;
        memcpy(empty->object, objects + put, capacity * sizeof(void *));
        empty->size = capacity;
        put += capacity;
        chain = barn_put_full(cache, node, empty, NULL, nospin);
    }
    slot_flush(cache, node, chain, false, nospin);
    return put;
}

void slot_free(struct stook_cache *cache, void **objects, uint32_t n, bool nospin)
{
    uintptr_t offset = percpu_offset(cache->index);
    unsigned node = slot_node(percpu_cpu());
    bool decline = barn_declines(cache, node);
    struct sheaf *main, *spare;
    struct slot *slot;
    uint32_t put = 0;

    if (cache->capacity > 0 && !percpu.rseq)
        put = percpu_push_bulk(offset, objects, n);
    for (int turn = 0; put < n && turn < SLOT_TURNS && cache->capacity > 0; turn++) {
        main = percpu_close(offset, &slot, nospin);
        if (!main)
            break;
        spare = slot->spare;
        if (main->size < main->capacity) {
            percpu_open(slot, main);
            /* Another CPU by now, or others were here; or an entry is NULL: a sheaf holds none. */
            n = put + slot_strip(objects + put, n - put);
        } else if (spare && spare->size < spare->capacity && !decline) {
            slot->spare = slot_real(main);
            percpu_open(slot, spare);
        } else if (n - put >= cache->capacity && (decline || barn_accepts(cache, node))) {
            percpu_open(slot, main);
            if (decline) /* straight to the slabs */
                break;
            n = put + slot_strip(objects + put, n - put);
            put += slot_free_sheaves(cache, node, objects + put, n - put, nospin);
        } else {
            slot->spare = NULL;
            percpu_open(slot, main);
            if (!slot_make_room(cache, node, spare, decline, nospin))
                break;
        }
        if (put < n)
            put += percpu_push_bulk(offset, objects + put, n - put);
    }
    if (put < n)
        node_put(cache, objects + put, n - put, nospin);
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

static uint32_t slot_size(const struct sheaf *sheaf)
{
    uint32_t size = __atomic_load_n(&sheaf->size, __ATOMIC_RELAXED);

    return size < STOOK_SHEAF_CAPACITY_MAX ? size : STOOK_SHEAF_CAPACITY_MAX;
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
            *objects += slot_size(main);
            ++*sheaves;
        }
        if (spare) {
            *objects += slot_size(spare);
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
