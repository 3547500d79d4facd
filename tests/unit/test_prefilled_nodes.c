/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/* modes: default */
/*
 * test_prefilled on two nodes, of which one has memory; its thread is dealt CPU 0, on the other.
 */
#define TOPOLOGY "node:2 core:4 memory:1=16G"

#include "unit/test_prefilled.c"
