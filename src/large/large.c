/* SPDX-License-Identifier: MIT */
/*
 * large.c - allocates, frees and resizes objects of whole pages, as runs within a block or spans of blocks.
 */
#include "large/large.h"

#include "base/context.h"
#include "base/lock.h"
#include "base/placed.h"
#include "large/arena_note.h"
#include "large/arena_span.h"
#include "large/begin.h"
#include "large/edge.h"
#include "large/kept.h"
#include "large/move.h"
#include "large/outside.h"
#include "os/os.h"
#include "page/arena.h"
#include "percpu/rows.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

enum {
    LARGE_SLACK = 8, /* an object may be larger than asked by 1/8 of its size */
};

_Atomic bool large_noted;

_Static_assert(sizeof(struct large_note) == ARENA_NOTE, "a note has its place in the arena");

struct large_row large_row[LARGE_ROWS] LARGE_BSS;

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
    rows_add(&large_row[1].count, ROWS_LINE, objects + (pages << LARGE_OBJECT_BITS));
}

/* Huge pages, but not under a last block that is used in part: that would be mostly waste. */
static void large_advise(void *object, size_t blocks, size_t size)
{
    size_t whole = size >> BLOCK_SHIFT;
    char *rest = (char *)object + (whole << BLOCK_SHIFT);

    if ((blocks << BLOCK_SHIFT) - size <= size / LARGE_SLACK)
        whole = blocks;
    arena_span_advise(object, whole, true);
    arena_span_advise(rest, blocks - whole, false);
}

/* Else it is a span of blocks. */
static bool large_is_run(size_t pages, size_t align)
{
    return pages <= ARENA_RUN_PAGES_MAX && align <= BLOCK_SIZE;
}

static unsigned large_row_of(size_t pages)
{
    return kept_row(percpu_cpu(), pages);
}

/* Back to the arena; it is not found any more. */
static void large_release(void *object, struct extent extent)
{
    if (extent.edges) {
        edge_free(object, extent.pages);
    } else if (extent.blocks > 0) {
        bool open = edge_span_open(object, extent.blocks);
        edge_span_end(object);
        if (!open)
            arena_span_free_closed(object, extent.blocks);
        else
            arena_span_keep(object, extent.blocks);
    } else {
        arena_free_run(object, extent.pages);
    }
}

/* What a run is made for. */
struct large_ask {
    size_t size, align;
    bool nospin, edges; /* it may have edges */
};

static struct extent large_extent(size_t size, size_t align)
{
    size_t pages = size > 0 ? large_pages_of(size) : 1, blocks = large_blocks_of(pages * PAGE_SIZE);

    return large_is_run(pages, align) ? (struct extent){pages, 0, false}
                                      : (struct extent){blocks * BLOCK_PAGES, blocks, false};
}

/* It is found from here on. */
static void *large_done(void *object, struct extent extent, size_t size)
{
    begin_set(object, extent);
    large_account(1, extent.pages);
    if (extent.blocks > 0)
        large_advise(object, extent.blocks, size);
    return object;
}

/* Of what is kept. */
static void *large_cut(unsigned zone, size_t size, size_t align)
{
    struct extent extent = large_extent(size, align);
    unsigned row = extent.blocks > 0 ? KEPT_SPAN : large_row_of(extent.pages);
    void *object;

    if (align > (extent.blocks > 0 ? BLOCK_SIZE : PAGE_SIZE))
        return NULL;
    object = kept_cut(row, zone, extent.pages);
    if (!object && row < KEPT_LONG)
        object = kept_cut(KEPT_LONG, zone, extent.pages);
    return object ? large_done(object, extent, size) : NULL;
}

/* No run fits that is kept: those of the CPU and the process go back, and a block of the span. */
static void large_missed(unsigned zone, size_t pages)
{
    void *block = kept_cut(KEPT_SPAN, zone, BLOCK_PAGES);

    if (pages <= KEPT_SHORT)
        (void)arena_kept_drop_row(large_row_of(pages));
    (void)arena_kept_drop_row(KEPT_LONG);
    if (block)
        arena_span_free(block, 1);
}

static void *large_alloc_run(unsigned zone, const struct large_ask *ask, struct extent *extent,
                             bool *zeroed)
{
    size_t pages = extent->pages;
    void *run;

    if (ask->align > PAGE_SIZE)
        return arena_alloc_run(zone, pages, ask->align / PAGE_SIZE, ask->nospin, zeroed);
    if (!ask->nospin)
        large_missed(zone, pages);
    if (ask->edges && !ask->nospin && (run = edge_alloc(zone, pages, zeroed)) != NULL) {
        extent->edges = true;
        return run;
    }
    run = arena_alloc_run(zone, pages, 1, ask->nospin, zeroed);
    if (!run && !ask->nospin && edge_trim() + arena_kept_drop() > 0)
        run = arena_alloc_run(zone, pages, 1, false, zeroed);
    if (*zeroed)
        edge_passed();
    return run;
}

