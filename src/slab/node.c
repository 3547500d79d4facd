/* SPDX-License-Identifier: MIT */
#include "slab/node.h"

#include "base/context.h"
#include "base/report.h"
#include "os/topology.h"
#include "page/arena.h"
#include "slab/detached.h"
#include "slab/freelist_iter.h"
#include "slab/link_first.h"
#include "slab/node_pending.h"
#include "slab/stat.h"
#include "slab/wrong.h"

#include <errno.h>
#include <string.h>

enum {
    NODE_DETACH_MAX = 16, /* partial slabs taken under one holding of the lock */
    /* Objects of partial slabs for a caller that needs fewer: each may cost a cache miss. */
    NODE_PARTIAL_WORTH = 64,
    NODE_NEW_WORTH = 4, /* new slabs for such a caller: each costs as much as a hundred objects */
    NODE_EXPECT = 64,   /* cache lines asked for at a time */
};

static struct node *node_of(struct stook_cache *cache, const struct slab *slab)
{
    return &cache->nodes[slab_node(slab)].node;
}

void node_init(struct node *node)
{
    lock_init(&node->lock);
    list_init(&node->partial);
    list_init(&node->empty);
}

static void node_locked(struct stook_cache *cache, struct node *node)
{
    node->took++;
    slab_counts.lists++;
    stat_add_lock(cache, STAT_list_lock_own,
                  (unsigned)((struct cache_node *)(void *)node - cache->nodes));
}

static bool node_lock(struct stook_cache *cache, struct node *node, bool nospin)
    LOCK_TRIES(node->lock);
static bool node_lock(struct stook_cache *cache, struct node *node, bool nospin)
{
    if (!lock_enter(&node->lock, LOCK_NODE, nospin)) {
        stat_add(cache, STAT_lock_busy, 1);
        return false;
    }
    node_locked(cache, node);
    return true;
}

/* A call has to come down to slabs. */
static void node_touch(const struct stook_cache *cache)
{
    slab_counts.touches += !(cache->flags & CACHE_INTERNAL);
}

/* ---- lists, under the lock ------------------------------------------------------------------ */

/* The lists' lengths are looked at without the lock: relaxed atomics. */
static void node_list_count(uint32_t *count, int change)
{
    __atomic_store_n(count, *count + (uint32_t)change, __ATOMIC_RELAXED);
}

static void node_add_partial(struct node *node, struct slab *slab)
{
    list_add(&node->partial, &slab->link);
    node_list_count(&node->nr_partial, 1);
}

static void node_add_freed(struct stook_cache *cache, struct node *node, struct slab *slab)
{
    node_add_partial(node, slab);
    stat_add(cache, STAT_free_add_partial, 1);
}

static void node_remove_partial(struct node *node, struct slab *slab)
{
    list_remove(&slab->link);
    node_list_count(&node->nr_partial, -1);
}

static void node_add_empty(struct node *node, struct slab *slab)
{
    list_add(&node->empty, &slab->link);
    node_list_count(&node->nr_empty, 1);
}

static void node_remove_empty(struct node *node, struct slab *slab)
{
    list_remove(&slab->link);
    node_list_count(&node->nr_empty, -1);
}

/* Empty slabs of a node whose memory went offline are not kept: no allocation asks that node. */
static bool node_is_there(const struct stook_cache *cache, const struct node *node)
{
    return topology_has_memory(
        (unsigned)((const struct cache_node *)(const void *)node - cache->nodes));
}

/*
 * The slab has just become empty, or was pending and is empty: takes it off the partial list.  It goes onto the
 * empty list while there are few, or if the caller cannot take the arena's lock.  Otherwise the caller gets
 * it, and returns it to the arena after it has dropped the lock.
 */
static struct slab *node_retire(struct stook_cache *cache, struct node *node, struct slab *slab,
                                bool nospin)
{
    if (list_linked(&slab->link)) {
        node_remove_partial(node, slab);
        stat_add(cache, STAT_free_remove_partial, 1);
    }
    if (nospin || (node->nr_empty < cache->min_partial && node_is_there(cache, node))) {
        node_add_empty(node, slab);
        return NULL;
    }
    return slab;
}

static void node_forget(struct node *node, const struct slab *slab)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);

    /* Stored whole, for threads that count without the lock. */
    __atomic_store_n(&node->gone, node->gone + 1, __ATOMIC_RELAXED);
    if (slab_flags(word) & SLAB_MIN)
        __atomic_store_n(&node->gone_min, node->gone_min + 1, __ATOMIC_RELAXED);
}

