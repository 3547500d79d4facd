/* SPDX-License-Identifier: MIT */
/*
 * node.c - taking objects from the slabs of a node, giving empty slabs back, and counting both.
 */
#include "slab/node.h"

#include "base/context.h"
#include "page/arena.h"
#include "slab/freelist_iter.h"
#include "slab/mark.h"
#include "slab/node_steps.h"

#include <errno.h>
#include <string.h>

enum {
    NODE_DETACH_MAX = 16, /* partial slabs taken under one holding of the lock */
    /* Objects of partial slabs for a caller that needs fewer: each may cost a cache miss. */
    NODE_PARTIAL_WORTH = 32,
    NODE_NEW_WORTH = 4, /* new slabs for such a caller: each costs as much as a hundred objects */
    NODE_EXPECT = 64,   /* cache lines asked for at a time */
    NODE_EXPECT_FIRST = 12, /* … of each slab, of marks and links outside */
    NODE_MARKED = 512,      /* objects of a slab whose marks are read instead of its links */
};

/* Eight marks of objects that are out; times this, the top byte of a word is the sum of its bytes. */
#define NODE_ALL_OUT (MARK_OUT * (uint64_t)0x0101010101010101)

void node_init(struct node *node)
{
    lock_init(&node->lock);
    list_init(&node->partial);
    list_init(&node->empty);
}

/* ---- taking objects ------------------------------------------------------------------------- */

struct node_taken {
    struct slab *slab;
    uint32_t head, count; /* its whole freelist */
};

/* Detaches a slab's whole freelist; false: it is empty. */
static bool node_detach(struct stook_cache *cache, struct slab *slab, struct node_taken *out)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_acquire);

    do
        if (slab_head(word) == SLAB_NONE)
            return false;
    while (!node_swap(cache, slab, &word, node_emptied(cache, word)));
    *out = (struct node_taken){slab, slab_head(word), slab_objects(cache, word) - slab_inuse(word)};
    return true;
}

/* Marks, eight at a time; those behind the last are of objects that are out.  Inlined for mark_is_out()'s reason. */
static inline __attribute__((always_inline)) uint64_t node_eight_marks(const uint8_t *marks,
                                                                       uint32_t at, uint32_t limit)
{
    uint64_t eight = NODE_ALL_OUT;

    if (__builtin_expect(at + sizeof(eight) <= limit, 1))
        memcpy(&eight, marks + at, sizeof(eight));
    else
        for (uint32_t i = 0; at + i < limit; i++)
            eight ^= (uint64_t)(marks[at + i] ^ MARK_OUT) << 8 * i;
    return eight;
}

/*
 * Links lie in the free objects: one by one, each would be a cache miss that the next one waits for.  The marks
 * say which objects are free, or were freed since: their links are asked for at once.  Other threads write
 * the marks of objects that they free meanwhile; a mark that is read too early costs a cache miss.
 */
__attribute__((no_sanitize("thread"))) static void node_expect_links(
    const struct stook_cache *cache, const struct slab *slab, uint32_t limit)
{
    const uint8_t *marks = mark_bytes(slab);
    uint32_t asked = 0;

    for (uint32_t i = 0; i < limit && asked < NODE_EXPECT; i += 8) {
        uint64_t free = node_eight_marks(marks, i, limit) ^ NODE_ALL_OUT;
        for (; free; free &= free - 1, asked++)
            __builtin_prefetch(slab_link(cache, slab, i + (unsigned)__builtin_ctzll(free) / 8));
    }
}

/* What a freelist's walk begins with: the lines of marks, or of links that lie outside. */
static void node_expect(const struct stook_cache *cache, const struct node_taken *taken)
{
    const struct layout *l = &cache->layout;
    const char *line, *end;

    if (!l->marks && (!l->link_outside || taken->count < 2))
        return;
    line = (const char *)taken->slab->links;
    end = line + (size_t)l->objects * (l->marks ? l->marks : l->link_stride);
    for (unsigned i = 0; i < NODE_EXPECT_FIRST && line < end; i++, line += 64)
        __builtin_prefetch(line, 1);
}

/* Whether freelists can be taken by their marks; not where objects come in random order. */
static bool node_is_marked(const struct stook_cache *cache)
{
    return STOOK_ENCODED && cache->layout.marks && cache->layout.objects <= NODE_MARKED &&
           !cache->permutation;
}

/*
 * A whole freelist without its links, by the marks alone: no object is read.  A mark is free before its object
 * goes onto the list, and until the object is out again.  So all objects of the list are marked free, and those that
 * other threads free meanwhile.  If there are as many as the list has, they are the list's.  False: there are
 * more, or marks are overwritten.
 */
