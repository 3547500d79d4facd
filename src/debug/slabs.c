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
#include "slab/mark.h"
#include "slab/node_steps.h"

#include <string.h>

enum {
    SLABS_ORDER = 3, /* slabs of that order … */
    SLABS_OBJECTS =
        8, /* … or for so many objects: what is kept about objects fills blocks' metadata */
    SLABS_BUSY_MAX = 32, /* objects that are reported at destroy */
    SLABS_ALIGN = 64,
    SLABS_TOOL_ALIGN = 8, /* what AddressSanitizer distinguishes */
    SLABS_BATCH = 64,
    SLABS_TRIES = 8,
    SLABS_WORDS = (STOOK_SLAB_OBJECTS_MAX + 63) / 64,
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
    request->element[LAYOUT_TRACK] = track_bytes(flags, true);
    if (request->element[LAYOUT_TRACK] < sizeof(struct track_head))
        request->element[LAYOUT_TRACK] = sizeof(struct track_head);
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

    if (debug_of(cache) & DEBUG_P)
        memset(slab_base(slab), POISON_FRESH, (size_t)PAGE_SIZE << slab_order(cache, word));
    track_clear(cache, slab);
    for (uint32_t i = 0; i < slab_objects(cache, word); i++)
        object_init(cache, slab, i);
    tools_slab_made(cache, slab, (size_t)PAGE_SIZE << slab_order(cache, word));
}

static unsigned slabs_check_padding(const struct stook_cache *cache, const struct slab *slab,
                                    char *from, const char *end)
{
    struct debug_finding finding = {
        .what = DEBUG_PADDING, .done = DEBUG_RESTORED, .cache = cache, .slab = slab};
    struct zone_change change;

    if (!(debug_of(cache) & DEBUG_P) || from >= end ||
        !zone_differs((uint8_t *)from, (size_t)(end - from), POISON_FRESH, &change))
        return 0;
    finding.at = change.at;
    finding.changed = change.bytes;
    finding.expected = change.expected;
    (void)debug_report(&finding);
    memset(change.at, POISON_FRESH, change.bytes);
    return 1;
}

static unsigned slabs_check_ends(const struct stook_cache *cache, const struct slab *slab)
{
    uint64_t word = slabs_word(slab);
    char *base = slab_base(slab);

    return slabs_check_padding(cache, slab, base, slab_first(cache, slab) - zone_left(cache)) +
           slabs_check_padding(cache, slab, slab_object(cache, slab, slab_objects(cache, word)),
                               base + ((size_t)PAGE_SIZE << slab_order(cache, word)));
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

FIRST_TEXT void slabs_child(void)
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
        (void)object_check(cache, slab, i, OBJECT_FREE, 0);
    (void)slabs_check_ends(cache, slab);
}

/* ---- links ---------------------------------------------------------------------------------- */

/* A freelist as it was read: which objects it reaches. */
struct slabs_list {
    uint64_t word;
    uint32_t objects, count; /* of the slab; how many are free */
    uint32_t reached;
    uint64_t seen[SLABS_WORDS];
};

static bool slabs_seen(const struct slabs_list *list, uint32_t index)
{
    return list->seen[index / 64] >> index % 64 & 1;
}

/* Follows the list of a state word.  False: it does not add up, which the finding says. */
__attribute__((no_sanitize("thread"))) static bool slabs_follow(const struct stook_cache *cache,
                                                                const struct slab *slab,
                                                                struct slabs_list *list,
                                                                struct debug_finding *finding)
{
    uint32_t next = slab_head(list->word), index = next;

    list->objects = slab_objects(cache, list->word);
    list->count = list->objects - slab_inuse(list->word);
    list->reached = 0;
    memset(list->seen, 0, (list->objects + 63) / 64 * sizeof(list->seen[0]));
    /* An empty slab's list means nothing. */
    if (slab_inuse(list->word) == 0 || slab_inuse(list->word) > list->objects)
        return slab_inuse(list->word) == 0;
    while (next != SLAB_NONE) {
        if (next >= list->objects || slabs_seen(list, next)) {
            finding->what = DEBUG_LINK;
            finding->index = index;
            finding->object = finding->at = slab_object(cache, slab, index);
            finding->value = next;
            finding->objects = list->objects;
            return false;
        }
        list->seen[next / 64] |= (uint64_t)1 << next % 64;
        list->reached++;
        index = next;
        next = slab_encode(cache, index, *slab_link(cache, slab, index));
    }
    finding->what = DEBUG_COUNT;
    finding->value = slab_inuse(list->word);
    finding->objects = list->objects - list->reached;
    return list->reached == list->count;
}

