/* SPDX-License-Identifier: MIT */
/* modes: default */
/* test_ops on random simulated machines, one for each seed; they run in locked mode by themselves. */
#define TOPOLOGIES 1
#define SEEDS 14
#include "property/test_ops.c"