static void *large_alloc_span(unsigned zone, const struct large_ask *ask, size_t blocks,
                              bool *zeroed)
{
    bool plain = ask->align <= BLOCK_SIZE;
    void *span = plain ? kept_cut(KEPT_CLEAN, zone, blocks * BLOCK_PAGES) : NULL;

    if (span) {
        *zeroed = true;
        return span;
    }
    for (unsigned row = KEPT_SPAN; !ask->nospin && row < KEPT_ROWS; row++)
        (void)arena_kept_drop_row(row);
    span = arena_span_alloc(zone, blocks, plain ? BLOCK_SIZE : ask->align, ask->nospin, zeroed);
    if (span && plain && ask->edges && *zeroed)
        edge_span(span, blocks, large_pages_of(ask->size));
    return span;
}

static void *large_make(unsigned zone, const struct large_ask *ask, bool *zeroed)
{
    struct extent extent = large_extent(ask->size, ask->align);
    void *object = large_cut(zone, ask->size, ask->align);
    bool fresh = false;

    if (!object) {
        object = extent.blocks > 0 ? large_alloc_span(zone, ask, extent.blocks, &fresh)
                                   : large_alloc_run(zone, ask, &extent, &fresh);
        if (object)
            (void)large_done(object, extent, ask->size);
    }
    if (zeroed)
        *zeroed = fresh;
    return object;
}

void *large_alloc(unsigned zone, size_t size, size_t align, bool nospin, bool *zeroed)
{
    const struct large_ask ask = {size, align, nospin, false};

    return large_make(zone, &ask, zeroed);
}

/* To a thread that met a fork since lock_turn() was `turn`. */
static void *large_alloc_outside(uint32_t turn, size_t size, size_t align, bool *zeroed)
{
    void *object = lock_forked_since(turn) ? outside_alloc(size, align) : NULL;

    if (object) {
        large_account(1, outside_of(object)->bytes / PAGE_SIZE);
        if (zeroed)
            *zeroed = true;
    }
    return object;
}

/* A number that the thread has kept in locked mode may be another node's. */
static unsigned large_home(void)
{
    return topology.home_of_node[topology.nodes > 1 ? percpu_node(percpu_cpu_asked()) : 0];
}

void *large_again(size_t size, size_t align)
{
    return large_cut(large_home(), size, align);
}

void *large_alloc_any(size_t size, size_t align, bool nospin, bool *zeroed)
{
    unsigned home = large_home();
    const struct large_ask ask = {size, align, nospin, true};
    uint32_t turn = lock_turn();
    void *object = large_make(home, &ask, zeroed);

    for (unsigned zone = 0; !object && zone < pagemap.zones; zone++)
        if (zone != home && (topology.memory_nodes >> (zone & (pagemap.zones / 2 - 1)) & 1))
            object = large_make(zone, &ask, zeroed);
    return object ? object : large_alloc_outside(turn, size, align, zeroed);
}

size_t large_size(const void *object)
{
    struct extent extent = begin_find(object);
    const struct outside *outside = extent.pages > 0 ? NULL : outside_of(object);

    if (outside)
        return outside->bytes;
    return PAGE_SIZE * (extent.blocks > 0 ? edge_span_pages(object, extent.blocks) : extent.pages);
}

size_t large_bytes(const void *object)
{
    size_t pages = begin_find(object).pages;

    return pages > 0 ? pages * PAGE_SIZE : large_size(object);
}

const struct large_note *large_note(const void *object)
{
    struct extent extent = begin_find(object);
    struct outside *outside;

    if (extent.pages > 0)
        return arena_note(object, extent.blocks > 0);
    outside = outside_of(object);
    return outside ? (const struct large_note *)(const void *)outside->note : NULL;
}

bool large_set_note(void *object, struct large_note note)
{
    struct extent extent = begin_find(object);
    struct outside *outside = extent.pages > 0 ? NULL : outside_of(object);
    uint64_t word;

    if (!atomic_load_explicit(&large_noted, memory_order_relaxed))
        atomic_store_explicit(&large_noted, true, memory_order_relaxed);
    memcpy(&word, &note, sizeof(word));
    if (!outside)
        return arena_set_note(object, extent.blocks > 0, word);
    memcpy(outside->note, &note, sizeof(note));
    return true;
}

