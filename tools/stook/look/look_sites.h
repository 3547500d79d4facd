/* SPDX-License-Identifier: MIT */
/*
 * look_sites.h - objects of a target by cache and by the place where they were allocated.
 *
 *     look_sites_begin(&sites, heap);
 *     look_sites_count(&sites, &what, kind)->bytes += ...     of each object that heap_describe() has described
 *     look_names_find(sites.names);
 *     ... sites.site[0 to sites.sites - 1] ...
 *     look_sites_free(&sites);
 */
#ifndef STOOK_TOOL_LOOK_SITES_H
#define STOOK_TOOL_LOOK_SITES_H

#include "stook/look/look_names.h"

/* Objects of one cache, allocated at one place, of one kind. */
struct look_site {
    uint64_t objects, bytes, sample; /* bytes: the caller's */
    uint64_t first, last;            /* allocated, CLOCK_MONOTONIC in ns; 0: unknown */
    uint64_t key;
    uint8_t kind;                   /* the caller's */
    const struct heap_cache *cache; /* NULL: large objects */
    struct look_place place;
};

struct look_sites {
    struct heap *heap;
    struct look_names *names;
    struct look_site **site;
    size_t sites;
    struct look_site **table; /* by key; further ones count with those of no known place */
};

void look_sites_begin(struct look_sites *sites, struct heap *heap);
void look_sites_free(struct look_sites *sites);
/* Counts the object, and returns its place. */
struct look_site *look_sites_count(struct look_sites *sites, struct heap_what *what, unsigned kind);

void look_seconds(struct writer *w, uint64_t ns);
/* A line with the ages of its objects, where they are known. */
void look_show_age(struct writer *w, const struct heap *heap, const struct look_site *site);
/* {"kind": …, "cache": …} and so on. */
void look_json_site(struct writer *w, const struct look_sites *sites, const struct look_site *site,
                    const char *kind);

#endif
