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
 *         the barns decline       a spare that came back does not return to the slot: what is left in it goes to the barn,
 *                                 beyond the limit, and a single object to its slab.  Main is next
 *         slot_install()          else what came back, or a new one, becomes main, and main the spare
 *         no memory for a sheaf   slot_trim(): main's objects go to their slabs
 *       a bulk free               slot_free_sheaves(): whole sheaves to the barn, past the slot
 *     a turn ends with TURN_SLABS, or there were SLOT_TURNS: to its slab
 *   node_put() (slab/)            each object is checked; the slab's list, the node's lists, the arena
 *
 * slot_free_turn(), by the states of main and spare, and by what barns do with full sheaves; the first that applies.  No main
 * counts as full.  Barns decline: those of the CPU's node and of its home have a limit of 0, asked once a call; they take no
 * sheaf then.  The CPU's refuses at once: barn_refuses().  The slot is open again before a sheaf goes to a barn or an object
 * to a slab: a turn closes it once, slot_install() once more.
 *
 *   main                     spare    barns
 *   closed                   any      any      the objects go to their slabs
 *   has the object near the  any      any      it is free already: reported
 *     top
 *   empty, part              any      any      opened: it is another CPU's slot by now, or others were here
 *   full, of SLOT_SMALL      none     decline, a single free, one node: slot_trim(): its objects go to their slabs, and it
 *     objects or fewer                refuse   stays where it is
 *   full                     has room any      they change places
 *   full, more to come       any      accept   one node: opened; a sheaf's worth and more goes to the barn, past the slot
 *   full, more to come       any      decline  the same, to slabs
 *   none, without memory     any      any      the objects go to their slabs, SLOT_PATIENCE times
 *   full                     none     decline  main leaves, and comes back with room
 *   full                     none     take     an empty sheaf becomes main, main the spare
 *   full                     full     decline  a single free: the spare leaves for good, main stays alone and full, the object
 *                                              goes to its slab.  A bulk free goes on with main
 *   full                     full     take     the spare leaves; an empty sheaf, or itself with room, becomes main, main the spare
 *
 * A sheaf of a capacity that the cache had does not come back: its objects go to their slabs where it leaves, and a new one
 * becomes main in each of the last four rows.
 *
 * A barn that refuses a sheaf is asked again when as many objects as the sheaf held have gone to slabs.  Until then
 * (slot.refused, of the sheaf that came back) each free that finds no room flushes one step of a sheaf.
 */
#include "sheaf/slot.h"

#include "os/topology.h"
#include "sheaf/barn.h"
#include "sheaf/order.h"
#include "sheaf/slot_steps.h"
#include "slab/node.h"
#include "slab/slab.h"
#include "slab/stat.h"
#include "slab/wrong.h"

#include <string.h>

enum {
    SLOT_SMALL = 16,    /* objects of a sheaf that is emptied where it is */
    SLOT_PATIENCE = 64, /* frees without a sheaf until memory is asked for one again */
};

/*
 * A full sheaf leaves the CPU, for the barn that its objects belong to: an empty sheaf, or NULL.  If the barn
 * refuses it, part of it goes to the slabs: the same sheaf, with room.
 */
static struct sheaf *slot_send(struct slot_call *call, struct sheaf *full)
{
    struct stook_cache *cache = call->cache;
    unsigned home = topology.home_of_node[call->node], owner = call->node;
    unsigned slabs = SHEAF_FLUSH_SLABS;
    int all = sheaf_owner(full);
    struct sheaf *empty;
    uint32_t left, gone, sparse;

    if (full->capacity > cache_capacity(cache)) { /* of one that the cache had: it goes */
        barn_return(cache, owner, full, call->nospin);
        return NULL;
    }
    if (all < 0)
        return remote_sort(call, full);
    if (all != (int)home) {
        stat_add(cache, STAT_remote_free, full->size);
        return remote_send(call, full);
    }
    /* If the barn of a node without memory has no room, the sheaf goes to its home's barn, which all CPUs
     * of that home ask. */
    if (home != owner && !barn_accepts(cache, owner) && !barn_declines(cache, home))
        owner = home;
    if (barn_accepts(cache, owner))
        order_restore(cache, full);
    if ((call->refused == 0 || barn_accepts(cache, owner)) &&
        barn_put_full(cache, owner, full, &empty, call->nospin)) {
        call->refused = 0;
        return empty;
    }
    sparse = barn_sift(cache, owner, full);
    if (call->bulk) {
        sheaf_flush(cache, full, call->nospin);
    } else {
        left = call->refused > 0 ? call->refused : full->size;
        gone =
            sheaf_flush_some(cache, full, sparse > 0 ? sparse : full->size, &slabs, call->nospin);
        call->refused = (uint16_t)(left > gone ? left - gone : 0);
        if (sparse > 0)
            barn_scatters(cache, gone, SHEAF_FLUSH_SLABS - slabs);
    }
    barn_shed(cache, owner, sparse > 0, call->nospin);
    return full;
}