static bool large_free_outside(void *object)
{
    size_t bytes = outside_free(object);

    large_account(-(uint64_t)(bytes > 0), -(uint64_t)(bytes / PAGE_SIZE));
    return bytes > 0;
}

bool large_free(void *object)
{
    struct extent extent = begin_clear(object);

    if (extent.pages == 0)
        return large_free_outside(object);
    arena_unnote(object, extent.blocks > 0);
    large_account(-(uint64_t)1, -extent.pages);
    if (extent.blocks == 0 && !extent.edges &&
        kept_put(large_row_of(extent.pages), object, extent.pages))
        return true;
    context_enter(); /* from within the library, too: then its pages go back when the call leaves it */
    large_release(object, extent);
    context_leave();
    return true;
}

static bool large_resize_run(void *object, struct extent had, size_t pages)
{
    if (had.edges && (pages > had.pages || had.pages - pages > had.pages / LARGE_SLACK)) {
        if (!edge_drop(object, had.pages))
            return false;
        begin_change(object, (struct extent){had.pages, 0, false});
        had.edges = false;
    }
    if (pages > had.pages) {
        (void)arena_kept_drop(); /* perhaps the pages behind */
        if (!arena_extend_run(object, had.pages, pages - had.pages))
            return false;
        large_account(0, pages - had.pages);
    } else {
        size_t rest = had.pages - pages;
        if (rest <= had.pages / LARGE_SLACK)
            return true;
        large_account(0, -(uint64_t)rest);
        arena_free_run((char *)object + pages * PAGE_SIZE, rest);
    }
    begin_change(object, (struct extent){pages, 0, had.edges});
    return true;
}

static bool large_resize_span(void *object, size_t had, size_t size)
{
    size_t blocks = large_blocks_of(size);
    char *end = (char *)object + (blocks << BLOCK_SHIFT);

    if (blocks > had) {
        (void)arena_kept_drop();
        if (!arena_span_extend(object, had, blocks - had))
            return false;
        large_account(0, (blocks - had) * BLOCK_PAGES);
    } else if (blocks < had) {
        char *unused = (char *)object + large_pages_of(size) * PAGE_SIZE;
        large_account(0, -(uint64_t)((had - blocks) * BLOCK_PAGES));
        arena_span_free(end, had - blocks);
        os_release(unused, (size_t)(end - unused));
    }
    begin_change(object, (struct extent){blocks * BLOCK_PAGES, blocks, false});
    large_advise(object, blocks, size);
    return true;
}

FIRST_TEXT bool large_resize(void *object, size_t size)
{
    struct extent had = begin_find(object);
    size_t pages = large_pages_of(size);

    if (had.pages == 0 || size == 0)
        return false;
    if (had.blocks > 0) {
        if (!edge_span_open(object, had.blocks))
            return false;
        if (large_resize_span(object, had.blocks, size)) {
            edge_span_end(object);
            return true;
        }
        edge_span_close(object, had.blocks);
        return false;
    }
    return pages <= ARENA_RUN_PAGES_MAX && large_resize_run(object, had, pages);
}

void *large_move(unsigned zone, void *object, size_t size)
{
    struct extent had = begin_find(object);
    struct large_note note;
    void *moved;

    if (had.blocks == 0 || large_blocks_of(size) < had.blocks ||
        !edge_span_open(object, had.blocks))
        return NULL;
    moved = large_alloc(zone, size, BLOCK_SIZE, false, NULL);
    if (!moved || !move_range(object, moved, had.pages * PAGE_SIZE)) {
        if (moved)
            (void)large_free(moved);
        edge_span_close(object, had.blocks);
        return NULL;
    }
    edge_span_end(object);
    arena_span_moved(object, moved, had.blocks);
    large_advise(moved, begin_find(moved).blocks, size);
    note = *large_note(object);
    if (note.owner || note.tag)
        (void)large_set_note(moved, note); /* a span's is never refused */
    (void)begin_clear(object);
    arena_unnote(object, true);
    large_account(-(uint64_t)1, -had.pages);
    arena_span_free_clean(object, had.blocks);
    return moved;
}

void large_count(uint64_t *objects, uint64_t *bytes)
{
    uint64_t sum = rows_sum(&large_row[1].count, ROWS_LINE);
    int64_t count, pages;

    /* Words read at different times may have the end of an object without its beginning. */
    count = (int64_t)(sum << (64 - LARGE_OBJECT_BITS)) >> (64 - LARGE_OBJECT_BITS);
    pages = (int64_t)(sum - (uint64_t)count) >> LARGE_OBJECT_BITS;
    *objects = count > 0 ? (uint64_t)count : 0;
    *bytes = pages > 0 ? (uint64_t)pages * PAGE_SIZE : 0;
}
