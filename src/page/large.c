/* SPDX-License-Identifier: MIT */
#include "page/large.h"

#include "base/context.h"
#include "os/os.h"
#include "page/arena.h"

#include <errno.h>
#include <stdatomic.h>

enum {
    LARGE_SLACK = 8, /* an object may be larger than asked by 1/8 of its size */
};

struct large {
    uint32_t pages;     /* of the object; of a span: all pages of its blocks */
    uint32_t blocks;    /* 0: a run */
    struct large *next; /* among those that a handler left to be freed */
    void *object;
    struct large_note note;
};

_Static_assert(sizeof(struct large) <= BLOCK_SPAN_META, "a span's descriptor lies in a header");

static _Atomic uint64_t large_objects, large_pages;

static size_t large_pages_of(size_t size)
{
    return size / PAGE_SIZE + (size % PAGE_SIZE != 0);
}

static size_t large_blocks_of(size_t size)
{
    return size / BLOCK_SIZE + (size % BLOCK_SIZE != 0);
}

static void large_account(uint64_t objects, uint64_t pages)
{
    atomic_fetch_add_explicit(&large_objects, objects, memory_order_relaxed);
    atomic_fetch_add_explicit(&large_pages, pages, memory_order_relaxed);
}

static struct large *large_of(const void *object)
{
    uint32_t entry;

    if (!pagemap_covers(object) || (uintptr_t)object % PAGE_SIZE != 0)
        return NULL;
    entry = *pagemap_at(object);
    if (entry == 0)
        return arena_span_meta(object);
    if (pagemap_cache(entry) != 0)
        return NULL;
    return arena_meta(object, pagemap_granule(entry));
}

/* Huge pages, but not under a last block that is used in part: that would be mostly waste. */
static void large_advise(const struct large *large, size_t size)
{
    size_t whole = size >> BLOCK_SHIFT;
    char *rest = (char *)large->object + (whole << BLOCK_SHIFT);

    if (((size_t)large->blocks << BLOCK_SHIFT) - size <= size / LARGE_SLACK)
        whole = large->blocks;
    arena_span_advise(large->object, whole, true);
    arena_span_advise(rest, large->blocks - whole, false);
}

/* Else it is a span of blocks. */
static bool large_is_run(size_t pages, size_t align)
{
    return pages <= ARENA_RUN_PAGES_MAX && align <= BLOCK_SIZE;
}

/* Back to the arena; the descriptor is gone already. */
static void large_release(void *object, size_t pages, size_t blocks)
{
    if (blocks == 0)
        arena_free_run(object, pages);
    else
        arena_span_free(object, blocks);
}

/* Writes the descriptor: from here on it is found. */
static bool large_list(void *object, size_t pages, size_t blocks, bool nospin)
{
    struct large made = {(uint32_t)pages, (uint32_t)blocks, NULL, object, {0}}, *large;

    if (blocks > 0) {
        arena_span_mark(object, &made, sizeof(made));
        return true;
    }
    large = arena_alloc_meta(object, sizeof(*large), nospin);
    if (!large)
        return false;
    *large = made;
    *pagemap_at(object) = pagemap_entry(0, arena_granule(object, large));
    return true;
}

/* Of two that free the same object at once, one sees it gone. */
static bool large_unlist(const struct large *large)
{
    if (large->blocks > 0)
        return arena_span_unmark(large->object);
    return __atomic_exchange_n(pagemap_at(large->object), 0, __ATOMIC_ACQ_REL) != 0;
}

void *large_alloc(unsigned zone, size_t size, size_t align, bool nospin, bool *zeroed)
{
    size_t pages = large_pages_of(size), blocks = 0;
    void *object;

    if (pages == 0)
        pages = 1;
    if (large_is_run(pages, align)) {
        object = arena_alloc_run(zone, pages, align <= PAGE_SIZE ? 1 : align / PAGE_SIZE, nospin,
                                 zeroed);
    } else {
        blocks = large_blocks_of(pages * PAGE_SIZE);
        object =
            arena_span_alloc(zone, blocks, align < BLOCK_SIZE ? BLOCK_SIZE : align, nospin, zeroed);
        pages = blocks * BLOCK_PAGES;
    }
    if (!object)
        return NULL;
    if (!large_list(object, pages, blocks, nospin)) {
        large_release(object, pages, blocks);
        errno = ENOMEM;
        return NULL;
    }
    if (blocks > 0)
        large_advise(large_of(object), size);
    large_account(1, pages);
    return object;
}

