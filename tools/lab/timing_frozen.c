/* SPDX-License-Identifier: MIT */
/*
 * timing_frozen.c - the costs without a file: those of topologies/ublk.costs, where each has its source.
 */
#include "lab/timing.h"

const struct timing_costs timing_frozen = {{
    [TIMING_SUBMIT] = 180,
    [TIMING_COMPLETE] = 260,
    [TIMING_REAP] = 80,
    [TIMING_FETCH] = 160,
    [TIMING_LOCAL] = 5,
    [TIMING_LOCK] = 8,
    [TIMING_SECTION] = 10,
    [TIMING_LINK] = 5,
    [TIMING_PAGE] = 400,
    [TIMING_CORE] = 10,
    [TIMING_NODE] = 20,
    [TIMING_NEAR] = 110,
    [TIMING_FAR] = 200,
    [TIMING_HANDOVER] = 2,
    [TIMING_OBJECT] = 2.25,
    [TIMING_POLL] = 200,
}};
