/* SPDX-License-Identifier: MIT */
/*
 * cache_table.c - all caches, by the index that the page map has of their pages (slab/cache.h).
 */
#include "slab/cache.h"

#include "base/placed.h"

struct stook_cache *cache_table[STOOK_CACHES_MAX] HEAD_BSS;
