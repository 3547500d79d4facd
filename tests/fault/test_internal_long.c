/* SPDX-License-Identifier: MIT */
/* needs: native */
/* labels: long */
/* timeout: 900 */
/* wrap: os_map arena_alloc arena_span_alloc zone_grow window_take node_take node_take_near slab_make sheaf_alloc rows_map depot_put */
/* test_internal.c, with every n. */
#define STEP 1
#include "test_internal.c" // NOLINT(bugprone-suspicious-include)
