/* SPDX-License-Identifier: MIT */
/*
 * zone.h - one node's share of the arena: its blocks by what is free in them, its growth, and the
 * pages that are free and still resident.  All fields of a zone and of its blocks are under its
 * lock (LOCK_ARENA); every call here is made with it held.
 */
#ifndef STOOK_PAGE_ZONE_H
#define STOOK_PAGE_ZONE_H

#include "base/lock.h"
#include "os/topology.h"
#include "page/block.h"

enum {
    ZONE_BUCKETS = 10, /* log2 of pages, 0 .. 9 */
    ZONE_COUNT_MAX = 2 * TOPOLOGY_NODES_MAX,
    ZONE_RESERVE_OWN = 4 << 20, /* of the zones that hold the library's own objects */
    ZONE_SMALL_BLOCKS = 4,      /* first blocks of a zone: no huge pages for small programs */
    ZONE_STOCK = 4,             /* blocks set aside while a process forks */
};

/*
 * What a block is cut for.  Dense: slabs of small objects, which write to every page they have; huge
 * pages are asked for where these lie.  Sparse: all else, of which a program may touch little.
 */
enum zone_kind { ZONE_SPARSE, ZONE_DENSE, ZONE_KINDS };

/* Zones grow for either kind, and for spans, at places of their own: spans need no metadata. */
enum zone_growth { ZONE_SPANS = ZONE_KINDS, ZONE_TAILS };

/* Blocks that were mapped for the zone and never used. */
struct zone_tail {
    uint32_t next, end;
    bool huge; /* huge pages were asked for */
};

/* A bit each of 64 blocks of the window, side by side: a small program's are on one page. */
struct zone_bits {
    uint64_t free[ZONE_KINDS]; /* blocks in state FREE; by `huge` */
    uint64_t gone;             /* of these, blocks that are not mapped now */
    uint64_t meta; /* metadata are mapped, of gone ones too; owners of objects read it */
};

struct zone {
    struct lock lock;
    struct list runs[ZONE_KINDS][ZONE_BUCKETS]; /* blocks cut into runs, by log2 of the longest */
    /* The same blocks, by log2 of their dirty pages; behind them those that may lie on huge pages. */
    struct list soiled[2 * ZONE_BUCKETS];
    /* Free blocks with dirty pages, by `huge`: those without clean ones, last freed first; then the others. */
    struct list warm[ZONE_KINDS];
    struct block *begun; /* its pages go back, call by call; NULL: the limit was reached since */
    uint32_t first, end; /* its blocks lie in [first, end), others' may be among them */
    uint32_t mapped[ZONE_TAILS]; /* blocks taken from the window */
    uint32_t opened;             /* of these, ever used */
    bool unbound;                /* some of these may come from any node (arena_bind_new()) */
    struct zone_tail tail[ZONE_TAILS];
    struct zone_bits *map; /* of all blocks of the window */
    uint32_t meta_parts;   /* runs of bits of metadata: each is a mapping */
    uint32_t clean;        /* free blocks that are mapped and have no dirty page */
    uint32_t clean_left;   /* of these, so many the last search left */
    size_t warm_pages;     /* dirty pages of all its blocks */
    size_t reserve_pages;  /* the limit may rise to this, or to a share of what is in use */
    size_t limit_pages;    /* warm pages kept (zone_warm.c) */
    size_t owed_pages;     /* given back, and not missed since */
    size_t turn_pages;     /* taken in this turn … */
    size_t idle_pages;     /* … in which there were never fewer warm pages than this */
    size_t crest_pages, crest_before; /* the most in use in this turn and the last one */
    bool refused;      /* a limit refused growth: warm memory is address space that others lack */
    size_t used_pages; /* read without the lock by arena_used(): zone_set_used() */
    size_t peak_pages;
    _Atomic uint32_t purging; /* threads giving pages back without the lock; changed under it */
    bool awaited;             /* a fork sleeps until there are none … */
    uint32_t given_up;        /* … but these, for which a fork waited in vain */
    _Atomic uint64_t
        stock[ZONE_STOCK];   /* blocks set aside while a fork has the lock (zone_stock.c) */
    uint64_t purged, missed; /* bytes given back; bytes taken that were not warm */
};

