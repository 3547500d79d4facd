/* SPDX-License-Identifier: MIT */
#include "sheaf/slot.h"

#include "base/report.h"
#include "os/topology.h"
#include "sheaf/barn.h"
#include "sheaf/remote.h"
#include "slab/nodes.h"
#include "slab/stat.h"

#include <string.h>

enum {
    SLOT_FILL_MAX = 510,         /* objects a refill brings at most … */
    SLOT_FILL_BYTES = 64 << 10,  /* … and bytes, unless a sheaf's capacity is more */
    SLOT_FILL_MALLOC = 32 << 10, /* … of malloc's classes: there are many of them */
    SLOT_WARY = 32,              /* refills within the capacity after one that was not used */
    SLOT_TURNS = 4,
};

static struct sheaf *slot_real(struct sheaf *main)
{
    return main == PERCPU_NONE ? NULL : main;
}

/* How many objects a refill may bring at most: more than a sheaf's capacity to who only takes. */
static uint32_t slot_fill_max(const struct stook_cache *cache)
{
    uint32_t most =
        (cache->flags & CACHE_MALLOC ? SLOT_FILL_MALLOC : SLOT_FILL_BYTES) / cache->layout.stride;

    if (most > SLOT_FILL_MAX)
        most = SLOT_FILL_MAX;
    return most > cache_capacity(cache) ? most : cache_capacity(cache);
}

/*
 * How much the next refill brings: a slab's worth first, then twice as much each time as long as
 * nobody frees in between, so what lies here unused is never more than what was taken before.
 */
static uint32_t slot_fill(const struct stook_cache *cache, struct slot *slot)
{
    uint32_t fill = slot->fill * 2, most = slot_fill_max(cache);
    uint32_t capacity = cache_capacity(cache);
    uint32_t least = cache->layout.objects < capacity ? cache->layout.objects : capacity;

    if (slot->wary > 0) {
        slot->wary--;
        most = capacity;
    }
    if (fill < least)
        fill = least;
    if (fill > most)
        fill = most;
    slot->fill = fill;
    return fill;
}

/* ---- what is counted ------------------------------------------------------------------------ */

/*
 * n objects of a call, moved since this thread last said how often it came down to slabs: fast, or
 * slow when slabs were touched for them.  The events are of two enumerators: fast and slow.
 */
static void slot_tally(struct stook_cache *cache, enum stat_event fast, enum stat_event slow,
                       uint32_t n, uint64_t *touches)
{
    uint64_t now = slab_counts.touches;

    stat_add(cache, now == *touches ? fast : slow, n);
    *touches = now;
}

static void slot_tally_alloc(struct stook_cache *cache, uint32_t n, uint64_t *touches)
{
    slot_tally(cache, STAT_alloc_fastpath, STAT_alloc_slowpath, n, touches);
}

static void slot_tally_free(struct stook_cache *cache, uint32_t n, uint64_t *touches)
{
    slot_tally(cache, STAT_free_fastpath, STAT_free_slowpath, n, touches);
}

/* Whether the caller has tried no section on this slot: there are none, or the fast path is closed. */
static bool slot_untried(const struct stook_cache *cache)
{
    return cache_capacity(cache) > 0 && (!percpu.rseq || stat_closed(cache));
}

/* ---- alloc ---------------------------------------------------------------------------------- */

/* Past the sheaves: a closed slot, an unregistered thread, a cache without sheaves. */
static uint32_t slot_alloc_direct(struct stook_cache *cache, int cpu, void **objects, uint32_t n,
                                  bool nospin)
{
    unsigned node = percpu_node(cpu);
    uint64_t touches = slab_counts.touches;
    uint32_t got = 0, more = 0;

    if (cpu < 0 && cache_capacity(cache))
        while (got < n && (objects[got] = barn_take_object(cache, node, nospin)) != NULL)
            got++;
    slot_tally_alloc(cache, got, &touches);
    if (got < n)
        more = nodes_take(cache, node, objects + got, n - got, n - got, nospin);
    got += more;
    if (cpu >= 0 && cache_capacity(cache))
        for (; got < n && (objects[got] = barn_take_object(cache, node, nospin)) != NULL; got++)
            more++;
    slot_tally_alloc(cache, more, &touches);
    return got;
}

