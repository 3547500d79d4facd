/* SPDX-License-Identifier: MIT */
/*
 * heap_samples.c - the target's table of sampled call stacks (src/sample/sites.h).  Records are complete once their state
 * says so, and change in their counts alone.
 */
#include "look/heap_own.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES_RECORD = 1024, SAMPLES_FRAMES = 32 };

struct samples_table {
    uint64_t site, used;
    size_t record;
    double one;
};

/* False: the target has no samples, or a table that this reader does not know. */
static bool samples_table(struct heap *heap, struct samples_table *table)
{
    const struct view *v = &heap->view;
    uint64_t at = view_value(v, VIEW_at_sites), format, record, one;

    if (!view_knows(v, VIEW_at_sites) || !view_knows(v, VIEW_site_frames) ||
        !view_read(v, heap->target, at, VIEW_sites_format, &format) ||
        format != view_value(v, VIEW_SITES_FORMAT) ||
        !view_read(v, heap->target, at, VIEW_sites_record, &record) ||
        !view_read(v, heap->target, at, VIEW_sites_one, &one) ||
        !view_read(v, heap->target, at, VIEW_sites_used, &table->used) ||
        !view_read(v, heap->target, at, VIEW_sites_site, &table->site))
        return false;
    table->record = (size_t)record;
    table->one = (double)one;
    return table->site != 0 && record >= view_size(v, VIEW_site) && record <= SAMPLES_RECORD &&
           one > 0;
}

static bool samples_read(struct heap *heap, const struct samples_table *table, uint32_t number,
                         char record[SAMPLES_RECORD])
{
    const struct view *v = &heap->view;

    return number < table->used &&
           target_read(heap->target, table->site + (uint64_t)number * table->record, record,
                       table->record) &&
           view_get(v, record, table->record, VIEW_site_state) == view_value(v, VIEW_SITE_READY);
}

static unsigned samples_frames(const struct view *v, const char *record, size_t bytes,
                               uint64_t *frames, unsigned most)
{
    size_t at = (size_t)view_value(v, VIEW_site_frames);
    unsigned depth = (unsigned)view_get(v, record, bytes, VIEW_site_depth);

    if (depth > SAMPLES_FRAMES || at + depth * sizeof(*frames) > bytes)
        return 0;
    if (depth > most)
        depth = most;
    memcpy(frames, record + at, depth * sizeof(*frames));
    return depth;
}

bool heap_sample_site(struct heap *heap, uint32_t number, struct heap_site *site)
{
    char record[SAMPLES_RECORD];
    struct samples_table table;

    *site = (struct heap_site){0};
    if (!samples_table(heap, &table) || !samples_read(heap, &table, number, record))
        return false;
    site->depth = samples_frames(&heap->view, record, table.record, site->frames, SAMPLES_FRAMES);
    return site->depth > 0;
}

/* A site's count of what came; of typed caches, whose frees are not seen, as its share of what the cache has in use. */
struct samples_site {
    struct heap_tag tag;
    bool typed;
    uint32_t cache;
    uint64_t own; /* of the objects in use, the samples: they lie in shadow caches */
};

static struct samples_site samples_one(const struct heap *heap, const struct samples_table *table,
                                       uint32_t number, const char *record)
{
    const struct view *v = &heap->view;
    size_t size = table->record;
    uint64_t came = view_get(v, record, size, VIEW_site_came_objects),
             went = view_get(v, record, size, VIEW_site_went_objects),
             came_bytes = view_get(v, record, size, VIEW_site_came_bytes),
             went_bytes = view_get(v, record, size, VIEW_site_went_bytes);
    struct samples_site site = {.typed = view_get(v, record, size, VIEW_site_kind) ==
                                         view_value(v, VIEW_SITE_TYPED),
                                .cache = (uint32_t)view_get(v, record, size, VIEW_site_cache)};
    uint64_t samples = view_get(v, record, size, VIEW_site_came),
             gone = view_get(v, record, size, VIEW_site_went);

    site.tag.tag = HEAP_SAMPLED | number;
    site.tag.objects_ever = (uint64_t)((double)came / table->one + 0.5);
    site.tag.bytes_ever = came_bytes;
    if (came > went) /* counts that change are not read at one time */
        site.tag.objects = (uint64_t)((double)(came - went) / table->one + 0.5);
    if (came_bytes > went_bytes)
        site.tag.bytes = came_bytes - went_bytes;
    site.own = samples > gone ? samples - gone : 0;
    return site;
}

static void samples_share(const struct heap *heap, struct samples_site *site,
                          const struct samples_site *all, size_t n)
{
    const struct heap_cache *cache = heap_cache_at(heap, site->cache);
    double sum = 0, active, share;

    site->tag.objects = site->tag.bytes = 0;
    if (!cache)
        return;
    active = (double)cache->count.active;
    /* A cache of malloc's that was traced for a while has sites of both kinds. */
    for (size_t i = 0; i < n; i++) {
        if (all[i].cache != site->cache)
            continue;
        if (all[i].typed)
            sum += (double)all[i].tag.bytes_ever;
        else if (all[i].tag.objects > all[i].own)
            active -= (double)(all[i].tag.objects - all[i].own);
    }
    active = active > 0 ? active : 0;
    share = sum > 0 ? (double)site->tag.bytes_ever / sum : 0;
    site->tag.objects = (uint64_t)(share * active + 0.5);
    site->tag.bytes = (uint64_t)(share * active * cache->stride + 0.5);
}

bool heap_each_sample(struct heap *heap, void (*fn)(const struct heap_tag *tag, void *arg),
                      void *arg)
{
    char record[SAMPLES_RECORD];
    struct samples_table table;
    struct samples_site *site;
    size_t n = 0;

    if (!samples_table(heap, &table) || table.used > 1 << 20)
        return false;
    site = heap_need(calloc(table.used + 1, sizeof(*site)));
    for (uint32_t i = 0; i < table.used; i++)
        if (samples_read(heap, &table, i, record))
            site[n++] = samples_one(heap, &table, i, record);
    for (size_t i = 0; i < n; i++) {
        struct samples_site own = site[i];
        if (own.typed)
            samples_share(heap, &own, site, n);
        if (own.tag.objects_ever > 0)
            fn(&own.tag, arg);
    }
    free(site);
    return n > 0;
}

void heap_sample_describe(struct heap *heap, uint64_t at, struct heap_what *what)
{
    const struct view *v = &heap->view;
    struct heap_who *who = &what->who[0];
    char record[SAMPLES_RECORD];
    struct samples_table table;
    uint64_t key, number;

    if (!at || !view_read(v, heap->target, at, VIEW_shadow_key, &key) ||
        (key ^ view_value(v, VIEW_SHADOW_KEY)) != what->start ||
        !view_read(v, heap->target, at, VIEW_shadow_site, &number) ||
        !samples_table(heap, &table) || !samples_read(heap, &table, (uint32_t)number, record) ||
        !view_read(v, heap->target, at, VIEW_shadow_born, &who->born))
        return;
    who->known = true;
    who->cpu = HEAP_NO_CPU;
    who->thread = (uint32_t)view_get(v, record, table.record, VIEW_site_thread);
    who->depth = samples_frames(v, record, table.record, who->frames,
                                sizeof(who->frames) / sizeof(who->frames[0]));
}
