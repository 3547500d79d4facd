/* SPDX-License-Identifier: MIT */
/* labels: long */
/* timeout: 3600 */
/* modes: default */
/* Two thousand machines. */
#define TOPOLOGIES 1
#define SEEDS 2000
#include "property/test_ops.c"
