/* SPDX-License-Identifier: MIT */
/*
 * slot_alloc.c - the slow half of alloc: from a slot's own sheaves, the barn, the slabs.  slot_free.c has the other
 * half, slot.h what both are about.
 *
 * slot_alloc(), by the states of main and spare.  No main counts as empty.
 *
 *   main                 spare          barn       what happens
 *   closed               any            any        slot_alloc_direct(): one by one from the barn, else from slabs.  Another
 *                                                  thread has the slot, or this one may have none
 *   part, full           any            any        opened: it is another CPU's slot by now, or others were here
 *   empty                full           any        they change places
 *   empty                empty, none    has some   slot_refill_barn(): a full sheaf becomes main, the empty one goes to the barn
 *   empty, more to come  empty, none    has none   slot_refill(): whole slabs go past the slot
 *   empty                empty, none    has none   slot_refill_main(): slabs' objects fill a sheaf, which becomes main
 *   empty                empty, none    no memory  slot_alloc_direct() fails, and the caller reclaims (cache/)
 *
 * After the first two and the fourth a section pops.
 */
#include "sheaf/slot.h"

#include "base/probe.h"
#include "os/topology.h"
#include "percpu/random.h"
#include "sheaf/barn.h"
#include "sheaf/slot_steps.h"
#include "slab/node.h"
#include "slab/stat.h"

enum {
    SLOT_FILL_MAX = 510,         /* objects a refill brings at most … */
    SLOT_FILL_BYTES = 64 << 10,  /* … and bytes, unless a sheaf's capacity is more */
    SLOT_FILL_MALLOC = 32 << 10, /* … of malloc's classes: there are many of them */
};

/*
 * How many objects the next refill brings: a slab's worth first, then twice as many each time, as long as the
 * CPU does not free in between: more than a sheaf's capacity in the end.  So a CPU never has more unused objects than it
 * allocated before.
 */
static uint32_t slot_fill(const struct stook_cache *cache, struct slot *slot)
{
    uint32_t bytes = cache->flags & CACHE_MALLOC ? SLOT_FILL_MALLOC : SLOT_FILL_BYTES;
    uint32_t capacity = cache_capacity(cache), most = bytes / cache->layout.stride;
    uint32_t least = cache->layout.objects < capacity ? cache->layout.objects : capacity;
    uint32_t fill = slot->fill * 2;

    if (most > SLOT_FILL_MAX)
        most = SLOT_FILL_MAX;
    if (most < capacity || slot->wary > 0)
        most = capacity;
    if (slot->wary > 0)
        slot->wary--;
    if (fill < least)
        fill = least;
    if (fill > most)
        fill = most;
    slot->fill = (uint16_t)fill;
    return fill;
}

/* Past the sheaves: a closed slot, an unregistered thread, a cache without sheaves. */
static uint32_t slot_alloc_direct(struct stook_cache *cache, int cpu, void **objects, uint32_t n,
                                  bool nospin)
{
    unsigned node = percpu_node(cpu);
    uint64_t touches = slab_counts.touches;
    uint32_t got = 0, more = 0;

    if (cache_capacity(cache))
        while (got < n && (objects[got] = barn_take_object(cache, node, nospin)) != NULL)
            got++;
    slot_tally_alloc(cache, got, &touches);
    if (got < n)
        more = node_take_near(cache, node, objects + got, n - got, n - got, nospin);
    slot_tally_alloc(cache, more, &touches);
    return got + more;
}

/* A sheaf, `recycled` from a barn or new, becomes main if the slot is still empty. */
static void slot_install(struct stook_cache *cache, unsigned node, struct sheaf *full,
                         bool recycled, bool nospin)
{
    struct sheaf *empty = NULL, *main;
    struct slot *slot;

    if (__builtin_expect(cache->permutation != NULL, 0))
        random_shuffle(full->object, full->size);
    main = slot_close(percpu_offset(cache->index), &slot, nospin);
    if (main) {
        struct sheaf *spare = slot->spare;
        if (recycled) /* others free what this CPU takes: the next refill is no larger than two */
            slot->fill = (uint16_t)cache_capacity(cache);
        if (main->size == 0) {
            if (!spare && main->capacity == cache_capacity(cache))
                slot->spare = slot_real(main);
            else
                empty = slot_real(main);
            main = full;
            full = NULL;
        } else if (!spare && full->size == full->capacity) {
            slot->spare = full;
            full = NULL;
        }
        slot_open(slot, main);
    }
    if (full)
        barn_return(cache, node, full, nospin);
    if (empty)
        barn_put_empty(cache, node, empty, nospin);
}

/* The empty sheaf, or another one in its place, to be filled with `fill` objects; NULL without memory. */
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
        over = sheaf_alloc(capacity, fill, node, nospin);
        stat_add(cache, STAT_sheaf_alloc, over != NULL);
        if (over && empty)
            barn_put_empty(cache, node, empty, nospin);
        if (over)
            return over;
    }
    return empty ? empty : barn_make_empty(cache, node, nospin);
}

/* Whole sheaves of the barn's, while it has some, or its home's, where sheaves of a memoryless node's objects come.  *empty is
 * taken in exchange, or is the one that was emptied. */
