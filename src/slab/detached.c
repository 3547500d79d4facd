/* SPDX-License-Identifier: MIT */
/*
 * detached.c - sorts an array of objects by their slabs, and links each slab's objects to a list.
 */
#include "slab/detached.h"

#include "slab/mark.h"

#include <string.h>

static unsigned detached_hash(const struct slab *slab)
{
    return (unsigned)(((uintptr_t)slab >> 4) * 0x9e3779b97f4a7c15u >> 56);
}

/* The slab's list; a new one has count 0.  NULL: there is no room for one more. */
static struct detached *detached_find(struct detached_set *set, struct slab *slab, unsigned most)
{
    unsigned at = detached_hash(slab);
    struct detached *list;

    if (set->lists > 0) {
        if (set->lists == 1) { /* one list needs no hash */
            size_t size = sizeof(set->find);
            __asm__("" : "+r"(size)); /* a call: what GCC would inline is a slow rep stos */
            memset(set->find, 0, size);
            set->find[detached_hash(set->list[0].slab)] = 1;
        }
        for (; set->find[at]; at = (at + 1) % DETACHED_HASH)
            if (set->list[set->find[at] - 1].slab == slab)
                return &set->list[set->find[at] - 1];
        if (__builtin_expect(set->lists == most, 0))
            return NULL;
        set->find[at] = (uint8_t)(set->lists + 1);
    }
    list = &set->list[set->lists++];
    *list = (struct detached){.slab = slab};
    return list;
}

/* The slab and the list that the walk is at: what each step would have to look up again. */
struct detached_walk {
    struct detached *list;
    uintptr_t base, bytes; /* of the slab, from its first object on; bytes 0: at none */
    char *links;           /* its column */
    uint8_t *marks;        /* where they are bytes */
    uint32_t objects;
    uint32_t head, count; /* of the list: the object before, so far */
    uint8_t last;
    bool linked;
};

static void detached_leave(struct detached_walk *walk)
{
    if (walk->list) {
        walk->list->count = (uint16_t)walk->count;
        walk->list->head = (uint16_t)walk->head;
        walk->list->last = walk->last;
    }
}

enum detached_moved { DETACHED_MOVED, DETACHED_FULL, DETACHED_REFUSED };

/*
 * The first of `left` objects of this chunk, `more` with those of the next, is of another slab than the one before, or
 * slab_of() refuses it.  A slab that may come back whole, and that the chunk's end divides, begins the next chunk: as
 * the middle one and the last one say, by their addresses.
 */
static inline enum detached_moved detached_move(struct stook_cache *cache, struct detached_set *set,
                                                struct detached_walk *walk, void *const *objects,
                                                uint32_t left, uint32_t more, unsigned most,
                                                uint32_t *index)
{
    struct slab *slab = slab_of(cache, objects[0], index);
    uint64_t word;

    if (__builtin_expect(!slab, 0))
        return DETACHED_REFUSED;
    word = atomic_load_explicit(&slab->state, memory_order_relaxed);
    detached_leave(walk);
    walk->list = detached_find(set, slab, most);
    if (__builtin_expect(!walk->list, 0))
        return DETACHED_FULL;
    walk->base = (uintptr_t)slab_first(cache, slab);
    walk->bytes = ((uintptr_t)PAGE_SIZE << slab_order(cache, word)) - cache->layout.lead;
    walk->links = (char *)slab_link(cache, slab, 0);
    walk->marks = mark_bytes(slab);
    walk->objects = slab_objects(cache, word);
    if (walk->list->count == 0) {
        walk->list->linked = slab_inuse(word) > (more < DETACHED_CHUNK ? more : DETACHED_CHUNK);
        if (left < more && slab_inuse(word) > left && !walk->list->linked && set->lists > 1 &&
            walk->list == &set->list[set->lists - 1] &&
            (uintptr_t)objects[left / 2] - walk->base < walk->bytes &&
            (uintptr_t)objects[left - 1] - walk->base < walk->bytes) {
            walk->list = NULL;
            set->lists--;
            return DETACHED_FULL;
        }
    }
    walk->head = walk->list->head;
    walk->count = walk->list->count;
    walk->last = walk->list->last;
    walk->linked = walk->list->linked;
    return DETACHED_MOVED;
}