/* ---- pending slabs -------------------------------------------------------------------------- */

bool node_settle(struct slab *slab)
{
    struct stook_cache *cache = slab_cache_of(slab_base(slab));
    struct node *node = node_of(cache, slab);
    struct slab *gone = NULL;
    uint64_t word;

    if (!node_lock(cache, node, false))
        return false;
    word = atomic_load_explicit(&slab->state, memory_order_relaxed);
    /* Acquire: pairs with the pushes made while it was pending. */
    while (!atomic_compare_exchange_weak_explicit(
        &slab->state, &word,
        slab_word(slab_head(word), slab_inuse(word), slab_seq(word) + 1,
                  slab_flags(word) & ~(uint32_t)SLAB_PENDING),
        memory_order_acq_rel, memory_order_relaxed))
        stat_add(cache, STAT_cmpxchg_double_fail, 1);
    if (slab_inuse(word) == 0)
        gone = node_retire(cache, node, slab, false);
    else if (slab_head(word) != SLAB_NONE && !list_linked(&slab->link))
        node_add_freed(cache, node, slab);
    if (gone)
        node_forget(node, gone);
    lock_drop(&node->lock, LOCK_NODE);
    if (gone)
        slab_unmake(cache, gone);
    return true;
}

/* ---- bringing objects back ------------------------------------------------------------------ */

/* Changes the word, or reads it anew.  Release: the links, and the user's stores to the objects, come before
 * any thread that takes the objects. */
static bool node_swap(struct stook_cache *cache, struct slab *slab, uint64_t *word,
                      uint64_t changed)
{
    if (!atomic_compare_exchange_weak_explicit(&slab->state, word, changed, memory_order_acq_rel,
                                               memory_order_acquire)) {
        stat_add(cache, STAT_cmpxchg_double_fail, 1);
        return false;
    }
    slab_counts.swaps++;
    return true;
}

static uint64_t node_pushed(struct stook_cache *cache, struct slab *slab, uint64_t word,
                            uint32_t head, uint32_t count)
{
    if (__builtin_expect(slab_inuse(word) < count, 0))
        wrong_count(cache, slab, head, slab_inuse(word), count);
    return slab_word(head, slab_inuse(word) - count, slab_seq(word) + 1, slab_flags(word));
}

/* After a push under the lock: the lists.  The slab, if the caller has to give it back without the lock. */
static struct slab *node_settle_lists(struct stook_cache *cache, struct node *node,
                                      struct slab *slab, uint64_t word, bool nospin)
    LOCK_NEEDS(node->lock);
static struct slab *node_settle_lists(struct stook_cache *cache, struct node *node,
                                      struct slab *slab, uint64_t word, bool nospin)
{
    struct slab *gone = NULL;

    if (!(slab_flags(word) & SLAB_PENDING)) {
        if (slab_inuse(word) == 0)
            gone = node_retire(cache, node, slab, nospin);
        else if (!list_linked(&slab->link))
            node_add_freed(cache, node, slab);
    }
    if (gone)
        node_forget(node, gone);
    return gone;
}

/* The same, then the lock goes. */
static void node_settle_drop(struct stook_cache *cache, struct node *node, struct slab *slab,
                             uint64_t word, bool nospin) LOCK_DROPS(node->lock);
static void node_settle_drop(struct stook_cache *cache, struct node *node, struct slab *slab,
                             uint64_t word, bool nospin)
{
    struct slab *gone = node_settle_lists(cache, node, slab, word, nospin);

    lock_drop(&node->lock, LOCK_NODE);
    if (gone)
        slab_unmake(cache, gone);
}

/* Whether a push changes what lists the slab is on. */
static bool node_needs_lock(uint64_t word, uint64_t pushed)
{
    return !(slab_flags(word) & SLAB_PENDING) &&
           (slab_head(word) == SLAB_NONE || slab_inuse(pushed) == 0);
}

/* The word after a push, and the links for it. */
static uint64_t node_prepare(struct stook_cache *cache, const struct detached_set *set,
                             struct detached *list, uint64_t word, bool locked)
{
    struct slab *slab = list->slab;
    uint64_t pushed = node_pushed(cache, slab, word, list->head, list->count);

