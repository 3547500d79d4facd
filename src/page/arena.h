/* SPDX-License-Identifier: MIT */
/*
 * arena.h - 2 MiB blocks of address space; runs of pages within a block, spans of whole blocks.
 * Freed pages stay resident (warm) up to a bound.
 *
 * Blocks belong to zones, one a node for objects and one a node for the library's own sheaves and
 * descriptors; a table has the zone of each (page/window.h).  Each block
 * has its metadata elsewhere (struct block, a bitmap, and granules of 32 bytes in which slab
 * descriptors live): a write behind an object's end cannot reach them.
 *
 * Locking: one lock a zone (LOCK_ARENA).  System calls that give memory back run without it, on
 * pages that are marked taken meanwhile.
 */
#ifndef STOOK_PAGE_ARENA_H
#define STOOK_PAGE_ARENA_H

#include "page/pagemap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ARENA_GRANULE = 32,                /* a slab's descriptor never straddles a cache line */
    ARENA_RUN_PAGES_MAX = BLOCK_PAGES, /* larger requests take whole blocks */
    ARENA_NOTE = 8,                    /* bytes of what is said of a large object */
};

/*
 * Pages of one block, with room for a descriptor in the block's metadata; both under one taking of the lock.
 * While a fork has the lock, of blocks that are set aside for that.  More pages than a block has are whole blocks for a
 * slab (hooks.span): its descriptor lies in the first block's metadata.
 */
struct arena_ask {
    unsigned pages, align; /* a power of two of pages */
    bool dense;            /* the user writes to all of the pages */
    bool nospin;
    size_t meta_bytes; /* of a slab's descriptor; 0: a run without one */
};
/* NULL with errno ENOMEM.  *zeroed: the pages read as zero. */
void *arena_alloc(unsigned zone, const struct arena_ask *ask, bool *zeroed, void **meta);
/* Any context, and never waits for a fork: the run is left to the fork's end, or to the call that this one interrupted. */
void arena_free(void *run, size_t pages, void *meta, size_t meta_bytes);
/* Gives back the memory of a run, which stays in use.  Context as above. */
void arena_release(void *run, size_t pages);
/* The same as arena_free() of a span that cannot be given back now. */
void arena_leave_span(void *span, size_t blocks);
/* Gives back what was left, unless there is a fork.  In a handler, the call that it interrupted does. */
void arena_free_left(void);

/* A run without a descriptor. */
static inline void *arena_alloc_run(unsigned zone, size_t pages, size_t align_pages, bool nospin,
                                    bool *zeroed)
{
    struct arena_ask ask = {
        .pages = (unsigned)pages, .align = (unsigned)align_pages, .nospin = nospin};

    return arena_alloc(zone, &ask, zeroed, NULL);
}

static inline void arena_free_run(void *run, size_t pages)
{
    arena_free(run, pages, NULL, 0);
}

/* Grows a run in place into the free pages behind it; false: no room. */
bool arena_extend_run(void *run, size_t pages, size_t more);

/* The granule number of a descriptor, and back: from the metadata of the address's block, or of up to three before it. */
uint32_t arena_granule(const void *address, const void *meta);
static inline void *arena_meta(const void *address, uint32_t granule)
{
    size_t block = ((uintptr_t)address - pagemap.base) >> BLOCK_SHIFT;

    return pagemap.meta + block * BLOCK_META + (ptrdiff_t)(int16_t)granule * ARENA_GRANULE;
}

/* Gives all warm memory back; bytes. */
size_t arena_trim(void);
/*
 * A node's memory is there, or is no more: then nothing of its zones is kept warm from here on, and
 * what was goes back.  Pages in use stay where they are.
 */
void arena_node_set(unsigned node, bool there);
/*
 * A zone's pages come from its node, while that has some and no policy of the process's own stands above that.
 * For typed caches, whose objects may be written to first by another node's CPU.  malloc makes no system call that
 * libc's does not make: its memory comes from the node that writes to it first.
 */
void arena_bind_new(unsigned zone, bool nospin);

struct arena_stat {
    size_t reserved; /* address space that the arena has taken: blocks, metadata, page map */
    size_t used;     /* pages in runs and spans, bytes */
    size_t peak;     /* of used, at most ever (zones summed) */
    size_t warm;     /* free and resident, bytes */
    size_t meta;     /* committed metadata and page map, bytes (an upper bound of residency) */
    size_t blocks;   /* blocks ever taken into use */
    size_t limit;    /* of warm bytes now */
    size_t reserve;  /* of warm bytes at most, of a zone (STOOK_RESERVE) */
    uint64_t purged, committed; /* bytes given back, bytes taken that were not warm */
};
void arena_stat(struct arena_stat *stat);
/* `used` of the program's objects alone, about: takes no lock. */
size_t arena_used(void);

/* Finds the window that blocks are taken in.  Fatal, with what it needs, if there is none. */
void arena_init(void);
/* fork: all arena locks, in order. */
void arena_lock_all(void);
void arena_unlock_all(void);
void arena_child(void);

#endif
