/* SPDX-License-Identifier: MIT */
/*
 * profile_pprof.c - a profile as pprof's Profile message (github.com/google/pprof, proto/profile.proto).
 */
#include "stook/profile.h"
#include "stook/proto.h"

#include <stdlib.h>
#include <string.h>

/* ---- numbers for strings and functions -------------------------------------------------------- */

struct pprof_string {
    const char *text;
    uint64_t number;
};
struct pprof_function {
    uint64_t name, file, number;
};

struct pprof {
    struct bytes out, message, inner;
    struct pprof_string *strings;     /* hashed; room is a power of two beyond twice the need */
    struct pprof_function *functions; /* so */
    size_t room;
    uint64_t nr_strings, nr_functions;
};

static uint64_t pprof_string(struct pprof *pprof, const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    struct pprof_string *at;

    if (!text || !*text)
        return 0;
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    for (size_t i = hash;; i++) {
        at = &pprof->strings[i & (pprof->room - 1)];
        if (at->text && strcmp(at->text, text) == 0)
            return at->number;
        if (!at->text)
            break;
    }
    at->text = text;
    at->number = pprof->nr_strings++;
    proto_block(&pprof->out, 6, text, strlen(text));
    return at->number;
}

/* The function of a frame; its message is written with its first use. */
static uint64_t pprof_function(struct pprof *pprof, const struct profile_frame *frame)
{
    uint64_t name = pprof_string(pprof, frame->function ? frame->function : "?");
    uint64_t file = pprof_string(pprof, frame->file);
    struct pprof_function *at;
    struct bytes message = {0};

    for (size_t i = (name * 0x9e3779b97f4a7c15u + file) >> 13;; i++) {
        at = &pprof->functions[i & (pprof->room - 1)];
        if (at->number != 0 && at->name == name && at->file == file)
            return at->number;
        if (at->number == 0)
            break;
    }
    *at = (struct pprof_function){name, file, ++pprof->nr_functions};
    proto_number(&message, 1, at->number);
    proto_number(&message, 2, name);
    proto_number(&message, 3, name);
    proto_number(&message, 4, file);
    proto_message(&pprof->out, 5, &message);
    free(message.data);
    return at->number;
}

/* ---- the profile ---------------------------------------------------------------------------- */

/* What a reader of a sampled profile should know. */
static const char *const pprof_comments[] = {
    "Sampled by Stook; values are scaled to what the samples stand for.",
    "inuse: malloc, kmalloc and large objects; of a typed cache, its exact bytes in use by the sites' shares of its "
    "samples.",
    "alloc: allocations that took memory from below a CPU's sheaf; what is freed to a sheaf and allocated again "
    "is counted by the cache's counters.",
};

static void pprof_type(struct pprof *pprof, unsigned field, const char *type, const char *unit)
{
    proto_number(&pprof->message, 1, pprof_string(pprof, type));
    proto_number(&pprof->message, 2, pprof_string(pprof, unit));
    proto_message(&pprof->out, field, &pprof->message);
}

static void pprof_mapping(struct pprof *pprof, const struct profile *profile, size_t number)
{
    const struct profile_map *map = &profile->maps[number - 1];
    bool resolved = map->unresolved == 0; /* else pprof may try */

    proto_number(&pprof->message, 1, number);
    proto_number(&pprof->message, 2, map->start);
    proto_number(&pprof->message, 3, map->end);
    proto_number(&pprof->message, 4, map->offset);
    proto_number(&pprof->message, 5, pprof_string(pprof, map->path));
    proto_number(&pprof->message, 6, pprof_string(pprof, map->build_id));
    for (unsigned field = 7; field <= 10; field++)
        proto_number(&pprof->message, field, resolved);
    proto_message(&pprof->out, 3, &pprof->message);
}