    if (locked && slab_inuse(pushed) == 0 && !(slab_flags(word) & SLAB_PENDING)) {
        /* All objects are free, and no thread can take from the slab: its links mean nothing. */
        slab_counts.whole += !list->linked;
        return slab_word(SLAB_NONE, 0, slab_seq(pushed), slab_flags(pushed));
    }
    if (!list->linked)
        detached_link(cache, set, list);
    slab_set_link(cache, slab, list->tail, slab_head(word)); /* again if that changes */
    return pushed;
}

/* Publishes a detached list.  See slab.h for which changes need the lock. */
LOCK_UNCHECKED static void node_publish(struct stook_cache *cache, const struct detached_set *set,
                                        struct detached *list, bool nospin)
{
    struct slab *slab = list->slab;
    struct node *node = node_of(cache, slab);
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed), pushed;
    bool locked = false, defer = false;

    for (;;) {
        pushed = node_pushed(cache, slab, word, list->head, list->count);
        if (!locked && node_needs_lock(word, pushed)) {
            /* Giving a slab back takes the arena's lock, which is not only tried. */
            locked = !(nospin && slab_inuse(pushed) == 0) && node_lock(cache, node, nospin);
            defer = !locked;
            if (locked) {
                word = atomic_load_explicit(&slab->state, memory_order_relaxed);
                continue;
            }
        }
        pushed = node_prepare(cache, set, list, word, locked);
        if (defer)
            pushed |= (uint64_t)SLAB_PENDING << 56;
        if (node_swap(cache, slab, &word, pushed))
            break;
        defer = false;
    }
    if (locked)
        node_settle_drop(cache, node, slab, pushed, nospin);
    else if (defer)
        node_park(node, slab, false);
}

/* The push that needs no lock: onto a slab that stays partial, or is pending.  False: it needs the lock. */
static bool node_push(struct stook_cache *cache, const struct detached_set *set,
                      struct detached *list)
{
    struct slab *slab = list->slab;
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed), pushed;

    do {
        pushed = node_pushed(cache, slab, word, list->head, list->count);
        if (node_needs_lock(word, pushed))
            return false;
        pushed = node_prepare(cache, set, list, word, false);
    } while (!node_swap(cache, slab, &word, pushed));
    return true;
}

/* The push under the lock.  The slab, if the caller has to give it back when it has dropped the lock. */
static struct slab *node_push_locked(struct stook_cache *cache, struct node *node,
                                     const struct detached_set *set, struct detached *list)
    LOCK_NEEDS(node->lock);
static struct slab *node_push_locked(struct stook_cache *cache, struct node *node,
                                     const struct detached_set *set, struct detached *list)
{
    struct slab *slab = list->slab;
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed), pushed;

    do
        pushed = node_prepare(cache, set, list, word, true);
    while (!node_swap(cache, slab, &word, pushed));
    return node_settle_lists(cache, node, slab, pushed, false);
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

    for (unsigned i = 0; i < set->lists; i++)
        if (nospin)
            node_publish(cache, set, &set->list[i], nospin);
        else if (!node_push(cache, set, &set->list[i]))
            set->list[waiting++] = set->list[i];
    for (unsigned i = 0; i < waiting; i++) {
        struct node *node = node_of(cache, set->list[i].slab);
        struct slab *empty = NULL;
        if (held && held != node)
            lock_drop(&held->lock, LOCK_NODE);
        if (held != node)
            held = node_lock(cache, node, false) ? node : NULL;
        if (!held)
            node_publish(cache, set, &set->list[i], false);
        else
            empty = node_push_locked(cache, node, set, &set->list[i]);
        if (empty)
            set->list[gone++].slab = empty; /* in the place of a list that is published */
    }
    if (held)
        lock_drop(&held->lock, LOCK_NODE);
    for (unsigned i = 0; i < gone; i++)
        slab_unmake(cache, set->list[i].slab);
}

uint32_t node_put_some(struct stook_cache *cache, void *const *objects, uint32_t n, unsigned *slabs,
                       bool nospin)
{
    struct detached_set set;
    uint32_t done;

    node_touch(cache);
    done = detached_gather(cache, &set, objects, n, *slabs);
    *slabs -= set.lists;
    node_publish_set(cache, &set, nospin);
    return done;
}

