/* SPDX-License-Identifier: MIT */
#include "slab/node.h"

#include "base/context.h"
#include "base/report.h"
#include "page/arena.h"
#include "slab/freelist_iter.h"

#include <errno.h>

enum {
    NODE_LOOK_AHEAD = 8,  /* objects of one slab are gathered from this many that follow */
    NODE_DETACH_MAX = 16, /* partial slabs taken under one holding of the lock */
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

static bool node_lock(struct node *node, bool nospin)
{
    if (!lock_enter(&node->lock, LOCK_NODE, nospin))
        return false;
    node->took++;
    return true;
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

/*
 * The slab has just become empty, or was pending and is: off the partial list; onto the empty
 * list while there are few, or when the caller cannot take the arena's lock; else it is the
 * caller's to give back once the lock is dropped.
 */
static struct slab *node_retire(struct stook_cache *cache, struct node *node, struct slab *slab,
                                bool nospin)
{
    if (list_linked(&slab->link))
        node_remove_partial(node, slab);
    if (nospin || node->nr_empty < cache->min_partial) {
        node_add_empty(node, slab);
        return NULL;
    }
    return slab;
}

static void node_forget(struct stook_cache *cache, struct node *node, const struct slab *slab)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);

    __atomic_fetch_sub(&node->nr_slabs, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&node->nr_objects, slab_objects(cache, word), __ATOMIC_RELAXED);
    __atomic_fetch_sub(&node->nr_pages, (uint64_t)1 << slab_order(cache, word), __ATOMIC_RELAXED);
    node->gone++;
    node->gone_pages += (uint64_t)1 << slab_order(cache, word);
}

/* ---- pending slabs -------------------------------------------------------------------------- */

static void node_defer(struct slab *slab)
{
    struct context *context = context_self();
    struct slab *next = atomic_load_explicit(&context->deferred, memory_order_relaxed);

    /* Handlers nest, they do not run side by side: an exchange that fails is tried again. */
    do {
        slab->deferred = next ? next->page + 1 : 0;
    } while (!atomic_compare_exchange_weak_explicit(&context->deferred, &next, slab,
                                                    memory_order_relaxed, memory_order_relaxed));
}

static void node_settle(struct slab *slab)
{
    struct stook_cache *cache = slab_cache_of(slab_base(slab));
    struct node *node = node_of(cache, slab);
    struct slab *gone = NULL;
    uint64_t word;

    node_lock(node, false);
    word = atomic_load_explicit(&slab->state, memory_order_relaxed);
    /* Acquire: pairs with the pushes made while it was pending. */
    while (!atomic_compare_exchange_weak_explicit(
        &slab->state, &word,
        slab_word(slab_head(word), slab_inuse(word), slab_seq(word) + 1,
                  slab_flags(word) & ~(uint32_t)SLAB_PENDING),
        memory_order_acq_rel, memory_order_relaxed))
        ;
    if (slab_inuse(word) == 0)
        gone = node_retire(cache, node, slab, false);
    else if (slab_head(word) != SLAB_NONE && !list_linked(&slab->link))
        node_add_partial(node, slab);
    if (gone)
        node_forget(cache, node, gone);
    lock_drop(&node->lock, LOCK_NODE);
    if (gone)
        slab_unmake(cache, gone);
}

void node_settle_deferred(struct slab *unused)
{
    struct context *context = context_self();
    struct slab *slab = atomic_exchange_explicit(&context->deferred, NULL, memory_order_relaxed);

    (void)unused;
    while (slab) {
        /* Read the link first: once settled, the slab may be gone. */
        uint32_t next = slab->deferred;
        struct slab *following = NULL;
        if (next) {
            char *base = (char *)pagemap.base + ((size_t)(next - 1) << PAGE_SHIFT);
            following = arena_meta(base, pagemap_granule(*pagemap_at(base)));
        }
        node_settle(slab);
        slab = following;
    }
}

/* ---- bringing objects back ------------------------------------------------------------------ */

static uint64_t node_pushed(struct stook_cache *cache, struct slab *slab, uint64_t word,
                            uint32_t head, uint32_t tail, uint32_t count)
{
    if (__builtin_expect(slab_inuse(word) < count, 0))
        slab_report(cache, slab_base(slab) + (size_t)head * cache->layout.stride,
                    "is freed twice (its slab has fewer objects in use)");
    slab_set_link(cache, slab, tail, slab_head(word));
    return slab_word(head, slab_inuse(word) - count, slab_seq(word) + 1, slab_flags(word));
}

