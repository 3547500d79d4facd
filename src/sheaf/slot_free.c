/* SPDX-License-Identifier: MIT */
/*
 * slot_free.c - the slow half of free: into a slot's own sheaves, to barns, to slabs.  A full sheaf whose
 * objects are of other nodes is sorted, or goes to the barn of theirs (remote.h).
 *
 * A barn that refuses a sheaf is asked again when as many objects as the sheaf held have gone to slabs.  Until then
 * (slot.refused) each free that finds no room flushes one step of a sheaf.
 */
#include "sheaf/slot.h"

#include "base/probe.h"
#include "os/topology.h"
#include "sheaf/barn.h"
#include "sheaf/order.h"
#include "sheaf/remote.h"
#include "sheaf/slot_steps.h"
#include "slab/node.h"
#include "slab/slab.h"
#include "slab/stat.h"
#include "slab/wrong.h"

#include <stdatomic.h>
#include <string.h>

enum {
    SLOT_WARY = 32,  /* refills within the capacity after one that was not used */
    SLOT_SMALL = 16, /* objects of a sheaf that is emptied where it is; of one step of a surplus */
    SLOT_PATIENCE = 64,
};

/* A call of slot_free(), as its steps know it. */
struct give {
    struct stook_cache *cache;
    uintptr_t offset; /* of the slot */
    unsigned node;    /* of this CPU */
    bool decline;     /* the barns take no sheaf, so this CPU keeps one, not two */
    bool bulk;        /* of several objects: it flushes whole sheaves */
    bool nospin;
};

/* Sorts a sheaf of several nodes' objects; the slot's remote sheaves are taken out meanwhile. */
static void slot_sort(const struct give *give, struct sheaf *sheaf)
{
    struct sheaf *main, *remote = NULL;
    struct slot *slot;

    main = slot_close(give->offset, &slot, give->nospin);
    if (main) {
        remote = slot->remote;
        slot->remote = NULL;
        slot_open(slot, main);
    }
    remote_sort(give->cache, give->node, sheaf, &remote, give->nospin);
    main = remote ? slot_close(give->offset, &slot, give->nospin) : NULL;
    if (main) {
        if (!slot->remote) {
            slot->remote = remote;
            remote = NULL;
        }
        slot_open(slot, main);
    }
    remote_return(give->cache, remote, give->nospin);
}

/* One step of a flush.  How many objects go to slabs before a barn is asked again; 0: it may be asked. */
static uint32_t slot_flush_step(const struct give *give, struct sheaf *sheaf, uint32_t refused)
{
    unsigned slabs = SHEAF_FLUSH_SLABS;
    uint32_t before = sheaf->size, gone;

    sheaf_flush_some(give->cache, sheaf, &slabs, give->nospin);
    gone = before - sheaf->size;
    if (refused == 0)
        refused = before;
    return refused > gone ? refused - gone : 0;
}

/* The node whose barn a full sheaf of one node's objects is for. */
static unsigned slot_owner(const struct give *give, unsigned all)
{
    unsigned node = give->node, home = topology.home_of_node[node];

    if (topology.memories > 1 && all != home)
        return all;
    /* If the barn of a node without memory has no room, the sheaf goes to its home's barn, which all CPUs
     * of that home ask. */
    return home != node && !barn_accepts(give->cache, node) && !barn_declines(give->cache, home)
               ? home
               : node;
}

/*
 * A full sheaf leaves the CPU, for the barn that its objects belong to: an empty sheaf, or NULL.  If the barn
 * refuses it, part of it goes to the slabs: the same sheaf, with room.  *refused: of the slot.
 */
static struct sheaf *slot_send(const struct give *give, struct sheaf *full, uint32_t *refused)
{
    struct stook_cache *cache = give->cache;
    int all = topology.memories > 1 ? sheaf_owner(full) : 0;
    struct sheaf *empty = NULL;
    unsigned owner;
    bool remote, asks, taken;