void node_put(struct stook_cache *cache, void *const *objects, uint32_t n, bool nospin)
{
    struct detached_set set;

    node_touch(cache);
    while (n > 0) {
        uint32_t done = detached_gather(cache, &set, objects, n, DETACHED_LISTS);
        node_publish_set(cache, &set, nospin);
        objects += done;
        n -= done;
    }
}

/*
 * Returns a slab's surplus objects, linked from `head` on, under the lock.  The slab is on no list, but a thread
 * that frees to it meanwhile may put it onto one.
 */
LOCK_UNCHECKED static void node_put_rest(struct stook_cache *cache, struct node *node,
                                         struct slab *slab, uint32_t head, uint32_t count,
                                         bool nospin)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed), pushed;
    uint32_t objects = slab_objects(cache, word), tail = SLAB_NONE;
    bool locked = node_lock(cache, node, nospin), defer;

    do {
        pushed = node_pushed(cache, slab, word, head, count);
        defer = !locked && !(slab_flags(word) & SLAB_PENDING);
        if (defer)
            pushed |= (uint64_t)SLAB_PENDING << 56;
        if (slab_head(word) != SLAB_NONE) { /* another thread freed to it: behind ours */
            if (tail == SLAB_NONE) {
                tail = head;
                for (uint32_t i = 1; i < count; i++) {
                    uint32_t next = slab_follow(cache, slab, tail, objects);
                    if (next == SLAB_NONE) /* what is behind a damaged link stays out of use */
                        count = i;
                    else
                        tail = next;
                }
                pushed = node_pushed(cache, slab, word, head, count);
                if (defer)
                    pushed |= (uint64_t)SLAB_PENDING << 56;
            }
            slab_set_link(cache, slab, tail, slab_head(word));
        } else if (tail != SLAB_NONE) {
            slab_set_link(cache, slab, tail, SLAB_NONE);
        }
    } while (!node_swap(cache, slab, &word, pushed));
    if (locked)
        node_settle_drop(cache, node, slab, pushed, nospin);
    else if (defer)
        node_park(node, slab, true);
}

/* ---- taking objects ------------------------------------------------------------------------- */

struct node_taken {
    struct slab *slab;
    uint32_t head, count; /* its whole freelist */
};

/* Detaches a slab's whole freelist; false: it is empty. */
static bool node_detach(struct stook_cache *cache, struct slab *slab, struct node_taken *out)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_acquire), taken;
    uint32_t objects = slab_objects(cache, word);

    do {
        if (slab_head(word) == SLAB_NONE)
            return false;
        taken = slab_word(SLAB_NONE, objects, slab_seq(word) + 1, slab_flags(word));
    } while (!node_swap(cache, slab, &word, taken));
    *out = (struct node_taken){slab, slab_head(word), objects - slab_inuse(word)};
    return true;
}

/*
 * Links lie in the free objects: one by one, each would be a cache miss that the next one waits for.  The marks
 * say which objects are free, or were freed since: all their lines are asked for at once.  Other threads write
 * the marks of objects that they free meanwhile; a mark that is read too early costs a cache miss.
 */
__attribute__((no_sanitize("thread"))) static void node_expect_links(
    const struct stook_cache *cache, const struct slab *slab, uint32_t limit)
{
    const uint8_t *marks = mark_bytes(slab);
    const char *base = slab_first(cache, slab);
    uint32_t stride = cache->layout.stride, asked = 0;

    for (uint32_t i = 0; i < limit && asked < NODE_EXPECT; i += 8) {
        uint64_t eight = MARK_OUT * (uint64_t)0x0101010101010101;
        if (i + 8 <= limit)
            memcpy(&eight, marks + i, sizeof(eight));
        if (eight == MARK_OUT * (uint64_t)0x0101010101010101)
            continue;
        for (const char *line = base + (size_t)i * stride, *end = line + (size_t)8 * stride;
             line < end; line += 64, asked++)
            __builtin_prefetch(line);
    }
}

/* Objects of a detached freelist into the array, at most so many; the rest goes back.  They are this
 * thread's: their links change no more. */
