/* SPDX-License-Identifier: MIT */
/*
 * cache_table.c - all caches, by the index that the page map has of their pages.
 */
#include "slab/slab.h"

#include "base/placed.h"

struct stook_cache *cache_table[STOOK_CACHES_MAX] HEAD_BSS;

struct stook_cache *slab_cache_of(const void *object)
{
    return pagemap_covers(object) ? cache_table[pagemap_cache(*pagemap_at(object))] : NULL;
}
