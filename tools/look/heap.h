/* SPDX-License-Identifier: MIT */
/*
 * heap.h - what the Stook of a target holds: caches, slabs, large objects, objects, as they were at one time.
 *
 *     struct target_error error;
 *     struct heap *heap = heap_open(target_open_pid(pid, &error), &error);
 *     if (heap && heap_read(heap, &error))
 *         for (size_t i = 0; i < heap->caches; i++) ... heap->cache[i] ...
 *
 * heap_read() takes a snapshot while a live target runs.  It reads a snapshot again, some times, if its parts cannot have
 * been there at one time.  Wrong values that remain are within bounds, and heap->torn says how many caches have them.  At
 * rest the sums are those of the process's own report, exactly.
 */
#ifndef STOOK_LOOK_HEAP_H
#define STOOK_LOOK_HEAP_H

#include "look/target.h"
#include "look/view.h"

enum {
    HEAP_NAME = 64,
    HEAP_GROUP_DEPTH = 16,
    HEAP_NODES = 64,
    HEAP_CPUS = 8192,
    HEAP_OBJECTS = 32768, /* of a slab, at most */
    HEAP_TRIES = 8,       /* pauses between them grow to some 18 ms */
};

/* resident = in_use + cached + wasted, as in the report (docs/report.md). */
struct heap_bytes {
    uint64_t resident, in_use, cached, wasted, peak;
};

/* total = active + in_sheaves + in_slabs. */
struct heap_count {
    uint64_t active, in_sheaves, in_slabs, total;
    uint64_t slabs, partial, empty; /* partial, empty: of the slabs; the others are full */
    uint64_t sheaves, barns;        /* sheaves with CPUs, sheaves in barns */
    struct heap_bytes bytes;
};

/* Without the peaks, whose sums mean nothing. */
void heap_add_bytes(struct heap_bytes *sum, const struct heap_bytes *bytes);
void heap_add(struct heap_count *sum, const struct heap_count *n);

struct heap_node {
    uint64_t slabs, partial, empty, objects, out; /* out: with users, and in sheaves */
    uint64_t bytes, barn_full, barn_empty, barn_limit, barn_objects;
    uint64_t peak_pages;
    uint64_t made, gone, took; /* slabs, ever; takings of the list's lock */
    uint64_t barn_get, barn_get_fail, barn_put, barn_put_fail;
};

struct heap_column {
    uint32_t offset, stride, element; /* element 0: there is none */
    bool outside;                     /* from the descriptor, not from the slab's first page */
};
enum { HEAP_GROUP, HEAP_TAG, HEAP_TRACK, HEAP_COLUMNS };

struct heap_cache {
    char name[HEAP_NAME];
    uint64_t address; /* of its struct stook_cache */
    uint32_t index;
    bool internal, malloc; /* the library's own; a size class of malloc */
    bool
        shadow; /* of samples alone, which are shown as objects of other caches (src/sample/shadow.h) */
    uint64_t
        shadows; /* its objects in shadow caches; of a shadow cache the bytes of those of others */
    uint32_t flags;
    uint64_t object_size, align;
    uint32_t stride, order, min_order, slab_objects, min_objects, capacity, waste, room, lead;
    bool ctor, marks, link_outside;
    uint32_t link_offset, link_stride;
    uint16_t secret;
    uint64_t account_key;
    struct heap_column column[2]
                             [HEAP_COLUMNS]; /* in slabs of the preferred, of the minimum order */
    uint64_t cached_bytes, cached_bytes_max, level, prefilled;
    int stat_mode; /* STOOK_STATS_* */
    uint64_t stat; /* where its counters are; 0: it never counted */
    struct heap_count count;
    struct heap_node *node; /* heap->nodes of them */
    uint64_t changes;       /* of its lists and barns, ever */
    bool moved;             /* there were some while it was read … */
    bool torn; /* … and its sums cannot have been so at one time, whatever was tried */
};

struct heap_slab {
    uint64_t descriptor; /* in the target */
    uint32_t page;       /* of the window */
    uint16_t cache;      /* index */
    uint16_t objects, inuse, head;
    uint8_t flags, order, node,
        state; /* flags: SLAB_* of the library's; state: enum heap_slab_state */
};
enum heap_slab_state { HEAP_SLAB_FULL, HEAP_SLAB_PARTIAL, HEAP_SLAB_EMPTY };

struct heap_large {
    uint64_t address, bytes;
    bool edges; /* it lies between two pages without access */
};

struct heap_arena {
    uint64_t used, peak, warm, limit, blocks, purged, committed;
};

struct heap_group {
    uint32_t number, parent, depth;
    char name[HEAP_NAME];
    uint64_t stocked; /* charged and not used yet, here and below: not in usage */
    uint64_t usage, limit, soft_limit, peak, refused, reclaims; /* limits: UINT64_MAX: none */
};

