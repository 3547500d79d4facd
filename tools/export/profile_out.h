/* SPDX-License-Identifier: MIT */
/*
 * profile_out.h - a pprof Profile message while it is written: strings, functions and places that stand in it once.
 */
#ifndef STOOK_EXPORT_PROFILE_OUT_H
#define STOOK_EXPORT_PROFILE_OUT_H

#include "stook/profile/profile.h"
#include "stook/profile/proto.h"

/* Texts, numbered from 1 on in the order in which they came. */
struct texts {
    char **text;
    uint32_t *table; /* numbers by hash; 0: free */
    size_t texts, room;
};

struct profile_out {
    struct bytes out, message, inner;
    struct texts strings, functions, places;
};

/* The values of each sample, in their order: their names and units. */
struct profile_type {
    const char *type, *unit;
};

void profile_out_begin(struct profile_out *profile, const struct profile_type *types, unsigned n);
/* When it was made, the bytes that a sample stands for, and the type to begin with; then as gzip.  False: it cannot be
 * written.  The profile is gone. */
bool profile_out_end(struct profile_out *profile, uint64_t time_ns, uint64_t period,
                     const char *type, FILE *to);
void profile_out_free(struct profile_out *profile);
/* NULL is "". */
uint64_t profile_out_string(struct profile_out *profile, const char *text);
void profile_out_comment(struct profile_out *profile, const char *text);

/* [start, limit) of a file.  `resolved`: all its places have their functions, and a reader need not look for them. */
void profile_out_mapping(struct profile_out *profile, uint64_t number, uint64_t start,
                         uint64_t limit, uint64_t offset, const char *file, const char *build,
                         bool resolved);
/* A place in the code: first its functions, those that were inlined before the others; mapping and address 0: none. */
void profile_out_frame(struct profile_out *profile, const char *function, const char *file,
                       uint64_t line);
void profile_out_frames(struct profile_out *profile, const struct profile_site *place);
void profile_out_place(struct profile_out *profile, uint64_t number, uint64_t mapping,
                       uint64_t address);
/* The place of a function's line without an address, or of an address with what is known of it (NULL: nothing): each stands
 * there once. */
uint64_t profile_out_line(struct profile_out *profile, const char *function, const char *file,
                          uint64_t line);
uint64_t profile_out_address(struct profile_out *profile, uint64_t address, uint64_t mapping,
                             const struct profile_site *known);
/* A sample: first its labels (text NULL: none), and its places from the innermost on. */
void profile_out_label(struct profile_out *profile, const char *key, const char *text);
void profile_out_at(struct profile_out *profile, uint64_t place);
void profile_out_sample(struct profile_out *profile, const int64_t *values, unsigned n);

#endif