static uint32_t node_emit(struct stook_cache *cache, const struct node_taken *taken, void **objects,
                          uint32_t max, bool nospin)
{
    struct slab *slab = taken->slab;
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);
    uint32_t index = taken->head, limit = slab_objects(cache, word), stride = cache->layout.stride;
    uint32_t count = taken->count < max ? taken->count : max;
    char *base = slab_first(cache, slab);

    if (STOOK_ENCODED && cache->layout.marks && count > 2)
        node_expect_links(cache, slab, limit);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t out = index;
        objects[k] = base + (size_t)index * stride;
        if (k + 1 < taken->count)
            index = slab_follow(cache, slab, index, limit);
        mark_out(cache, slab, out);
        if (__builtin_expect(index == SLAB_NONE, 0)) /* the rest counts as in use for good */
            return k + 1;
    }
    if (count < taken->count)
        node_put_rest(cache, node_of(cache, slab), slab, index, taken->count - count, nospin);
    return count;
}

/* While a fork has the lock: of the pending slabs that threads parked. */
static uint32_t node_take_parked(struct stook_cache *cache, struct node *node, void **objects,
                                 uint32_t max)
{
    struct node_taken taken;
    uint32_t got = 0;

    for (unsigned i = 0; i < NODE_PARKED && got == 0 && lock_has_fork(&node->lock); i++) {
        struct slab *slab = node_unpark(node, i);
        if (slab && node_detach(cache, slab, &taken)) {
            got = node_emit(cache, &taken, objects, max, true);
            node_park(node, slab, true);
        } else if (slab) {
            node_defer(slab);
        }
    }
    return got;
}

/* Detaches the freelists of listed slabs until there are enough; the last may have too many.  How many. */
static unsigned node_take_lists(struct stook_cache *cache, struct node *node,
                                struct node_taken list[NODE_DETACH_MAX], uint32_t min, uint32_t max,
                                bool nospin)
{
    uint32_t planned = 0;
    unsigned n = 0;

    if (__atomic_load_n(&node->nr_partial, __ATOMIC_RELAXED) == 0 ||
        !node_lock(cache, node, nospin))
        return 0;
    while (planned < max && n < NODE_DETACH_MAX && !list_empty(&node->partial)) {
        struct slab *slab = LIST_ENTRY(node->partial.next, struct slab, link);
        uint64_t word = atomic_load_explicit(&slab->state, memory_order_acquire), taken;
        uint32_t objects = slab_objects(cache, word);
        if (planned >= min && planned + objects - slab_inuse(word) > max)
            break; /* enough, and whole slabs are the better bargain */
        do
            taken = slab_word(SLAB_NONE, objects, slab_seq(word) + 1, slab_flags(word));
        while (!node_swap(cache, slab, &word, taken));
        node_remove_partial(node, slab);
        list[n].slab = slab;
        list[n].head = slab_head(word);
        list[n].count = objects - slab_inuse(word);
        planned += list[n++].count;
    }
    lock_drop(&node->lock, LOCK_NODE);
    stat_add(cache, STAT_alloc_from_partial, n);
    return n;
}

/* Between `min` and `max`; after the first batch of slabs `least` are enough. */
static uint32_t node_take_partial(struct stook_cache *cache, unsigned node_id, void **objects,
                                  uint32_t least, uint32_t min, uint32_t max, bool nospin)
{
    struct node *node = &cache->nodes[node_id].node;
    struct node_taken list[NODE_DETACH_MAX];
    uint32_t got = 0;
    unsigned n;

    node_touch(cache);
    do {
        n = node_take_lists(cache, node, list, min > got ? min - got : 0, max - got, nospin);
        for (unsigned i = 0; i < n; i++)
            got += node_emit(cache, &list[i], objects + got, max - got, nospin);
        min = least;
    } while (got < min && n == NODE_DETACH_MAX);
    return got;
}

/* An empty slab, all of whose objects count as handed out from here on; or NULL. */
static struct slab *node_take_empty(struct stook_cache *cache, struct node *node, bool nospin)
{
    struct slab *slab = NULL;

    if (__atomic_load_n(&node->nr_empty, __ATOMIC_RELAXED) == 0 || !node_lock(cache, node, nospin))
        return NULL;
    if (!list_empty(&node->empty)) {
        uint64_t word;
        slab = LIST_ENTRY(node->empty.next, struct slab, link);
        node_remove_empty(node, slab);
        /* Acquire: pairs with the last push of any thread. */
        word = atomic_load_explicit(&slab->state, memory_order_acquire);
        atomic_store_explicit(
            &slab->state,
            slab_word(SLAB_NONE, slab_objects(cache, word), slab_seq(word) + 1, slab_flags(word)),
            memory_order_relaxed);
    }
    lock_drop(&node->lock, LOCK_NODE);
    stat_add(cache, STAT_alloc_from_empty, slab != NULL);
    return slab;
}

