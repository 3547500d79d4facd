/* SPDX-License-Identifier: MIT */
/*
 * profile_pprof.c - a profile as pprof's Profile message (github.com/google/pprof, proto/profile.proto).
 */
#include "stook/profile/profile.h"

#include "export/profile_out.h"

#include <string.h>

/* What a reader of a sampled profile should know. */
static const char *const pprof_comments[] = {
    "Sampled by Stook; values are scaled to what the samples stand for.",
    "inuse: malloc, kmalloc and large objects; of a typed cache, its exact bytes in use by the sites' shares of its "
    "samples.",
};

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
static void pprof_location(struct profile_out *out, const struct profile *profile,
                           const struct profile_site *place, uint64_t number)
{
    /* A site that only the earlier profile has lies in a mapping of that profile. */
    const struct profile_map *map = pprof_map_of(profile, place->map);
    bool addressed = place->address != 0 && (map || !place->map);

    profile_out_frames(out, place);
    profile_out_place(out, number, map ? (uint64_t)(map - profile->maps) + 1 : 0,
                      addressed ? place->address - 1 : 0);
}

/* `sign` is -1 for those of an earlier profile. */
static void pprof_sample(struct profile_out *out, const struct profile_counts *counts, int64_t sign)
{
    const int64_t values[] = {sign * counts->total_objects, sign * counts->total_bytes,
                              sign * counts->live_objects, sign * counts->live_bytes};

    profile_out_sample(out, values, sizeof(values) / sizeof(values[0]));
}

/* What samples say: stacks with their labels, each with its own counts, as Go's heap profiles have them.  Places have the
 * numbers from `first` on. */
static void pprof_stacks(struct profile_out *out, const struct profile *profile,
                         const struct profile *of, uint64_t first, int64_t sign)
{
    for (size_t i = 0; i < of->nr_places; i++)
        pprof_location(out, profile, &of->places[i], first + i);
    for (size_t i = 0; i < of->nr_stacks; i++) {
        const struct profile_stack *stack = &of->stacks[i];
        for (size_t k = 0; k < stack->depth; k++)
            profile_out_at(out, first + stack->places[k]);
        profile_out_label(out, "cache", stack->cache);
        profile_out_label(out, "group", stack->group);
        profile_out_label(out, "thread", stack->thread);
        pprof_sample(out, &stack->counts, sign);
    }
}

/* Every object was counted. */
static void pprof_sites(struct profile_out *out, const struct profile *profile)
{
    for (size_t i = 0; i < profile->nr_sites; i++) {
        const struct profile_site *site = &profile->sites[i];
        pprof_location(out, profile, site, i + 1);
        profile_out_at(out, i + 1);
        pprof_sample(out, profile->compared ? &site->growth : &site->counts, 1);
    }
}

bool profile_pprof(const struct profile *profile, enum profile_by by, FILE *to)
{
    static const struct profile_type types[] = {{"alloc_objects", "count"},
                                                {"alloc_space", "bytes"},
                                                {"inuse_objects", "count"},
                                                {"inuse_space", "bytes"}};
    const struct profile *before = profile->compared ? profile->before : NULL;
    struct profile_out out;

    profile_out_begin(&out, types, sizeof(types) / sizeof(types[0]));
    for (size_t i = 0; i < profile->nr_maps; i++) {
        const struct profile_map *map = &profile->maps[i];
        profile_out_mapping(&out, i + 1, map->start, map->end, map->offset, map->path,
                            map->build_id, map->unresolved == 0);
    }
    if (profile->sample_every == 0) {
        pprof_sites(&out, profile);
    } else {
        pprof_stacks(&out, profile, profile, 1, 1);
        if (before)
            pprof_stacks(&out, profile, before, profile->nr_places + 1, -1);
        for (unsigned i = 0; i < sizeof(pprof_comments) / sizeof(pprof_comments[0]); i++)
            profile_out_comment(&out, pprof_comments[i]);
    }
    if (before && before->time_ns < profile->time_ns)
        proto_number(&out.out, 10, profile->time_ns - before->time_ns);
    return profile_out_end(&out, profile->time_ns,
                           profile->sample_every ? profile->sample_every
                                                 : 1, /* every byte is counted */
                           by == BY_TOTAL   ? "alloc_space"
                           : by == BY_CALLS ? "alloc_objects"
                                            : "inuse_space",
                           to);
}