/* A sheaf with objects, `recycled` from a barn or new, becomes main if the slot is still empty. */
static void slot_install_full(struct stook_cache *cache, unsigned node, struct sheaf *full,
                              bool recycled, bool nospin)
{
    struct sheaf *empty = NULL, *main;
    struct slot *slot;

    main = percpu_close(percpu_offset(cache->index), &slot, nospin);
    if (main) {
        struct sheaf *spare = slot->spare;
        if (recycled) /* others free what this CPU takes: the next refill is no larger than two */
            slot->fill = cache_capacity(cache);
        if (main->size == 0) {
            if (!spare && main->capacity == cache_capacity(cache))
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
        barn_return(cache, node, full, nospin);
    if (empty)
        barn_put_empty(cache, node, empty, nospin);
}

/* The empty sheaf, or a larger one, to be filled with `fill` objects; NULL without memory. */
static struct sheaf *slot_container(struct stook_cache *cache, unsigned node, struct sheaf *empty,
                                    uint32_t fill, bool nospin)
{
    uint32_t capacity = cache_capacity(cache);
    struct sheaf *over;

    if (empty && empty->capacity != capacity) {
        barn_put_empty(cache, node, empty, nospin);
        empty = NULL;
    }
    if (!empty)
        empty = barn_get_empty(cache, node, nospin);
    if (fill > capacity && (!empty || sheaf_room(empty) < fill)) {
        over = sheaf_alloc_over(capacity, fill, node, nospin);
        stat_add(cache, STAT_sheaf_alloc, over != NULL);
        if (over && empty)
            barn_put_empty(cache, node, empty, nospin);
        if (over)
            return over;
    }
    return empty ? empty : barn_make_empty(cache, node, nospin);
}

/* From the node's barn, else from its home's: sheaves of a memoryless node's objects come home. */
static struct sheaf *slot_get_full(struct stook_cache *cache, unsigned node, struct sheaf **empty,
                                   bool nospin)
{
    struct sheaf *full = barn_get_full(cache, node, empty, nospin);
    unsigned home = topology.home_of_node[node];

    return full || home == node ? full : barn_get_full(cache, home, empty, nospin);
}

/*
 * Objects for a slot with nothing left: from the barn, whole sheaves straight into the array while
 * it holds that many; else from slabs, straight into the array or, where less is wanted than a
 * refill brings, by way of a sheaf, which stays.  Consumes `empty`.
 */
static uint32_t slot_refill(struct stook_cache *cache, unsigned node, struct sheaf *empty,
                            uint32_t fill, void **objects, uint32_t n, bool nospin)
{
    uint64_t touches = slab_counts.touches;
    uint32_t got = 0, k;
    struct sheaf *full;

    while (got < n && (full = slot_get_full(cache, node, &empty, nospin)) != NULL) {
        sheaf_expect(full);
        k = full->size < n - got ? full->size : n - got;
        full->size -= k;
        memcpy(objects + got, &full->object[full->size], k * sizeof(void *));
        got += k;
        if (full->size > 0) {
            slot_install_full(cache, node, full, true, nospin);
            full = NULL;
        }
        if (!empty) {
            empty = full;
        } else if (full) {
            barn_put_empty(cache, node, full, nospin);
        }
    }
    slot_tally_alloc(cache, got, &touches);
    k = n - got - (n - got) % cache->layout.objects;
    if (k > 0) { /* slabs that are consumed whole */
        k = nodes_take(cache, node, objects + got, k, k, nospin);
        got += k;
        stat_add(cache, STAT_sheaf_refill, k);
        stat_add(cache, STAT_alloc_slowpath, k);
    }
    if (got < n && (full = slot_container(cache, node, empty, fill, nospin)) != NULL) {
        uint32_t room = sheaf_room(full);
        if (fill > room)
            fill = room;
        empty = full;
        k = n - got < fill ? n - got : fill;
        full->size =
            nodes_take(cache, node, full->object, k > fill / 2 ? k : fill / 2, fill, nospin);
        stat_add(cache, STAT_sheaf_refill, full->size);
        if (k > full->size)
            k = full->size;
        stat_add(cache, STAT_alloc_slowpath, k);
        full->size -= k;
        memcpy(objects + got, &full->object[full->size], k * sizeof(void *));
        got += k;
        if (full->size > 0) {
            slot_install_full(cache, node, full, false, nospin);
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
    unsigned node = percpu_node(cpu);
    struct sheaf *main, *spare;
    struct slot *slot;
    uint64_t touches = slab_counts.touches;
    uint32_t got = 0, fill;

    if (slot_untried(cache)) {
        got = percpu_pop_bulk(offset, objects, n);
        stat_add(cache, STAT_alloc_cpu_sheaf, got);
    }
    if (got < n)
        percpu_tick(cpu, nospin);
    /* Turns are bounded: others may empty what was filled, and a section may never complete. */
    for (int turn = 0; got < n && turn < SLOT_TURNS && cache_capacity(cache) > 0; turn++) {
        uint32_t more;
        main = percpu_close(offset, &slot, nospin);
        if (!main)
            break;
        spare = slot->spare;
        if (main->size > 0) { /* another CPU by now, or others were here */
            percpu_open(slot, main);
        } else if (spare && spare->size > 0) {
            slot->spare = slot_real(main);
            percpu_open(slot, spare);
            stat_add(cache, STAT_sheaf_swap, 1);
        } else {
            slot->spare = NULL;
            fill = slot_fill(cache, slot);
            percpu_open(slot, main);
            got += slot_refill(cache, node, spare, fill, objects + got, n - got, nospin);
            break;
        }
        more = percpu_pop_bulk(offset, objects + got, n - got);
        got += more;
        slot_tally_alloc(cache, more, &touches);
    }
    if (got < n)
        got += slot_alloc_direct(cache, cpu, objects + got, n - got, nospin);
    return got;
}

/* ---- free ----------------------------------------------------------------------------------- */

/* Sorts a sheaf of several nodes' objects; the slot's remote sheaves are taken out meanwhile. */
static void slot_sort(struct stook_cache *cache, unsigned node, struct sheaf *sheaf, bool nospin)
{
    uintptr_t offset = percpu_offset(cache->index);
    struct sheaf *main, *remote = NULL;
    struct slot *slot;

    main = percpu_close(offset, &slot, nospin);
    if (main) {
        remote = slot->remote;
        slot->remote = NULL;
        percpu_open(slot, main);
    }
    remote_sort(cache, node, sheaf, &remote, nospin);
    main = remote ? percpu_close(offset, &slot, nospin) : NULL;
    if (main) {
        if (!slot->remote) {
            slot->remote_size = remote_size(remote);
            slot->remote = remote;
            remote = NULL;
        }
        percpu_open(slot, main);
    }
    remote_return(cache, remote, nospin);
}

/* A full sheaf leaves the CPU, for the barn its objects belong to; one with room, or NULL. */
static struct sheaf *slot_send(struct stook_cache *cache, unsigned node, struct sheaf *full,
                               bool nospin)
{
    unsigned owner = node, home = topology.home_of_node[node];
    struct sheaf *empty = NULL, *kept;
    bool remote;

    if (topology.memories > 1) {
        int all = remote_owner(full);
        if (all < 0) {
            slot_sort(cache, node, full, nospin);
            return full;
        }
        if ((unsigned)all != home)
            owner = (unsigned)all;
    }
    remote = owner != node;
    /* What a memoryless node's barn has no room for goes on to its home's, where all CPUs of that
     * home look. */
    if (!remote && home != node && !barn_accepts(cache, node) && !barn_declines(cache, home))
        owner = home;
    stat_add(cache, STAT_remote_free, remote ? full->size : 0);
    kept = barn_put_full(cache, owner, full, &empty, nospin);
    if (remote)
        stat_add(cache, kept ? STAT_remote_put_fail : STAT_remote_put, 1);
    kept = barn_flush(cache, owner, kept, !empty, nospin);
    return empty ? empty : kept;
}

/* A sheaf with room becomes main; the slot may have changed since it was found full. */
static void slot_install_empty(struct stook_cache *cache, unsigned node, struct sheaf *empty,
                               bool decline, bool nospin)
{
    struct sheaf *full = NULL, *main;
    struct slot *slot;

    main = percpu_close(percpu_offset(cache->index), &slot, nospin);
    if (main) {
        slot->fill /= 2;
        if (main->size >= main->capacity) {
            if (!decline && !slot->spare && main->capacity == cache_capacity(cache))
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
    if (empty)
        barn_return(cache, node, empty, nospin);
    if (full && (empty = slot_send(cache, node, full, nospin)) != NULL)
        barn_return(cache, node, empty, nospin);
}

/* Room in the slot, whose sheaves were full; `spare` was taken out of it. */
static bool slot_make_room(struct stook_cache *cache, unsigned node, struct sheaf *spare,
                           bool decline, bool nospin)
{
    struct sheaf *empty = spare;

    if (spare && spare->size >= spare->capacity)
        empty = slot_send(cache, node, spare, nospin);
    if (!empty)
        empty = barn_make_empty(cache, node, nospin);
    if (empty) {
        sheaf_expect(empty);
        slot_install_empty(cache, node, empty, decline, nospin);
    }
    return empty != NULL;
}

/*
 * Whoever only took has turned to freeing: what the last refill brought, more than the capacity and
 * never used, goes back first, or the objects that come back warm would be sent away in its stead.
 */
static void slot_trim(struct stook_cache *cache, unsigned node, struct sheaf *over, bool decline,
                      bool nospin)
{
    sheaf_flush(cache, over, nospin);
    slot_install_empty(cache, node, over, decline, nospin);
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
    struct sheaf *empty, *chain = NULL;
    uint32_t put = 0;

    while (n - put >= cache_capacity(cache) && !chain && barn_accepts(cache, node)) {
        uint32_t k;
        empty = barn_make_empty(cache, node, nospin);
        if (!empty)
            break;
        k = n - put < empty->capacity ? n - put : empty->capacity;
        memcpy(empty->object, objects + put, k * sizeof(void *));
        empty->size = k;
        put += k;
        chain = barn_put_full(cache, node, empty, NULL, nospin);
    }
    barn_flush(cache, node, chain, false, nospin);
    return put;
}

/* The rest of a call's objects, NULL entries among them perhaps, straight to their slabs. */
static void slot_free_direct(struct stook_cache *cache, void *const *objects, uint32_t n,
                             bool nospin)
{
    uint32_t real = 0;

    for (uint32_t i = 0; i < n && stat_rows(cache); i++)
        real += objects[i] != NULL;
    stat_add(cache, STAT_free_slowpath, real);
    node_put(cache, objects, n, nospin);
}

/* An object that comes alone and is one of the two that came last gets the report. */
static void slot_expect(const struct stook_cache *cache, struct slot *slot, struct sheaf *main,
                        const void *object)
{
    if (__builtin_expect(!sheaf_repeats(main, object), 1))
        return;
    percpu_open(slot, main);
    slab_report(cache, object, "is freed twice");
}

void slot_free(struct stook_cache *cache, void **objects, uint32_t n, bool nospin)
{
    uintptr_t offset = percpu_offset(cache->index);
    unsigned node = percpu_node(percpu_cpu());
    bool decline = barn_declines(cache, node) && barn_declines(cache, topology.home_of_node[node]);
    struct sheaf *main, *spare;
    struct slot *slot;
    uint64_t touches = slab_counts.touches;
    uint32_t put = 0;

    if (slot_untried(cache)) {
        put = percpu_push_bulk(offset, objects, n);
        stat_add(cache, STAT_free_cpu_sheaf, put);
    }
    for (int turn = 0; put < n && turn < SLOT_TURNS && cache_capacity(cache) > 0; turn++) {
        uint32_t before = put;
        main = percpu_close(offset, &slot, nospin);
        if (!main)
            break;
        spare = slot->spare;
        if (n - put == 1)
            slot_expect(cache, slot, main, objects[put]);
        if (main->size > main->capacity) {
            slot->spare = NULL;
            slot->fill = 0;
            slot->wary = SLOT_WARY;
            percpu_open(slot, spare ? spare : PERCPU_NONE);
            slot_trim(cache, node, main, decline, nospin);
        } else if (main->size < main->capacity) {
            percpu_open(slot, main);
            /* Another CPU by now, or others were here; or an entry is NULL: a sheaf holds none. */
            n = put + slot_strip(objects + put, n - put);
        } else if (spare && spare->size < spare->capacity && !decline) {
            slot->spare = slot_real(main);
            percpu_open(slot, spare);
            stat_add(cache, STAT_sheaf_swap, 1);
        } else if (n - put >= cache_capacity(cache) && topology.memories == 1 &&
                   (decline || barn_accepts(cache, node))) {
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
        slot_tally_free(cache, put - before, &touches);
    }
    if (put < n)
        slot_free_direct(cache, objects + put, n - put, nospin);
}
