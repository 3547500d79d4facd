/* SPDX-License-Identifier: MIT */
/*
 * profile_read.c - reads a profile that the library wrote from its JSON.
 */
#include "stook/profile/profile.h"

#include "stook/command.h"
#include "stook/profile/json.h"

#include "text/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PROFILE_FILE ((size_t)1 << 31) /* bytes of a profile at most */

static char *profile_file(const char *path)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : file_stream(path);
    size_t size = 0, room = 1 << 16, n;
    char *text = NULL, *more;

    while (file && (more = realloc(text, room + 1)) != NULL) {
        text = more;
        n = fread(text + size, 1, room - size, file);
        size += n;
        if (size < room)
            break;
        room *= 2;
        if (room > PROFILE_FILE) {
            errno = EFBIG;
            break;
        }
    }
    if (!file || ferror(file) || room > PROFILE_FILE) {
        int error = errno;
        free(text);
        text = NULL;
        errno = error;
    } else if (text) {
        text[size] = '\0';
    }
    if (file && file != stdin)
        fclose(file);
    return text;
}

static size_t profile_count(const struct json *array)
{
    size_t n = 0;

    for (const struct json *one = array ? array->first : NULL; one; one = one->next)
        n++;
    return n;
}

struct profile_counts profile_read_counts(const struct json *site)
{
    return (struct profile_counts){
        .live_objects = (int64_t)json_number(site, "live_objects", 0),
        .live_bytes = (int64_t)json_number(site, "live_bytes", 0),
        .total_objects = (int64_t)json_number(site, "total_objects", 0),
        .total_bytes = (int64_t)json_number(site, "total_bytes", 0),
    };
}

static void profile_read_site(struct profile_site *site, const struct json *json)
{
    const char *file = json_string(json, "file", NULL);

    site->address = file ? 0 : json_number(json, "address", 0);
    if (!file && site->address == 0 && json_member(json, "kind")) {
        site->frames[0].function = "(call sites that found no place)";
        site->frames[0].file = "";
        site->nr_frames = 1;
    }
    if (file) {
        site->frames[0].file = file;
        site->frames[0].function = json_string(json, "function", "?");
        site->frames[0].line = json_number(json, "line", 0);
        site->nr_frames = 1;
    }
    site->counts = profile_read_counts(json);
}

static void profile_read_map(struct profile_map *map, const struct json *json)
{
    const char *slash;

    map->start = json_number(json, "start", 0);
    map->end = json_number(json, "end", 0);
    map->offset = json_number(json, "offset", 0);
    map->path = json_string(json, "path", "");
    map->build_id = json_string(json, "build_id", "");
    slash = strrchr(map->path, '/');
    map->name = slash ? slash + 1 : map->path;
}

void profile_set_map(const struct profile *profile, struct profile_site *site)
{
    /* Of two, the first: a library that was closed comes behind what is mapped. */
    for (size_t i = 0; i < profile->nr_maps && site->address != 0 && !site->map; i++)
        if (site->address - 1 >= profile->maps[i].start && site->address - 1 < profile->maps[i].end)
            site->map = &profile->maps[i];
}

/* Whether all numbers together, added to *all, are such that sums and differences of them are numbers. */
static bool profile_fits(const struct profile_counts *counts, uint64_t *all)
{
    const int64_t each[] = {counts->live_objects, counts->live_bytes, counts->total_objects,
                            counts->total_bytes};

    for (unsigned i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
        uint64_t size = each[i] < 0 ? 0 - (uint64_t)each[i] : (uint64_t)each[i];
        if (size > PROFILE_MOST - *all)
            return false;
        *all += size;
    }
    return true;
}

static uint64_t profile_live(const struct json *sites)
{
    uint64_t live = 0;

    for (const struct json *one = sites ? sites->first : NULL; one; one = one->next)
        live += json_number(one, "live_bytes", 0);
    return live;
}

/* Counted sites, if they have at least half of what is in use: with the debug letter U large objects alone have some.
 * Else samples, which speak of all. */