/* As the words of STOOK_HUGE_PAGES. */
enum zone_huge { ZONE_HUGE_NEVER, ZONE_HUGE_FULL, ZONE_HUGE_ALWAYS };

struct zones {
    size_t reserve_pages; /* the setting */
    bool learns;          /* it is not set: limits begin low */
    enum zone_huge huge;
    _Atomic bool noted; /* arena_set_note() */
    bool bind;          /* zones' memory comes from their nodes */
    _Atomic uint32_t
        splits; /* blocks that are unlike those around them: their advice, or where their pages are from */
    _Atomic uint32_t holes; /* runs of blocks that are gone */
    _Atomic bool unmovable; /* the kernel moves no pages */
    struct zone zone[ZONE_COUNT_MAX];
};
extern struct zones zone_all __attribute__((visibility("hidden")));

static inline struct block *zone_block(uint32_t index)
{
    return (struct block *)(void *)(pagemap.header + (size_t)index * BLOCK_HEADER);
}

/* The map of a block's granules, which are its metadata. */
static inline uint64_t *zone_granules(uint32_t index)
{
    return (uint64_t *)(void *)pagemap_meta(index);
}

/* The page of an address, in its block. */
static inline unsigned zone_page(const void *address)
{
    return (unsigned)((uintptr_t)address % BLOCK_SIZE / PAGE_SIZE);
}

static inline uint32_t zone_block_index(const struct block *block)
{
    return (uint32_t)(((const char *)block - pagemap.header) / BLOCK_HEADER);
}

static inline struct zone *zone_of(const void *address)
{
    return &zone_all.zone[pagemap_zone(address)];
}

/* Takes the lock, to give pages back.  False: a fork has it, or this thread may have it, which interrupted the library. */
static inline bool zone_enter(struct zone *zone) LOCK_TRIES(zone->lock);
static inline bool zone_enter(struct zone *zone)
{
    return context_self()->depth <= 1 && lock_enter(&zone->lock, LOCK_ARENA, false);
}

/* Warm pages that a zone of a node with memory keeps at most. */
static inline size_t zone_reserve(unsigned zone)
{
    size_t own = ZONE_RESERVE_OWN / PAGE_SIZE;

    return zone >= pagemap.zones / 2 && zone_all.reserve_pages > own ? own : zone_all.reserve_pages;
}

/* Pages of a block that are asked for, and where they are. */
struct zone_cut {
    const struct arena_ask *ask;
    uint32_t granules; /* of the descriptor */
    bool meta;         /* the block has to have metadata */
    struct block *block;
    unsigned at;      /* the first page */
    uint32_t granule; /* where the descriptor is */
};

/* Finds such pages in a block; false: it has none that are free. */
static inline bool zone_find(struct block *block, struct zone_cut *cut)
{
    int at = block_find(block, cut->ask->pages, cut->ask->align);

    cut->block = block;
    cut->at = (unsigned)at;
    return at >= 0;
}

static inline unsigned zone_log2(unsigned n)
{
    return 31 - (unsigned)__builtin_clz(n | 1);
}

static inline bool zone_is_gone(const struct zone *zone, uint32_t index)
{
    return zone->map[index / 64].gone >> index % 64 & 1;
}

static inline bool zone_has_meta(const struct zone *zone, uint32_t index)
{
    return __atomic_load_n(&zone->map[index / 64].meta, __ATOMIC_RELAXED) >> index % 64 & 1;
}

/* Free blocks of 64 that are mapped. */
static inline uint64_t zone_free_word(const struct zone *zone, uint32_t word)
{
    const struct zone_bits *bits = &zone->map[word];

    return (bits->free[ZONE_SPARSE] | bits->free[ZONE_DENSE]) & ~bits->gone;
}

