/* SPDX-License-Identifier: MIT */
/*
 * slot_free.c - the slow half of free: into a slot's own sheaves, to barns, to slabs.
 *
 * Every way that a free can go; the first that applies:
 *
 *   stook_free(), or inlined      a section pushes it: main has room                      stook/sections.h
 *     the cache has hooks         charged, checked, held back; what is left comes here    hooks.free
 *     it is no object, or free    reported, and refused                                   free_checks()
 *     frees are checked           a section pushes it                                     cache/free.c
 *   slot_free()
 *     no section was tried        pushed: locked mode, or calls are counted
 *     the slot is closed          to its slab: another thread has the slot, or this one may have none
 *     main may have room          slot_free_turn() changes what main and spare are, and a section pushes
 *       both full                 slot_make_room(): one leaves, for room
 *         slot_send()             to the barn of its objects' node, for an empty sheaf
 *           of several nodes      each object to its node's sheaf, and these to their barns (remote.c)
 *           refused               some of its objects to their slabs; it comes back, with room
 *         no memory for a sheaf   slot_empty_main(): main's objects go to their slabs
 *       a bulk free               slot_free_sheaves(): whole sheaves to the barn, past the slot
 *     no room after SLOT_TURNS    to its slab
 *   node_put() (slab/)            each object is checked; the slab's list, the node's lists, the arena
 *
 * slot_free_turn(), by the states of main and spare, and by what barns do with full sheaves.  No main counts as full.
 *
 *   main                     spare    barns
 *   closed                   any      any      the objects go to their slabs
 *   has the object on top    any      any      it is free already: reported
 *   empty, part              any      any      opened: it is another CPU's slot by now, or others were here
 *   beyond its capacity      any      any      the surplus of the last refill goes to its slabs
 *   full, of a capacity      any      any      main goes to its slabs, and the sheaf away; spare becomes main
 *     that the cache had
 *   full                     empty    any      they change places
 *   full, more to come       any      any      opened: a sheaf's worth and more goes past the slot
 *   full, SLOT_SMALL         none     refuse   its objects go to their slabs, and it stays where it is
 *   full                     none     decline  main leaves (slot_make_room())
 *   full                     none     take     main becomes the spare, an empty sheaf main
 *   full                     full     any      the spare leaves, and main becomes the spare; if the barns decline, main is next
 *
 * A barn that refuses a sheaf is asked again when as many objects as the sheaf held have gone to slabs.  Until then
 * (slot.refused) each free that finds no room flushes one step of a sheaf.
 */
#include "sheaf/slot.h"

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
    uint32_t refused; /* of the slot, while a sheaf is out of it */
    bool decline;     /* the barns take no sheaf, so this CPU keeps one, not two */
    bool bulk;        /* of several objects: it flushes whole sheaves */
    bool nospin;
};

/*
 * A full sheaf leaves the CPU, for the barn that its objects belong to: an empty sheaf, or NULL.  If the barn
 * refuses it, part of it goes to the slabs: the same sheaf, with room.
 */
static struct sheaf *slot_send(struct give *give, struct sheaf *full)
{
    struct stook_cache *cache = give->cache;
    unsigned home = topology.home_of_node[give->node], owner = give->node;
    int all = topology.memories > 1 ? sheaf_owner(full) : (int)home;
    unsigned slabs = SHEAF_FLUSH_SLABS;
    uint32_t had = full->size, gone;
    struct sheaf *empty = NULL;
    bool remote = all != (int)home, asks, taken;

    if (all < 0) {
        remote_sort(cache, give->node, give->offset, full, give->nospin);
        return full;
    }
    /* If the barn of a node without memory has no room, the sheaf goes to its home's barn, which all CPUs
     * of that home ask. */
    if (remote)
        owner = (unsigned)all;
    else if (home != owner && !barn_accepts(cache, owner) && !barn_declines(cache, home))
        owner = home;
    if (barn_accepts(cache, owner))
        order_restore(cache, full);
    asks = give->refused > 0 ? barn_accepts(cache, owner) : !barn_refuses(cache, owner);
    taken = asks && full->capacity <= cache_capacity(cache) &&
            barn_put_full(cache, owner, full, &empty, give->nospin);
    if (remote) {
        stat_add(cache, STAT_remote_free, had);
        stat_add(cache, taken ? STAT_remote_put : STAT_remote_put_fail, 1);
    }
    if (taken) {
        give->refused = 0;
        return empty;
    }
    /* This CPU's sheaves keep no objects of other nodes. */
    if (remote || give->bulk) {
        sheaf_flush(cache, full, give->nospin);
    } else {
        sheaf_flush_some(cache, full, &slabs, give->nospin);
        gone = had - full->size;
        if (give->refused == 0)
            give->refused = had;
        give->refused = give->refused > gone ? give->refused - gone : 0;
    }
    if (owner != give->node)
        barn_shed(cache, owner, give->nospin);
    return full;
}

/* A sheaf with room becomes main; the slot may have changed since it was found full. */
static void slot_install_room(struct give *give, struct sheaf *room)
{
    struct stook_cache *cache = give->cache;
    struct sheaf *full = NULL, *main;
    struct slot *slot;

    main = slot_close(give->offset, &slot, give->nospin);
    if (main) {
        slot->fill /= 2;
        slot->refused = give->refused;
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
    if (full && (room = slot_send(give, full)) != NULL)
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
static bool slot_empty_main(struct give *give)
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
        give->refused = 0;
        slot_install_room(give, main);
    }
    return slot_real(main) != NULL;
}

