/* SPDX-License-Identifier: MIT */
/*
 * holes.c - mappings by what they are, slabs by how full they are, and what is resident of each page of the window.
 *
 * No page of an object is read: the counts come from slabs, the addresses in sheaves, and /proc/PID/pagemap.
 */
#include "look/holes.h"

#include "look/heap_own.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    AROUND_BSS = 1 << 20
}; /* resident behind a file: of its variables without values, at most */

struct holes_walk {
    struct holes *holes;
    struct target_mapping before; /* the one below the next, without its path */
    enum holes_part before_is;
    struct {
        uint64_t begin, end;
    } * split; /* parts of the window that may have no huge pages */
    size_t splits;
    size_t slab; /* the next one */
    uint64_t page[HEAP_PAGES];
};

/* ---- mappings --------------------------------------------------------------------------------- */

/* Allocators that take their memory from the kernel and not from malloc. */
static const struct {
    const char *file, *runs, *hint;
} around_known[] = {
    {"libpython", "Python's pymalloc", "PYTHONMALLOC=malloc"},
    {"python", "Python's pymalloc", "PYTHONMALLOC=malloc"},
    {"libphp", "PHP's Zend memory manager", "USE_ZEND_ALLOC=0"},
    {"php", "PHP's Zend memory manager", "USE_ZEND_ALLOC=0"},
    {"beam.", "Erlang's carriers", "erl +Mea min"},
};

static bool around_overlaps(const struct target_mapping *m, uint64_t begin, uint64_t end)
{
    return m->begin < end && begin < m->end;
}

/* The window, and behind it the tables, of which that of zones is the last one; the areas of CPUs. */
static bool around_is_own(const struct heap *heap, const struct target_mapping *m)
{
    uint64_t blocks = ((heap->end - heap->base) >> 21) + 1,
             area = view_value(&heap->view, VIEW_STOOK_AREA_SHIFT);

    return around_overlaps(m, heap->base, heap->own->zone + blocks * sizeof(uint32_t)) ||
           around_overlaps(m, heap->own->areas, heap->own->areas + ((uint64_t)heap->rows << area));
}

static bool around_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static enum holes_part around_part(const struct holes_walk *walk, const struct target_mapping *m)
{
    const struct heap *heap = walk->holes->heap;
    const struct target_mapping *before = &walk->before;
    bool behind = before->end == m->begin;

    if (m->inode == 0 && around_is_own(heap, m))
        return HOLES_TABLES; /* less what its pages are */
    if (m->shared && (m->write || around_begins(m->path, "/dev/") || m->path[0] != '/'))
        return HOLES_SHARED;
    if (m->inode != 0 || around_begins(m->path, "[v"))
        return HOLES_FILES;
    if (strcmp(m->path, "[heap]") == 0)
        return HOLES_BREAK;
    if (around_begins(m->path, "[stack"))
        return HOLES_STACKS;
    if (behind && m->resident <= AROUND_BSS && walk->before_is == HOLES_FILES)
        return HOLES_FILES;
    if (behind && m->write && !before->read && !before->write && before->inode == 0)
        return HOLES_STACKS; /* a thread's, above its guard */
    return HOLES_OTHER;
}

static void around_name(struct holes *holes, const struct target_mapping *m)
{
    const char *slash = strrchr(m->path, '/');

    for (size_t i = 0; slash && m->execute && i < sizeof(around_known) / sizeof(around_known[0]);
         i++)
        if (around_begins(slash + 1, around_known[i].file) && !holes->runs) {
            holes->runs = around_known[i].runs;
            holes->hint = around_known[i].hint;
        }
}

static bool around_take(const struct target_mapping *m, void *arg)
{
    struct holes_walk *walk = arg;
    struct holes *holes = walk->holes;
    enum holes_part part = around_part(walk, m);

    holes->part[part] += m->resident;
    holes->mappings[part] += m->resident > 0;
    if (around_overlaps(m, holes->heap->begin, holes->heap->end)) {
        holes->huge += m->huge;
        if (m->never_huge) {
            walk->split = target_row(walk->split, walk->splits, sizeof(*walk->split));
            walk->split[walk->splits].begin = m->begin;
            walk->split[walk->splits++].end = m->end;
        }
    }
    around_name(holes, m);
    walk->before = *m;
    walk->before_is = part;
    return true;
}

/* ---- pages ------------------------------------------------------------------------------------ */

