/* SPDX-License-Identifier: MIT */
/*
 * slot_free.c - the slow half of free: into a slot's own sheaves, to barns, to slabs.  A full sheaf whose
 * objects are of other nodes is sorted, or goes to the barn of theirs (remote.h).
 */
#include "sheaf/slot.h"

#include "base/hooks.h"
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
    SLOT_SMALL = 16, /* objects of a sheaf that is emptied where it is */
    SLOT_PATIENCE = 64,
};

/* Sorts a sheaf of several nodes' objects; the slot's remote sheaves are taken out meanwhile. */
static void slot_sort(struct stook_cache *cache, unsigned node, struct sheaf *sheaf, bool nospin)
{
    uintptr_t offset = percpu_offset(cache->index);
    struct sheaf *main, *remote = NULL;
    struct slot *slot;

    main = slot_close(offset, &slot, nospin);
    if (main) {
        remote = slot->remote;
        slot->remote = NULL;
        slot_open(slot, main);
    }
    remote_sort(cache, node, sheaf, &remote, nospin);
    main = remote ? slot_close(offset, &slot, nospin) : NULL;
    if (main) {
        if (!slot->remote) {
            slot->remote_size = remote_size(remote);
            slot->remote = remote;
            remote = NULL;
        }
        slot_open(slot, main);
    }
    remote_return(cache, remote, nospin);
}

/*
 * Objects of a sheaf that found no place go to their slabs: all that a bulk call meets, and of other nodes, which
 * this CPU's sheaves do not keep; else one step of them.
 */
static void slot_flush(struct stook_cache *cache, struct sheaf *sheaf, bool whole, bool nospin)
{
    unsigned slabs = SHEAF_FLUSH_SLABS;

    if (!whole) {
        sheaf_flush_some(cache, sheaf, &slabs, nospin);
        return;
    }
    sheaf_flush(cache, sheaf, nospin);
    if (sheaf->capacity != cache_capacity(cache))
        sheaf_restore(cache, sheaf);
}

/*
 * A full sheaf leaves the CPU, for the barn that its objects belong to: an empty sheaf, or NULL.  If the barn
 * refuses it, part of it goes to the slabs: the same sheaf, with room.
 */
static struct sheaf *slot_send(struct stook_cache *cache, unsigned node, struct sheaf *full,
                               bool whole, bool nospin)
{
    unsigned owner = node, home = topology.home_of_node[node];
    struct sheaf *empty = NULL;
    bool remote, taken;

    if (topology.memories > 1) {
        int all = sheaf_owner(full);
        if (all < 0) {
            slot_sort(cache, node, full, nospin);
            return full;
        }
        if ((unsigned)all != home)
            owner = (unsigned)all;
    }
    remote = owner != node;
    /* If the barn of a node without memory has no room, the sheaf goes to its home's barn, which all CPUs
     * of that home ask. */
    if (!remote && home != node && !barn_accepts(cache, node) && !barn_declines(cache, home))
        owner = home;
    stat_add(cache, STAT_remote_free, remote ? full->size : 0);
    if (full->capacity < cache_capacity(cache) && barn_accepts(cache, owner)) {
        sheaf_restore(cache, full); /* from here on it is kept */
        if (!remote && full->size < full->capacity)
            return full;
    }
    if (barn_accepts(cache, owner))
        order_restore(cache, full);
    /* A sheaf that is flushed step by step was refused once, which is enough. */
    taken = (full->capacity == cache_capacity(cache)
                 ? !barn_refuses(cache, owner, nospin)
                 : full->capacity < cache_capacity(cache) && barn_accepts(cache, owner)) &&
            barn_put_full(cache, owner, full, &empty, nospin);
    if (remote)
        stat_add(cache, taken ? STAT_remote_put : STAT_remote_put_fail, 1);
    if (taken)
        return empty;
    slot_flush(cache, full, remote || whole, nospin);
    if (owner != node)
        barn_shed(cache, owner, nospin);
    return full;
}

/*
 * The slot's tokens are dropped: main and what lies below it, which is the spare sheaf, are one sheaf again, as without
 * samples.  Its objects are to be drawn again before they are handed out.  That sheaf, and the other one is empty and
 * the spare one; main as it is, if one sheaf is too small for both.
 */
