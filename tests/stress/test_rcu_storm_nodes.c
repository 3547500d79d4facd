/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* timeout: 120 */
/*
 * test_rcu_storm on four nodes, one without memory and one that is not there.
 */
#include "support/fake_nodes.h"

#include "stress/test_rcu_storm.c"