static inline bool zone_is_free(const struct zone *zone, uint32_t index)
{
    return zone_free_word(zone, index / 64) >> index % 64 & 1;
}

/* Of the library's own objects. */
static inline bool zone_is_own(const struct zone *zone)
{
    return zone - zone_all.zone >= pagemap.zones / 2;
}

/* The zone's own; places that were skipped or lost are no zone's.  Atomic, since the rest of the word may
 * be written meanwhile: a span's length, by the thread that has it (large/begin.c). */
static inline bool zone_owns(const struct zone *zone, uint32_t index)
{
    uint32_t word = __atomic_load_n(&pagemap.zone[index], __ATOMIC_RELAXED);

    return (word & PAGEMAP_ZONE) == zone - zone_all.zone;
}

static inline void zone_set_used(struct zone *zone, size_t pages)
{
    __atomic_store_n(&zone->used_pages, pages, __ATOMIC_RELAXED);
}

/* Memory was mapped, or comes to the node, that may be of any (arena_bind_new()). */
static inline void zone_note_unbound(struct zone *zone)
{
    if (zone_all.bind)
        __atomic_store_n(&zone->unbound, true, __ATOMIC_RELAXED);
}

/* ---- zone.c: the lists of blocks, and their huge pages ---------------------------------------- */

/* Puts a block of runs on the lists that its counts ask for; others on none.  One without a taken page is free. */
void zone_file(struct zone *zone, struct block *block);
void zone_mark_free(struct zone *zone, struct block *block);
void zone_mark_used(struct zone *zone, struct block *block, enum block_state state);
/* Single blocks may still split mappings: by advice, or by pages that moved there (large/move.c). */
bool zone_may_split(void);
/* The block is to have huge pages from here on, or none, which the caller advises the kernel of if that changes (true); its
 * pages moved there, or not. */
bool zone_set_like(struct block *block, bool huge, bool moved);
/* The same of blocks that are in use, and advises the kernel.  A block that does not change costs no call. */
void zone_advise(uint32_t first, uint32_t n, bool huge);

/* ---- zone_warm.c: what stays resident ---------------------------------------------------------- */

/* The most warm pages that the zone may keep; its limit begins anew. */
void zone_set_reserve(struct zone *zone, size_t pages);
/* The warm pages that the zone keeps while so many are in use. */
size_t zone_limit(const struct zone *zone, size_t used);
/* So many more may be warm before any go back. */
size_t zone_slack(size_t limit);
/* Pages left the free ones; `dirty` of them were warm, the rest came from the OS. */
void zone_account_take(struct zone *zone, size_t pages, size_t dirty);
/* Of a block that is cut into runs from now on: the first touch makes all of a huge page resident. */
void zone_count_huge(struct zone *zone, struct block *block);
/* Around what a thread does with taken pages or blocks without the lock. */
void zone_begin_purge(struct zone *zone);
void zone_end_purge(struct zone *zone);
/*
 * A fork wants the lock: nothing more is given back until it has ended.  A thread in the middle of that has
 * to take the lock again, and then it would wait for the fork, which may wait for what the thread holds.
 */
bool zone_is_awaited(const struct zone *zone);
/* Gives warm pages back, down to `limit` pages, by so many runs and pages at most; pages.  Drops the lock meanwhile. */
size_t zone_purge(struct zone *zone, size_t limit, size_t runs, size_t most);
/* So many pages came back.  Once an eighth more are warm than the limit says, each such call gives some back, until the
 * limit is reached. */
void zone_purge_more(struct zone *zone, size_t pages);
/* A span took so many pages that were not warm: what is warm lies in pieces, and goes back beyond the crest. */
void zone_purge_scattered(struct zone *zone, size_t pages);

/* ---- zone_space.c: what of its blocks and of their metadata is mapped --------------------------- */