/* The same of the list as it is now, read while nothing changed. */
static bool slabs_check_list(const struct stook_cache *cache, const struct slab *slab,
                             struct slabs_list *list, struct debug_finding *finding)
{
    for (unsigned i = 0; i < SLABS_TRIES; i++) {
        list->word = slabs_word(slab);
        if (slabs_follow(cache, slab, list, finding))
            return true;
        atomic_thread_fence(memory_order_acquire);
        if (slabs_word(slab) == list->word)
            return false;
    }
    return true; /* in use by others all the time */
}

/* Objects that are with the library, in their slab, and that the list of it does not reach.  While other threads
 * free to the slab theirs are among them. */
static uint32_t slabs_find_lost(const struct stook_cache *cache, const struct slab *slab,
                                struct slabs_list *list)
{
    uint32_t lost = 0;

    for (uint32_t i = 0; i < list->objects; i++) {
        uint32_t word = atomic_load_explicit(object_word(cache, slab, i), memory_order_acquire);
        if (slabs_seen(list, i) || (word & OBJECT_STATE) != OBJECT_FREE ||
            mark_is_out(cache, slab, i))
            continue;
        list->seen[i / 64] |= (uint64_t)1 << i % 64;
        lost++;
    }
    return lost;
}

/* The objects of a list that is this thread's go back, one freelist anew. */
static void slabs_put_back(struct stook_cache *cache, struct slab *slab,
                           const struct slabs_list *list)
{
    void *objects[SLABS_BATCH];
    uint32_t n = 0, left = list->reached;

    /* The slab may go with the last of them. */
    for (uint32_t i = 0; left > 0; i++) {
        if (!slabs_seen(list, i))
            continue;
        mark_out(cache, slab, i);
        objects[n++] = slab_object(cache, slab, i);
        left--;
        if (n == SLABS_BATCH || left == 0) {
            node_put(cache, objects, n, false);
            n = 0;
        }
    }
}

/* Takes the freelist out of a slab whose state word is still `word`; false: it is not.  The list is the caller's, and its
 * objects count as out. */
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

/*
 * The list is taken out of the slab.  It is built anew if it is certain which objects it had; else those that it
 * reaches go back, and the others are never used again.
 */
static unsigned slabs_repair(struct stook_cache *cache, struct slab *slab, struct slabs_list *list,
                             struct debug_finding *finding)
{
    struct slabs_list all;
    uint32_t lost;

    if (!slabs_isolate(cache, slab, list->word))
        return 0; /* it has changed: the next validation finds it */
    all = *list;
    lost = slabs_find_lost(cache, slab, &all);
    finding->done = DEBUG_QUARANTINED;
    if (list->reached + lost == list->count) {
        all.reached = list->count;
        *list = all;
        finding->done = DEBUG_RESTORED;
    }
    (void)debug_report(finding);
    slabs_put_back(cache, slab, list);
    return 1;
}

/* ---- all slabs ------------------------------------------------------------------------------ */

static size_t slabs_validate_debug(struct stook_cache *cache, struct slab *slab)
{
    struct debug_finding finding = {.cache = cache, .slab = slab};
    uint32_t objects = slab_objects(cache, slabs_word(slab));
    size_t errors = slabs_check_ends(cache, slab);
    static struct slabs_list list LARGE_BSS; /* slabs_lock */

    for (uint32_t i = 0; i < objects; i++)
        errors += object_validate(cache, slab, i);
    /* Last: the slab may go. */
    if (!slabs_check_list(cache, slab, &list, &finding))
        errors += slabs_repair(cache, slab, &list, &finding);
    return errors;
}

/* Of a cache without debug flags: the list alone, while the zone's lock keeps the slab. */
static size_t slabs_validate_plain(const struct stook_cache *cache, size_t page)
{
    char *base = (char *)pagemap.base + (page << PAGE_SHIFT);
    struct zone *zone = &zone_all.zone[pagemap_zone(base)];
    struct debug_finding finding = {.cache = cache, .done = DEBUG_ACCEPTED};
    static struct slabs_list list LARGE_BSS; /* slabs_lock */
    bool wrong = false;
    uint32_t entry;

    lock_take(&zone->lock, LOCK_ARENA);
    entry = __atomic_load_n(&pagemap.entry[page], __ATOMIC_ACQUIRE);
    if (pagemap_cache(entry) == cache->index) {
        const struct slab *slab = slab_at(base, entry);
        finding.slab = slab;
        wrong = slab->page == page && !slabs_check_list(cache, slab, &list, &finding);
    }
    lock_drop(&zone->lock, LOCK_ARENA);
    if (wrong)
        (void)debug_report(&finding);
    return wrong;
}

size_t slabs_validate(struct stook_cache *cache)
{
    size_t errors = 0, page = 0, end = slab_pages_end();

    slabs_begin();
    while ((page = slab_search(cache, page, end)) < end) {
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
    size_t page = 0, end = slab_pages_end(), found = 0;

    slabs_begin();
    while (found < SLABS_BUSY_MAX && (page = slab_search(cache, page, end)) < end) {
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
