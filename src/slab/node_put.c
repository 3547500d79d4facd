/* SPDX-License-Identifier: MIT */
/*
 * node_put.c - bringing objects back to the slabs of a node: sorted into lists or one by one, and published.
 */
#include "slab/detached.h"

#include "base/report.h"
#include "slab/mark.h"
#include "slab/node_steps.h"

enum { NODE_APART = 16 }; /* objects of different slabs that are brought back one by one */

/* Whether a push changes what lists the slab is on. */
static bool node_needs_lock(uint64_t word, uint64_t pushed)
{
    return !(slab_flags(word) & SLAB_PENDING) &&
           (slab_head(word) == SLAB_NONE || slab_inuse(pushed) == 0);
}

/* The last object of a list that was linked before: what is behind a damaged link stays out of use. */
static void node_find_tail(struct stook_cache *cache, struct detached *list, uint32_t objects)
{
    list->tail = list->head;
    for (uint32_t i = 1; i < list->count; i++) {
        uint32_t next = slab_follow(cache, list->slab, list->tail, objects);
        if (next == SLAB_NONE)
            list->count = (uint16_t)i;
        else
            list->tail = (uint16_t)next;
    }
}

/* The word after a push, and the links for it. */
static uint64_t node_prepare(struct stook_cache *cache, const struct detached_set *set,
                             struct detached *list, uint64_t word, bool locked)
{
    struct slab *slab = list->slab;
    uint64_t pushed;

    if (list->tail == SLAB_NONE && slab_head(word) != SLAB_NONE) /* another thread freed to it */
        node_find_tail(cache, list, slab_objects(cache, word));
    pushed = node_pushed(cache, slab, word, list->head, list->count);
    if (locked && slab_inuse(pushed) == 0 && !(slab_flags(word) & SLAB_PENDING)) {
        /* All objects are free, and no thread can take from the slab: its links mean nothing, except as marks. */
        STOOK_ASSERT(!STOOK_ENCODED || !mark_is_out(cache, slab, list->head));
        slab_counts.whole += !list->linked;
        return slab_word(SLAB_NONE, 0, slab_seq(pushed), slab_flags(pushed));
    }
    if (!list->linked)
        detached_link(cache, set, list);
    if (list->tail != SLAB_NONE)
        slab_set_link(cache, slab, list->tail, slab_head(word)); /* again if that changes */
    return pushed;
}

/*
 * The push that needs no lock: onto a slab that stays partial, or is pending.  See slab.h for which changes need the
 * lock.  True: this one does, and nothing is done; or with `defer` it is done all the same, and the slab is pending.
 */
static bool node_push(struct stook_cache *cache, const struct detached_set *set,
                      struct detached *list, bool defer)
{
    struct slab *slab = list->slab;
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed), pushed;
    bool needs;

    do {
        pushed = node_pushed(cache, slab, word, list->head, list->count);
        needs = node_needs_lock(word, pushed);
        if (needs && !defer)
            return true;
        pushed = node_prepare(cache, set, list, word, false);
        if (needs)
            pushed |= (uint64_t)SLAB_PENDING << 56;
    } while (!node_swap(cache, slab, &word, pushed));
    return needs;
}

/* The push under the lock.  The slab, if the caller has to give it back when it has dropped the lock. */
static struct slab *node_push_locked(struct stook_cache *cache, struct node *node,
                                     const struct detached_set *set, struct detached *list,
                                     bool nospin) LOCK_NEEDS(node->lock);
static struct slab *node_push_locked(struct stook_cache *cache, struct node *node,
                                     const struct detached_set *set, struct detached *list,
                                     bool nospin)
{
    struct slab *slab = list->slab;
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed), pushed;

    do
        pushed = node_prepare(cache, set, list, word, true);
    while (!node_swap(cache, slab, &word, pushed));
    return node_update_lists(cache, node, slab, pushed, nospin);
}

/* Publishes a detached list.  `many`: threads that need objects during a fork find some in this slab. */
LOCK_UNCHECKED static void node_publish(struct stook_cache *cache, const struct detached_set *set,
                                        struct detached *list, bool many, bool nospin)
{
    struct slab *slab = list->slab;
    struct node *node = node_of(cache, slab);
    uint64_t word;

    if (!node_push(cache, set, list, false))
        return;
    word = atomic_load_explicit(&slab->state, memory_order_relaxed);
    /* Giving a slab back takes the arena's lock, which is not only tried. */
    if (!(nospin && slab_inuse(word) <= list->count) && node_lock(cache, node, nospin))
        node_drop(cache, node, node_push_locked(cache, node, set, list, nospin));
    else if (node_push(cache, set, list, true))
        node_pend(cache, node, slab, many);
}

/*
 * Publishes the lists of a set.  Those that need a node's lock come last, under one holding of it.  Slabs that
 * became empty and are not kept go back to the arena when it is dropped.
 */
