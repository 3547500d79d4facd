/* SPDX-License-Identifier: MIT */
/*
 * heap_samples.c - the target's table of sampled call stacks (src/sample/sites.h).  Records are complete once their state
 * says so, and change in their counts alone.
 */
#include "look/heap_own.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES_RECORD = 1024, SAMPLES_FRAMES = 32, SAMPLES_SITES = 1 << 20 };

struct samples_table {
    uint64_t site, used, record;
    double one;
};

/* False: the target has no samples, or a table that this reader does not know. */
static bool samples_table(struct heap *heap, struct samples_table *table)
{
    const struct view *v = &heap->view;
    uint64_t at = view_value(v, VIEW_at_sites), format, one;

    if (!view_knows(v, VIEW_at_sites) || !view_knows(v, VIEW_site_frames) ||
        !view_read(v, heap->target, at, VIEW_sites_format, &format) ||
        format != view_value(v, VIEW_SITES_FORMAT) ||
        !view_read(v, heap->target, at, VIEW_sites_record, &table->record) ||
        !view_read(v, heap->target, at, VIEW_sites_one, &one) ||
        !view_read(v, heap->target, at, VIEW_sites_used, &table->used) ||
        !view_read(v, heap->target, at, VIEW_sites_site, &table->site))
        return false;
    table->one = (double)one;
    return table->site != 0 && table->record >= view_size(v, VIEW_site) &&
           table->used <= SAMPLES_SITES && one > 0;
}

/* Without bytes: there is none of that number that is complete. */
static struct view_part samples_read(struct heap *heap, const struct samples_table *table,
                                     uint64_t number, char (*room)[SAMPLES_RECORD])
{
    const struct view *v = &heap->view;
    struct view_part record = {0};

    if (number < table->used)
        record =
            view_copy(heap->target, table->site + number * table->record, table->record, *room);
    return view_get(v, record, VIEW_site_state) == view_value(v, VIEW_SITE_READY)
               ? record
               : (struct view_part){0};
}

static unsigned samples_frames(const struct view *v, struct view_part record, uint64_t *frames,
                               unsigned most)
{
    unsigned depth = (unsigned)view_get(v, record, VIEW_site_depth);
    struct view_part from = view_field(v, record, VIEW_site_frames);

    if (depth > from.size / sizeof(*frames))
        return 0;
    depth = depth < most ? depth : most;
    for (unsigned i = 0; i < depth; i++)
        frames[i] = view_element(from, i, sizeof(*frames));
    return depth;
}

bool heap_sample_site(struct heap *heap, uint32_t number, struct heap_site *site)
{
    char room[SAMPLES_RECORD];
    struct samples_table table;

    *site = (struct heap_site){0};
    if (samples_table(heap, &table))
        site->depth = samples_frames(&heap->view, samples_read(heap, &table, number, &room),
                                     site->frames, SAMPLES_FRAMES);
    return site->depth > 0;
}

/* A site's count of what came; of typed caches, whose frees are not seen, as its share of what the cache has in use. */
struct samples_site {
    struct heap_tag tag;
    bool typed;
    uint32_t cache;
};

/* Of what a process claims, as a count. */
static uint64_t samples_round(double n)
{
    return n > 0 ? n < 9e18 ? (uint64_t)(n + 0.5) : INT64_MAX : 0;
}

static struct samples_site samples_one(const struct heap *heap, double one, uint32_t number,
                                       struct view_part record)
{
    const struct view *v = &heap->view;
    uint64_t came = view_get(v, record, VIEW_site_came_objects),
             went = view_get(v, record, VIEW_site_went_objects),
             came_bytes = view_get(v, record, VIEW_site_came_bytes),
             went_bytes = view_get(v, record, VIEW_site_went_bytes);
    struct samples_site site = {.typed = view_get(v, record, VIEW_site_kind) ==
                                         view_value(v, VIEW_SITE_TYPED),
                                .cache = (uint32_t)view_get(v, record, VIEW_site_cache)};

