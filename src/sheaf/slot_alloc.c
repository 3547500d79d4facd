/* SPDX-License-Identifier: MIT */
/*
 * slot.c - the slow half of alloc: from a slot's own sheaves, the barn, the slabs.  slot_free.c has the other
 * half, slot.h what both are about.
 */
#include "sheaf/slot.h"

#include "base/hooks.h"
#include "base/probe.h"
#include "os/topology.h"
#include "percpu/random.h"
#include "sheaf/barn.h"
#include "sheaf/slot_steps.h"
#include "slab/nodes.h"
#include "slab/stat.h"

#include <string.h>

enum {
    SLOT_FILL_MAX = 510,         /* objects a refill brings at most … */
    SLOT_FILL_BYTES = 64 << 10,  /* … and bytes, unless a sheaf's capacity is more */
    SLOT_FILL_MALLOC = 32 << 10, /* … of malloc's classes: there are many of them */
};

/* The most objects that a refill may bring: more than a sheaf's capacity on a CPU that only allocates. */
static uint32_t slot_fill_max(const struct stook_cache *cache)
{
    uint32_t most =
        (cache->flags & CACHE_MALLOC ? SLOT_FILL_MALLOC : SLOT_FILL_BYTES) / cache->layout.stride;

    if (most > SLOT_FILL_MAX)
        most = SLOT_FILL_MAX;
    return most > cache_capacity(cache) ? most : cache_capacity(cache);
}

/*
 * How many objects the next refill brings: a slab's worth first, then twice as many each time, as long as the
 * CPU does not free in between.  So a CPU never has more unused objects than it allocated before.
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

/* Objects that go to the caller and through no sheaf are counted, too (hooks_sample()). */
static inline void slot_sample_own(const struct stook_cache *cache, uint32_t n)
{
    uint32_t token;

    if (n > 0)
        (void)hooks_sample(cache, n, 0, &token);
}

/* An allocation that was to get what a token stands for, if it got something. */
static inline void slot_tell(const struct stook_cache *cache, uint32_t token, uint32_t got)
{
    if (__builtin_expect(token != 0, 0) && got > 0) {
        context_self()->sampled = cache;
        context_self()->token = token;
    }
}

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
    slot_sample_own(cache, got);
    return got;
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
        slot_open(slot, main);
    }
    if (full)
        barn_return(cache, node, full, nospin);
    if (empty)
        barn_put_empty(cache, node, empty, nospin);
}

/*
 * Of the sheaf's objects only the upper `may` are handed over, in a sheaf of their own, since a sample comes next; the
 * others wait as the spare sheaf.  So the order of objects, the barn and its limits are as if there were no samples.
 * Both count as one sheaf until the token is due (slot_join()).  Without memory for that the sample is lost.
 */
static __attribute__((noinline, cold)) void slot_install_short(struct stook_cache *cache,
                                                               unsigned node, struct sheaf *full,
                                                               uint32_t may, bool recycled,
                                                               uint32_t token, bool nospin)
{
    uint32_t capacity = cache_capacity(cache);
    struct sheaf *upper, *main = NULL, *spare = NULL;
    struct slot *slot;

    if (may <= capacity) {
        upper = barn_make_empty(cache, node, nospin);
    } else { /* of a large refill */
        upper = sheaf_alloc_over(capacity, may, node, nospin);
        stat_add(cache, STAT_sheaf_alloc, upper != NULL);
    }
    if (!upper || sheaf_room(upper) < may) { /* the capacity has changed */
        slot_install(cache, node, full, recycled, nospin);
        if (upper)
            barn_put_empty(cache, node, upper, nospin);
        return;
    }
    if (__builtin_expect(cache->permutation != NULL, 0))
        random_shuffle(full->object, full->size);
    upper->size = may;
    full->size -= may;
    memcpy(upper->object, full->object + full->size, may * sizeof(void *));
    main = slot_close(percpu_offset(cache->index), &slot, nospin);
    if (main) {
        if (recycled)
            slot->fill = cache_capacity(cache);
        if (main->size == 0 && (!slot->spare || slot->spare->size == 0)) {
            struct sheaf *empty = slot_real(main);
            spare = slot->spare;
            sheaf_lower(cache, upper, full->size);
            slot->token = token;
            slot->spare = full;
            full = NULL;
            slot_open(slot, upper);
            upper = empty;
        } else {
            slot_open(slot, main);
        }
    }
    if (full)
        barn_return(cache, node, full, nospin);
    if (upper)
        barn_return(cache, node, upper, nospin);
    if (spare)
        barn_put_empty(cache, node, spare, nospin);
}