static uint64_t holes_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The objects of a slab that a user has, where freed ones are held back. */
static void holes_count_held(struct heap *heap, const struct heap_slab *slab, struct holes_slab *is,
                             uint8_t *state)
{
    const struct heap_cache *cache = heap_cache_at(heap, slab->cache);
    uint64_t holds = view_value(&heap->view, VIEW_STOOK_CACHE_QUARANTINE);

    if (!cache || !(cache->flags & holds) || !heap_states(heap, slab, state))
        return;
    is->live = 0;
    for (uint32_t i = 0; i < slab->objects; i++)
        is->live += state[i] == HEAP_LIVE;
}

/* Objects in sheaves and in a quarantine are not in use. */
static void holes_count_live(struct holes *holes)
{
    struct heap *heap = holes->heap;
    uint8_t *state = target_need(malloc(HEAP_OBJECTS));

    for (size_t i = 0; i < heap->slabs; i++)
        holes->slab[i].live = heap->slab[i].inuse;
    heap_load_sheaves(heap);
    for (size_t i = 0; i < heap->own->sheaf_objects; i++) {
        uint64_t address = heap->own->sheaf_object[i].address;
        const struct heap_slab *slab =
            address >= heap->begin && address < heap->end ? heap_slab_at(heap, address) : NULL;
        if (slab && holes->slab[slab - heap->slab].live > 0)
            holes->slab[slab - heap->slab].live--;
    }
    for (size_t i = 0; i < heap->slabs; i++)
        holes_count_held(heap, &heap->slab[i], &holes->slab[i], state);
    free(state);
}

/* Which of n pages are resident; of a core file, which of them it has. */
static void holes_there(struct target *target, uint64_t address, bool *there, size_t n)
{
    uint64_t word[HEAP_BLOCK_PAGES];

    if (sysconf(_SC_PAGESIZE) == TARGET_PAGE &&
        target_words(target, address / TARGET_PAGE, word, n))
        for (size_t i = 0; i < n; i++)
            there[i] = word[i] >> 63;
    else
        target_there(target, address, there, n);
}

/* The descriptors of a block's slabs, which go back with its last page. */
static uint64_t holes_meta(const struct heap *heap, uint64_t block)
{
    uint64_t each = view_value(&heap->view, VIEW_BLOCK_META), bytes = 0;
    size_t n = holes_least(each / TARGET_PAGE, HEAP_BLOCK_PAGES);
    bool there[HEAP_BLOCK_PAGES];

    holes_there(heap->target, heap->own->meta + block * each, there, n);
    for (size_t i = 0; i < n; i++)
        bytes += there[i] ? TARGET_PAGE : 0;
    return bytes;
}

static void holes_block(uint64_t address, const uint8_t page[HEAP_BLOCK_PAGES], void *arg)
{
    struct holes_walk *walk = arg;
    struct holes *holes = walk->holes;
    struct heap *heap = holes->heap;
    uint64_t first = (address - heap->base) >> 12;
    size_t n = target_rows_to(walk->split, walk->splits, begin, address);
    bool there[HEAP_BLOCK_PAGES], split = n > 0 && address < walk->split[n - 1].end, sparse = false,
                                  other = false;

    holes_there(heap->target, address, there, HEAP_BLOCK_PAGES);
    for (unsigned i = 0; i < HEAP_BLOCK_PAGES; i++) {
        walk->page[page[i]] += there[i] ? TARGET_PAGE : 0;
        holes->split += split && there[i] ? TARGET_PAGE : 0;
        other |= page[i] == HEAP_PAGE_LARGE;
    }
    for (; walk->slab < heap->slabs && heap->slab[walk->slab].page < first + HEAP_BLOCK_PAGES;
         walk->slab++) {
        const struct heap_slab *slab = &heap->slab[walk->slab];
        struct holes_slab *is = &holes->slab[walk->slab];
        struct heap_cache *cache = heap_cache_at(heap, slab->cache);
        uint64_t end = slab->page + (UINT64_C(1) << slab->order), before = is->there;
        for (uint64_t at = slab->page < first ? first : slab->page;
             at < end && at < first + HEAP_BLOCK_PAGES; at++)
            is->there += there[at - first];
        sparse |= holes_is_sparse(slab, is);
        other |= is->live > 0 && (cache->internal || !holes_is_sparse(slab, is));
        if (split)
            holes->cache[cache - heap->cache].split += (is->there - before) * TARGET_PAGE;
        if (end > first + HEAP_BLOCK_PAGES) /* it goes on in the next */
            break;
    }
    if (sparse && !other)
        holes->meta += holes_meta(heap, first / HEAP_BLOCK_PAGES);
}