static void node_count_new(struct node *node, const struct slab *slab)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed), slabs;

    if (slab_flags(word) & SLAB_MIN)
        __atomic_fetch_add(&node->made_min, 1, __ATOMIC_RELAXED);
    slabs = __atomic_add_fetch(&node->made, 1, __ATOMIC_RELAXED) -
            __atomic_load_n(&node->gone, __ATOMIC_RELAXED);
    if (slabs > __atomic_load_n(&node->peak, __ATOMIC_RELAXED))
        __atomic_store_n(&node->peak, slabs, __ATOMIC_RELAXED);
}

uint32_t node_take(struct stook_cache *cache, unsigned node_id, void **objects, uint32_t min,
                   uint32_t max, bool nospin)
{
    struct node *node = &cache->nodes[node_id].node;
    uint32_t worth = max < NODE_PARTIAL_WORTH   ? max
                     : min > NODE_PARTIAL_WORTH ? min
                                                : NODE_PARTIAL_WORTH;
    uint32_t got = node_take_partial(cache, node_id, objects, min,
                                     min > worth / 2 ? min : worth / 2, worth, nospin);
    /* New slabs cost little an object: half of what would be taken, or a few slabs' worth. */
    uint32_t more = got < min ? max / 2 : 0;

    for (unsigned slabs = 0; got < min || (got < more && slabs < NODE_NEW_WORTH); slabs++) {
        struct freelist_iter iter;
        struct slab *slab = node_take_empty(cache, node, nospin);
        if (!slab) {
            uint32_t parked = node_take_parked(cache, node, objects + got, max - got);
            got += parked;
            if (parked > 0)
                continue;
            slab = slab_make(cache, node_id, nospin);
            if (!slab)
                break;
            node_count_new(node, slab);
        }
        if (cache->flags & CACHE_LINK_FIRST) {
            uint32_t rest, head;
            got += link_first_drain(cache, slab, objects + got, max - got, &head, &rest);
            if (rest > 0)
                node_put_rest(cache, node, slab, head, rest, nospin);
            continue;
        }
        iter = freelist_iter_begin(cache, slab);
        got += freelist_iter_emit(&iter, cache, slab, objects + got, max - got);
        if (iter.left == 0) {
            slab_counts.whole++;
        } else {
            uint32_t rest = iter.left;
            node_put_rest(cache, node, slab, freelist_iter_link(&iter, cache, slab), rest, nospin);
        }
    }
    if (got < min)
        errno = ENOMEM;
    return got;
}

bool node_isolate(struct stook_cache *cache, struct slab *slab, uint64_t word)
{
    struct node *node = node_of(cache, slab);
    uint64_t taken =
        slab_word(SLAB_NONE, slab_objects(cache, word), slab_seq(word) + 1, slab_flags(word));
    bool done;

    lock_take(&node->lock, LOCK_NODE);
    node_locked(cache, node);
    /* Partial and on the list, as long as the word is this one. */
    done = slab_head(word) != SLAB_NONE && slab_inuse(word) > 0 &&
           !(slab_flags(word) & SLAB_PENDING) && list_linked(&slab->link) &&
           atomic_compare_exchange_strong_explicit(&slab->state, &word, taken, memory_order_acq_rel,
                                                   memory_order_relaxed);
    if (done)
        node_remove_partial(node, slab);
    lock_drop(&node->lock, LOCK_NODE);
    return done;
}

size_t node_shrink(struct stook_cache *cache, unsigned node_id)
{
    struct node *node = &cache->nodes[node_id].node;
    size_t bytes = 0;

    for (;;) {
        struct slab *slab = NULL;
        lock_take(&node->lock, LOCK_NODE);
        node_locked(cache, node);
        if (!list_empty(&node->empty)) {
            slab = LIST_ENTRY(node->empty.next, struct slab, link);
            node_remove_empty(node, slab);
            node_forget(node, slab);
        }
        lock_drop(&node->lock, LOCK_NODE);
        if (!slab)
            return bytes;
        bytes += (size_t)PAGE_SIZE
                 << slab_order(cache, atomic_load_explicit(&slab->state, memory_order_relaxed));
        slab_unmake(cache, slab);
    }
}