static struct sheaf *slot_join(struct stook_cache *cache, struct slot *slot, struct sheaf *main)
{
    struct sheaf *below = slot->spare;

    slot->token = 0;
    if (!below || !slot_real(main) || below->size + main->size > sheaf_room(below))
        return main;
    memcpy(below->object + below->size, main->object, main->size * sizeof(void *));
    below->size += main->size;
    main->size = 0;
    sheaf_restore(cache, main);
    slot->spare = main;
    return below;
}

/*
 * Of a sheaf whose lower objects are not to be handed over, since a sample comes first, these go to their slabs.  Its
 * capacity is lowered by as many, so that it has the room that it had.
 */
static __attribute__((noinline, cold)) void slot_cut(struct stook_cache *cache, struct sheaf *sheaf,
                                                     uint32_t may, bool nospin)
{
    uint32_t over = sheaf->size - may, capacity = sheaf->capacity;

    stat_add(cache, STAT_sheaf_flush, over);
    PROBE2(sheaf_flushed, &cache->name[0], over);
    node_put(cache, sheaf->object, over, nospin);
    memmove(sheaf->object, sheaf->object + over, may * sizeof(void *));
    sheaf->size = may;
    __atomic_store_n(&sheaf->capacity, capacity > over + may ? capacity - over : may + 1,
                     __ATOMIC_RELAXED);
}

/* A sheaf with room becomes main, whose objects were drawn, and below which `token` lies; the slot may have changed since
 * it was found full. */
static void slot_install_drawn(struct stook_cache *cache, unsigned node, struct sheaf *empty,
                               uint32_t token, bool decline, bool nospin)
{
    struct sheaf *full = NULL, *main;
    struct slot *slot;

    main = slot_close(percpu_offset(cache->index), &slot, nospin);
    if (main) {
        slot->fill /= 2;
        if (main->size >= main->capacity) {
            if (!slot->spare && ((empty->size > 0) | !decline) &&
                main->capacity <= cache_capacity(cache))
                slot->spare = slot_real(main);
            else
                full = slot_real(main);
            main = empty;
            empty = NULL;
            slot->token = token;
        } else if (!slot->spare) {
            slot->spare = empty;
            empty = NULL;
        }
        slot_open(slot, main);
    }
    if (empty)
        barn_return(cache, node, empty, nospin);
    if (full && (empty = slot_send(cache, node, full, false, nospin)) != NULL)
        barn_return(cache, node, empty, nospin);
}

/* The same of objects that stayed when others of their sheaf went, or of none. */
static void slot_install_empty(struct stook_cache *cache, unsigned node, struct sheaf *empty,
                               bool decline, bool nospin)
{
    uint32_t token = 0, may = empty->size;

    if (may > 0)
        may = hooks_sample(cache, 0, may, &token);
    if (__builtin_expect(may < empty->size, 0))
        slot_cut(cache, empty, may, nospin);
    slot_install_drawn(cache, node, empty, token, decline, nospin);
}

/*
 * An empty sheaf, or NULL.  Where memory is refused that takes calls of the kernel: the next SLOT_PATIENCE
 * frees without a sheaf go without asking.  Racy: a count that is lost makes one call more or less.
 */
static struct sheaf *slot_get_empty(struct stook_cache *cache, unsigned node, bool nospin)
{
    static _Atomic uint32_t patience;
    uint32_t left = atomic_load_explicit(&patience, memory_order_relaxed);
    struct sheaf *empty;

    if (__builtin_expect(left > 0, 0)) {
        atomic_store_explicit(&patience, left - 1, memory_order_relaxed);
        return barn_get_empty(cache, node, nospin);
    }
    empty = barn_make_empty(cache, node, nospin);
    if (!empty && !nospin)
        atomic_store_explicit(&patience, SLOT_PATIENCE, memory_order_relaxed);
    return empty;
}

/*
 * There is no memory for a second sheaf: the slot's own gives its objects to their slabs.  So memory is asked
 * for again after as many frees as a sheaf holds, not at each.  False: the slot has no sheaf.
 */