/* ---- slabs ------------------------------------------------------------------------------------ */

static void holes_add(struct holes_sum *sum, const struct holes_slab *is)
{
    sum->slabs++;
    sum->objects += is->live;
    sum->bytes += (uint64_t)is->there * TARGET_PAGE;
}

/* resident = in use + free + padding, and of what is free some is in sheaves. */
static void holes_add_slab(struct holes *holes, const struct heap_slab *slab,
                           const struct holes_slab *is, const struct heap_cache *cache)
{
    struct holes_cache *to[2] = {&holes->cache[cache - holes->heap->cache], holes->sum};
    uint64_t resident = (uint64_t)is->there * TARGET_PAGE,
             use = holes_least(is->live * cache->object_size, resident),
             open =
                 holes_least((uint64_t)(slab->objects - is->live) * cache->stride, resident - use),
             ready = holes_least((uint64_t)(slab->inuse - is->live) * cache->stride, open);
    bool sparse = holes_is_sparse(slab, is);

    if (cache->internal) {
        holes_add(&to[0]->all, is);
        holes->part[HOLES_OWN] += resident;
        return;
    }
    for (unsigned i = 0; i < 2; i++) {
        holes_add(&to[i]->all, is);
        if (sparse || is->live == 0)
            holes_add(sparse ? &to[i]->sparse : &to[i]->idle, is);
        else
            to[i]->scattered += open;
    }
    if (is->live == 0) {
        holes->part[HOLES_IDLE] += resident;
        return;
    }
    holes_add(&holes->fill[is->live * (HOLES_FILLS - 1) / slab->objects], is);
    holes->part[HOLES_IN_USE] += use;
    holes->part[HOLES_READY] += ready;
    holes->part[sparse ? HOLES_SPARSE : HOLES_SCATTERED] += open - ready;
    holes->part[HOLES_PADDING] += resident - use - open;
}

/* Pages of the window that belong to no slab.  The kernel counts no page of zeros, and none that is swapped out: large
 * objects have most of those. */
static void holes_add_pages(struct holes *holes, const uint64_t page[HEAP_PAGES])
{
    uint64_t window = holes->part[HOLES_TABLES], sum = 0;

    holes->part[HOLES_LARGE] = page[HEAP_PAGE_LARGE];
    holes->part[HOLES_WARM] = page[HEAP_PAGE_WARM] + page[HEAP_PAGE_OTHER];
    holes->part[HOLES_UNTOUCHED] = page[HEAP_PAGE_COLD];
    for (unsigned i = 0; i < HOLES_TABLES; i++)
        sum += holes->part[i];
    if (!holes->known)
        return;
    if (sum > window)
        holes->part[HOLES_LARGE] -= holes_least(sum - window, holes->part[HOLES_LARGE]);
    holes->part[HOLES_TABLES] = window > sum ? window - sum : 0;
}

void holes_read(struct holes *holes, struct heap *heap)
{
    struct holes_walk walk = {.holes = holes};

    *holes = (struct holes){.heap = heap};
    holes->slab = target_need(calloc(heap->slabs + 1, sizeof(*holes->slab)));
    holes->cache = target_need(calloc(heap->caches + 1, sizeof(*holes->cache)));
    holes->sum = &holes->cache[heap->caches];
    for (size_t i = 0; i < heap->caches; i++)
        holes->cache[i].cache = &heap->cache[i];
    holes->known = target_for_each_resident(heap->target, around_take, &walk);
    holes_count_live(holes);
    heap_each_block(heap, holes_block, &walk);
    for (size_t i = 0; i < heap->slabs; i++) {
        const struct heap_cache *cache = heap_cache_at(heap, heap->slab[i].cache);
        if (cache)
            holes_add_slab(holes, &heap->slab[i], &holes->slab[i], cache);
    }
    holes_add_pages(holes, walk.page);
    for (unsigned i = 0; i < HOLES_PARTS; i++) {
        holes->resident += holes->part[i];
        holes->stook += i <= HOLES_TABLES ? holes->part[i] : 0;
    }
    free(walk.split);
}

void holes_free(struct holes *holes)
{
    free(holes->slab);
    free(holes->cache);
}
