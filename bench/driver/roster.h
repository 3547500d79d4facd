/* SPDX-License-Identifier: MIT */
/* The allocators, how each can be linked, and where their workers are. */
#ifndef STOOK_BENCH_ROSTER_H
#define STOOK_BENCH_ROSTER_H

#include <stddef.h>

/* KIND_POOL: objects of one size made beforehand; no peer of a malloc. */
enum roster_kind { KIND_FLOOR, KIND_STOOK, KIND_PEER, KIND_POOL };

struct roster_entry {
    const char *allocator;
    const char *linked; /* "static" or "shared" */
    enum roster_kind kind;
    unsigned groups; /* of enum plan_group */
    unsigned modes;  /* bits 1 << enum mode: how it can be asked for objects; 0: by single calls */
};

extern const struct roster_entry roster[];
extern const size_t roster_count;

/* Where the workers lie: ../libexec/stook-bench, seen from the driver's own binary. */
const char *roster_folder(void);

/*
 * The worker's path, or NULL with the reason why there is none. Both are valid until the next call.
 */
const char *roster_worker(const struct roster_entry *entry, const char **missing);

/*
 * The setting, for the environment, that makes the allocator keep the memory of cases that need it
 * warm; NULL for those that have none.
 */
const char *roster_keep(const struct roster_entry *entry);

#endif