struct heap_sheaf_object;

struct heap {
    struct target *target; /* the heap's: heap_close() closes it */
    struct view view;
    /* Of the snapshot. */
    uint64_t base, middle, begin, end; /* of the window of addresses; begin..end is in use */
    char mode[16], why[128], version[24];
    unsigned rows, slots, cpus, cpus_allowed, cpus_used, nodes, nodes_online;
    uint8_t used[HEAP_CPUS]; /* by CPU: a thread has used it */
    uint8_t node_of_cpu[HEAP_CPUS];
    uint64_t membarriers, slot_bytes;
    struct heap_cache *cache; /* in the order of their index */
    size_t caches;
    struct heap_count total;             /* of all caches and large objects */
    uint64_t large_objects, large_bytes; /* as the library counts them */
    uint64_t guarded_objects, guarded_bytes, guarded_ever;
    struct heap_arena arena;
    struct heap_slab *slab; /* in the order of their pages */
    size_t slabs;
    struct heap_large *large; /* that were found, in the order of their addresses */
    size_t larges;
    struct heap_group *group;
    size_t groups;
    unsigned tries, torn;
    struct heap_own *own;
};

/* Takes the target over, also where it fails: NULL with an error.  A NULL target is NULL. */
struct heap *heap_open(struct target *target, struct target_error *error);
void heap_close(struct heap *heap);
/* A snapshot.  False: the target has ended, or is another program now. */
bool heap_read(struct heap *heap, struct target_error *error);

/* A row of a table of caches. */
#define HEAP_ROW_LARGE "(large)"
#define HEAP_ROW_LIBRARY "(library)"
struct heap_row {
    const char *name;
    const struct heap_cache
        *cache; /* NULL: all large objects, or all caches of the library's own */
    struct heap_count count;
};
enum heap_sort {
    HEAP_BY_RESIDENT,
    HEAP_BY_IN_USE,
    HEAP_BY_CACHED,
    HEAP_BY_WASTED,
    HEAP_BY_PEAK,
    HEAP_BY_OBJECTS,
    HEAP_BY_NAME,
    HEAP_SORTS
};
extern const char *const heap_sort_names[HEAP_SORTS + 1];
/* What has pages; with `all` every cache, those of the library's own as rows of their own, too.  For free(). */
struct heap_row *heap_rows(const struct heap *heap, bool all, enum heap_sort sort, size_t *rows);

/* By index; by the name or the number of a user; NULL: there is none. */
struct heap_cache *heap_cache_at(const struct heap *heap, uint32_t index);
struct heap_cache *heap_cache_named(const struct heap *heap, const char *name);

/* Of a cache, what one CPU has in its sheaves: objects, sheaves. */
struct heap_cpu {
    uint64_t objects, sheaves, remote;
};
struct heap_cpu heap_cpu(const struct heap *heap, const struct heap_cache *cache, unsigned cpu);
/* A counter of a CPU, -1: of threads without one; the sum.  Of counters by number: heap->view.stat[]. */
uint64_t heap_stat(const struct heap *heap, const struct heap_cache *cache, int cpu,
                   unsigned event);
uint64_t heap_stat_sum(const struct heap *heap, const struct heap_cache *cache, unsigned event);

/* ---- slabs and objects ------------------------------------------------------------------------ */

/* The first slab at or behind `slab` (NULL: of all) of a cache, or NULL.  for (s = heap_slab_of(h, c, NULL); s;
 * s = heap_slab_of(h, c, s + 1)) */
const struct heap_slab *heap_slab_of(const struct heap *heap, const struct heap_cache *cache,
                                     const struct heap_slab *slab);

/* The slab that an address of the window lies in, or NULL. */
const struct heap_slab *heap_slab_at(const struct heap *heap, uint64_t address);

static inline uint64_t heap_slab_base(const struct heap *heap, const struct heap_slab *slab)
{
    return heap->base + ((uint64_t)slab->page << 12);
}

static inline uint64_t heap_object(const struct heap *heap, const struct heap_cache *cache,
                                   const struct heap_slab *slab, uint32_t index)
{
    return heap_slab_base(heap, slab) + cache->lead + (uint64_t)index * cache->stride;
}

enum heap_state {
    HEAP_FREE,    /* in its slab */
    HEAP_LIVE,    /* a user has it, or a prefilled sheaf */
    HEAP_IN_CPU,  /* in a sheaf of a CPU: heap_place says which */
    HEAP_IN_BARN, /* … of a barn: of which node */
    HEAP_IN_RCU,  /* freed under readers, in a sheaf of a CPU */
    HEAP_HELD,    /* freed, and held back: a quarantine, or readers, may have it */
    HEAP_UNKNOWN, /* it was moved while it was read */
};

