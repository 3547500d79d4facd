/* SPDX-License-Identifier: MIT */
/*
 * topology_print.h - a topology as the text that src/sim/topology_text.h reads.
 */
#ifndef TOOLS_STOOK_TOPOLOGY_PRINT_H
#define TOOLS_STOOK_TOPOLOGY_PRINT_H

#include "os/topology.h"

#include <stddef.h>

/*
 * Writes what topology_text_parse() reads: as much as fits, with NUL.  The length of all of it, as
 * snprintf() has it.
 */
size_t topology_print(const struct topology *t, char *buf, size_t size);

#endif
