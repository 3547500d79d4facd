/* SPDX-License-Identifier: MIT */
/*
 * why.h - why a process is so large, for stook why (why.c, why_show.c) and the page of stook report.
 */
#ifndef STOOK_TOOL_WHY_H
#define STOOK_TOOL_WHY_H

#include "look/holes.h"
#include "stook/look/look_sites.h"

#include <stdio.h>

enum why_kind { WHY_SPARSE, WHY_TRIM, WHY_SCATTERED, WHY_OUTSIDE, WHY_IN_USE, WHY_KINDS };
/* What a place is known by: the objects themselves, samples; it is not known. */
enum why_evidence { WHY_EXACT, WHY_SAMPLED, WHY_UNKNOWN };
enum why_act { WHY_ACT_TRIM, WHY_ACT_LIMIT, WHY_ACT_OBJECTS, WHY_ACT_CACHE, WHY_ACTS };

struct why {
    struct heap *heap;
    struct holes holes;
    struct look_sites
        sites; /* of objects in sparse slabs; bytes: of the slabs that they keep; kind: the evidence */
    uint64_t *samples; /* by cache of the heap: its sampled objects */
    uint64_t *group;   /* by group of the heap: bytes of the sparse slabs that its objects keep */
    enum why_kind kind;
    uint64_t bytes; /* of the verdict: what would come back, or what there is of it */
    const struct look_site
        *site; /* the one that keeps most of the sparse slabs; NULL: none is known */
    const struct holes_cache *cache; /* the one that has most of them; NULL: there are none */
    uint64_t kept;          /* bytes of the sparse slabs that the site keeps, or the cache */
    uint64_t act[WHY_ACTS]; /* bytes that would come back */
    char verdict[1024];
};

void why_find(struct why *why, struct heap *heap);
void why_free(struct why *why);
/* By part: a key of JSON, and words. */
extern const struct why_part {
    const char *key, *name;
} why_parts[HOLES_PARTS];
/* ", perhaps of ...", where an allocator beside Stook is known, and how it is turned off. */
const char *why_hint(const struct holes *holes, enum holes_part part, char text[128]);

void why_text(const struct why *why, struct writer *w);
void why_json(const struct why *why, struct writer *w);
void why_html(struct heap *heap, FILE *to);

#endif
