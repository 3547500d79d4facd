/* SPDX-License-Identifier: MIT */
/*
 * profile_sort.c - which sites are one, what grew between two profiles, and in which order they come.
 */
#include "stook/profile/profile.h"

#include "stook/command.h"

#include <stdlib.h>
#include <string.h>

static int sort_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

static int sort_number(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* 0: the source line is known; 1: the place in a file is; 2: only an address. */
static int sort_kind(const struct profile_site *site)
{
    return site->nr_frames > 0 && site->frames[0].file ? 0 : site->map ? 1 : 2;
}

/*
 * The order of sites by what they are; 0: the same, in another process too, where files are mapped
 * elsewhere.  Two calls in one line of one function are the same.
 */
int profile_order(const struct profile_site *a, const struct profile_site *b)
{
    int order = sort_kind(a) - sort_kind(b);

    if (order != 0)
        return order;
    switch (sort_kind(a)) {
    case 0:
        order = sort_number(a->nr_frames, b->nr_frames);
        for (unsigned i = 0; i < a->nr_frames && order == 0; i++) {
            order = sort_text(a->frames[i].function, b->frames[i].function);
            if (order == 0)
                order = sort_number(a->frames[i].line, b->frames[i].line);
            if (order == 0)
                order = sort_text(a->frames[i].file, b->frames[i].file);
        }
        return order;
    case 1:
        order = strcmp(a->map->path, b->map->path);
        return order != 0 ? order : sort_number(a->place, b->place);
    default:
        return sort_number(a->address, b->address);
    }
}

static int sort_place(const void *a, const void *b)
{
    return profile_order(a, b);
}

void profile_add(struct profile_counts *to, const struct profile_counts *from, int sign)
{
    to->live_objects += sign * from->live_objects;
    to->live_bytes += sign * from->live_bytes;
    to->total_objects += sign * from->total_objects;
    to->total_bytes += sign * from->total_bytes;
}

void profile_merge(struct profile *profile)
{
    size_t n = 0;

    qsort(profile->sites, profile->nr_sites, sizeof(*profile->sites), sort_place);
    for (size_t i = 0; i < profile->nr_sites; i++)
        if (n > 0 && profile_order(&profile->sites[n - 1], &profile->sites[i]) == 0)
            profile_add(&profile->sites[n - 1].counts, &profile->sites[i].counts, 1);
        else
            profile->sites[n++] = profile->sites[i];
    profile->nr_sites = n;
    for (size_t i = 0; i < n; i++)
        profile->sites[i].number = i;
    profile_match_stacks(profile);
}

/* Both were merged, and are in the order of places. */
void profile_compare(struct profile *later, const struct profile *before)
{
    struct profile_site *sites =
        calloc(later->nr_sites + before->nr_sites + 1, sizeof(*later->sites));
    size_t i = 0, j = 0, n = 0;

    if (!sites) {
        complain(STATUS_FAILED, "no memory");
        exit(STATUS_FAILED);
    }
    while (i < later->nr_sites || j < before->nr_sites) {
        int order = i == later->nr_sites    ? 1
                    : j == before->nr_sites ? -1
                                            : profile_order(&later->sites[i], &before->sites[j]);
        if (order <= 0) {
            sites[n] = later->sites[i++];
            sites[n].growth = sites[n].counts;
        } else {
            sites[n] = before->sites[j];
            memset(&sites[n].counts, 0, sizeof(sites[n].counts));
            sites[n].number = SIZE_MAX; /* it has no stacks */
        }
        if (order >= 0)
            profile_add(&sites[n].growth, &before->sites[j++].counts, -1);
        profile_add(&later->growth, &sites[n].growth, 1);
        n++;
    }
    free(later->sites);
    later->sites = sites;
    later->nr_sites = n;
    later->before = before;
    later->compared = true;
}

static enum profile_by sort_key; /* of sort_rank(), which qsort() passes nothing else */

static int64_t sort_value(const struct profile_site *site)
{
    return sort_key == BY_GROWTH  ? site->growth.live_bytes
           : sort_key == BY_CALLS ? site->counts.total_objects
           : sort_key == BY_TOTAL ? site->counts.total_bytes
                                  : site->counts.live_bytes;
}

/* What is more comes first; what became less, behind that, the most first; and last what is 0. */
static int sort_values(int64_t a, int64_t b)
{
    if ((a > 0) != (b > 0))
        return a > 0 ? -1 : 1;
    if (a > 0)
        return a != b ? (a > b ? -1 : 1) : 0;
    return a != b ? (a < b ? -1 : 1) : 0;
}

static int sort_rank(const void *left, const void *right)
{
    const struct profile_site *a = left, *b = right;
    int order = sort_values(sort_value(a), sort_value(b));

    if (order == 0)
        order = sort_values(a->counts.total_bytes, b->counts.total_bytes);
    return order != 0 ? order : profile_order(a, b);
}

void profile_sort(struct profile *profile, enum profile_by by)
{
    sort_key = by;
    qsort(profile->sites, profile->nr_sites, sizeof(*profile->sites), sort_rank);
}