static uint32_t slot_refill_barn(struct stook_cache *cache, unsigned node, struct sheaf **empty,
                                 void **objects, uint32_t n, bool nospin)
{
    unsigned home = topology.home_of_node[node];
    uint32_t got = 0;

    while (got < n) {
        struct sheaf *full = barn_get_full(cache, node, empty, nospin);
        if (!full && home != node)
            full = barn_get_full(cache, home, empty, nospin);
        if (!full)
            break;
        sheaf_expect(full);
        got += sheaf_take(full, objects + got, n - got);
        if (full->size > 0)
            slot_install(cache, node, full, true, nospin);
        else if (*empty)
            barn_put_empty(cache, node, full, nospin);
        else
            *empty = full;
    }
    return got;
}

/* Slabs gave `taken` objects, and the caller gets `got` of them. */
static void slot_refilled(struct stook_cache *cache, unsigned node, uint32_t taken, uint32_t got)
{
    stat_add(cache, STAT_sheaf_refill, taken);
    PROBE3(sheaf_refilled, &cache->name[0], taken, node);
    stat_add(cache, STAT_alloc_slowpath, got);
}

/* The last objects of a call come with those of a refill, in a sheaf that becomes main: *empty, or another one. */
static uint32_t slot_refill_main(struct stook_cache *cache, unsigned node, struct sheaf **empty,
                                 uint32_t fill, void **objects, uint32_t n, bool nospin)
{
    struct sheaf *full = *empty = slot_container(cache, node, *empty, fill, nospin);
    uint32_t room, taken, got;

    if (!full)
        return 0;
    room = sheaf_room(full);
    if (fill > room)
        fill = room;
    full->size = node_take_near(cache, node, full->object, n < fill ? n : fill, fill, nospin);
    taken = full->size;
    got = sheaf_take(full, objects, n < fill ? n : fill);
    slot_refilled(cache, node, taken, got);
    if (full->size > 0) {
        slot_install(cache, node, full, false, nospin);
        *empty = NULL;
    }
    return got;
}

/* Objects for a slot without objects: of the barn, else of the slabs.  Consumes `empty`. */
static uint32_t slot_refill(struct stook_cache *cache, unsigned node, struct sheaf *empty,
                            uint32_t fill, void **objects, uint32_t n, bool nospin)
{
    uint64_t touches = slab_counts.touches;
    uint32_t got = slot_refill_barn(cache, node, &empty, objects, n, nospin);
    uint32_t whole = (n - got) / cache->layout.objects * cache->layout.objects, more;

    slot_tally_alloc(cache, got, &touches);
    if (whole > 0) { /* slabs that are consumed whole go through no sheaf */
        more = node_take_near(cache, node, objects + got, whole, whole, nospin);
        slot_refilled(cache, node, more, more);
        got += more;
    }
    if (got < n)
        got += slot_refill_main(cache, node, &empty, fill, objects + got, n - got, nospin);
    if (empty && got == 0) /* kept: a failure gives no memory back that others find */
        slot_install(cache, node, empty, false, nospin);
    else if (empty)
        barn_put_empty(cache, node, empty, nospin);
    return got;
}

uint32_t slot_alloc(struct stook_cache *cache, void **objects, uint32_t n, bool nospin)
{
    uintptr_t offset = percpu_offset(cache->index);
    struct sheaf *main, *spare;
    struct slot *slot;
    uint64_t touches = slab_counts.touches;
    uint32_t got = 0, more, fill;
    int cpu;

    if (slot_untried(cache)) {
        got = slot_pop_bulk(offset, objects, n);
        stat_add(cache, STAT_alloc_cpu_sheaf, got);
    }
    cpu = percpu_cpu();
    if (got < n)
        slot_tick(cpu, nospin);
    /* Turns are bounded: others may empty what was filled, and a section may never complete. */
    for (int turn = 0; got < n && turn < SLOT_TURNS && cache_capacity(cache) > 0; turn++) {
        main = slot_close(offset, &slot, nospin);
        if (!main)
            break;
        spare = slot->spare;
        if (main->size > 0) { /* another CPU by now, or others were here */
            slot_open(slot, main);
        } else if (spare && spare->size > 0) {
            slot->spare = slot_real(main);
            slot_open(slot, spare);
            stat_add(cache, STAT_sheaf_swap, 1);
        } else {
            slot->spare = NULL;
            slot->refused = 0;
            fill = slot_fill(cache, slot);
            if (!spare &&
                (fill > cache_capacity(cache) || main->capacity < cache_capacity(cache))) {
                spare = slot_real(main); /* it may hold the next refill, too */
                main = SHEAF_NONE;
            }
            slot_open(slot, main);
            got +=
                slot_refill(cache, percpu_node(cpu), spare, fill, objects + got, n - got, nospin);
            break;
        }
        more = slot_pop_bulk(offset, objects + got, n - got);
        got += more;
        slot_tally_alloc(cache, more, &touches);
    }
    if (got < n)
        got += slot_alloc_direct(cache, cpu, objects + got, n - got, nospin);
    return got;
}