__attribute__((no_sanitize("thread"))) static bool node_emit_marked(const struct stook_cache *cache,
                                                                    const struct node_taken *taken,
                                                                    uint32_t limit, void **objects)
{
    uint64_t free[NODE_MARKED / 8], other = 0;
    uint8_t *marks = mark_bytes(taken->slab);
    char *base = slab_first(cache, taken->slab);
    uint32_t stride = cache->layout.stride, found = 0;

    for (uint32_t i = 0; i < limit; i += 8) {
        free[i / 8] = node_eight_marks(marks, i, limit) ^ NODE_ALL_OUT;
        other |= free[i / 8] & ~NODE_ALL_OUT;
        found += (uint32_t)(free[i / 8] * NODE_ALL_OUT >> 56); /* the sum of its bytes */
    }
    if (found != taken->count || other != 0)
        return false;
    for (uint32_t i = 0; i < limit; i += 8)
        for (uint64_t left = free[i / 8]; left; left &= left - 1) {
            uint32_t index = i + (unsigned)__builtin_ctzll(left) / 8;
            *objects++ = base + (size_t)index * stride;
            marks[index] = MARK_OUT;
        }
    return true;
}

/*
 * Objects of a detached freelist into the array: all, if their marks say which they are and they are `max` at
 * most, else at most `worth`.  The rest goes back.  They are this thread's: their links change no more.
 */
static uint32_t node_emit(struct stook_cache *cache, const struct node_taken *taken, void **objects,
                          uint32_t worth, uint32_t max, bool nospin)
{
    struct slab *slab = taken->slab;
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);
    uint32_t index = taken->head, limit = slab_objects(cache, word), stride = cache->layout.stride;
    uint32_t count = taken->count < worth ? taken->count : worth;
    char *base = slab_first(cache, slab);

    if (STOOK_ENCODED && cache->layout.marks && taken->count > 1) {
        if (taken->count <= max && node_is_marked(cache) &&
            node_emit_marked(cache, taken, limit, objects))
            return taken->count;
        if (count > 2)
            node_expect_links(cache, slab, limit);
    }
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
        node_put_rest(cache, slab, index, taken->count - count, nospin);
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
            got = node_emit(cache, &taken, objects, max, max, true);
            node_park(node, slab, true);
        } else if (slab) {
            node_defer(slab);
        }
    }
    return got;
}

/* Detaches the freelists of listed slabs until there are `enough`; the last may have too many.  How many. */
static unsigned node_take_lists(struct stook_cache *cache, struct node *node,
                                struct node_taken list[NODE_DETACH_MAX], uint32_t min,
                                uint32_t enough, uint32_t max, bool nospin)
{
    uint32_t planned = 0;
    unsigned n = 0;

    if (__atomic_load_n(&node->nr_partial, __ATOMIC_RELAXED) == 0 ||
        !node_lock(cache, node, nospin))
        return 0;
    while (planned < enough && n < NODE_DETACH_MAX && !list_empty(&node->partial)) {
        struct slab *slab = LIST_ENTRY(node->partial.next, struct slab, link);
        uint64_t word = atomic_load_explicit(&slab->state, memory_order_acquire);
        uint32_t objects = slab_objects(cache, word);
        __builtin_prefetch(slab->link.next, 1); /* it becomes the first, or comes next */
        if (planned >= min && planned + objects - slab_inuse(word) > max)
            break;                              /* enough, and whole slabs are the better bargain */
        if (node_detach(cache, slab, &list[n])) /* else a thread took them, beside a fork */
            planned += list[n++].count;
        node_remove(&node->nr_partial, slab);
    }
    lock_drop(&node->lock, LOCK_NODE);
    stat_add(cache, STAT_alloc_from_partial, n);
    return n;
}

/*
 * Between `min` and `worth`, or up to `max` that cost no link; after the first batch of slabs `least` are
 * enough.
 */