/* The states of all objects of a slab; false: the library keeps no marks, or it is gone. */
bool heap_states(struct heap *heap, const struct heap_slab *slab, uint8_t state[HEAP_OBJECTS]);

/* Calls fn for each live object of a cache, and of the large objects (cache NULL), until it returns false. */
typedef bool (*heap_object_fn)(uint64_t address, uint64_t bytes, const struct heap_slab *slab,
                               uint32_t index, void *arg);
bool heap_each_live(struct heap *heap, const struct heap_cache *cache, heap_object_fn fn,
                    void *arg);
/* Whether its objects know who allocated them, and when (the debug letter U). */
bool heap_has_tracks(const struct heap *heap, const struct heap_cache *cache);

enum heap_kind {
    HEAP_ELSEWHERE, /* not Stook's */
    HEAP_OBJECT,    /* an object, or within one */
    HEAP_BETWEEN,   /* in a slab, and in none of its objects */
    HEAP_LARGE,
    HEAP_GUARDED, /* of the sampling guard */
    HEAP_NOTHING, /* Stook's: free pages, or the library's own */
};

#define HEAP_NO_CPU UINT32_MAX
struct heap_who {
    bool known;
    uint64_t time;               /* CLOCK_MONOTONIC, ns; 0: unknown */
    uint64_t born;               /* of a sample: what the process had allocated before, in bytes */
    uint32_t thread, cpu, depth; /* cpu HEAP_NO_CPU: unknown */
    uint64_t frames[24];         /* innermost first; bit 63: a call that names its site */
};

struct heap_what {
    enum heap_kind kind;
    uint64_t start, bytes; /* of the object */
    const struct heap_cache *cache;
    const struct heap_slab *slab;
    uint32_t index;
    enum heap_state state;
    unsigned place;         /* HEAP_IN_CPU, HEAP_IN_BARN: the CPU, the node */
    uint32_t requested;     /* bytes asked for; 0: unknown */
    uint32_t group, tag;    /* the group that is charged, the call site; 0: unknown */
    struct heap_who who[2]; /* allocated, freed: caches with STOOK_DEBUG=U, and the guard */
};
void heap_whatis(struct heap *heap, uint64_t address, struct heap_what *what);
/* The same of an object of a slab, without its state; of a large one (slab NULL) by its address. */
void heap_describe(struct heap *heap, const struct heap_slab *slab, uint32_t index,
                   uint64_t address, struct heap_what *what);

/* The call site of a tag.  False: there is none. */
struct heap_site {
    char file[256], function[128]; /* "": an address, or a stack */
    uint64_t line;
    unsigned depth;
    uint64_t frames[64];
};
bool heap_site(struct heap *heap, uint32_t tag, struct heap_site *site);

/*
 * Every call site that has allocated: its bytes in use, and those that it ever allocated.  They are exact for caches with
 * tags.  For others they follow from the samples of the process, if it takes some (docs/profile-samples.md); then HEAP_SAMPLED
 * is set in the tag.  False: there are none.
 */
#define HEAP_SAMPLED 0x80000000u
struct heap_tag {
    uint32_t tag;
    uint64_t objects, bytes, objects_ever, bytes_ever;
};
bool heap_each_tag(struct heap *heap, void (*fn)(const struct heap_tag *tag, void *arg), void *arg);

/* What the pages of a block are (2 MiB, 512 pages); `number` from the window's beginning on. */
enum heap_page {
    HEAP_PAGE_COLD, /* free, and with the kernel */
    HEAP_PAGE_WARM, /* free, and resident */
    HEAP_PAGE_EMPTY,
    HEAP_PAGE_SPARSE,  /* of a slab with at most a quarter of its objects out … */
    HEAP_PAGE_HALF,    /* … at most half … */
    HEAP_PAGE_PARTIAL, /* … more, and not all */
    HEAP_PAGE_FULL,
    HEAP_PAGE_LARGE,
    HEAP_PAGE_OTHER, /* freed last, and kept by a CPU; or moved while it was read */
    HEAP_PAGES
};
enum { HEAP_BLOCK_PAGES = 512 };
/* Calls fn for each block that is in use, in the order of addresses. */
void heap_each_block(struct heap *heap,
                     void (*fn)(uint64_t address, const uint8_t page[HEAP_BLOCK_PAGES], void *arg),
                     void *arg);

/* The name of a slab's, an object's state: for people. */
const char *heap_slab_state_name(const struct heap_slab *slab);
const char *heap_state_name(enum heap_state state);
const char *heap_state_word(enum heap_state state);

#endif
