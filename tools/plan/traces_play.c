/* SPDX-License-Identifier: MIT */
/*
 * traces_play.c - the objects of one size class, taken from and given back to a cache of this library as malloc's
 * are: on simulated CPUs, one a thread.
 *
 * Bytes are pages that the program has touched: those that its objects lie in, as long as their slab exists.  A
 * slab that is new has untouched pages, since objects are handed out in the order of their addresses.
 */
#include "plan/traces.h"

#include "kmalloc/private.h"
#include "lab/lab.h"
#include "look/target.h"
#include "malloc/starts.h"
#include "page/pagemap.h"
#include "percpu/percpu.h"
#include "sheaf/sheaf.h"
#include "slab/column.h"
#include "slab/slab.h"
#include "slab/stat.h"
#include "stook/command.h"
#include "sim/sim.h"

#include <stook/topology.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAY_PAGE = 1, PLAY_SLAB = 2, PLAY_PAGES = 1 << 20 }; /* of the window: 4 GiB */

struct play {
    const struct traces_trace *trace;
    struct stook_cache *cache;
    struct traces_cost *cost;
    struct traces_bytes *detail;
    unsigned cpu, part, order;
    uint64_t pages, slabs, requested, live, made, gone, meta_slab, sheaves, fixed;
};

/* One play at a time. */
static struct {
    unsigned char
        *page; /* of the window: PLAY_PAGE is touched; PLAY_SLAB: a slab begins, that is known */
    uint32_t *slab, slabs, slab_room; /* pages where the known ones begin */
    void **object;
    uint32_t objects;
    uint32_t *list[2];
    uint32_t listed;
} play_all;

bool traces_start(void)
{
    char machine[32];

    sim_forget_settings();
    snprintf(machine, sizeof(machine), "node:1 core:%d", TRACES_CPUS);
    if (stook_topology_set(machine) != 0)
        return refuse("the library is in use already");
    play_all.page = calloc(PLAY_PAGES, 1);
    return play_all.page || complain(STATUS_FAILED, "no memory") == 0;
}

static struct stook_cache *play_cache(const struct traces_class *class)
{
    struct stook_cache_args args = {
        .align = TRACES_STEP,
        .flags = CACHE_MALLOC,
        .sheaf_capacity = class->capacity == TRACES_AUTO ? 0 : (unsigned)class->capacity,
    };
    struct stook_cache *cache = private_cache("plan", class->size, &args, true);

    if (cache && class->order != TRACES_AUTO)
        lab_set_order(cache, (unsigned)class->order);
    return cache;
}

/* False: a slab of that order holds no object. */
static bool traces_resolve(struct traces_class *class)
{
    struct stook_cache *cache;
    size_t slab;

    if (class->order != TRACES_AUTO && ((size_t)PAGE_SIZE << class->order) < class->size)
        return false;
    cache = play_cache(class);
    if (!cache)
        return false;
    class->order = cache->layout.order;
    class->capacity = (int)cache_capacity(cache);
    slab = (size_t)PAGE_SIZE << class->order;
    stook_cache_destroy(cache);
    /* malloc's fast path needs to know the starts of objects. */
    return starts_word(slab, class->size, slab / class->size) != 0;
}

bool traces_resolve_all(struct traces_table *table)
{
    for (unsigned i = 0; i < table->classes; i++)
        if (!traces_resolve(&table->class[i]))
            return refuse("--classes: slabs of %u bytes an object cannot be so",
                          table->class[i].size);
    return true;
}

/* ---- the events of a class, in the order of time --------------------------------------------- */

static void play_merge(const uint32_t *a, uint32_t n, const uint32_t *b, uint32_t m, uint32_t *to)
{
    for (; n > 0 && m > 0; to++)
        if (*a < *b) {
            *to = *a++;
            n--;
        } else {
            *to = *b++;
            m--;
        }
    memcpy(to, n > 0 ? a : b, (n > 0 ? n : m) * sizeof(*to));
}

