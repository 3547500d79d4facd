/* SPDX-License-Identifier: MIT */
/*
 * profile_out.h - a pprof Profile message while it is written: strings, functions and places that stand in it once.
 */
#ifndef STOOK_EXPORT_PROFILE_OUT_H
#define STOOK_EXPORT_PROFILE_OUT_H

#include "stook/proto.h"

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

void profile_out_begin(struct profile_out *profile);
/* Time, period and what it is; then as gzip.  False: it cannot be written.  The profile is gone. */
bool profile_out_end(struct profile_out *profile, const char *comment, FILE *to);
void profile_out_free(struct profile_out *profile);

/* A place in the code: of a function's line without an address (mapping 0), or of an address without a function. */
uint64_t profile_out_line(struct profile_out *profile, const char *function, const char *file,
                          uint64_t line);
uint64_t profile_out_address(struct profile_out *profile, uint64_t address, uint64_t mapping);
/* [start, limit) of a file. */
void profile_out_mapping(struct profile_out *profile, uint64_t number, uint64_t start,
                         uint64_t limit, uint64_t offset, const char *file, const char *build);
/* Places from the innermost on; `cache` is a label, or NULL. */
void profile_out_sample(struct profile_out *profile, const uint64_t *place, unsigned depth,
                        uint64_t objects, uint64_t bytes, const char *cache);

#endif
