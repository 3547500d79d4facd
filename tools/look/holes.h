/* SPDX-License-Identifier: MIT */
/*
 * holes.h - where the memory of a process is that no object in use fills: slabs by how full they are, free pages, and what
 * the kernel counts as resident beside them.
 *
 *     struct holes holes;
 *     holes_read(&holes, heap);      of a snapshot that heap_read() took
 *     ... holes.part[HOLES_SPARSE] ...
 *     holes_free(&holes);
 *
 * An object is in use here if a user has it: those in sheaves and in a quarantine count as free.  A slab is sparse if at most a
 * quarter of its objects are in use.
 */
#ifndef STOOK_LOOK_HOLES_H
#define STOOK_LOOK_HOLES_H

#include "look/heap.h"

enum { HOLES_SPARSE_SHARE = 4, HOLES_FILLS = 11 };

/* What is resident, by what it is: together all that the kernel counts. */
enum holes_part {
    HOLES_IN_USE,    /* objects of slabs, in use */
    HOLES_LARGE,     /* large objects */
    HOLES_SPARSE,    /* free objects of sparse slabs */
    HOLES_SCATTERED, /* … of fuller slabs */
    HOLES_READY,     /* … that CPUs and barns have in their sheaves, or a quarantine holds */
    HOLES_PADDING,   /* between objects, and behind the last one */
    HOLES_IDLE,      /* slabs without an object in use */
    HOLES_WARM,      /* free pages that are kept */
    HOLES_UNTOUCHED, /* free pages of huge pages, never used */
    HOLES_OWN,       /* the library's own objects */
    HOLES_TABLES,    /* … and tables */
    HOLES_FILES,     /* code and data of the program and its libraries */
    HOLES_BREAK,     /* [heap]: below the program break */
    HOLES_STACKS,
    HOLES_SHARED,
    HOLES_OTHER, /* other anonymous mappings */
    HOLES_PARTS
};

/* Slabs of one kind; bytes: resident. */
struct holes_sum {
    uint64_t slabs, objects, bytes; /* objects: in use */
};

struct holes_slab {
    uint16_t live, there; /* objects in use; resident pages */
};

struct holes_cache {
    const struct heap_cache *cache; /* NULL: of the sum */
    struct holes_sum all, sparse, idle;
    uint64_t scattered; /* bytes of the free objects of slabs that are neither */
    uint64_t split;     /* bytes of the slabs in blocks whose huge page was split */
};

struct holes {
    struct heap *heap;
    struct holes_slab *slab; /* by slab of the heap */
    struct holes_cache
        *cache; /* by cache of the heap; the last one: the sum without the library's own */
    struct holes_cache *sum;
    struct holes_sum fill[HOLES_FILLS]; /* by tenths of the objects in use; the last one: all */
    uint64_t part[HOLES_PARTS], mappings[HOLES_PARTS];
    uint64_t resident, stook; /* the sum of all parts; of those up to HOLES_TABLES */
    uint64_t meta; /* of the tables: descriptors of blocks in which sparse slabs alone are in use */
    bool known;    /* what is not Stook's is: not in core files */
    uint64_t huge,
        split; /* bytes of huge pages under objects; of blocks whose huge page was split */
    const char *runs,
        *hint; /* an allocator beside Stook, and how it is turned off; NULL: none is known */
};

void holes_read(struct holes *holes, struct heap *heap);
void holes_free(struct holes *holes);

static inline bool holes_is_sparse(const struct heap_slab *slab, const struct holes_slab *is)
{
    return is->live > 0 && is->live * HOLES_SPARSE_SHARE <= slab->objects;
}

#endif
