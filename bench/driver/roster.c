/* SPDX-License-Identifier: MIT */
#include "roster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan.h"

#define LOOPS (GROUP_LOOP | GROUP_HANDOFF | GROUP_IDLE)

/*
 * Memory records do not say how they were linked, and it makes no difference to them: they are made
 * with the shared library where there is one, as most programs use it.
 */
const struct roster_entry roster[] = {
    {"floor-rseq", "static", KIND_FLOOR, GROUP_LOOP},
    {"floor-ring", "static", KIND_FLOOR, GROUP_HANDOFF},
    {"stook-inline", "static", KIND_STOOK, LOOPS},
    {"stook-inline", "shared", KIND_STOOK, LOOPS},
    {"stook", "static", KIND_STOOK, LOOPS},
    {"stook", "shared", KIND_STOOK, LOOPS},
    {"stook-malloc", "static", KIND_STOOK, LOOPS},
    {"stook-malloc", "shared", KIND_STOOK, LOOPS | GROUP_MEMORY},
    {"glibc", "static", KIND_PEER, LOOPS},
    {"glibc", "shared", KIND_PEER, LOOPS | GROUP_MEMORY},
    {"mimalloc", "shared", KIND_PEER, LOOPS | GROUP_MEMORY},
    {"jemalloc", "static", KIND_PEER, LOOPS},
    {"jemalloc", "shared", KIND_PEER, LOOPS | GROUP_MEMORY},
    {"tcmalloc", "static", KIND_PEER, LOOPS},
    {"tcmalloc", "shared", KIND_PEER, LOOPS | GROUP_MEMORY},
    {"snmalloc", "static", KIND_PEER, LOOPS},
    {"snmalloc", "shared", KIND_PEER, LOOPS | GROUP_MEMORY},
    {"mimalloc3", "static", KIND_PEER, LOOPS},
    {"mimalloc3", "shared", KIND_PEER, LOOPS | GROUP_MEMORY},
    {"jemalloc531", "static", KIND_PEER, LOOPS},
    {"jemalloc531", "shared", KIND_PEER, LOOPS | GROUP_MEMORY},
};

const size_t roster_count = sizeof(roster) / sizeof(roster[0]);

/* The workers lie in ../libexec/stook-bench, seen from the driver's own binary. */
static const char *roster_folder(void)
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
