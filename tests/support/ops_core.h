/* SPDX-License-Identifier: MIT */
/*
 * ops_core.h - what programs of calls (ops.h) name of the layers above the core, where only the core was
 * built: there are no sheaves that callers hold, no pools, no deferred frees and no groups.
 */
#ifndef TESTS_SUPPORT_OPS_CORE_H
#define TESTS_SUPPORT_OPS_CORE_H

#include "base/hooks.h"
#include "cache/alloc.h"

#include <stook/group.h>
#include <stook/reserve.h>
#include <stook/rcu.h>
#include <stook/stat.h>

#define stook_rcu_barrier() ((void)0)
#define alloc_with_group(cache, flags, group) stook_alloc(cache, flags)
#define alloc_with_node(cache, flags, node) alloc_on_node(cache, flags, node, 0, HOOKS_GROUP)
#define stook_group_of(object) STOOK_NO_GROUP
unsigned ops_core_none(const void *reserve);
#define stook_sheaf_size ops_core_none
#define stook_pool_available ops_core_none
#define prefilled_of ops_core_sheaf

/* In place of watch/'s: the counters themselves are the core's. */
int ops_core_stat_enable(struct stook_cache *cache, int mode);
int ops_core_stat(struct stook_cache *cache, struct stook_stat *stat);
#define stook_cache_stat_enable ops_core_stat_enable
#define stook_cache_stat ops_core_stat

#endif