/* The n objects on top of main go to their slabs.  Whether all of them have gone. */
static bool slot_trim(const struct slot_call *call, uint32_t n)
{
    void *out[SLOT_SMALL];
    uint32_t got;

    do {
        got = slot_pop_bulk(call->offset, out, n < SLOT_SMALL ? n : SLOT_SMALL);
        sheaf_flush_array(call->cache, out, got, call->nospin);
        n -= got;
    } while (got > 0 && n > 0);
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

/* Whole sheaves from the array to the barn, while it takes them; how many objects. */
static uint32_t slot_free_sheaves(const struct slot_call *call, void *const *objects, uint32_t n)
{
    struct stook_cache *cache = call->cache;
    struct sheaf *full;
    uint32_t put = 0;

    while (n - put >= cache_capacity(cache) && barn_accepts(cache, call->node) &&
           (full = barn_get_empty(cache, call->node, call->nospin)) != NULL) {
        full->size = n - put < full->capacity ? n - put : full->capacity;
        memcpy(full->object, objects + put, full->size * sizeof(void *));
        put += full->size;
        barn_return(cache, call->node, full, call->nospin);
    }
    barn_shed(cache, call->node, false, call->nospin);
    return put;
}

/* What a turn of slot_free() has found, or done. */
enum turn {
    TURN_ROOM,    /* a push may do, or else another turn */
    TURN_GAPS,    /* … and perhaps not all entries are objects: a section takes no NULL */
    TURN_SLABS,   /* there is no room: the rest goes to the slabs */
    TURN_SHEAVES, /* so many objects that they fill sheaves of their own */
};

/* Makes room in a slot whose sheaves were full.  `full` is the one that was taken out, or NULL; the one left, which is
 * others' to take by now, had `left` objects. */
static enum turn slot_make_room(struct slot_call *call, struct sheaf *full, uint32_t left)
{
    struct stook_cache *cache = call->cache;
    struct sheaf *room = full ? slot_send(call, full) : NULL;

    if (room && call->decline && left > 0) {
        /* Main stays alone, and full: the next free sends it, since one free goes to few slabs. */
        barn_put_rest(cache, call->node, room, false, call->nospin);
        return call->bulk ? TURN_ROOM : TURN_SLABS;
    }
    if (!room && (room = barn_get_empty(cache, call->node, call->nospin)) != NULL)
        sheaf_expect(room);
    if (room) {
        slot_install(call, room);
        return TURN_ROOM;
    }
    /* No memory: main is emptied where it is, so it is asked for again after as many frees as main holds. */
    return left > 0 && slot_trim(call, left) ? TURN_ROOM : TURN_SLABS;
}

/* Main was found full, or changed meanwhile: closes the slot, and makes room in it.  The table above. */
static enum turn slot_free_turn(struct slot_call *call, void **objects, uint32_t n)
{
    struct stook_cache *cache = call->cache;
    struct slot *slot;
    struct sheaf *main = slot_close(call->offset, &slot, call->nospin), *spare;
    uint32_t size;
    bool alone;

    if (!main)
        return TURN_SLABS;
    spare = slot->spare;
    alone = call->decline && !spare;
    if (__builtin_expect(sheaf_repeats(main, objects[0], SLOT_SMALL), 0)) {
        slot_open(slot, main);
        wrong_free(cache, objects[0], DEBUG_DOUBLE_FREE);
        objects[0] = NULL;
        return TURN_GAPS;
    }
    size = main->size;
    if (size < main->capacity) {
        slot_open(slot, main);
        return TURN_GAPS;
    }
    /* One section takes the objects of a small sheaf, where its way out of the slot and back takes two closings. */
    if (alone && !call->bulk && size > 0 && size <= SLOT_SMALL && topology.memories == 1 &&
        barn_refuses(cache, call->node, call->nospin)) {
        slot_open(slot, main);
        barn_shed(cache, call->node, false, call->nospin);
        return slot_trim(call, size) ? TURN_ROOM : TURN_SLABS;
    }
    if (spare && spare->size < spare->capacity) {
        slot_swap(cache, slot, main);
        return TURN_ROOM;
    }
    if (n >= cache_capacity(cache) && topology.memories == 1 &&
        (call->decline || barn_accepts(cache, call->node))) {
        slot_open(slot, main);
        return call->decline ? TURN_SLABS : TURN_SHEAVES;
    }
    if (main == SHEAF_NONE && slot->refused > 0) {
        slot->refused--;
        slot_open(slot, main);
        return TURN_SLABS;
    }
    call->refused = slot->refused;
    if (main == SHEAF_NONE && !call->nospin)
        slot->refused = SLOT_PATIENCE; /* until a sheaf comes into the slot */
    slot->spare = NULL;
    slot_open(slot, alone ? SHEAF_NONE : main);
    return slot_make_room(call, alone ? slot_real(main) : spare, alone ? 0 : size);
}

void slot_free(struct stook_cache *cache, void **objects, uint32_t n, bool nospin)
{
    struct slot_call call;
    uint32_t put = 0;

    if (slot_untried(cache)) {
        put = slot_push_bulk(percpu_offset(cache->index), objects, n);
        stat_add(cache, STAT_free_cpu_sheaf, put);
    }
    call = slot_begin(cache, true, nospin);
    call.bulk = n > 1;
    call.decline =
        barn_declines(cache, call.node) && barn_declines(cache, topology.home_of_node[call.node]);
    /* Turns are bounded: others may fill what was emptied, and a section may never complete. */
    for (int turn = 0; put < n && turn < SLOT_TURNS && cache_capacity(cache) > 0; turn++) {
        uint32_t before = put;
        enum turn found = slot_free_turn(&call, objects + put, n - put);
        if (found == TURN_SLABS)
            break;
        if (found != TURN_ROOM)
            n = put + slot_strip(objects + put, n - put);
        if (found == TURN_SHEAVES)
            put += slot_free_sheaves(&call, objects + put, n - put);
        if (put < n)
            put += slot_push_bulk(call.offset, objects + put, n - put);
        slot_tally(&call, put - before);
    }
    if (put < n) {
        n = put + slot_strip(objects + put, n - put); /* objects are counted, not entries */
        stat_add(cache, STAT_free_slowpath, n - put);
        node_put(cache, objects + put, n - put, nospin);
    }
}
