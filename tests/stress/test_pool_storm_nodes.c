/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/* timeout: 200 */
/* modes: default */
/*
 * test_pool_storm on two nodes, of which one has memory.
 */
#define TOPOLOGY "node:2 core:4 memory:0=16G"

#include "stress/test_pool_storm.c"
