/* SPDX-License-Identifier: MIT */
/*
 * topology_text.h - a topology as text: docs/topology.md has the grammar.
 *
 *   node:8 core:4 smt:2 memory:1,5=32G distance:*=32 distance:0-3=12 distance:4-7=12
 */
#ifndef STOOK_SIM_TOPOLOGY_TEXT_H
#define STOOK_SIM_TOPOLOGY_TEXT_H

#include "os/topology.h"

#include <stddef.h>

enum {
    TOPOLOGY_TEXT_MAX = 64 << 10, /* bytes of a file, the final NUL included */
    TOPOLOGY_TEXT_ERROR = 256,
};

/*
 * Fills in a zeroed topology.  false: `error` (TOPOLOGY_TEXT_ERROR bytes) says what is wrong and
 * where, and the topology is of no use.
 */
bool topology_text_parse(struct topology *t, const char *text, char *error);

/*
 * The same for a text or a file that holds one; replaces the contents of `t`.  false: a message on stderr says
 * what is wrong, and `t` is unchanged.
 */
bool topology_text_load(const char *text_or_file, struct topology *t);

#endif
