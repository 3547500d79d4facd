/* SPDX-License-Identifier: MIT */
/*
 * test_core_storm on four nodes, one without memory and one that is not there.
 */
#include "support/fake_nodes.h"

#include "stress/test_core_storm.c"