static bool profile_is_sampled(const struct profile *profile)
{
    const struct json *sites = json_member(profile->json, "sites");
    const struct json *samples = json_member(profile->json, "samples");
    uint64_t counted = profile_live(sites);

    return profile_count(samples) > 0 &&
           (profile_count(sites) == 0 ||
            (profile->in_use_bytes != ~(uint64_t)0 && counted < profile->in_use_bytes / 2 &&
             counted < profile_live(samples) / 2));
}

/* A status. */
static int profile_fill(struct profile *profile, const char *path)
{
    const struct json *sites = json_member(profile->json, "sites");
    const struct json *maps = json_member(profile->json, "mappings"), *one;
    uint64_t all = 0;
    size_t i = 0;

    profile->program = json_string(profile->json, "program", "?");
    profile->exe = json_string(profile->json, "exe", "");
    profile->pid = json_number(profile->json, "pid", 0);
    profile->time_ns = json_number(profile->json, "time_ns", 0);
    profile->in_use_bytes = json_number(profile->json, "in_use_bytes", ~(uint64_t)0);
    if (profile_is_sampled(profile)) {
        sites = json_member(profile->json, "samples");
        profile->sample_every = json_number(profile->json, "sample_every", 0);
    }
    profile->nr_sites = profile_count(sites);
    profile->nr_maps = profile_count(maps);
    profile->sites = calloc(profile->nr_sites + 1, sizeof(*profile->sites));
    profile->maps = calloc(profile->nr_maps + 1, sizeof(*profile->maps));
    if (!profile->sites || !profile->maps)
        return complain(STATUS_FAILED, "no memory");
    for (one = maps ? maps->first : NULL; one; one = one->next)
        profile_read_map(&profile->maps[i++], one);
    i = 0;
    for (one = sites ? sites->first : NULL; one; one = one->next, i++) {
        struct profile_site *site = &profile->sites[i];
        profile_read_site(site, one);
        if (!profile_fits(&site->counts, &all))
            return complain(STATUS_FAILED,
                            "%s is no profile: no process has as many objects and bytes", path);
        profile_set_map(profile, site);
        profile_add(&profile->sum, &site->counts, 1);
    }
    if (profile->sample_every == 0)
        return STATUS_OK;
    return profile_read_stacks(profile, sites) ? STATUS_OK : complain(STATUS_FAILED, "no memory");
}

int profile_read(struct profile *profile, const char *path)
{
    unsigned line;
    uint64_t format;

    memset(profile, 0, sizeof(*profile));
    profile->text = profile_file(path);
    if (!profile->text)
        return complain(STATUS_FAILED, "%s cannot be read: %s", path, file_error(errno));
    profile->json = json_read(profile->text, &line);
    if (!profile->json)
        return complain(STATUS_FAILED, "%s is no profile: line %u is not JSON%s", path, line,
                        *profile->text ? " (is it complete?)" : "; the file is empty");
    format = json_number(profile->json, "stook_profile", 0);
    if (format == 0)
        return complain(STATUS_FAILED, "%s is no profile: it has no \"stook_profile\"", path);
    if (format > 2)
        return complain(STATUS_FAILED, "%s is of format %llu; this stook reads formats up to 2",
                        path, (unsigned long long)format);
    return profile_fill(profile, path);
}

const char *profile_keep(struct profile *profile, const char *text)
{
    char **more, *copy = strdup(text);

    if ((profile->nr_strings & (profile->nr_strings - 1)) == 0) { /* a power of two: it is full */
        size_t room = profile->nr_strings ? 2 * profile->nr_strings : 1;
        more = realloc(profile->strings, room * sizeof(*more));
        if (more)
            profile->strings = more;
        else {
            free(copy);
            copy = NULL;
        }
    }
    if (!copy) {
        complain(STATUS_FAILED, "no memory");
        exit(STATUS_FAILED);
    }
    profile->strings[profile->nr_strings++] = copy;
    return copy;
}

void profile_free(struct profile *profile)
{
    for (size_t i = 0; i < profile->nr_strings; i++)
        free(profile->strings[i]);
    free(profile->strings);
    profile_free_stacks(profile);
    free(profile->sites);
    free(profile->maps);
    json_free(profile->json);
    free(profile->text);
    memset(profile, 0, sizeof(*profile));
}