/* A sheaf with objects, or all that may be handed over of them. */
static void slot_install_full(struct stook_cache *cache, unsigned node, struct sheaf *full,
                              bool recycled, bool nospin)
{
    uint32_t token, may = hooks_sample(cache, 0, full->size, &token);

    if (__builtin_expect(may < full->size, 0))
        slot_install_short(cache, node, full, may, recycled, token, nospin);
    else
        slot_install(cache, node, full, recycled, nospin);
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
 * Objects for a slot without objects.  While the barn has enough, whole sheaves go straight into the array.
 * Otherwise objects of slabs go straight into the array.  If the caller wants fewer than a refill brings,
 * they go through a sheaf, which stays.  Consumes `empty`.  `told`: a token stands for the first object.
 */
static uint32_t slot_refill(struct stook_cache *cache, unsigned node, struct sheaf *empty,
                            uint32_t fill, void **objects, uint32_t n, bool told, bool nospin)
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
        slot_sample_own(cache, k - (told && k > 0));
        told = told && k == 0;
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
        slot_sample_own(cache, k - (told && k > 0));
        told = told && k == 0;
        stat_add(cache, STAT_sheaf_refill, k);
        PROBE3(sheaf_refilled, &cache->name[0], k, node);
        stat_add(cache, STAT_alloc_slowpath, k);
    }
    full = got < n ? empty = slot_container(cache, node, empty, fill, nospin) : NULL;
    if (full) {
        uint32_t room = sheaf_room(full);
        if (fill > room)
            fill = room;
        k = n - got < fill ? n - got : fill;
        full->size = nodes_take(cache, node, full->object, k, fill, nospin);
        stat_add(cache, STAT_sheaf_refill, full->size);
        PROBE3(sheaf_refilled, &cache->name[0], full->size, node);
        if (k > full->size)
            k = full->size;
        stat_add(cache, STAT_alloc_slowpath, k);
        full->size -= k;
        memcpy(objects + got, &full->object[full->size], k * sizeof(void *));
        got += k;
        slot_sample_own(cache, k - (told && k > 0));
        told = told && k == 0;
        if (full->size > 0) {
            slot_install_full(cache, node, full, false, nospin);
            empty = NULL;
        }
    }
    if (empty && got == 0) /* kept: a failure gives no memory back that others find */
        slot_install(cache, node, empty, false, nospin);
    else if (empty)
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
        got = slot_pop_bulk(offset, objects, n);
        stat_add(cache, STAT_alloc_cpu_sheaf, got);
    }
    if (got < n)
        slot_tick(cpu, nospin);
    /* Turns are bounded: others may empty what was filled, and a section may never complete. */
    for (int turn = 0; got < n && turn < SLOT_TURNS && cache_capacity(cache) > 0; turn++) {
        uint32_t more, token = 0;
        main = slot_close(offset, &slot, nospin);
        if (!main)
            break;
        spare = slot->spare;
        if (main->size > 0) { /* another CPU by now, or others were here */
            slot_open(slot, main);
        } else if (spare && spare->size > 0) {
            uint32_t next = 0, may = spare->size;
            bool whole;
            token = slot->token;
            if (__builtin_expect(token != 0, 0) && slot_real(main))
                sheaf_restore(cache, main);
            if (token <= SLOT_TOKEN_BELOW)
                may = 1 + hooks_sample(cache, token == 0, spare->size - 1, &next);
            else if ((may = hooks_sample(cache, 0, may, &next)) == 0) {
                /* Below the place lies another one: the first object is of that place, and goes to its slab. */
                token >>= SLOT_TOKEN_BITS;
                may = 1;
            }
            whole = may >= spare->size; /* others change it as soon as the slot is open */
            slot->token = whole ? next : 0;
            slot->spare = whole ? slot_real(main) : NULL;
            slot_open(slot, whole ? spare : main);
            if (__builtin_expect(!whole, 0))
                slot_install_short(cache, node, spare, may, false, next, nospin);
            stat_add(cache, STAT_sheaf_swap, 1);
        } else {
            slot->spare = NULL;
            token = slot->token;
            slot->token = 0;
            fill = slot_fill(cache, slot);
            if (!spare &&
                (fill > cache_capacity(cache) || main->capacity < cache_capacity(cache))) {
                spare = slot_real(main); /* it may hold the next refill, too */
                main = SHEAF_NONE;
            }
            slot_open(slot, main);
            if (spare && spare->capacity != cache_capacity(cache))
                sheaf_restore(cache, spare); /* it was flushed step by step */
            got +=
                slot_refill(cache, node, spare, fill, objects + got, n - got, token != 0, nospin);
            slot_tell(cache, token, got);
            break;
        }
        more = slot_pop_bulk(offset, objects + got, n - got);
        got += more;
        slot_tell(cache, token, more);
        slot_tally_alloc(cache, more, &touches);
    }
    if (got < n)
        got += slot_alloc_direct(cache, cpu, objects + got, n - got, nospin);
    return got;
}