static uint32_t node_take_partial(struct stook_cache *cache, unsigned node_id, void **objects,
                                  uint32_t least, uint32_t min, uint32_t worth, uint32_t max,
                                  bool nospin)
{
    struct node *node = &cache->nodes[node_id].node;
    struct node_taken list[NODE_DETACH_MAX];
    uint32_t got = 0;
    unsigned n;

    node_touch(cache);
    do {
        n = node_take_lists(cache, node, list, min > got ? min - got : 0, worth - got,
                            node_is_marked(cache) ? max - got : worth - got, nospin);
        for (unsigned i = 0; i < n; i++)
            node_expect(cache, &list[i]);
        for (unsigned i = 0; i < n; i++)
            got += node_emit(cache, &list[i], objects + got, worth > got ? worth - got : 0,
                             max - got, nospin);
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
        node_remove(&node->nr_empty, slab);
        /* Acquire: pairs with the last push of any thread. */
        word = atomic_load_explicit(&slab->state, memory_order_acquire);
        atomic_store_explicit(&slab->state, node_emptied(cache, word), memory_order_relaxed);
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

bool node_may_grow(const struct stook_cache *cache)
{
    uint64_t pages = (uint64_t)1 << cache->layout.order;

    for (unsigned i = 0; cache->slab_bytes_max < SIZE_MAX && i < topology.nodes; i++) {
        struct node_counts counts;
        node_count(cache, i, &counts);
        pages += counts.pages;
    }
    return pages <= cache->slab_bytes_max / PAGE_SIZE;
}

uint32_t node_take(struct stook_cache *cache, unsigned node_id, void **objects, uint32_t min,
                   uint32_t max, bool nospin)
{
    struct node *node = &cache->nodes[node_id].node;
    uint32_t worth = max < NODE_PARTIAL_WORTH   ? max
                     : min > NODE_PARTIAL_WORTH ? min
                                                : NODE_PARTIAL_WORTH;
    uint32_t got = node_take_partial(cache, node_id, objects, min,
                                     min > worth / 2 ? min : worth / 2, worth, max, nospin);
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
            slab = node_may_grow(cache) ? slab_make(cache, node_id, nospin) : NULL;
            if (!slab)
                break;
            node_count_new(node, slab);
        }
        iter = freelist_iter_begin(cache, slab);
        got += freelist_iter_emit(&iter, cache, slab, objects + got, max - got);
        if (iter.left == 0) {
            slab_counts.whole++;
        } else {
            uint32_t rest = iter.left;
            node_put_rest(cache, slab, freelist_iter_link(&iter, cache, slab), rest, nospin);
        }
    }
    if (got < min)
        errno = ENOMEM;
    return got;
}

uint32_t node_take_near(struct stook_cache *cache, unsigned node, void **objects, uint32_t min,
                        uint32_t max, bool nospin)
{
    uint32_t got = 0;

    for (unsigned i = 0; i < topology.memories && got < min; i++)
        got +=
            node_take(cache, topology_near(node, i), objects + got, min - got, max - got, nospin);
    return got;
}

__attribute__((cold)) size_t node_shrink(struct stook_cache *cache, unsigned node_id)
{
    struct node *node = &cache->nodes[node_id].node;
    size_t bytes = 0;

    for (;;) {
        struct slab *slab = NULL;
        lock_take(&node->lock, LOCK_NODE);
        node_locked(cache, node);
        if (!list_empty(&node->empty)) {
            slab = LIST_ENTRY(node->empty.next, struct slab, link);
            node_remove(&node->nr_empty, slab);
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

/* ---- counts, for reports --------------------------------------------------------------------- */

/* Such a holding of the lock is not counted. */
__attribute__((cold)) uint64_t node_count_free(struct stook_cache *cache, unsigned node_id)
{
    struct node *node = &cache->nodes[node_id].node;
    uint64_t free = 0;

    lock_take(&node->lock, LOCK_NODE);
    for (struct list *list = &node->partial; list;
         list = list == &node->partial ? &node->empty : NULL)
        for (struct list *l = list->next; l != list; l = l->next) {
            uint64_t word = atomic_load_explicit(&LIST_ENTRY(l, struct slab, link)->state,
                                                 memory_order_relaxed);
            free += slab_objects(cache, word) - slab_inuse(word);
        }
    lock_drop(&node->lock, LOCK_NODE);
    return free;
}

__attribute__((cold)) void node_count(const struct stook_cache *cache, unsigned node_id,
                                      struct node_counts *counts)
{
    const struct node *node = &cache->nodes[node_id].node;
    const struct layout *l = &cache->layout;
    uint64_t gone = __atomic_load_n(&node->gone, __ATOMIC_RELAXED);
    uint64_t gone_min = __atomic_load_n(&node->gone_min, __ATOMIC_RELAXED);
    uint64_t min = __atomic_load_n(&node->made_min, __ATOMIC_RELAXED) - gone_min, full;

    counts->slabs = __atomic_load_n(&node->made, __ATOMIC_RELAXED) - gone;
    full = counts->slabs > min ? counts->slabs - min : 0;
    counts->objects = full * l->objects + min * l->min_objects;
    counts->pages = (full << l->order) + (min << l->min_order);
    counts->gone_pages = ((gone - gone_min) << l->order) + (gone_min << l->min_order);
    counts->peak_pages = __atomic_load_n(&node->peak, __ATOMIC_RELAXED) << l->order;
}