    if (all < 0) {
        slot_sort(give, full);
        return full;
    }
    owner = slot_owner(give, (unsigned)all);
    remote = topology.memories > 1 && (unsigned)all != topology.home_of_node[give->node];
    stat_add(cache, STAT_remote_free, remote ? full->size : 0);
    if (barn_accepts(cache, owner))
        order_restore(cache, full);
    asks = *refused > 0 ? barn_accepts(cache, owner) : !barn_refuses(cache, owner);
    taken = asks && full->capacity <= cache_capacity(cache) &&
            barn_put_full(cache, owner, full, &empty, give->nospin);
    if (remote)
        stat_add(cache, taken ? STAT_remote_put : STAT_remote_put_fail, 1);
    if (taken) {
        *refused = 0;
        return empty;
    }
    /* This CPU's sheaves keep no objects of other nodes. */
    if (remote || give->bulk)
        sheaf_flush(cache, full, give->nospin);
    else
        *refused = slot_flush_step(give, full, *refused);
    if (owner != give->node)
        barn_shed(cache, owner, give->nospin);
    return full;
}

/* A sheaf with room becomes main; the slot may have changed since it was found full. */
static void slot_install_room(const struct give *give, struct sheaf *room, uint32_t refused)
{
    struct stook_cache *cache = give->cache;
    struct sheaf *full = NULL, *main;
    struct slot *slot;

    main = slot_close(give->offset, &slot, give->nospin);
    if (main) {
        slot->fill /= 2;
        slot->refused = (uint16_t)refused;
        if (main->size >= main->capacity) {
            if (!slot->spare && (room->size > 0 || !give->decline) &&
                main->size == main->capacity && main->capacity <= cache_capacity(cache))
                slot->spare = slot_real(main);
            else
                full = slot_real(main);
            main = room;
            room = NULL;
        } else if (!slot->spare && room->size == 0) {
            slot->spare = room;
            room = NULL;
        }
        slot_open(slot, main);
    }
    if (room)
        barn_return(cache, give->node, room, give->nospin);
    if (full && (room = slot_send(give, full, &refused)) != NULL)
        barn_return(cache, give->node, room, give->nospin);
}

/*
 * An empty sheaf, or NULL.  Where memory is refused that takes calls of the kernel: the next SLOT_PATIENCE
 * frees without a sheaf go without asking.  Racy: a count that is lost makes one call more or less.
 */
static struct sheaf *slot_get_empty(const struct give *give)
{
    static _Atomic uint32_t patience;
    uint32_t left = atomic_load_explicit(&patience, memory_order_relaxed);
    struct sheaf *empty;

    if (__builtin_expect(left > 0, 0)) {
        atomic_store_explicit(&patience, left - 1, memory_order_relaxed);
        return barn_get_empty(give->cache, give->node, give->nospin);
    }
    empty = barn_make_empty(give->cache, give->node, give->nospin);
    if (empty)
        sheaf_expect(empty);
    else if (!give->nospin)
        atomic_store_explicit(&patience, SLOT_PATIENCE, memory_order_relaxed);
    return empty;
}

/*
 * There is no memory for a second sheaf: the slot's own gives its objects to their slabs.  So memory is asked
 * for again after as many frees as a sheaf holds, not at each.  False: the slot has no sheaf.
 */
static bool slot_empty_main(const struct give *give)
{
    struct slot *slot;
    struct sheaf *main = slot_close(give->offset, &slot, give->nospin);
    bool full;

    if (!main)
        return false;
    full = slot_real(main) && main->size >= main->capacity;
    slot_open(slot, full ? SHEAF_NONE : main);
    if (full) {
        sheaf_flush(give->cache, main, give->nospin);
        slot_install_room(give, main, 0);
    }
    return slot_real(main) != NULL;
}

/*
 * Room in the slot, whose sheaves were full; `full`, if there was one, was taken out of it.  False: there is none, and
 * no memory.  `alone`: it was main.
 */
static bool slot_make_room(const struct give *give, struct sheaf *full, bool alone,
                           uint32_t refused)
{
    struct sheaf *room = full;

    if (full) {
        room = slot_send(give, full, &refused);
        if (room && room->size == 0 && give->decline && !alone) {
            barn_put_empty(give->cache, give->node, room, give->nospin); /* main is next, alone */
            return true;
        }
        barn_shed(give->cache, give->node, give->nospin);
    }
    if (!room)
        room = slot_get_empty(give);
    if (!room)
        return slot_empty_main(give);
    slot_install_room(give, room, refused);
    return true;
}

