/* SPDX-License-Identifier: MIT */
#include "roster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../modes.h"
#include "plan.h"

#define HANDOFFS (GROUP_HANDOFF | GROUP_HANDOFF_BURST | GROUP_HANDOFF_POOL)
#define LOOPS (GROUP_LOOP | HANDOFFS | GROUP_IDLE | GROUP_SLAB_BULK | GROUP_KMALLOC)
#define MALLOC_LOOPS (LOOPS | GROUP_HANDOFF_RCU)
#define MALLOCS (MALLOC_LOOPS | GROUP_LATENCY)
/* Memory records, and those of slub_bulk: of one linking. */
#define ONCE (GROUP_MEMORY | GROUP_SLUB_BULK)

#define MODE_BIT(mode) (1u << MODE_##mode)
#define POOL_MODES (MODE_BIT(SINGLE) | MODE_BIT(BULK))
#define STOOK_MODES (POOL_MODES | MODE_BIT(EMIT) | MODE_BIT(LINK_INSIDE))

/*
 * Memory records do not say how they were linked, and it makes no difference to them: they are made
 * with the shared library where there is one, as most programs use it. A call for a batch makes no
 * difference of it either, and single calls to memory this cold hardly any: slub_bulk is run the same way.
 */
const struct roster_entry roster[] = {
    {"floor-rseq", "static", KIND_FLOOR, GROUP_LOOP, 0},
    {"floor-ring", "static", KIND_FLOOR, HANDOFFS | GROUP_HANDOFF_RCU, 0},
    {"floor-link", "static", KIND_FLOOR, GROUP_SLUB_BULK, MODE_BIT(LINK_FIRST)},
    {"stook-inline", "static", KIND_STOOK, LOOPS | GROUP_ACCOUNTED, 0},
    {"stook-inline", "shared", KIND_STOOK, LOOPS | GROUP_ACCOUNTED, 0},
    {"stook", "static", KIND_STOOK, MALLOC_LOOPS | GROUP_ACCOUNTED, STOOK_MODES},
    {"stook", "shared", KIND_STOOK,
     MALLOC_LOOPS | GROUP_SLUB_BULK | GROUP_ACCOUNTED | GROUP_COLUMNS, STOOK_MODES},
    {"stook-malloc", "static", KIND_STOOK, MALLOCS, 0},
    {"stook-malloc", "shared", KIND_STOOK, MALLOCS | GROUP_MEMORY, 0},
    {"dpdk", "shared", KIND_POOL, GROUP_SLAB_BULK | GROUP_SLUB_BULK | GROUP_KMALLOC | HANDOFFS,
     POOL_MODES},
    {"glibc", "static", KIND_PEER, MALLOCS, 0},
    {"glibc", "shared", KIND_PEER, MALLOCS | ONCE, 0},
    {"mimalloc", "shared", KIND_PEER, MALLOCS | ONCE, 0},
    {"jemalloc", "static", KIND_PEER, MALLOCS, 0},
    {"jemalloc", "shared", KIND_PEER, MALLOCS | ONCE, 0},
    {"tcmalloc", "static", KIND_PEER, MALLOCS, 0},
    {"tcmalloc", "shared", KIND_PEER, MALLOCS | ONCE, 0},
    {"snmalloc", "static", KIND_PEER, MALLOCS, 0},
    {"snmalloc", "shared", KIND_PEER, MALLOCS | ONCE, 0},
    {"mimalloc3", "static", KIND_PEER, MALLOCS, 0},
    {"mimalloc3", "shared", KIND_PEER, MALLOCS | ONCE, 0},
    {"jemalloc531", "static", KIND_PEER, MALLOCS, 0},
    {"jemalloc531", "shared", KIND_PEER, MALLOCS | ONCE, 0},
};

const size_t roster_count = sizeof(roster) / sizeof(roster[0]);

const char *roster_folder(void)
{
    static char folder[4096];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 64);

    for (int up = 0; up < 2; up++)
        while (length > 0 && folder[--length] != '/')
            ;
    snprintf(folder + (length > 0 ? length : 0), 64, "/libexec/stook-bench");
    return folder;
}

const char *roster_worker(const struct roster_entry *entry, const char **missing)
{
    static char path[4200], note[4300], reason[256];

    snprintf(path, sizeof(path), "%s/%s.%s", roster_folder(), entry->allocator, entry->linked);
    if (!access(path, X_OK))
        return path;
    /* The build leaves a note beside where the worker would be. */
    snprintf(note, sizeof(note), "%s.missing", path);
    snprintf(reason, sizeof(reason), "not built");
    FILE *file = fopen(note, "re");
    if (file) {
        if (fgets(reason, sizeof(reason), file))
            reason[strcspn(reason, "\n")] = '\0';
        fclose(file);
    }
    *missing = reason;
    return NULL;
}

const char *roster_keep(const struct roster_entry *entry)
{
    static const struct {
        const char *allocator, *setting;
    } keeps[] = {
        {"stook-inline", "STOOK_RESERVE=512M"},
        {"stook", "STOOK_RESERVE=512M"},
        {"stook-malloc", "STOOK_RESERVE=512M"},
        {"glibc", "GLIBC_TUNABLES=glibc.malloc.trim_threshold=2147483648"},
        {"mimalloc", "MIMALLOC_ALLOW_DECOMMIT=0"},
        {"mimalloc3", "MIMALLOC_PURGE_DELAY=-1"},
        {"jemalloc", "MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1"},
        {"jemalloc531", "_RJEM_MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1"},
        {"tcmalloc", "TCMALLOC_RELEASE_RATE=0"},
    };
    for (size_t i = 0; i < sizeof(keeps) / sizeof(keeps[0]); i++)
        if (!strcmp(keeps[i].allocator, entry->allocator))
            return keeps[i].setting;
    return NULL;
}
