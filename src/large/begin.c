/* SPDX-License-Identifier: MIT */
/*
 * begin.c - stores and finds the number of pages of a large object, in the page map, a block's header or a zone.
 */
#include "large/begin.h"

#include "page/zone.h"

#include <string.h>

/* In a word of a block's header: the page in the block, the pages. */
enum { BEGIN_AT_SHIFT = 16, BEGIN_RUN = (1 << BEGIN_AT_SHIFT) - 1 };
_Static_assert((int)BLOCK_PAGES < (int)BEGIN_EDGES,
               "a run's pages have their place beside the bit");

static uint32_t begin_run(struct extent extent)
{
    return (uint32_t)extent.pages | (extent.edges ? BEGIN_EDGES : 0);
}

static struct extent begin_extent(uint32_t run)
{
    return (struct extent){run & (BEGIN_EDGES - 1), 0, (run & BEGIN_EDGES) != 0};
}

static struct extent begin_blocks(size_t blocks)
{
    return (struct extent){blocks * BLOCK_PAGES, blocks, false};
}

/* ---- big runs ------------------------------------------------------------------------------- */

/* The word of the big run that begins at this page, or a free one; NULL: there is none. */
static uint32_t *begin_big(const void *object, bool free, uint32_t *value)
{
    struct block *block = zone_block(pagemap_index(object));
    unsigned at = zone_page(object);

    for (unsigned i = 0; i < BLOCK_BIG; i++) {
        *value = __atomic_load_n(&block->big[i], __ATOMIC_ACQUIRE);
        if (free ? *value == 0 : *value != 0 && *value >> BEGIN_AT_SHIFT == at)
            return &block->big[i];
    }
    return NULL;
}

static bool begin_set_big(void *object, uint32_t run)
{
    uint32_t wanted = zone_page(object) << BEGIN_AT_SHIFT | run, *word, value;

    while ((word = begin_big(object, true, &value)))
        if (__atomic_compare_exchange_n(word, &value, wanted, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
            return true;
    return false; /* smaller ones that were big have them all */
}

/* ---- spans ---------------------------------------------------------------------------------- */

static uint32_t *begin_span(const void *object)
{
    return &pagemap.zone[pagemap_index(object)];
}

static void begin_set_span(void *object, size_t blocks)
{
    uint32_t *word = begin_span(object);

    __atomic_store_n(word, (*word & PAGEMAP_ZONE) | (uint32_t)blocks << PAGEMAP_ZONE_BITS,
                     __ATOMIC_RELEASE);
}

/* ---- both ----------------------------------------------------------------------------------- */

/* Such an object may begin there. */
static bool begin_may(const void *object)
{
    return pagemap_covers(object) && (uintptr_t)object % PAGE_SIZE == 0;
}

struct extent begin_find(const void *object)
{
    uint32_t entry, value;

    if (!begin_may(object))
        return (struct extent){0};
    entry = __atomic_load_n(pagemap_at(object), __ATOMIC_RELAXED);
    if (pagemap_cache(entry) != 0)
        return (struct extent){0};
    if (entry != 0)
        return begin_extent(pagemap_granule(entry));
    if ((uintptr_t)object % BLOCK_SIZE == 0) {
        value = __atomic_load_n(begin_span(object), __ATOMIC_ACQUIRE) >> PAGEMAP_ZONE_BITS;
        if (value != 0)
            return begin_blocks(value);
    }
    return begin_big(object, false, &value) ? begin_extent(value & BEGIN_RUN) : (struct extent){0};
}

void begin_set_large(void *object, struct extent extent)
{
    if (extent.blocks > 0)
        begin_set_span(object, extent.blocks);
    else if (extent.pages < BEGIN_BIG || !begin_set_big(object, begin_run(extent)))
        __atomic_store_n(pagemap_at(object), pagemap_entry(0, begin_run(extent)), __ATOMIC_RELEASE);
}

struct extent begin_clear(void *object)
{
    uint32_t had, *word;

    if (!begin_may(object))
        return (struct extent){0};
    had = __atomic_load_n(pagemap_at(object), __ATOMIC_RELAXED);
    if (pagemap_cache(had) != 0)
        return (struct extent){0};
    if (had != 0)
        return begin_extent(
            pagemap_granule(__atomic_exchange_n(pagemap_at(object), 0, __ATOMIC_ACQ_REL)));
    if ((uintptr_t)object % BLOCK_SIZE == 0 &&
        __atomic_load_n(begin_span(object), __ATOMIC_RELAXED) >> PAGEMAP_ZONE_BITS != 0)
        return begin_blocks(
            __atomic_fetch_and(begin_span(object), PAGEMAP_ZONE, __ATOMIC_ACQ_REL) >>
            PAGEMAP_ZONE_BITS);
    word = begin_big(object, false, &had);
    if (!word ||
        !__atomic_compare_exchange_n(word, &had, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return (struct extent){0};
    return begin_extent(had & BEGIN_RUN);
}

void begin_change(void *object, struct extent extent)
{
    uint32_t had, *word;

    if (extent.blocks > 0) {
        begin_set_span(object, extent.blocks);
        return;
    }
    word = begin_big(object, false, &had);
    if (word)
        __atomic_store_n(word, (had >> BEGIN_AT_SHIFT) << BEGIN_AT_SHIFT | begin_run(extent),
                         __ATOMIC_RELEASE);
    else
        __atomic_store_n(pagemap_at(object), pagemap_entry(0, begin_run(extent)), __ATOMIC_RELEASE);
}