/* Of steps first to last; merged, if there are several, at `at` of list number `to`. */
static const uint32_t *play_steps(const struct traces_trace *t, unsigned first, unsigned last,
                                  uint32_t at, unsigned to)
{
    uint32_t n = t->begin[last + 1] - t->begin[first], half;
    unsigned middle = (first + last) / 2;
    const uint32_t *a, *b;

    if (first == last)
        return t->by_step + t->begin[first];
    half = t->begin[middle + 1] - t->begin[first];
    a = play_steps(t, first, middle, at, 1 - to);
    b = play_steps(t, middle + 1, last, at + half, 1 - to);
    play_merge(a, half, b, n - half, play_all.list[to] + at);
    return play_all.list[to] + at;
}

static void play_room(const struct traces_trace *t, uint32_t n)
{
    if (t->objects > play_all.objects) {
        free(play_all.object);
        play_all.object = target_need(malloc(t->objects * sizeof(void *)));
        play_all.objects = t->objects;
    }
    if (n > play_all.listed || !play_all.list[0]) {
        for (unsigned i = 0; i < 2; i++) {
            free(play_all.list[i]);
            play_all.list[i] = target_need(malloc(((size_t)n + 1) * sizeof(uint32_t)));
        }
        play_all.listed = n;
    }
}

/* ---- pages ---------------------------------------------------------------------------------- */

static uint32_t play_page(const void *object)
{
    return (uint32_t)(((uintptr_t)object - pagemap.middle) >> PAGE_SHIFT);
}

static void play_touch(struct play *p, const void *object, size_t size)
{
    uint32_t page = play_page(object), last = play_page((const char *)object + size - 1);

    for (; page <= last; page++) {
        uint32_t base = page & ~((1u << p->order) - 1);
        if (page >= PLAY_PAGES)
            die("a trace with more than 4 GiB");
        if (play_all.page[page] & PLAY_PAGE)
            continue;
        play_all.page[page] |= PLAY_PAGE;
        p->pages++;
        if (play_all.page[base] & PLAY_SLAB)
            continue;
        play_all.page[base] |= PLAY_SLAB;
        if (play_all.slabs == play_all.slab_room) {
            play_all.slab_room = play_all.slab_room ? 2 * play_all.slab_room : 1024;
            play_all.slab =
                target_need(realloc(play_all.slab, play_all.slab_room * sizeof(uint32_t)));
        }
        play_all.slab[play_all.slabs++] = base;
    }
}

/* Slabs that are no more leave their pages to whom they may concern. */
static void play_forget(struct play *p)
{
    for (uint32_t i = 0; i < play_all.slabs;) {
        uint32_t base = play_all.slab[i];
        uint32_t entry = *pagemap_at((const char *)pagemap.middle + ((size_t)base << PAGE_SHIFT));
        if (pagemap_cache(entry) == p->cache->index) {
            i++;
            continue;
        }
        for (uint32_t page = base; page < base + (1u << p->order); page++) {
            p->pages -= play_all.page[page] & PLAY_PAGE;
            play_all.page[page] = 0;
        }
        play_all.slab[i] = play_all.slab[--play_all.slabs];
    }
}

/* ---- events --------------------------------------------------------------------------------- */

static uint64_t play_meta(const struct play *p)
{
    return p->fixed + p->slabs * p->meta_slab +
           p->sheaves * (sizeof(struct sheaf) + cache_capacity(p->cache) * sizeof(void *));
}

/* More than ever in this part. */
static void play_most(struct play *p, uint64_t bytes)
{
    struct traces_bytes *d = &p->detail[p->part];
    uint64_t out;

    p->cost->bytes[p->part] = bytes;
    p->cost->requested[p->part] = p->requested;
    out = stat_read_sum(p->cache, STAT_sheaf_refill) - stat_read_sum(p->cache, STAT_sheaf_flush);
    d->requested = p->requested;
    d->rounding = p->live * p->cache->layout.stride - p->requested;
    d->meta = play_meta(p);
    d->free = bytes - d->meta - d->requested - d->rounding;
    d->sheaves = out > p->live ? (out - p->live) * p->cache->layout.stride : 0;
}