static bool slot_empty_main(struct stook_cache *cache, unsigned node, bool decline, bool nospin)
{
    struct slot *slot;
    struct sheaf *main = slot_close(percpu_offset(cache->index), &slot, nospin);
    bool full;

    if (!main)
        return false;
    if (__builtin_expect(slot->token != 0, 0) && main->size >= main->capacity)
        main = slot_join(cache, slot, main);
    full = slot_real(main) && main->size >= main->capacity;
    slot_open(slot, full ? SHEAF_NONE : main);
    if (full) {
        slot_flush(cache, main, true, nospin);
        slot_install_empty(cache, node, main, decline, nospin);
    }
    return slot_real(main) != NULL;
}

/*
 * Room in the slot, whose sheaves were full; `spare` was taken out of it.  False: there is none, and no memory.
 * `alone`: it was main.
 */
static bool slot_make_room(struct stook_cache *cache, unsigned node, struct sheaf *spare,
                           bool alone, bool decline, bool whole, bool nospin)
{
    struct sheaf *empty = spare;

    if (spare) {
        empty = slot_send(cache, node, spare, whole, nospin);
        if (empty && empty->size == 0 && decline && !alone) {
            barn_put_empty(cache, node, empty, nospin); /* one sheaf is enough: it is next */
            return true;
        }
        barn_shed(cache, node, nospin);
    }
    if (!empty) {
        empty = slot_get_empty(cache, node, nospin);
        if (empty)
            sheaf_expect(empty);
    }
    if (!empty)
        return slot_empty_main(cache, node, decline, nospin);
    slot_install_empty(cache, node, empty, decline, nospin);
    return true;
}

/*
 * The workload switched from allocating to freeing.  The surplus of the last refill, which was never used,
 * goes back first; else the warm objects that are freed now would be flushed in its place.
 */