/*
 * One more object of the walk's list.  It was out, and is not from here on: the same object further
 * behind is seen by that, whether or not the list is linked.  False: it was not out.  `bytes`, a constant:
 * marks are bytes.
 */
static inline __attribute__((always_inline)) bool detached_add(const struct stook_cache *cache,
                                                               struct detached_set *set,
                                                               struct detached_walk *walk,
                                                               uint32_t i, uint32_t index,
                                                               const bool bytes)
{
    uint16_t *link = (uint16_t *)(void *)(walk->links + (size_t)index * cache->layout.link_stride);

    if (STOOK_ENCODED &&
        __builtin_expect(bytes ? walk->marks[index] != MARK_OUT : *link != mark_link(cache), 0)) {
        (void)mark_check(cache, walk->list->slab, index);
        return false;
    }
    if (STOOK_ENCODED && bytes)
        walk->marks[index] = MARK_FREE;
    if (walk->count == 0)
        walk->list->tail = (uint16_t)index;
    if (!walk->linked) {
        set->index[i] = (uint16_t)index;
        set->before[i] = walk->last;
        walk->last = (uint8_t)i;
    }
    if (walk->linked ? walk->count > 0 || (STOOK_ENCODED && !bytes) : STOOK_ENCODED && !bytes)
        *link = slab_encode(cache, index, walk->linked && walk->count > 0 ? walk->head : SLAB_NONE);
    walk->head = index;
    walk->count++;
    return true;
}

/* Neighbours that follow the object i, each a stride further (`next` 1) or each a stride before (-1): the
 * first position behind them.  No multiplication is needed for them.  The last three are constants. */
static inline __attribute__((always_inline)) uint32_t detached_steps(
    const struct stook_cache *cache, struct detached_set *set, struct detached_walk *walk,
    void *const *objects, uint32_t i, uint32_t n, const uint32_t next, const bool linked,
    const bool bytes)
{
    const uintptr_t step = next == 1 ? cache->layout.stride : -(uintptr_t)cache->layout.stride;
    const ptrdiff_t link_step =
        next == 1 ? (ptrdiff_t)cache->layout.link_stride : -(ptrdiff_t)cache->layout.link_stride;
    const uint32_t most = walk->objects, secret = STOOK_ENCODED ? cache->secret : 0;
    uintptr_t object = (uintptr_t)objects[i];
    uint32_t index = walk->head, last = walk->last, from = i;
    char *at = walk->links + (size_t)index * cache->layout.link_stride;
    uint8_t *marks = walk->marks;

    while (++i < n && (uintptr_t)objects[i] == object + step && index + next < most) {
        uint32_t before = index;
        object += step;
        at += link_step;
        index += next;
        if (STOOK_ENCODED &&
            __builtin_expect(bytes ? marks[index] != MARK_OUT
                                   : *(uint16_t *)(void *)at != (uint16_t)(secret ^ SLAB_OUT),
                             0)) {
            index -= next; /* detached_add() says so */
            break;
        }
        if (STOOK_ENCODED && bytes)
            marks[index] = MARK_FREE;
        if (linked || (STOOK_ENCODED && !bytes)) /* what a list that is not linked has means free */
            *(uint16_t *)(void *)at = (uint16_t)(STOOK_ENCODED ? before ^ secret ^ index : before);
        if (!linked) {
            set->index[i] = (uint16_t)index;
            set->before[i] = (uint8_t)last;
            last = i;
        }
    }
    walk->head = index;
    walk->last = (uint8_t)last;
    walk->count += i - from - 1;
    return i;
}

