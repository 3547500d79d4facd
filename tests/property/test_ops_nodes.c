/* SPDX-License-Identifier: MIT */
/*
 * test_ops on four nodes, one without memory and one that is not there.
 */
#include "support/fake_nodes.h"

#define SETUP_CHECK                                                                                \
    assert_int_equal(topology.nodes, 4);                                                           \
    assert_int_equal(topology.memory_nodes, 9);                                                    \
    assert_int_equal(topology.home_of_node[1], 3)
#define SEEDS 6
#include "property/test_ops.c"