size_t large_size(const void *object)
{
    const struct large *large = large_of(object);

    return large ? (size_t)large->pages * PAGE_SIZE : 0;
}

struct large_note *large_note(const void *object)
{
    struct large *large = large_of(object);

    return large ? &large->note : NULL;
}

static void large_finish(struct large *large)
{
    void *object = large->object;
    size_t pages = large->pages, blocks = large->blocks;

    large_account(-(uint64_t)1, -(uint64_t)pages);
    if (blocks == 0)
        arena_free_meta(object, large, sizeof(*large));
    large_release(object, pages, blocks);
}

bool large_free(void *object, bool nospin)
{
    struct large *large = large_of(object);

    if (!large || !large_unlist(large))
        return false;
    if (nospin) {
        struct context *context = context_self();
        struct large *next = atomic_load_explicit(&context->large, memory_order_relaxed);
        /* Handlers nest, they do not run side by side: an exchange that fails is tried again. */
        do {
            large->next = next;
        } while (!atomic_compare_exchange_weak_explicit(
            &context->large, &next, large, memory_order_relaxed, memory_order_relaxed));
    } else {
        large_finish(large);
    }
    return true;
}

void large_settle(void)
{
    struct context *context = context_self();
    struct large *large = atomic_exchange_explicit(&context->large, NULL, memory_order_relaxed);

    while (large) {
        struct large *next = large->next;
        large_finish(large);
        large = next;
    }
}

static bool large_resize_run(struct large *large, size_t pages)
{
    if (pages > large->pages) {
        if (!arena_extend_run(large->object, large->pages, pages - large->pages))
            return false;
        large_account(0, pages - large->pages);
    } else {
        size_t rest = large->pages - pages;
        if (rest <= large->pages / LARGE_SLACK)
            return true;
        large_account(0, -(uint64_t)rest);
        arena_free_run((char *)large->object + pages * PAGE_SIZE, rest);
    }
    large->pages = (uint32_t)pages;
    return true;
}

static bool large_resize_span(struct large *large, size_t size)
{
    size_t blocks = large_blocks_of(size), had = large->blocks;
    char *end = (char *)large->object + (blocks << BLOCK_SHIFT);

    if (blocks > had) {
        if (!arena_span_extend(large->object, had, blocks - had))
            return false;
        large_account(0, (blocks - had) * BLOCK_PAGES);
    } else if (blocks < had) {
        char *unused = (char *)large->object + large_pages_of(size) * PAGE_SIZE;
        large_account(0, -(uint64_t)((had - blocks) * BLOCK_PAGES));
        large_release(end, 0, had - blocks);
        os_release(unused, (size_t)(end - unused));
    }
    large->blocks = (uint32_t)blocks;
    large->pages = (uint32_t)(blocks * BLOCK_PAGES);
    large_advise(large, size);
    return true;
}

bool large_resize(void *object, size_t size)
{
    struct large *large = large_of(object);
    size_t pages = large_pages_of(size);

    if (!large || size == 0)
        return false;
    if (large->blocks > 0)
        return large_resize_span(large, size);
    return pages <= ARENA_RUN_PAGES_MAX && large_resize_run(large, pages);
}

void *large_move(unsigned zone, void *object, size_t size)
{
    struct large *large = large_of(object);
    size_t pages, blocks;
    void *moved;

    if (!large || large->blocks == 0 || large_blocks_of(size) < large->blocks)
        return NULL;
    moved = large_alloc(zone, size, BLOCK_SIZE, false, NULL);
    if (!moved)
        return NULL;
    pages = large->pages;
    blocks = large->blocks;
    if (!os_move(object, moved, pages * PAGE_SIZE)) {
        (void)large_free(moved, false);
        return NULL;
    }
    arena_span_moved(object, moved, blocks);
    large_advise(large_of(moved), size);
    large_of(moved)->note = large->note;
    (void)large_unlist(large);
    large_account(-(uint64_t)1, -(uint64_t)pages);
    arena_span_free_clean(object, blocks);
    return moved;
}

void large_count(uint64_t *objects, uint64_t *bytes)
{
    *objects = atomic_load_explicit(&large_objects, memory_order_relaxed);
    *bytes = atomic_load_explicit(&large_pages, memory_order_relaxed) * PAGE_SIZE;
}
