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
 *   empty                empty, none    has none   slot_refill(): slabs' objects fill a sheaf, which becomes main
 *   empty                empty, none    no memory  slot_alloc_direct() fails, and the caller reclaims (cache/)
 *
 * After the first two and the fourth a section pops.
 */
#include "sheaf/slot.h"

#include "base/probe.h"
#include "percpu/random.h"
#include "sheaf/barn.h"
#include "sheaf/slot_steps.h"
#include "slab/node.h"
#include "slab/stat.h"

/* Past the sheaves: a closed slot, an unregistered thread, a cache without sheaves. */
static uint32_t slot_alloc_direct(struct slot_call *call, void **objects, uint32_t n)
{
    struct stook_cache *cache = call->cache;
    uint32_t got = 0, more = 0;

    call->touches = slab_counts.touches;
    while (got < n && (objects[got] = barn_take_object(cache, call->node, call->nospin)) != NULL)
        got++;
    slot_tally(call, got);
    if (got < n)
        more = node_take_near(cache, call->node, objects + got, n - got, n - got, call->nospin);
    slot_tally(call, more);
    return got + more;
}

void slot_install(const struct slot_call *call, struct sheaf *sheaf)
{
    struct stook_cache *cache = call->cache;
    struct sheaf *out = sheaf, *main;
    struct slot *slot;

    if (__builtin_expect(cache->permutation != NULL, 0) && !call->frees)
        random_shuffle(sheaf->object, sheaf->size);
    main = slot_close(call->offset, &slot, call->nospin);
    if (main) {
        slot->refused = call->refused;
        if (call->frees ? main->size >= main->capacity : main->size == 0) {
            out = slot_real(main);
            main = sheaf;
        }
        /* The cache has grown: one larger sheaf takes the place of the smaller one, which would never be empty. */
        if (out && out != sheaf && sheaf->size + out->capacity < sheaf->capacity)
            sheaf->size += sheaf_take(out, sheaf->object + sheaf->size, out->size);
        if (out && !slot->spare && (out->size == 0 || out->size == out->capacity) &&
            out->capacity == cache_capacity(cache)) {
            slot->spare = out;
            out = NULL;
        }
        slot_open(slot, main);
    }
    if (out)
        barn_return(cache, call->node, out, call->nospin);
}

/* Whole sheaves of the barn's, while it has some.  *empty is taken in exchange, or is the one that was emptied. */
static uint32_t slot_refill_barn(struct slot_call *call, struct sheaf **empty, void **objects,
                                 uint32_t n)
{
    struct stook_cache *cache = call->cache;
    struct sheaf *full;
    uint32_t got = 0;

    while (got < n && (full = barn_get_full(cache, call->node, empty, call->nospin)) != NULL) {
        sheaf_expect(full);
        got += sheaf_take(full, objects + got, n - got);
        if (full->size > 0)
            slot_install(call, full);
        else if (*empty)
            barn_put_empty(cache, call->node, full, call->nospin);
        else
            *empty = full;
    }
    return got;
}

/* Slabs gave `taken` objects, and the caller gets `got` of them. */
static void slot_refilled(const struct slot_call *call, uint32_t taken, uint32_t got)
{
    stat_add(call->cache, STAT_sheaf_refill, taken);
    PROBE3(sheaf_refilled, &call->cache->name[0], taken, call->node);
    stat_add(call->cache, STAT_alloc_slowpath, got);
}

/*
 * Objects for a slot without objects: of the barn, else of the slabs.  The last ones come with those of a refill, in a sheaf
 * that becomes main: `sheaf`, which is empty or NULL, or another one in its place.
 */
static uint32_t slot_refill(struct slot_call *call, struct sheaf *sheaf, void **objects, uint32_t n)
{
    struct stook_cache *cache = call->cache;
    uint32_t got = slot_refill_barn(call, &sheaf, objects, n);
    uint32_t whole = (n - got) / cache->layout.objects * cache->layout.objects, fill, more;

    slot_tally(call, got);
    if (whole > 0) { /* slabs that are consumed whole go through no sheaf */
        more = node_take_near(cache, call->node, objects + got, whole, whole, call->nospin);
        slot_refilled(call, more, more);
        got += more;
    }
    if (sheaf && sheaf->capacity != cache_capacity(cache)) {
        barn_put_empty(cache, call->node, sheaf, call->nospin);
        sheaf = NULL;
    }
    if (got < n && !sheaf)
        sheaf = barn_get_empty(cache, call->node, call->nospin);
    if (got < n && sheaf) {
        fill = sheaf->capacity;
        more = n - got < fill ? n - got : fill;
        fill = node_take_near(cache, call->node, sheaf->object, more, fill, call->nospin);
        sheaf->size = fill;
        more = sheaf_take(sheaf, objects + got, more);
        slot_refilled(call, fill, more);
        got += more;
    }
    /* It is kept where nothing was got: a failure gives no memory back that others find. */
    if (sheaf && (sheaf->size > 0 || got == 0))
        slot_install(call, sheaf);
    else if (sheaf)
        barn_put_empty(cache, call->node, sheaf, call->nospin);
    return got;
}

uint32_t slot_alloc(struct stook_cache *cache, void **objects, uint32_t n, bool nospin)
{
    struct slot_call call;
    struct sheaf *main, *spare, *worn;
    struct slot *slot;
    uint32_t got = 0, more;

    if (slot_untried(cache)) {
        got = slot_pop_bulk(percpu_offset(cache->index), objects, n);
        stat_add(cache, STAT_alloc_cpu_sheaf, got);
    }
    call = slot_begin(cache, false, nospin);
    if (got < n)
        slot_tick(percpu_cpu(), nospin);
    /* Turns are bounded: others may empty what was filled, and a section may never complete. */
    for (int turn = 0; got < n && turn < SLOT_TURNS && cache_capacity(cache) > 0; turn++) {
        main = slot_close(call.offset, &slot, nospin);
        if (!main)
            break;
        spare = slot->spare;
        if (main->size > 0) { /* another CPU by now, or others were here */
            slot_open(slot, main);
        } else if (spare && spare->size > 0) {
            worn = main->capacity < cache_capacity(cache) ? slot_real(main) : NULL;
            slot_swap(cache, slot, worn ? SHEAF_NONE : main);
            if (worn) /* the cache has grown: the free that finds no spare makes a larger one */
                barn_put_empty(cache, call.node, worn, nospin);
        } else {
            slot->spare = NULL;
            slot->refused = 0;
            slot_open(slot, main);
            got += slot_refill(&call, spare, objects + got, n - got);
            break;
        }
        more = slot_pop_bulk(call.offset, objects + got, n - got);
        got += more;
        slot_tally(&call, more);
    }
    if (got < n)
        got += slot_alloc_direct(&call, objects + got, n - got);
    return got;
}
