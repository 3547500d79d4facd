/* SPDX-License-Identifier: MIT */
/* The allocators, how each can be linked, and where their workers are. */
#ifndef STOOK_BENCH_ROSTER_H
#define STOOK_BENCH_ROSTER_H

#include <stddef.h>

enum roster_kind { KIND_FLOOR, KIND_STOOK, KIND_PEER };

struct roster_entry {
    const char *allocator;
    const char *linked; /* "static" or "shared" */
    enum roster_kind kind;
    unsigned groups; /* of enum plan_group */
};

extern const struct roster_entry roster[];
extern const size_t roster_count;

/*
 * The worker's path, or NULL with the reason why there is none. Both are valid until the next call.
 */
const char *roster_worker(const struct roster_entry *entry, const char **missing);

#endif
