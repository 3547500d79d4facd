/* SPDX-License-Identifier: MIT */
/*
 * heap_profile.c - what a process has in use, as pprof's Profile message: bytes and objects by cache, or by call site.
 *
 * By cache, a cache stands in the place of a call site: a place with the cache's name, below one with the program's name,
 * with the label `cache`.  By call site, a place is a function and line if the program names them, else an address with
 * its mapping and the functions that its file names, where the file is the same build.  Sample
 * types, default and period are those of Go's heap profiles, by which scrapers know them.
 */
#include "export/fleet.h"
#include "export/profile_out.h"
#include "stook/look/look_names.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SITES_DEPTH = 64, SITES_MAPPINGS = 4096 };

#define SITES_NAMED (UINT64_C(1) << 63) /* of a frame: a call that names its site */

/* ---- by cache --------------------------------------------------------------------------------- */

/* A sample's objects and bytes, as each begins with. */
static void heap_sample(struct profile_out *profile, uint64_t objects, uint64_t bytes)
{
    profile_out_sample(profile, (const int64_t[]){(int64_t)objects, (int64_t)bytes}, 2);
}

static void by_cache_sample(struct profile_out *profile, const char *cache, uint64_t program,
                            uint64_t objects, uint64_t bytes)
{
    uint64_t place = profile_out_line(profile, cache, "", 0);

    profile_out_at(profile, place);
    profile_out_at(profile, program);
    profile_out_label(profile, "cache", cache);
    heap_sample(profile, objects, bytes);
}

static void by_cache(struct profile_out *profile, const struct heap *heap)
{
    uint64_t program = profile_out_line(profile, heap->target->name, "", 0);

    for (size_t i = 0; i < heap->caches; i++) {
        const struct heap_count *count = &heap->cache[i].count;
        if (count->active == 0)
            continue;
        by_cache_sample(profile, heap->cache[i].name, program, count->active, count->bytes.in_use);
    }
    if (heap->large_objects > 0)
        by_cache_sample(profile, "large objects", program, heap->large_objects, heap->large_bytes);
}

/* ---- by call site ----------------------------------------------------------------------------- */

struct by_site {
    struct profile_out *profile;
    struct heap *heap;
    uint64_t objects, bytes; /* of all sites */
    struct {
        uint64_t begin, end;
    } mapping[SITES_MAPPINGS]; /* number i + 1 */
    uint64_t mappings;
    struct view_build build;
    struct look_names *names;
};

static bool by_site_mapping(const struct target_mapping *mapping, void *arg)
{
    struct by_site *sites = arg;
    const char *build = view_build_id(&sites->build, sites->heap->target, mapping);
    char path[1024];

    if (!mapping->execute || mapping->path[0] != '/')
        return true;
    (void)snprintf(path, sizeof(path), "%s", mapping->path);
    target_clean_text(path, sizeof(path));
    sites->mapping[sites->mappings].begin = mapping->begin;
    sites->mapping[sites->mappings].end = mapping->end;
    profile_out_mapping(sites->profile, ++sites->mappings, mapping->begin, mapping->end,
                        mapping->offset, path, build, true);
    return sites->mappings < SITES_MAPPINGS;
}

static uint64_t by_site_frame(struct by_site *sites, uint64_t frame)
{
    uint64_t address = (frame & ~SITES_NAMED) - 1; /* within the call, not behind it */
    uint64_t i = sites->mappings;

    while (i > 0 && (address < sites->mapping[i - 1].begin || address >= sites->mapping[i - 1].end))
        i--;
    return profile_out_address(sites->profile, address, i, look_name_place(sites->names, frame));
}

static void by_site_want(const struct heap_tag *tag, void *arg)
{
    struct by_site *sites = arg;
    struct heap_site site;

    if (!heap_site(sites->heap, tag->tag, &site))
        return;
    for (unsigned i = 0; i < site.depth; i++)
        look_names_want(sites->names, site.frames[i]);
}

static void by_site_take(const struct heap_tag *tag, void *arg)
{
    struct by_site *sites = arg;
    uint64_t place[SITES_DEPTH + 1];
    struct heap_site site;
    unsigned depth = 0;

    if (tag->bytes == 0 || tag->bytes > INT64_MAX || tag->objects > INT64_MAX)
        return;
    if (!heap_site(sites->heap, tag->tag, &site))
        site = (struct heap_site){.function = "(unknown)"};
    if (site.function[0] || site.file[0])
        place[depth++] = profile_out_line(
            sites->profile, site.function[0] ? site.function : site.file, site.file, site.line);
    for (unsigned i = 0; i < site.depth && i < SITES_DEPTH; i++)
        place[depth++] = by_site_frame(sites, site.frames[i]);
    for (unsigned i = 0; i < depth; i++)
        profile_out_at(sites->profile, place[i]);
    heap_sample(sites->profile, tag->objects, tag->bytes);
    sites->objects += tag->objects;
    sites->bytes += tag->bytes;
}

/* False: the process counts no call sites. */
static bool by_site(struct profile_out *profile, struct heap *heap)
{
    struct by_site *sites = calloc(1, sizeof(*sites));
    const struct heap_count *all = &heap->total;
    bool any;

    if (!sites)
        return false;
    sites->profile = profile;
    sites->heap = heap;
    (void)target_for_each_mapping(heap->target, by_site_mapping, sites);
    sites->names = look_names_new(heap);
    (void)heap_each_tag(heap, by_site_want, sites);
    look_names_find(sites->names);
    any = heap_each_tag(heap, by_site_take, sites);
    look_names_free(sites->names);
    if (all->bytes.in_use > sites->bytes) {
        uint64_t place = profile_out_line(profile, "(of no counted call site)", "", 0);
        profile_out_at(profile, place);
        heap_sample(profile, all->active > sites->objects ? all->active - sites->objects : 0,
                    all->bytes.in_use - sites->bytes);
    }
    free(sites);
    return any;
}

enum heap_profile heap_profile(struct heap *heap, bool sites, FILE *to)
{
    static const struct profile_type types[] = {{"inuse_objects", "count"},
                                                {"inuse_space", "bytes"}};
    struct profile_out profile;
    struct timespec now;

    profile_out_begin(&profile, types, 2);
    if (!sites) {
        by_cache(&profile, heap);
    } else if (!by_site(&profile, heap)) {
        profile_out_free(&profile);
        return HEAP_PROFILE_NONE;
    }
    profile_out_comment(
        &profile, sites ? "By call site: the process was read from outside."
                        : "By cache: the process was read from outside; by=site has call sites.");
    clock_gettime(CLOCK_REALTIME, &now);
    return profile_out_end(&profile, (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec,
                           1 /* every byte is counted */, "inuse_space", to)
               ? HEAP_PROFILE_DONE
               : HEAP_PROFILE_FAILED;
}