/* Something else lies in a free block's place or its metadata's: it is no block any more. */
void zone_lose(struct zone *zone, uint32_t index);
/* Unmaps clean blocks except so many, as far as can be, so many runs of them.  Drops the lock meanwhile. */
void zone_unmap(struct zone *zone, uint32_t keep, uint32_t runs);
/* Unmaps a block that is taken and goes back next; false: the kernel refuses. */
bool zone_unmap_taken(struct zone *zone, uint32_t index);
/* A limit refuses more: unmaps free blocks, clean ones first; how many, `most` at most.  `without`: no block that
 * has metadata, and not this one; or ZONE_NO_BLOCK. */
enum { ZONE_NO_BLOCK = -1 };
uint32_t zone_unmap_spare(struct zone *zone, uint32_t most, int64_t without);
/* So many pages came back: what is beyond the limits goes. */
void zone_trim(struct zone *zone, size_t pages);
/*
 * Free blocks are about to be taken: those that are gone are mapped again.  0; ENOMEM or EAGAIN: a limit
 * refuses that, and all is as before; EEXIST: the caller searches again, since some of them are lost for good, a run
 * of neighbours in which something else lies as a whole.
 */
int zone_remap(struct zone *zone, uint32_t first, uint32_t n);
/* The same of one block that is gone, and of some behind it if these can be had, too. */
int zone_remap_step(struct zone *zone, uint32_t first);
/* Maps a block's metadata, with those of some beside it if these can be had, too: as window_map(). */
int zone_map_meta(struct zone *zone, uint32_t index);

/* ---- zone_grow.c: blocks from the window -------------------------------------------------------- */

/* The block is the zone's, and its header says what it is: it was used, but not only by one span. */
bool zone_has(const struct zone *zone, uint32_t index);
/* The pages of all its blocks, and their metadata, come from its node. */
void zone_bind(struct zone *zone);
/*
 * The first so many pages of a block, and more with them, may be used.  Before they are
 * taken; false: the kernel has no mapping left, or a limit refuses.
 */
bool zone_show(struct block *block, unsigned pages);
/*
 * Takes n blocks that were never used, the first at a multiple of `align` blocks; or -1.  They are free; for
 * spans they are part of one, and their headers are not written.
 */
int64_t zone_grow(struct zone *zone, uint32_t n, uint32_t align, unsigned kind);
/* There are no new ones: what is mapped for either kind is free for both. */
void zone_open_tails(struct zone *zone);

/* ---- zone_take.c: free blocks ------------------------------------------------------------------- */

/*
 * A free block to cut into runs, with metadata or not: a warm one, an older one, or a new one; false: there is none.
 * The pages that are asked for may be used (zone_show()).
 */
bool zone_take_block(struct zone *zone, enum zone_kind kind, struct zone_cut *cut);
/*
 * Where a limit refuses metadata, or access to pages that were never used: free pages of any block that needs nothing of
 * the kernel.  The block that was refused stays as it was, so any other search would find it again.
 */
bool zone_take_ready(struct zone *zone, enum zone_kind kind, struct zone_cut *cut);
/* A free block with metadata, of a zone that may grow or not, that is of no list then; or NULL.  All of its pages
 * may be used. */
struct block *zone_set_aside(struct zone *zone, bool grow);
/*
 * A block that is mapped gets its metadata if it has none.  0; ENOMEM or EAGAIN: a limit refuses that;
 * EEXIST: something else lies there, and the block is lost for good if it was free.
 */
int zone_add_meta(struct zone *zone, struct block *block);

/* ---- zone_stock.c: pages while a fork has the lock ---------------------------------------------- */

/* The forking thread sets blocks aside, or none where its node has no memory, and takes them back. */
void zone_stock_open(struct zone *zone, bool some);
void zone_stock_close(struct zone *zone);
/* Without the lock.  Pages of these blocks, and granules; *done false: they are used up.  False: there is no fork, or it
 * has ended, or is about to drop the lock. */
bool zone_stock_cut(struct zone *zone, struct zone_cut *cut, bool *done);

#endif