/* The profile's own mapping, or the one that is the same in an earlier profile of the process; NULL: neither. */
static const struct profile_map *pprof_map_of(const struct profile *profile,
                                              const struct profile_map *map)
{
    if (!map || (map >= profile->maps && map < profile->maps + profile->nr_maps))
        return map;
    for (size_t i = 0; i < profile->nr_maps; i++)
        if (profile->maps[i].start == map->start && profile->maps[i].offset == map->offset &&
            strcmp(profile->maps[i].path, map->path) == 0)
            return &profile->maps[i];
    return NULL;
}

/* A place in the code, of a site or on a stack. */
static void pprof_location(struct pprof *pprof, const struct profile *profile,
                           const struct profile_site *place, uint64_t number)
{
    /* A site that only the earlier profile has lies in a mapping of that profile. */
    const struct profile_map *map = pprof_map_of(profile, place->map);
    bool mapped = map != NULL;

    for (unsigned i = 0; i < place->nr_frames; i++) {
        proto_number(&pprof->inner, 1, pprof_function(pprof, &place->frames[i]));
        proto_number(&pprof->inner, 2, place->frames[i].line);
        proto_message(&pprof->message, 4, &pprof->inner);
    }
    proto_number(&pprof->message, 1, number);
    if (mapped)
        proto_number(&pprof->message, 2, (uint64_t)(map - profile->maps) + 1);
    if (place->address != 0 && (mapped || !place->map))
        proto_number(&pprof->message, 3, place->address - 1);
    proto_message(&pprof->out, 4, &pprof->message);
}

static void pprof_label(struct pprof *pprof, const char *key, const char *text)
{
    if (!text)
        return;
    proto_number(&pprof->inner, 1, pprof_string(pprof, key));
    proto_number(&pprof->inner, 2, pprof_string(pprof, text));
    proto_message(&pprof->message, 3, &pprof->inner);
}

/* The site's objects; `site` is its location. */
static void pprof_sample(struct pprof *pprof, uint64_t site, const struct profile_counts *counts)
{
    const int64_t values[] = {counts->total_objects, counts->total_bytes, counts->live_objects,
                              counts->live_bytes};

    proto_varint(&pprof->inner, site);
    proto_message(&pprof->message, 1, &pprof->inner);
    for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        proto_varint(&pprof->inner, (uint64_t)values[i]);
    proto_message(&pprof->message, 2, &pprof->inner);
    proto_message(&pprof->out, 2, &pprof->message);
}

/* A stack of a sampled profile, by itself; `sign` is -1 for those of an earlier one. */
static void pprof_sampled(struct pprof *pprof, const struct profile_stack *stack, uint64_t places,
                          int64_t sign)
{
    const int64_t values[] = {stack->counts.total_objects, stack->counts.total_bytes,
                              stack->counts.live_objects, stack->counts.live_bytes};

    for (size_t i = 0; i < stack->depth; i++)
        proto_varint(&pprof->inner, places + stack->places[i] + 1);
    proto_message(&pprof->message, 1, &pprof->inner);
    for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        proto_varint(&pprof->inner, (uint64_t)(sign * values[i]));
    proto_message(&pprof->message, 2, &pprof->inner);
    pprof_label(pprof, "cache", stack->cache);
    pprof_label(pprof, "group", stack->group);
    pprof_label(pprof, "thread", stack->thread);
    proto_message(&pprof->out, 2, &pprof->message);
}