/* What arrays mostly hold. */
static inline __attribute__((always_inline)) uint32_t detached_run(const struct stook_cache *cache,
                                                                   struct detached_set *set,
                                                                   struct detached_walk *walk,
                                                                   void *const *objects, uint32_t i,
                                                                   uint32_t n, const bool bytes)
{
    const uintptr_t stride = cache->layout.stride;
    uintptr_t step = i + 1 < n ? (uintptr_t)objects[i + 1] - (uintptr_t)objects[i] : 0;

    if (step == stride)
        return walk->linked ? detached_steps(cache, set, walk, objects, i, n, 1, true, bytes)
                            : detached_steps(cache, set, walk, objects, i, n, 1, false, bytes);
    if (step == -stride)
        return walk->linked
                   ? detached_steps(cache, set, walk, objects, i, n, (uint32_t)-1, true, bytes)
                   : detached_steps(cache, set, walk, objects, i, n, (uint32_t)-1, false, bytes);
    return i + 1;
}

/* What the walk comes to soon, if it is of another slab. */
static inline __attribute__((always_inline)) void detached_prefetch_ahead(
    const struct stook_cache *cache, const struct detached_walk *walk, void *const *objects,
    uint32_t i, uint32_t n)
{
    const void *ahead;

    if (i + DETACHED_AHEAD >= n)
        return;
    ahead = objects[i + DETACHED_AHEAD];
    if ((uintptr_t)ahead - walk->base < walk->bytes)
        return;
    detached_prefetch(cache, ahead);
    ahead = i + 2 * DETACHED_AHEAD < n ? objects[i + 2 * DETACHED_AHEAD] : NULL;
    if (pagemap_covers(ahead)) /* its entry of the page map, on which the above waits */
        __builtin_prefetch(pagemap_at(ahead));
}

/* Twice in the code, by where marks are. */
static inline __attribute__((always_inline)) uint32_t detached_walk(struct stook_cache *cache,
                                                                    struct detached_set *set,
                                                                    void *const *objects,
                                                                    uint32_t n, unsigned most,
                                                                    const bool bytes)
{
    const uint32_t all = n;
    struct detached_walk walk = {0};

    set->lists = 0;
    if (n > DETACHED_CHUNK)
        n = DETACHED_CHUNK;
    for (uint32_t i = 0; i < n;) {
        uintptr_t offset = (uintptr_t)objects[i] - walk.base;
        enum detached_moved moved = DETACHED_MOVED;
        uint32_t index;
        detached_prefetch_ahead(cache, &walk, objects, i, n);
        if (offset >= walk.bytes ||
            __builtin_expect(!layout_starts(&cache->layout, (uint32_t)offset, walk.objects, &index),
                             0)) {
            if (!objects[i]) {
                i++;
                continue;
            }
            moved = detached_move(cache, set, &walk, objects + i, n - i, all - i, most, &index);
        }
        if (__builtin_expect(moved == DETACHED_FULL, 0)) {
            n = i;
            break;
        }
        if (__builtin_expect(moved == DETACHED_REFUSED, 0) ||
            __builtin_expect(!detached_add(cache, set, &walk, i, index, bytes), 0)) {
            i++;
            continue;
        }
        i = detached_run(cache, set, &walk, objects, i, n, bytes);
    }
    detached_leave(&walk);
    for (unsigned i = 0; i < set->lists; i++)
        slab_counts.links +=
            set->list[i].linked && set->list[i].count > 0 ? set->list[i].count - 1u : 0;
    return n;
}

uint32_t detached_gather(struct stook_cache *cache, struct detached_set *set, void *const *objects,
                         uint32_t n, unsigned most)
{
    return cache->layout.marks ? detached_walk(cache, set, objects, n, most, true)
                               : detached_walk(cache, set, objects, n, most, false);
}

void detached_link(struct stook_cache *cache, const struct detached_set *set, struct detached *list)
{
    uint32_t at = list->last;

    for (uint32_t i = 1; i < list->count; i++, at = set->before[at])
        slab_set_link(cache, list->slab, set->index[at], set->index[set->before[at]]);
    slab_counts.links += list->count - 1u;
    list->linked = true;
}