static void slot_trim(struct stook_cache *cache, unsigned node, struct sheaf *over, bool decline,
                      bool whole, bool nospin)
{
    slot_flush(cache, over, whole, nospin);
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
    struct sheaf *empty;
    uint32_t put = 0;
    bool taken = true;

    while (n - put >= cache_capacity(cache) && taken && barn_accepts(cache, node)) {
        uint32_t k;
        empty = barn_make_empty(cache, node, nospin);
        if (!empty)
            break;
        k = n - put < empty->capacity ? n - put : empty->capacity;
        memcpy(empty->object, objects + put, k * sizeof(void *));
        empty->size = k;
        put += k;
        taken = barn_put_full(cache, node, empty, NULL, nospin);
    }
    if (!taken) {
        sheaf_flush(cache, empty, nospin);
        barn_put_empty(cache, node, empty, nospin);
        barn_shed(cache, node, nospin);
    }
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

/* An object that comes alone and is one of the two that came last gets the report.  False: it did, the slot is
 * open again, and the program goes on. */
static bool slot_expect(const struct stook_cache *cache, struct slot *slot, struct sheaf *main,
                        const void *object)
{
    if (__builtin_expect(!sheaf_repeats(main, object), 1))
        return true;
    slot_open(slot, main);
    wrong_free(cache, object, DEBUG_DOUBLE_FREE);
    return false;
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
static bool slot_empty_small(struct stook_cache *cache, unsigned node, const void *object,
                             bool nospin)
{
    void *out[SLOT_SMALL];
    uint32_t n;

    if (cache_capacity(cache) > SLOT_SMALL || topology.memories > 1 || !percpu.rseq || nospin ||
        !slot_is_bare(cache) || !barn_refuses(cache, node, nospin))
        return false;
    n = slot_pop_bulk(percpu_offset(cache->index), out, SLOT_SMALL);
    for (uint32_t i = 0; i < n; i++)
        if (__builtin_expect(out[i] == object, 0)) { /* it goes once */
            wrong_free(cache, object, DEBUG_DOUBLE_FREE);
            out[i] = NULL;
        }
    stat_add(cache, STAT_sheaf_flush, n);
    PROBE2(sheaf_flushed, &cache->name[0], n);
    if (n > 0)
        node_put(cache, out, n, nospin);
    barn_shed(cache, node, nospin);
    return n > 0;
}

bool slot_put_back(struct stook_cache *cache, void *object, bool nospin)
{
    struct slot *slot;
    struct sheaf *main = slot_close(percpu_offset(cache->index), &slot, nospin);
    bool put;

    if (!main)
        return false;
    put = slot_real(main) && main->size < sheaf_room(main);
    if (put)
        main->object[main->size++] = object;
    slot_open(slot, main);
    return put;
}

bool slot_hold(struct stook_cache *cache, uint32_t token, bool nospin)
{
    unsigned node = percpu_node(percpu_cpu());
    struct sheaf *empty = cache_capacity(cache) ? barn_get_empty(cache, node, nospin) : NULL;
    struct sheaf *main, *below, *more = NULL;
    struct slot *slot;
    bool held;

    if (!empty && cache_capacity(cache))
        empty = barn_make_empty(cache, node, nospin);
    main = empty ? slot_close(percpu_offset(cache->index), &slot, nospin) : NULL;
    held = main && slot_real(main);
    if (main) {
        if (held) { /* what is freed next lies above the token */
            below = slot->token ? slot_join(cache, slot, main) : main;
            if (below != main) {
                main = slot->spare;
            } else {
                more = slot->spare;
                main = empty;
                empty = NULL;
            }
            slot->spare = below;
            sheaf_lower(cache, main, below->size);
            slot->token = token << SLOT_TOKEN_BITS;
        }
        slot_open(slot, main);
    }
    if (empty)
        barn_put_empty(cache, node, empty, nospin);
    if (more)
        barn_return(cache, node, more, nospin);
    return held;
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
        put = slot_push_bulk(offset, objects, n);
        stat_add(cache, STAT_free_cpu_sheaf, put);
    }
    for (int turn = 0; put < n && turn < SLOT_TURNS && cache_capacity(cache) > 0; turn++) {
        uint32_t before = put;
        if (decline && n == 1 && slot_empty_small(cache, node, objects[0], nospin)) {
            put = slot_push_bulk(offset, objects, n);
            slot_tally_free(cache, put, &touches);
            continue;
        }
        main = slot_close(offset, &slot, nospin);
        if (!main)
            break;
        spare = slot->spare;
        if (n - put == 1 && !slot_expect(cache, slot, main, objects[put]))
            return;
        if (__builtin_expect(slot->token != 0, 0) && main->size >= main->capacity) {
            main = slot_join(cache, slot, main);
            spare = slot->spare;
        }
        if (main->size < main->capacity) {
            slot_open(slot, main);
            /* Another CPU by now, or others were here; or an entry is NULL: a sheaf holds none. */
            n = put + slot_strip(objects + put, n - put);
        } else if (main->size > main->capacity || main->capacity > cache_capacity(cache)) {
            slot->spare = NULL;
            slot->fill = 0;
            slot->wary = SLOT_WARY;
            slot_open(slot, spare ? spare : SHEAF_NONE);
            slot_trim(cache, node, main, decline, n > 1, nospin);
        } else if (spare &&
                   spare->size != spare->capacity) { /* with room; or a surplus, which is next */
            uint32_t token = 0, may = spare->size;
            if (may > 0)
                may = hooks_sample(cache, 0, may, &token);
            if (__builtin_expect(may < spare->size, 0)) {
                slot->spare = NULL;
                slot_open(slot, main);
                slot_cut(cache, spare, may, nospin);
                slot_install_drawn(cache, node, spare, token, decline, nospin);
            } else {
                slot->spare = slot_real(main);
                slot_open(slot, spare);
            }
            stat_add(cache, STAT_sheaf_swap, 1);
        } else if (n - put >= cache_capacity(cache) && topology.memories == 1 &&
                   (decline || barn_accepts(cache, node))) {
            slot_open(slot, main);
            if (decline) /* straight to the slabs */
                break;
            n = put + slot_strip(objects + put, n - put);
            put += slot_free_sheaves(cache, node, objects + put, n - put, nospin);
        } else {
            bool alone = decline && !spare;
            slot->spare = NULL;
            slot_open(slot, alone ? SHEAF_NONE : main);
            if (!slot_make_room(cache, node, alone ? slot_real(main) : spare, alone, decline, n > 1,
                                nospin))
                break;
        }
        if (put < n)
            put += slot_push_bulk(offset, objects + put, n - put);
        slot_tally_free(cache, put - before, &touches);
    }
    if (put < n)
        slot_free_direct(cache, objects + put, n - put, nospin);
}
