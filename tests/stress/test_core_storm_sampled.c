/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * test_core_storm with a sample each 2 KiB: a token lies between most slots' two sheaves, while capacities grow.
 */
#define SAMPLE "2K"

#include "stress/test_core_storm.c"
