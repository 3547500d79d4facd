/* SPDX-License-Identifier: MIT */
/*
 * topology_child.h - cases on simulated machines, each in a child of its own: a process has one
 * topology.
 */
#ifndef TESTS_SUPPORT_TOPOLOGY_CHILD_H
#define TESTS_SUPPORT_TOPOLOGY_CHILD_H

#include "support/must.h"
#include "support/child.h"
#include "support/test.h"

#define DOCUMENT "node:8 core:4 smt:2 memory:1,5=32G distance:*=32 distance:0-3=12 distance:4-7=12"

static char folder[512]; /* of the project's topologies */

static inline void topology_find_folder(void)
{
    const char *source = getenv("STOOK_SOURCE_DIR");

    snprintf(folder, sizeof(folder), "%s/topologies", source ? source : ".");
}

#endif
