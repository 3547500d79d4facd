/* SPDX-License-Identifier: MIT */
/*
 * alone.c - the table of base/hooks.h where the core is all there is: instead of hooks.c.
 */
#include "base/hooks.h"

#include "cache/init.h"
#include "slab/node.h"

const struct hooks hooks = {
    .start = init_slow,
    .settle_slabs = node_settle_deferred,
};