/* Publishes a detached list.  See slab.h for which changes need the lock. */
static void node_publish(struct stook_cache *cache, struct slab *slab, uint32_t head, uint32_t tail,
                         uint32_t count, bool nospin)
{
    struct node *node = node_of(cache, slab);
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed), pushed;
    struct slab *gone = NULL;
    bool locked = false, defer = false;

    for (;;) {
        pushed = node_pushed(cache, slab, word, head, tail, count);
        if (!(slab_flags(word) & SLAB_PENDING) && !locked &&
            (slab_head(word) == SLAB_NONE || slab_inuse(pushed) == 0)) {
            /* Giving a slab back takes the arena's lock, which is not only tried. */
            locked = !(nospin && slab_inuse(pushed) == 0) && node_lock(node, nospin);
            defer = !locked;
            if (locked) {
                word = atomic_load_explicit(&slab->state, memory_order_relaxed);
                continue;
            }
        }
        if (defer)
            pushed |= (uint64_t)SLAB_PENDING << 56;
        /* Release: the links, and what the user wrote to the objects, before whoever takes them. */
        if (atomic_compare_exchange_weak_explicit(&slab->state, &word, pushed, memory_order_acq_rel,
                                                  memory_order_relaxed))
            break;
        defer = false;
    }
    if (locked) {
        if (!(slab_flags(word) & SLAB_PENDING)) {
            if (slab_inuse(pushed) == 0)
                gone = node_retire(cache, node, slab, nospin);
            else if (!list_linked(&slab->link))
                node_add_partial(node, slab);
        }
        if (gone)
            node_forget(cache, node, gone);
        lock_drop(&node->lock, LOCK_NODE);
        if (gone)
            slab_unmake(cache, gone);
    } else if (defer) {
        node_defer(slab);
    }
}

void node_put(struct stook_cache *cache, void **objects, uint32_t n, bool nospin)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t head, tail, index, count = 1;
        struct slab *slab;
        size_t bytes;

        if (!objects[i])
            continue;
        slab = slab_of(cache, objects[i], &tail);
        head = tail;
        bytes = (size_t)PAGE_SIZE << slab_order(
                    cache, atomic_load_explicit(&slab->state, memory_order_relaxed));
        for (uint32_t j = i + 1; j < n && j <= i + NODE_LOOK_AHEAD; j++) {
            if ((uintptr_t)objects[j] - (uintptr_t)slab_base(slab) >= bytes)
                continue;
            slab_of(cache, objects[j], &index);
            if (__builtin_expect(index == head, 0))
                slab_report(cache, objects[j], "is freed twice");
            slab_set_link(cache, slab, index, head);
            head = index;
            objects[j] = NULL;
            count++;
        }
        node_publish(cache, slab, head, tail, count, nospin);
    }
}

/* ---- taking objects ------------------------------------------------------------------------- */

/* Takes the first `count` objects of a partial slab, under the lock; those that were pushed. */
static uint32_t node_take_partial(struct stook_cache *cache, struct node *node, struct slab *slab,
                                  uint32_t max, uint32_t *head)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_acquire), taken;
    uint32_t objects = slab_objects(cache, word), count, next;

    do {
        uint32_t free = objects - slab_inuse(word);
        *head = slab_head(word);
        count = free < max ? free : max;
        next = SLAB_NONE;
        if (count < free) {
            next = *head;
            for (uint32_t i = 0; i < count; i++)
                next = slab_next(cache, slab, next, objects);
        }
        taken = slab_word(next, slab_inuse(word) + count, slab_seq(word) + 1, slab_flags(word));
    } while (!atomic_compare_exchange_weak_explicit(&slab->state, &word, taken,
                                                    memory_order_acq_rel, memory_order_acquire));
    if (next == SLAB_NONE)
        node_remove_partial(node, slab);
    return count;
}

struct node_detached {
    struct slab *slab;
    uint32_t head, count;
};

static uint32_t node_take_partials(struct stook_cache *cache, struct node *node, void **objects,
                                   uint32_t max, bool nospin)
{
    struct node_detached list[NODE_DETACH_MAX];
    uint32_t n = 0, planned = 0, got = 0;

    if (__atomic_load_n(&node->nr_partial, __ATOMIC_RELAXED) == 0 || !node_lock(node, nospin))
        return 0;
    while (planned < max && n < NODE_DETACH_MAX && !list_empty(&node->partial)) {
        struct slab *slab = LIST_ENTRY(node->partial.next, struct slab, link);
        list[n].slab = slab;
        list[n].count = node_take_partial(cache, node, slab, max - planned, &list[n].head);
        planned += list[n++].count;
    }
    lock_drop(&node->lock, LOCK_NODE);
    /* The objects are ours: their links change no more. */
    for (uint32_t i = 0; i < n; i++) {
        struct slab *slab = list[i].slab;
        uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);
        uint32_t index = list[i].head, limit = slab_objects(cache, word);
        char *base = slab_base(slab);
        for (uint32_t k = 0; k < list[i].count; k++) {
            objects[got++] = base + (size_t)index * cache->layout.stride;
            if (k + 1 < list[i].count)
                index = slab_next(cache, slab, index, limit);
        }
    }
    return got;
}