LOCK_UNCHECKED static void node_publish_set(struct stook_cache *cache, struct detached_set *set,
                                            bool nospin)
{
    struct node *held = NULL;
    unsigned waiting = 0, gone = 0;

    for (unsigned i = 0; i < set->lists; i++) {
        if (__builtin_expect(set->list[i].count == 0, 0)) /* its only objects were refused */
            continue;
        if (nospin)
            node_publish(cache, set, &set->list[i], false, nospin);
        else if (node_push(cache, set, &set->list[i], false))
            set->list[waiting++] = set->list[i];
    }
    for (unsigned i = 0; i < waiting; i++) {
        struct node *node = node_of(cache, set->list[i].slab);
        struct slab *empty = NULL;
        if (held && held != node)
            lock_drop(&held->lock, LOCK_NODE);
        if (held != node)
            held = node_lock(cache, node, false) ? node : NULL;
        if (!held)
            node_publish(cache, set, &set->list[i], false, false);
        else
            empty = node_push_locked(cache, node, set, &set->list[i], false);
        if (empty)
            set->list[gone++].slab = empty; /* in the place of a list that is published */
    }
    if (held)
        lock_drop(&held->lock, LOCK_NODE);
    for (unsigned i = 0; i < gone; i++)
        slab_unmake(cache, set->list[i].slab);
}

/*
 * Whether each object is of another slab than any one before it, three of four at least: by addresses alone.  Each slab
 * is a bit of a word, by its place in the window, which is elsewhere in each process: the lab counts the same each time.
 */
static bool node_are_apart(const struct stook_cache *cache, void *const *objects, uint32_t n)
{
    unsigned shift = PAGE_SHIFT + cache->layout.order;
    uint32_t apart = 0;
    uint64_t seen = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t slab = ((uintptr_t)objects[i] - pagemap.middle) >> shift;
        uint64_t bit = (uint64_t)1 << (slab * 0x9e3779b97f4a7c15u >> 58);
        if (((uintptr_t)objects[i] ^ (uintptr_t)objects[i - (i > 0)]) >= PAGE_SIZE)
            detached_prefetch(cache, objects[i]);
        apart += !(seen & bit);
        seen |= bit;
    }
    return apart * 4 >= n * 3;
}

/*
 * Brings an object back by itself, by a push that needs no lock, or refuses it.  False: the push would need the lock,
 * and the object is still out, also by its mark: the slab may empty, and a push that empties it writes no links.
 */
static bool node_put_one(struct stook_cache *cache, const void *object)
{
    uint32_t index;
    struct slab *slab = slab_of(cache, object, &index);
    uint64_t word, pushed;

    if (__builtin_expect(!slab || !mark_check(cache, slab, index), 0))
        return true;
    word = atomic_load_explicit(&slab->state, memory_order_relaxed);
    do {
        pushed = node_pushed(cache, slab, word, index, 1);
        if (node_needs_lock(word, pushed)) {
            mark_out(cache, slab, index);
            return false;
        }
        mark_free(cache, slab, index);
        slab_set_link(cache, slab, index, slab_head(word));
    } while (!node_swap(cache, slab, &word, pushed));
    return true;
}

/*
 * NODE_APART objects at most, each by itself.  Where they are of as many slabs, sorting costs more than it saves; and
 * a single call is over sooner, for it brings back no more.  Those that need the node's lock are left, and sorted.
 */
static void node_put_apart(struct stook_cache *cache, struct detached_set *set,
                           void *const *objects, uint32_t n)
{
    void *left[NODE_APART];
    uint32_t lefts = 0;

    for (uint32_t i = 0; i < n; i++)
        if (objects[i] && !node_put_one(cache, objects[i]))
            left[lefts++] = objects[i];
    if (lefts > 0) {
        (void)detached_gather(cache, set, left, lefts, DETACHED_LISTS);
        node_publish_set(cache, set, false);
    }
}

uint32_t node_put_some(struct stook_cache *cache, void *const *objects, uint32_t n, unsigned *slabs,
                       bool nospin)
{
    struct detached_set set;
    uint32_t done = n < *slabs ? n : *slabs;

    node_touch(cache);
    if (done > NODE_APART)
        done = NODE_APART;
    if (node_are_apart(cache, objects, done) && !nospin) {
        node_put_apart(cache, &set, objects, done);
        *slabs -= done;
        return done;
    }
    done = detached_gather(cache, &set, objects, n, *slabs);
    *slabs -= set.lists;
    node_publish_set(cache, &set, nospin);
    return done;
}

void node_put(struct stook_cache *cache, void *const *objects, uint32_t n, bool nospin)
{
    while (n > 0) {
        unsigned slabs = DETACHED_LISTS;
        uint32_t done = node_put_some(cache, objects, n, &slabs, nospin);
        objects += done;
        n -= done;
    }
}

void node_put_rest(struct stook_cache *cache, struct slab *slab, uint32_t head, uint32_t count,
                   bool nospin)
{
    struct detached rest = {slab, (uint16_t)head, SLAB_NONE, (uint16_t)count, 0, true};

    node_publish(cache, NULL, &rest, true, nospin);
}