/* Up to an event of part `part`: between the two there is what there is now. */
static void play_parts(struct play *p, unsigned part)
{
    uint64_t bytes = p->pages * PAGE_SIZE + play_meta(p);

    while (p->part < part) {
        p->part++;
        play_most(p, bytes);
    }
}

static void play_event(struct play *p, const struct traces_event *event)
{
    const struct node *node = &p->cache->nodes[0].node;
    void **object = &play_all.object[event->object];
    uint64_t bytes;

    if (event->cpu != p->cpu)
        stook_topology_cpu((int)(p->cpu = event->cpu));
    if (event->free) {
        stook_free(p->cache, *object);
        *object = NULL;
        p->requested -= event->size;
        p->live--;
    } else {
        *object = stook_alloc(p->cache, STOOK_WAIT);
        if (!*object)
            die("no memory for the objects");
        p->requested += event->size;
        p->live++;
        play_touch(p, *object, event->size);
    }
    if (node->made != p->made || node->gone != p->gone) {
        if (node->gone != p->gone)
            play_forget(p);
        p->made = node->made;
        p->gone = node->gone;
        p->slabs = p->made - p->gone;
        p->sheaves =
            stat_read_sum(p->cache, STAT_sheaf_alloc) - stat_read_sum(p->cache, STAT_sheaf_free);
    }
    bytes = p->pages * PAGE_SIZE + play_meta(p);
    if (bytes > p->cost->bytes[p->part] ||
        (bytes == p->cost->bytes[p->part] && p->requested > p->cost->requested[p->part]))
        play_most(p, bytes);
}

static void play_end(struct play *p, const uint32_t *list, uint32_t n)
{
    play_parts(p, TRACES_PARTS - 1);
    p->cost->made = p->made;
    p->cost->gone = p->gone;
    p->cost->through =
        stat_read_sum(p->cache, STAT_sheaf_refill) + stat_read_sum(p->cache, STAT_sheaf_flush);
    for (uint32_t i = 0; i < n; i++) { /* what is out still */
        void **object = &play_all.object[p->trace->event[list[i]].object];
        if (*object)
            stook_free(p->cache, *object);
        *object = NULL;
    }
    for (uint32_t i = 0; i < play_all.slabs; i++)
        memset(&play_all.page[play_all.slab[i]], 0, (size_t)1 << p->order);
    play_all.slabs = 0;
    if (stook_cache_destroy(p->cache) != 0)
        die("objects were lost");
}

void traces_play(const struct traces_trace *trace, unsigned above, const struct traces_class *class,
                 struct traces_cost *cost, struct traces_bytes *detail)
{
    unsigned first = above / TRACES_STEP + 1, last = class->size / TRACES_STEP;
    uint32_t n = trace->begin[last + 1] - trace->begin[first];
    struct play p = {.trace = trace, .cost = cost, .detail = detail, .cpu = TRACES_CPUS};
    const uint32_t *list;

    memset(cost, 0, sizeof(*cost));
    memset(detail, 0, TRACES_PARTS * sizeof(*detail));
    if (n == 0)
        return;
    play_room(trace, n);
    if (!(p.cache = play_cache(class)) || stook_cache_stat_enable(p.cache, STOOK_STATS_SLOW) != 0)
        die("no memory");
    list = play_steps(trace, first, last, 0, 0);
    p.order = p.cache->layout.order;
    p.meta_slab = (column_meta(p.cache, 0) + ARENA_GRANULE - 1) & ~(uint64_t)(ARENA_GRANULE - 1);
    p.fixed = sizeof(struct stook_cache) + sizeof(struct cache_node) + SLOT_SIZE;
    p.part = (unsigned)((uint64_t)list[0] * TRACES_PARTS / trace->events);
    for (uint32_t i = 0; i < n; i++)
        play_all.object[trace->event[list[i]].object] = NULL;
    for (uint32_t i = 0; i < n; i++) {
        unsigned part = (unsigned)((uint64_t)list[i] * TRACES_PARTS / trace->events);
        if (part > p.part)
            play_parts(&p, part);
        play_event(&p, &trace->event[list[i]]);
    }
    play_end(&p, list, n);
}