/*
 * Room in the slot, whose sheaves were full; `full`, if there was one, was taken out of it.  False: there is none, and
 * no memory.  `alone`: it was main.
 */
static bool slot_make_room(struct give *give, struct sheaf *full, bool alone)
{
    struct sheaf *room = full;

    if (full) {
        room = slot_send(give, full);
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
    slot_install_room(give, room);
    return true;
}

/* Objects on top of main go to their slabs: all `n` by a bulk free, else SLOT_SMALL at most.  Whether all of them have gone. */
static bool slot_trim(const struct give *give, uint32_t n)
{
    void *out[SLOT_SMALL];
    uint32_t got;

    do {
        got = slot_pop_bulk(give->offset, out, n < SLOT_SMALL ? n : SLOT_SMALL);
        if (got > 0)
            sheaf_flush_array(give->cache, out, got, give->nospin);
        n -= got;
    } while (give->bulk && got > 0 && n > 0);
    return n == 0;
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
    struct sheaf *full;
    uint32_t put = 0;

    while (n - put >= cache_capacity(cache) && barn_accepts(cache, give->node) &&
           (full = barn_make_empty(cache, give->node, give->nospin)) != NULL) {
        full->size = n - put < full->capacity ? n - put : full->capacity;
        memcpy(full->object, objects + put, full->size * sizeof(void *));
        put += full->size;
        barn_return(cache, give->node, full, give->nospin);
    }
    barn_shed(cache, give->node, give->nospin);
    return put;
}

/* What a turn of slot_free() has found, or done. */
enum turn {
    TURN_ROOM,    /* main has room, or has it again */
    TURN_GAPS,    /* … and perhaps not all entries are objects: a section takes no NULL */
    TURN_SLABS,   /* there is no room: the rest goes to the slabs */
    TURN_SHEAVES, /* so many objects that they fill sheaves of their own */
    TURN_FREE,    /* the first object was free already, which was reported */
};

/* Main was found full, or changed meanwhile: closes the slot, and makes room in it.  The table above. */
static enum turn slot_free_turn(struct give *give, void *const *objects, uint32_t n)
{
    struct stook_cache *cache = give->cache;
    struct slot *slot;
    struct sheaf *main = slot_close(give->offset, &slot, give->nospin), *spare;
    uint32_t capacity = cache_capacity(cache), surplus;
    bool alone;

    if (!main)
        return TURN_SLABS;
    spare = slot->spare;
    if (__builtin_expect(sheaf_repeats(main, objects[0], SLOT_SMALL), 0)) {
        slot_open(slot, main);
        wrong_free(cache, objects[0], DEBUG_DOUBLE_FREE);
        return TURN_FREE;
    }
    if (main->size < main->capacity) {
        slot_open(slot, main);
        return TURN_GAPS;
    }
    /* The workload switched from allocating to freeing: what was never used goes, rather than the warm objects. */
    if (main->size > main->capacity) {
        surplus = main->size - main->capacity;
        slot->fill = 0;
        slot->wary = SLOT_WARY;
        slot_open(slot, main);
        return slot_trim(give, surplus) ? TURN_ROOM : TURN_SLABS;
    }
    if (main->capacity > capacity) {
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
    if (n >= capacity && topology.memories == 1 &&
        (give->decline || barn_accepts(cache, give->node))) {
        slot_open(slot, main);
        return give->decline ? TURN_SLABS : TURN_SHEAVES;
    }
    alone = give->decline && !spare;
    /* One section takes the objects of a small sheaf, where its way out of the slot and back takes two closings. */
    if (alone && n == 1 && main->size > 0 && main->size <= SLOT_SMALL && slot->fill == 0 &&
        topology.memories == 1 && barn_refuses(cache, give->node)) {
        slot_open(slot, main);
        (void)slot_trim(give, SLOT_SMALL);
        barn_shed(cache, give->node, give->nospin);
        return TURN_ROOM;
    }
    give->refused = slot->refused;
    slot->spare = NULL;
    slot_open(slot, alone ? SHEAF_NONE : main);
    return slot_make_room(give, alone ? slot_real(main) : spare, alone) ? TURN_ROOM : TURN_SLABS;
}

void slot_free(struct stook_cache *cache, void **objects, uint32_t n, bool nospin)
{
    unsigned node = percpu_node(percpu_cpu());
    struct give give = {.cache = cache,
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
    /* Turns are bounded: others may fill what was emptied, and a section may never complete. */
    for (int turn = 0; put < n && turn < SLOT_TURNS && cache_capacity(cache) > 0; turn++) {
        uint32_t before = put;
        enum turn found = slot_free_turn(&give, objects + put, n - put);
        if (found == TURN_SLABS)
            break;
        if (found == TURN_FREE)
            objects[put] = objects[--n];
        else if (found != TURN_ROOM)
            n = put + slot_strip(objects + put, n - put);
        if (found == TURN_SHEAVES)
            put += slot_free_sheaves(&give, objects + put, n - put);
        if (put < n)
            put += slot_push_bulk(give.offset, objects + put, n - put);
        slot_tally(cache, STAT_free_fastpath, STAT_free_slowpath, put - before, &touches);
    }
    if (put < n) {
        if (stat_is_on(cache)) /* which counts objects, not entries */
            n = put + slot_strip(objects + put, n - put);
        stat_add(cache, STAT_free_slowpath, n - put);
        node_put(cache, objects + put, n - put, nospin);
    }
}