/* An empty slab, all of whose objects count as handed out from here on; or NULL. */
static struct slab *node_take_empty(struct stook_cache *cache, struct node *node, bool nospin)
{
    struct slab *slab = NULL;

    if (__atomic_load_n(&node->nr_empty, __ATOMIC_RELAXED) == 0 || !node_lock(node, nospin))
        return NULL;
    if (!list_empty(&node->empty)) {
        uint64_t word;
        slab = LIST_ENTRY(node->empty.next, struct slab, link);
        node_remove_empty(node, slab);
        /* Acquire: pairs with the last push, whoever made it. */
        word = atomic_load_explicit(&slab->state, memory_order_acquire);
        atomic_store_explicit(
            &slab->state,
            slab_word(SLAB_NONE, slab_objects(cache, word), slab_seq(word) + 1, slab_flags(word)),
            memory_order_relaxed);
    }
    lock_drop(&node->lock, LOCK_NODE);
    return slab;
}

/* A slab that was emitted in part: the rest is linked and becomes a partial slab. */
static void node_add_rest(struct stook_cache *cache, struct node *node, struct slab *slab,
                          struct freelist_iter *iter, bool nospin)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);
    uint32_t rest = iter->end - iter->next, head = freelist_iter_link(iter, cache, slab);
    bool locked = node_lock(node, nospin);
    uint32_t flags = slab_flags(word) | (locked ? 0 : SLAB_PENDING);

    /* Release: the links before whoever finds the slab. */
    atomic_store_explicit(&slab->state,
                          slab_word(head, slab_inuse(word) - rest, slab_seq(word) + 1, flags),
                          memory_order_release);
    if (locked) {
        node_add_partial(node, slab);
        lock_drop(&node->lock, LOCK_NODE);
    } else {
        node_defer(slab);
    }
}

static void node_count_new(struct stook_cache *cache, struct node *node, const struct slab *slab)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed), pages;

    /* Counted without the lock: relaxed atomics here and in node_forget(). */
    __atomic_fetch_add(&node->nr_slabs, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&node->nr_objects, slab_objects(cache, word), __ATOMIC_RELAXED);
    pages = __atomic_add_fetch(&node->nr_pages, (uint64_t)1 << slab_order(cache, word),
                               __ATOMIC_RELAXED);
    if (pages > __atomic_load_n(&node->peak_pages, __ATOMIC_RELAXED))
        __atomic_store_n(&node->peak_pages, pages, __ATOMIC_RELAXED);
    __atomic_fetch_add(&node->made, 1, __ATOMIC_RELAXED);
}

uint32_t node_take(struct stook_cache *cache, unsigned node_id, void **objects, uint32_t min,
                   uint32_t max, bool nospin)
{
    struct node *node = &cache->nodes[node_id].node;
    uint32_t got = node_take_partials(cache, node, objects, max, nospin);

    while (got < min) {
        struct freelist_iter iter;
        struct slab *slab = node_take_empty(cache, node, nospin);
        if (!slab) {
            slab = slab_make(cache, node_id, nospin);
            if (!slab)
                break;
            node_count_new(cache, node, slab);
        }
        iter = freelist_iter_begin(cache, slab);
        got += freelist_iter_emit(&iter, cache, slab, objects + got, max - got);
        if (iter.next < iter.end)
            node_add_rest(cache, node, slab, &iter, nospin);
    }
    if (got < min)
        errno = ENOMEM;
    return got;
}

size_t node_shrink(struct stook_cache *cache, unsigned node_id)
{
    struct node *node = &cache->nodes[node_id].node;
    size_t bytes = 0;

    for (;;) {
        struct slab *slab = NULL;
        node_lock(node, false);
        if (!list_empty(&node->empty)) {
            slab = LIST_ENTRY(node->empty.next, struct slab, link);
            node_remove_empty(node, slab);
            node_forget(cache, node, slab);
        }
        lock_drop(&node->lock, LOCK_NODE);
        if (!slab)
            return bytes;
        bytes += (size_t)PAGE_SIZE
                 << slab_order(cache, atomic_load_explicit(&slab->state, memory_order_relaxed));
        slab_unmake(cache, slab);
    }
}

uint64_t node_count_free(struct stook_cache *cache, unsigned node_id)
{
    struct node *node = &cache->nodes[node_id].node;
    uint64_t free = 0;

    node_lock(node, false);
    for (struct list *l = node->partial.next; l != &node->partial; l = l->next) {
        struct slab *slab = LIST_ENTRY(l, struct slab, link);
        uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);
        free += slab_objects(cache, word) - slab_inuse(word);
    }
    for (struct list *l = node->empty.next; l != &node->empty; l = l->next) {
        struct slab *slab = LIST_ENTRY(l, struct slab, link);
        free += slab_objects(cache, atomic_load_explicit(&slab->state, memory_order_relaxed));
    }
    lock_drop(&node->lock, LOCK_NODE);
    return free;
}