    site.tag.tag = HEAP_SAMPLED | number;
    site.tag.objects_ever = samples_round((double)came / one);
    site.tag.bytes_ever = came_bytes;
    if (came > went) /* counts that change are not read at one time */
        site.tag.objects = samples_round((double)(came - went) / one);
    if (came_bytes > went_bytes)
        site.tag.bytes = came_bytes - went_bytes;
    return site;
}

/* Of a cache: the bytes that its typed sites ever allocated; its objects in use except those of other sites. */
struct samples_cache {
    double sum, active;
};

static struct samples_cache *samples_of(const struct heap *heap, struct samples_cache *all,
                                        uint32_t cache)
{
    const struct heap_cache *of = heap_cache_at(heap, cache);

    return of ? &all[of - heap->cache] : NULL;
}

/* A cache of malloc's that was traced for a while has sites of both kinds. */
static void samples_add(const struct heap *heap, const struct samples_site *site,
                        struct samples_cache *all)
{
    struct samples_cache *of = samples_of(heap, all, site->cache);

    if (of && site->typed)
        of->sum += (double)site->tag.bytes_ever;
    else if (of)
        of->active -= (double)site->tag.objects;
}

static void samples_share(const struct heap *heap, struct samples_site *site,
                          struct samples_cache *all)
{
    const struct samples_cache *of = samples_of(heap, all, site->cache);
    double share = of && of->sum > 0 ? (double)site->tag.bytes_ever / of->sum : 0;

    site->tag.objects = of ? samples_round(share * of->active) : 0;
    site->tag.bytes = of ? samples_round(share * of->active * heap->cache[of - all].stride) : 0;
}

bool heap_each_sample(struct heap *heap, void (*fn)(const struct heap_tag *tag, void *arg),
                      void *arg)
{
    char room[SAMPLES_RECORD];
    struct samples_table table;
    struct samples_site *site = NULL, *more;
    struct samples_cache *all;
    size_t n = 0;

    if (!samples_table(heap, &table))
        return false;
    all = target_need(calloc(heap->caches + 1, sizeof(*all)));
    for (size_t i = 0; i < heap->caches; i++)
        all[i].active = (double)heap->cache[i].count.active;
    for (uint32_t i = 0; i < table.used && !heap->target->over; i++) {
        struct view_part record = samples_read(heap, &table, i, &room);
        if (record.size == 0 || !(more = heap_row(heap, site, n, sizeof(*site))))
            continue;
        site = more;
        site[n] = samples_one(heap, table.one, i, record);
        samples_add(heap, &site[n++], all);
    }
    for (size_t i = 0; i < n; i++) {
        if (site[i].typed)
            samples_share(heap, &site[i], all);
        if (site[i].tag.objects_ever > 0)
            fn(&site[i].tag, arg);
    }
    free(site);
    free(all);
    return n > 0;
}

void heap_sample_describe(struct heap *heap, uint64_t at, struct heap_what *what)
{
    const struct view *v = &heap->view;
    struct heap_who *who = &what->who[0];
    char room[SAMPLES_RECORD];
    struct view_part record;
    struct samples_table table;
    const struct heap_cache *shown;
    uint64_t key, number, cache;

    if (!at || !view_read(v, heap->target, at, VIEW_shadow_key, &key) ||
        (key ^ view_value(v, VIEW_SHADOW_KEY)) != what->start ||
        !view_read(v, heap->target, at, VIEW_shadow_site, &number) ||
        !samples_table(heap, &table) ||
        (record = samples_read(heap, &table, number, &room)).size == 0 ||
        !view_read(v, heap->target, at, VIEW_shadow_born, &who->born))
        return;
    if (view_read(v, heap->target, at, VIEW_shadow_cache, &cache) &&
        (shown = heap_cache_at(heap, (uint32_t)cache)) != NULL) {
        what->cache = shown;
        what->bytes = shown->object_size;
    }
    who->known = true;
    who->cpu = HEAP_NO_CPU;
    who->thread = (uint32_t)view_get(v, record, VIEW_site_thread);
    who->depth =
        samples_frames(v, record, who->frames, sizeof(who->frames) / sizeof(who->frames[0]));
}