/* What samples say: stacks with their labels, each with its own counts, as Go's heap profiles have them. */
static void pprof_fill_samples(struct pprof *pprof, const struct profile *profile)
{
    const struct profile *before = profile->compared ? profile->before : NULL;

    pprof_type(pprof, 1, "alloc_objects", "count");
    pprof_type(pprof, 1, "alloc_space", "bytes");
    pprof_type(pprof, 1, "inuse_objects", "count");
    pprof_type(pprof, 1, "inuse_space", "bytes");
    for (size_t i = 0; i < profile->nr_places; i++)
        pprof_location(pprof, profile, &profile->places[i], i + 1);
    for (size_t i = 0; i < profile->nr_stacks; i++)
        pprof_sampled(pprof, &profile->stacks[i], 0, 1);
    for (size_t i = 0; before && i < before->nr_places; i++)
        pprof_location(pprof, profile, &before->places[i], profile->nr_places + i + 1);
    for (size_t i = 0; before && i < before->nr_stacks; i++)
        pprof_sampled(pprof, &before->stacks[i], profile->nr_places, -1);
    for (unsigned i = 0; i < sizeof(pprof_comments) / sizeof(pprof_comments[0]); i++)
        proto_number(&pprof->out, 13, pprof_string(pprof, pprof_comments[i]));
}

/* Every object was counted. */
static void pprof_fill_sites(struct pprof *pprof, const struct profile *profile)
{
    pprof_type(pprof, 1, "alloc_objects", "count");
    pprof_type(pprof, 1, "alloc_space", "bytes");
    pprof_type(pprof, 1, "inuse_objects", "count");
    pprof_type(pprof, 1, "inuse_space", "bytes");
    for (size_t i = 0; i < profile->nr_sites; i++) {
        const struct profile_site *site = &profile->sites[i];
        pprof_location(pprof, profile, site, i + 1);
        pprof_sample(pprof, i + 1, profile->compared ? &site->growth : &site->counts);
    }
}

static void pprof_fill(struct pprof *pprof, const struct profile *profile, enum profile_by by)
{
    bool sampled = profile->sample_every != 0;

    proto_block(&pprof->out, 6, "", 0);
    pprof->nr_strings = 1;
    for (size_t i = 1; i <= profile->nr_maps; i++)
        pprof_mapping(pprof, profile, i);
    if (sampled)
        pprof_fill_samples(pprof, profile);
    else
        pprof_fill_sites(pprof, profile);
    proto_number(&pprof->out, 9, profile->time_ns);
    if (profile->compared && profile->before && profile->before->time_ns < profile->time_ns)
        proto_number(&pprof->out, 10, profile->time_ns - profile->before->time_ns);
    pprof_type(pprof, 11, "space", "bytes");
    proto_number(&pprof->out, 12,
                 sampled ? profile->sample_every : 1); /* 1: every byte is counted */
    proto_number(&pprof->out, 14,
                 pprof_string(pprof, by == BY_TOTAL   ? "alloc_space"
                                     : by == BY_CALLS ? "alloc_objects"
                                                      : "inuse_space"));
}

bool profile_pprof(const struct profile *profile, enum profile_by by, FILE *to)
{
    struct pprof pprof = {.room = 64};
    const struct profile *before = profile->compared ? profile->before : NULL;
    size_t most = 32 + 2 * profile->nr_maps + 3 * profile->nr_stacks;
    bool good;

    for (size_t i = 0; i < profile->nr_sites; i++)
        most += 2 * profile->sites[i].nr_frames;
    for (size_t i = 0; i < profile->nr_places; i++)
        most += 2 * profile->places[i].nr_frames;
    for (size_t i = 0; before && i < before->nr_places; i++)
        most += 2 * before->places[i].nr_frames;
    most += before ? 3 * before->nr_stacks : 0;
    while (pprof.room < 2 * most)
        pprof.room *= 2;
    pprof.strings = calloc(pprof.room, sizeof(*pprof.strings));
    pprof.functions = calloc(pprof.room, sizeof(*pprof.functions));
    good = pprof.strings && pprof.functions;
    if (good) {
        pprof_fill(&pprof, profile, by);
        good = !pprof.out.failed && !pprof.message.failed && !pprof.inner.failed &&
               gzip_write(&pprof.out, to);
    }
    free(pprof.strings);
    free(pprof.functions);
    free(pprof.out.data);
    free(pprof.message.data);
    free(pprof.inner.data);
    return good;
}
