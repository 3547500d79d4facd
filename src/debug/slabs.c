/* SPDX-License-Identifier: MIT */
/*
 * slabs.c - see slabs.h.
 *
 * A thread that validates has one slab of a debug cache pinned at a time: it stores its address, then reads the
 * page map once more.  A thread that gives a slab back clears its entries of the page map, then waits while
 * the slab is pinned.  So one of the two sees the other.
 */
#include "debug/slabs.h"

#include "base/lock.h"
#include "base/placed.h"
#include "debug/object.h"
#include "debug/report.h"
#include "debug/tools.h"
#include "page/zone.h"
#include "slab/node_steps.h"

#include <string.h>

enum {
    SLABS_ORDER = 3, /* slabs of that order … */
    SLABS_OBJECTS =
        8, /* … or for so many objects: what is kept about objects fills blocks' metadata */
    SLABS_BUSY_MAX = 32, /* objects that are reported at destroy */
    SLABS_ALIGN = 64,
    SLABS_TOOL_ALIGN = 8, /* what AddressSanitizer distinguishes */
    SLABS_TRIES = 8,
};

/* ---- plan ----------------------------------------------------------------------------------- */

void slabs_plan(uint32_t flags, struct layout_request *request)
{
    uint32_t size = (uint32_t)request->size, align, stride;
    unsigned order = SLABS_ORDER;

    /* malloc's classes serve alignments that their sizes have. */
    if ((flags & CACHE_MALLOC) && (size & -size) > request->align)
        request->align = (size & -size) < SLABS_ALIGN ? size & -size : SLABS_ALIGN;
    if (tools_watch && request->align < SLABS_TOOL_ALIGN)
        request->align = SLABS_TOOL_ALIGN;
    align = request->align < 2 ? 2 : (uint32_t)request->align;

    request->wishes = (request->wishes & ~(unsigned)LAYOUT_LINK_INSIDE) | LAYOUT_LINK_OUTSIDE |
                      LAYOUT_COLUMNS_OUTSIDE;
    if (flags & DEBUG_Z) {
        request->gap = ZONE_GAP;
        stride = (size + ZONE_GAP + align - 1) & ~(align - 1);
        request->lead = (zone_left_of(stride - size) + align - 1) & ~(align - 1);
    }
    request->element[LAYOUT_TRACK] = track_bytes(flags);
    while (order < LAYOUT_ORDER_MAX &&
           (size_t)PAGE_SIZE << order <
               request->lead + (size_t)SLABS_OBJECTS * (size + request->gap + align))
        order++;
    request->orders = (2u << order) - 1;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

static uint64_t slabs_word(const struct slab *slab)
{
    return atomic_load_explicit(&slab->state, memory_order_acquire);
}

void slabs_made(const struct stook_cache *cache, struct slab *slab)
{
    uint64_t word = slabs_word(slab);

    for (uint32_t i = 0; i < slab_objects(cache, word); i++)
        object_init(cache, slab, i);
    tools_slab_made(cache, slab, (size_t)PAGE_SIZE << slab_order(cache, word));
}

/* ---- a slab that stays ---------------------------------------------------------------------- */

static struct lock slabs_lock; /* of the thread that validates */
static _Atomic(const struct slab *) slabs_pinned;
static __thread bool slabs_self __attribute__((tls_model("initial-exec")));

static void slabs_begin(void)
{
    for (unsigned turn = 0; !lock_word_try(&slabs_lock); turn++)
        lock_pause(turn);
    slabs_self = true;
}

static void slabs_end(void)
{
    slabs_self = false;
    lock_word_drop(&slabs_lock);
}

SECOND_TEXT void slabs_child(void)
{
    object_child();
    lock_init(&slabs_lock);
    atomic_store(&slabs_pinned, NULL);
    slabs_self = false;
}

/* The slab that begins at this page, pinned; NULL: there is none, or no more. */
static struct slab *slabs_pin(const struct stook_cache *cache, size_t page)
{
    uint32_t entry = __atomic_load_n(&pagemap.entry[page], __ATOMIC_ACQUIRE);
    struct slab *slab;

    if (pagemap_cache(entry) != cache->index)
        return NULL;
    slab = slab_at((char *)pagemap.base + (page << PAGE_SHIFT), entry);
    atomic_store(&slabs_pinned, slab);
    atomic_thread_fence(memory_order_seq_cst);
    if (__atomic_load_n(&pagemap.entry[page], __ATOMIC_SEQ_CST) == entry && slab->page == page)
        return slab;
    atomic_store(&slabs_pinned, NULL);
    return NULL;
}

void slabs_gone(const struct stook_cache *cache, struct slab *slab)
{
    uint32_t objects = slab_objects(cache, slabs_word(slab));

    atomic_thread_fence(memory_order_seq_cst);
    for (unsigned turn = 0; !slabs_self && atomic_load(&slabs_pinned) == slab; turn++)
        lock_pause(turn);
    tools_slab_gone(slab, (size_t)PAGE_SIZE << slab_order(cache, slabs_word(slab)));
    for (uint32_t i = 0; i < objects; i++)
        object_check_free(cache, slab, i);
}

/* ---- links ---------------------------------------------------------------------------------- */

/*
 * Follows the freelist of a state word, without memory: a list that links back is as long as it should be, and does not
 * end there.  False: it does not add up, which the finding says.
 */
__attribute__((no_sanitize("thread"))) static bool slabs_follow(const struct stook_cache *cache,
                                                                const struct slab *slab,
                                                                uint64_t word,
                                                                struct debug_finding *finding)
{
    uint32_t next = slab_head(word), index = next, objects = slab_objects(cache, word);
    uint32_t count = objects - slab_inuse(word), reached = 0;

    /* An empty slab's list means nothing. */
    if (slab_inuse(word) == 0 || slab_inuse(word) > objects)
        return slab_inuse(word) == 0;
    for (; next != SLAB_NONE; reached++) {
        if (next >= objects || reached == count) {
            finding->what = DEBUG_LINK;
            finding->index = index;
            finding->object = finding->at = slab_object(cache, slab, index);
            finding->value = next;
            finding->objects = objects;
            return false;
        }
        index = next;
        next = slab_encode(cache, index, *slab_link(cache, slab, index));
    }
    finding->what = DEBUG_COUNT;
    finding->value = slab_inuse(word);
    finding->objects = objects - reached;
    return reached == count;
}

/* The same of the list as it is now, read while nothing changed.  *word: the state word. */
static bool slabs_check_list(const struct stook_cache *cache, const struct slab *slab,
                             uint64_t *word, struct debug_finding *finding)
{
    for (unsigned i = 0; i < SLABS_TRIES; i++) {
        *word = slabs_word(slab);
        if (slabs_follow(cache, slab, *word, finding))
            return true;
        atomic_thread_fence(memory_order_acquire);
        if (slabs_word(slab) == *word)
            return false;
    }
    return true; /* in use by others all the time */
}

/* Takes a freelist with an error out of its slab, whose free objects are never used again.  False: the state word has
 * changed, and the next validation finds the error. */
static bool slabs_isolate(struct stook_cache *cache, struct slab *slab, uint64_t word)
{
    struct node *node = node_of(cache, slab);
    uint64_t taken = node_emptied(cache, word);
    bool done;

    lock_take(&node->lock, LOCK_NODE);
    node_locked(cache, node);
    /* Partial and on the list, as long as the word is this one. */
    done = slab_head(word) != SLAB_NONE && slab_inuse(word) > 0 &&
           !(slab_flags(word) & SLAB_PENDING) && list_linked(&slab->link) &&
           atomic_compare_exchange_strong_explicit(&slab->state, &word, taken, memory_order_acq_rel,
                                                   memory_order_relaxed);
    if (done)
        node_remove(&node->nr_partial, slab);
    lock_drop(&node->lock, LOCK_NODE);
    return done;
}

/* ---- all slabs ------------------------------------------------------------------------------ */

static size_t slabs_validate_debug(struct stook_cache *cache, struct slab *slab)
{
    struct debug_finding finding = {.done = DEBUG_QUARANTINED, .cache = cache, .slab = slab};
    uint32_t objects = slab_objects(cache, slabs_word(slab));
    size_t errors = 0;
    uint64_t word;

    for (uint32_t i = 0; i < objects; i++)
        errors += object_validate(cache, slab, i);
    if (!slabs_check_list(cache, slab, &word, &finding) && slabs_isolate(cache, slab, word)) {
        (void)debug_report(&finding);
        errors++;
    }
    return errors;
}

/* Of a cache without debug flags: the list alone, while the zone's lock keeps the slab. */
static size_t slabs_validate_plain(const struct stook_cache *cache, size_t page)
{
    char *base = (char *)pagemap.base + (page << PAGE_SHIFT);
    struct zone *zone = &zone_all.zone[pagemap_zone(base)];
    struct debug_finding finding = {.cache = cache, .done = DEBUG_ACCEPTED};
    bool wrong = false;
    uint32_t entry;
    uint64_t word;

    lock_take(&zone->lock, LOCK_ARENA);
    entry = __atomic_load_n(&pagemap.entry[page], __ATOMIC_ACQUIRE);
    if (pagemap_cache(entry) == cache->index) {
        const struct slab *slab = slab_at(base, entry);
        finding.slab = slab;
        wrong = slab->page == page && !slabs_check_list(cache, slab, &word, &finding);
    }
    lock_drop(&zone->lock, LOCK_ARENA);
    if (wrong)
        (void)debug_report(&finding);
    return wrong;
}

size_t slabs_validate(struct stook_cache *cache)
{
    size_t errors = 0, page = 0;

    slabs_begin();
    while ((page = slab_search(cache, page)) < SIZE_MAX) {
        struct slab *slab = debug_of(cache) ? slabs_pin(cache, page) : NULL;
        if (slab)
            errors += slabs_validate_debug(cache, slab);
        else if (!debug_of(cache))
            errors += slabs_validate_plain(cache, page);
        atomic_store(&slabs_pinned, NULL);
        page++;
    }
    slabs_end();
    return errors;
}

void slabs_busy(struct stook_cache *cache)
{
    size_t page = 0, found = 0;

    slabs_begin();
    while (found < SLABS_BUSY_MAX && (page = slab_search(cache, page)) < SIZE_MAX) {
        struct slab *slab = slabs_pin(cache, page++);
        for (uint32_t i = 0; slab && i < slab_objects(cache, slabs_word(slab)); i++) {
            struct debug_finding finding = {.what = DEBUG_STILL_OUT,
                                            .done = DEBUG_REFUSED,
                                            .cache = cache,
                                            .slab = slab,
                                            .object = slab_object(cache, slab, i),
                                            .at = slab_object(cache, slab, i),
                                            .index = i};
            uint32_t word = atomic_load_explicit(object_word(cache, slab, i), memory_order_acquire);
            if ((word & OBJECT_STATE) != OBJECT_LIVE || ++found > SLABS_BUSY_MAX)
                continue;
            finding.requested = track_head(cache, slab, i)->requested;
            (void)debug_report(&finding);
        }
        atomic_store(&slabs_pinned, NULL);
    }
    slabs_end();
}
