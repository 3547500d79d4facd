/* SPDX-License-Identifier: MIT */
/*
 * profile.h - a profile in memory, and what the parts of stook profile do with it: read, resolve,
 * compare, and write in one form or another.
 */
#ifndef STOOK_TOOL_PROFILE_H
#define STOOK_TOOL_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json;

/* One function of a place in the code; strings are the profile's. */
struct profile_frame {
    const char *function; /* NULL: unknown */
    const char *file;     /* NULL: unknown */
    uint64_t line;
    uint64_t offset; /* from the function's start, where there is no line */
};

enum { PROFILE_FRAMES = 16 };

/* The sum of all numbers of a profile is at most this, either way: none of what is made of them overflows. */
#define PROFILE_MOST ((uint64_t)1 << 61)

/* Differences of two profiles may be negative. */
struct profile_counts {
    int64_t live_objects, live_bytes, total_objects, total_bytes;
};

struct profile_site {
    uint64_t address; /* 0: the site is known by its source */
    const struct profile_map *map;
    uint64_t place;                              /* the address within the file, as linked */
    struct profile_frame frames[PROFILE_FRAMES]; /* innermost first: the last is the function, */
    unsigned nr_frames;                          /* others were inlined into it */
    struct profile_counts counts, growth;        /* growth: against an earlier profile */
    size_t number;                               /* of this site alone, whatever the order */
    bool wraps;                                  /* a place on stacks: it is a wrapper of malloc */
};

/* Objects that were sampled with their callers. */
struct profile_stack {
    size_t *places; /* innermost first, of profile.places; the first address is the site's */
    size_t depth,
        site; /* site: of the site that has its objects its place, and its `number` once it has one */
    struct profile_counts counts;
    const char *cache, *group, *thread; /* of a sampled profile; NULL: none, or not known */
};

struct profile_map {
    uint64_t start, end, offset;
    const char *path, *build_id, *name; /* name: what is behind the last slash */
    void *module;                       /* the resolver's */
    const char *trouble;                /* why its addresses stay unresolved, or NULL */
    unsigned unresolved;                /* sites */
};

/* Mappings of code that no file has. */
#define PROFILE_JIT "[JIT]"

struct profile {
    struct json *json;
    char root[32]; /* of the process, where /tmp/perf-PID.map may lie; "": ours */
    char *text;
    const char *program, *exe;
    uint64_t pid, time_ns, in_use_bytes; /* in_use_bytes ~0: unknown */
    uint64_t
        sample_every; /* the sites are those of samples, each so many bytes; 0: all were counted */
    struct profile_site *sites;
    size_t nr_sites;
    struct profile_map *maps;
    size_t nr_maps;
    struct profile_site *places; /* addresses on stacks, each once; no counts */
    size_t nr_places;
    struct profile_stack *stacks; /* by site, then by weight */
    size_t nr_stacks;
    char **strings; /* made on the way */
    size_t nr_strings;
    struct profile_counts sum, growth;
    const struct profile *before; /* it was compared with, and lives as long */
    bool compared;
};

/* `from` is added `sign` times. */
void profile_add(struct profile_counts *to, const struct profile_counts *from, int sign);
/* The counts of a site of the document. */
struct profile_counts profile_read_counts(const struct json *site);

/* 0, or a status after saying why. */
int profile_read(struct profile *profile, const char *path);
void profile_free(struct profile *profile);
/* A copy that lives as long as the profile. */
const char *profile_keep(struct profile *profile, const char *text);

/* Functions, files and lines of all addresses. */
void profile_resolve(struct profile *profile);
void profile_set_map(const struct profile *profile, struct profile_site *site);
/* The order of sites by what they are; 0: the same. */
int profile_order(const struct profile_site *a, const struct profile_site *b);

/* The stacks of a document, before its addresses are resolved; false: no memory. */
bool profile_read_stacks(struct profile *profile, const struct json *sites);
/* Which site has which stack, once sites are merged. */
void profile_match_stacks(struct profile *profile);
void profile_free_stacks(struct profile *profile);
/* The stacks of a site, and what each stands for: the site's counts, shared out as sampled. */
const struct profile_stack *profile_stacks_of(const struct profile *profile,
                                              const struct profile_site *site, size_t *count);
struct profile_counts profile_stack_part(const struct profile_stack *stacks, size_t count,
                                         size_t which, const struct profile_counts *whole);

/* What known wrappers of malloc, and those of a list of patterns, allocated becomes their callers'; before profile_merge(). */
void profile_fold(struct profile *profile, const char *more);
/* How many of a place's frames, from the innermost on, are such wrappers. */
size_t profile_wraps(const struct profile_site *place, const char *more);
/* Sites that a user would call the same become one. */
void profile_merge(struct profile *profile);
/* What `later` has grown since; sites that are only in `before` are added to it. */
void profile_compare(struct profile *later, const struct profile *before);

enum profile_by { BY_LIVE, BY_TOTAL, BY_CALLS, BY_GROWTH };
extern const char *const profile_keys[];
void profile_sort(struct profile *profile, enum profile_by by);

/* Forms, of a sorted profile; top 0: all sites. */
void profile_table(const struct profile *profile, enum profile_by by, unsigned top, FILE *to);
void profile_json(const struct profile *profile, enum profile_by by, unsigned top, FILE *to);
void profile_collapsed(const struct profile *profile, enum profile_by by, FILE *to);
/* gzip of a pprof Profile message; false: no memory, or it cannot be written. */
bool profile_pprof(const struct profile *profile, enum profile_by by, FILE *to);

#endif