/* Up to SLOT_SMALL objects on top of main go to their slabs, except `object`, which is reported.  How many. */
static uint32_t slot_put_top(const struct give *give, uint32_t most, const void *object)
{
    void *out[SLOT_SMALL];
    uint32_t n = slot_pop_bulk(give->offset, out, most < SLOT_SMALL ? most : SLOT_SMALL);

    for (uint32_t i = 0; i < n; i++)
        if (__builtin_expect(out[i] == object, 0)) { /* it goes once */
            wrong_free(give->cache, object, DEBUG_DOUBLE_FREE);
            out[i] = NULL;
        }
    if (n > 0) {
        stat_add(give->cache, STAT_sheaf_flush, n);
        PROBE2(sheaf_flushed, &give->cache->name[0], n);
        node_put(give->cache, out, n, give->nospin);
    }
    return n;
}

/*
 * The workload switched from allocating to freeing.  The surplus of the last refill, which was never used,
 * goes back first; else the warm objects that are freed now would be flushed in its place.  A single call gives back a
 * part of it.  Whether all of it has gone.
 */
static bool slot_trim(const struct give *give, uint32_t surplus, const void *object)
{
    uint32_t n;

    do {
        n = slot_put_top(give, surplus, object);
        surplus -= n;
    } while (give->bulk && n > 0 && surplus > 0);
    return surplus == 0;
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
static uint32_t slot_free_sheaves(const struct give *give, void *const *objects, uint32_t n)
{
    struct stook_cache *cache = give->cache;
    struct sheaf *empty;
    uint32_t put = 0;
    bool taken = true;

    while (n - put >= cache_capacity(cache) && taken && barn_accepts(cache, give->node)) {
        uint32_t k;
        empty = barn_make_empty(cache, give->node, give->nospin);
        if (!empty)
            break;
        k = n - put < empty->capacity ? n - put : empty->capacity;
        memcpy(empty->object, objects + put, k * sizeof(void *));
        empty->size = k;
        put += k;
        taken = barn_put_full(cache, give->node, empty, NULL, give->nospin);
    }
    if (!taken) {
        sheaf_flush(cache, empty, give->nospin);
        barn_put_empty(cache, give->node, empty, give->nospin);
        barn_shed(cache, give->node, give->nospin);
    }
    return put;
}

/* Racy: this CPU has one sheaf, and its last refill is long ago. */
__attribute__((no_sanitize("thread"))) static bool slot_is_bare(const struct stook_cache *cache)
{
    int cpu = percpu_cpu();
    const struct slot *slot = cpu >= 0 ? percpu_slot_at(cpu, percpu_offset(cache->index)) : NULL;

    return slot && !slot->spare && slot->fill == 0;
}

/*
 * A small sheaf is full, of a cache whose barn keeps none: its objects go to their slabs, and it stays where it is.
 * That takes one section, where the sheaf's way out of the slot and back takes two closings.
 */
static bool slot_empty_small(const struct give *give, const void *object)
{
    if (cache_capacity(give->cache) > SLOT_SMALL || topology.memories > 1 || !percpu.rseq ||
        give->nospin || !slot_is_bare(give->cache) || !barn_refuses(give->cache, give->node))
        return false;
    if (slot_put_top(give, SLOT_SMALL, object) == 0)
        return false;
    barn_shed(give->cache, give->node, give->nospin);
    return true;
}

/* What a turn of slot_free() has found, or done. */
enum turn {
    TURN_ROOM,    /* main has room, or has it again */
    TURN_GAPS,    /* … and perhaps not all entries are objects: a section takes no NULL */
    TURN_SLABS,   /* there is no room: the rest goes to the slabs */
    TURN_SHEAVES, /* so many objects that they fill sheaves of their own */
    TURN_NOTHING, /* the object was free already, which was reported */
};

/* Main was found full, or changed meanwhile: closes the slot, and makes room in it. */
static enum turn slot_free_turn(const struct give *give, void *const *objects, uint32_t n)
{
    struct stook_cache *cache = give->cache;
    struct slot *slot;
    struct sheaf *main = slot_close(give->offset, &slot, give->nospin), *spare;
    uint32_t surplus, refused;
    bool alone;

    if (!main) /* the slot is closed, or this thread has none */
        return TURN_SLABS;
    spare = slot->spare;
    /* An object that comes alone and is one of the two that came last. */
    if (n == 1 && __builtin_expect(sheaf_repeats(main, objects[0]), 0)) {
        slot_open(slot, main);
        wrong_free(cache, objects[0], DEBUG_DOUBLE_FREE);
        return TURN_NOTHING;
    }
    if (main->size <
        main->capacity) { /* another CPU by now, or others were here; or an entry is NULL */
        slot_open(slot, main);
        return TURN_GAPS;
    }
    if (main->size > main->capacity) {
        surplus = main->size - main->capacity;
        slot->fill = 0;
        slot->wary = SLOT_WARY;
        slot_open(slot, main);
        return slot_trim(give, surplus, objects[0]) ? TURN_ROOM : TURN_SLABS;
    }
    if (main->capacity > cache_capacity(cache)) { /* of a cache that has shrunk */
        slot->spare = NULL;
        slot_open(slot, spare ? spare : SHEAF_NONE);
        sheaf_flush(cache, main, give->nospin);
        barn_put_empty(cache, give->node, main, give->nospin);
        return TURN_ROOM;
    }
    if (spare && spare->size < spare->capacity) {
        slot->spare = slot_real(main);
        slot_open(slot, spare);
        stat_add(cache, STAT_sheaf_swap, 1);
        return TURN_ROOM;
    }
    if (n >= cache_capacity(cache) && topology.memories == 1 &&
        (give->decline || barn_accepts(cache, give->node))) {
        slot_open(slot, main);
        return give->decline ? TURN_SLABS : TURN_SHEAVES;
    }
    alone = give->decline && !spare;
    refused = slot->refused;
    slot->spare = NULL;
    slot_open(slot, alone ? SHEAF_NONE : main);
    return slot_make_room(give, alone ? slot_real(main) : spare, alone, refused) ? TURN_ROOM
                                                                                 : TURN_SLABS;
}

void slot_free(struct stook_cache *cache, void **objects, uint32_t n, bool nospin)
{
    unsigned node = percpu_node(percpu_cpu());
    const struct give give = {.cache = cache,
                              .offset = percpu_offset(cache->index),
                              .node = node,
                              .decline = barn_declines(cache, node) &&
                                         barn_declines(cache, topology.home_of_node[node]),
                              .bulk = n > 1,
                              .nospin = nospin};
    uint64_t touches = slab_counts.touches;
    uint32_t put = 0;

    if (slot_untried(cache)) {
        put = slot_push_bulk(give.offset, objects, n);
        stat_add(cache, STAT_free_cpu_sheaf, put);
    }
    for (int turn = 0; put < n && turn < SLOT_TURNS && cache_capacity(cache) > 0; turn++) {
        uint32_t before = put;
        if (!(give.decline && n == 1 && slot_empty_small(&give, objects[0]))) {
            enum turn found = slot_free_turn(&give, objects + put, n - put);
            if (found == TURN_NOTHING)
                return;
            if (found == TURN_SLABS)
                break;
            if (found != TURN_ROOM)
                n = put + slot_strip(objects + put, n - put);
            if (found == TURN_SHEAVES)
                put += slot_free_sheaves(&give, objects + put, n - put);
        }
        if (put < n)
            put += slot_push_bulk(give.offset, objects + put, n - put);
        slot_tally_free(cache, put - before, &touches);
    }
    if (put < n) {
        if (stat_rows(cache)) /* which counts objects, not entries */
            n = put + slot_strip(objects + put, n - put);
        stat_add(cache, STAT_free_slowpath, n - put);
        node_put(cache, objects + put, n - put, nospin);
    }
}
