/* SPDX-License-Identifier: MIT */
/*
 * cache_list.h - making, finding and unmaking caches; the list of all of them.
 */
#ifndef STOOK_CACHE_CACHE_LIST_H
#define STOOK_CACHE_CACHE_LIST_H

#include "slab/cache.h"

struct cache_list {
    struct lock lock;      /* LOCK_CACHES: the list, the table, `alive`, the boot memory */
    struct list all;       /* in order of creation */
    _Atomic uint32_t turn; /* changes when a cache that is being destroyed is pinned no more */
};
extern struct cache_list cache_list __attribute__((visibility("hidden")));

/* The library's own caches; before anything else is allocated. */
void cache_boot(void);

/* A cache with internal flags, under the lock; NULL with errno. */
struct stook_cache *cache_make(const char *name, size_t size, const struct stook_cache_args *args);

/* Random bits; under the list's lock. */
uint16_t cache_secret(void);

/* Sheaves of all CPUs and barns are flushed, empty slabs given back; bytes of slabs that went back
 * meanwhile.  The caches stay: they are pinned, or never destroyed.  `alone`: no other thread uses them (slot_drain). */
size_t cache_drain(struct stook_cache *const *caches, unsigned n, bool alone);
/* As far as that asks the kernel for nothing but memory: sheaves of other CPUs stay where they are. */
void cache_drain_near(struct stook_cache *cache);

struct cache_counts {
    uint64_t slabs, objects, pages; /* as they are on all nodes */
    uint64_t peak_pages;            /* the most there ever were, summed over nodes */
    uint64_t active;                /* handed to users */
    uint64_t cached;                /* in sheaves of CPUs and barns, or held by a quarantine */
    uint64_t sheaves, barns;        /* sheaves with the CPUs, sheaves in barns */
};
void cache_count(struct stook_cache *cache, struct cache_counts *counts);

#endif
