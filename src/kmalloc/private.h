/* SPDX-License-Identifier: MIT */
/*
 * private.h - what malloc takes from the library.  Both are in libstook-malloc.so; but where libstook.so of the same
 * release comes first in the loader's order, malloc takes it from there, so that there is one allocator
 * (base/init.h).  So these are exported, under the version STOOK_PRIVATE, with no promise to anyone else.
 *
 * Each call starts the library when nothing has yet, and knows by itself whether it was made by a
 * handler that interrupted the library.
 */
#ifndef STOOK_KMALLOC_PRIVATE_H
#define STOOK_KMALLOC_PRIVATE_H

#include <stook/stook.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Starts the library, and with it STOOK_LIMIT, and then malloc by `make`, once; other threads wait.  False: this
 * thread is starting either, and has come back (base/once.h).  The first call.  It says which both are, and aborts, if malloc's `interface` is
 * another one: that is the number of what is declared here, which grows with every change.
 */
#define STOOK_PRIVATE_INTERFACE 12u
STOOK_API bool stook_private_start(unsigned interface, const char *version, void (*make)(void));

/* What never changes after the start: malloc keeps a copy beside its code. */
struct stook_private_view {
    const char *areas; /* CPU 0's (stook/inline.h); slot 0 never has a sheaf */
    intptr_t rseq_offset;
    /* In locked mode, else NULL: as stook_rseq_pop() and stook_rseq_push() (stook/sections.h), by the slot's lock. */
    int (*pop)(const void *slots, intptr_t rseq_offset, void **object);
    int (*push)(const void *slots, intptr_t rseq_offset, void *object);
    uintptr_t base;          /* of what all objects lie in */
    const uint32_t *entries; /* the page map: the low 16 bits are the cache's index */
    uint64_t key;            /* of malloc's marks: random */
    size_t
        canary; /* bytes behind each object of malloc's classes that are not the user's (slab/cache.h) */
    bool tokens; /* STOOK_HARDEN has "tokens": malloc has caches of its own for each partition */
    bool keeps_deepbind;   /* STOOK_DEEPBIND=keep */
    unsigned char perturb; /* MALLOC_PERTURB_ */
    int64_t *left;         /* this thread's countdown (sample_left in sample/sample.h) */
};
STOOK_API void stook_private_view(struct stook_private_view *view);

enum { STOOK_PRIVATE_CLOSES_ALL = 1, STOOK_PRIVATE_CLOSES_ALLOC = 2 };
/*
 * Whether this thread may make a size class now: no other thread is at it, and this one has interrupted no
 * call of the library.  It does not wait.  stook_private_class_end() follows.
 */
STOOK_API bool stook_private_class_begin(void);
STOOK_API void stook_private_class_end(void);

/* A size class; NULL with errno.  *slab: the part of it that malloc's fast path knows.  The word of its index in `starts`, if
 * there are any, becomes 0 before a slab of another order than the preferred one hands out an object. */
struct stook_private_slab {
    uintptr_t slot_offset;         /* of its slots in an area */
    size_t bytes, stride, objects; /* of a slab of the preferred order */
};
STOOK_API struct stook_cache *stook_private_class(const char *name, size_t size, uint64_t *starts,
                                                  struct stook_private_slab *slab);

/* Which calls belong together: a debug cache reports an object that is freed by another one. */
enum stook_private_call {
    STOOK_PRIVATE_MALLOC = 1,
    STOOK_PRIVATE_NEW,
    STOOK_PRIVATE_NEW_ARRAY,
};
/* Where a call returns to, and which call it is: in bits that no address has.  Without, it is malloc. */
enum { STOOK_PRIVATE_CALL_SHIFT = 60 };

enum { STOOK_PRIVATE_PARTITIONS = 16 };

/* The partition of a call, by a hash of its place. */
static inline unsigned stook_private_partition(const void *from)
{
    uint64_t place = (uintptr_t)from & (((uintptr_t)1 << STOOK_PRIVATE_CALL_SHIFT) - 1);

    return (unsigned)(place * 0x9e3779b97f4a7c15u >> 60);
}

static inline const void *stook_private_from(const void *address, enum stook_private_call call)
{
    return (const void *)((uintptr_t)address | (uintptr_t)call << STOOK_PRIVATE_CALL_SHIFT);
}

/* An object of a class, for a call that returns to `from` and asked for `size` bytes, at a multiple of `align`
 * where that is not 0: traces and debug caches tell. */
STOOK_API void *stook_private_alloc(struct stook_cache *cache, size_t size, size_t align,
                                    const void *from);
/*
 * malloc's mark of an object that it has freed: its second word is the key of the view xor its address.  An
 * allocated object has none, so a free that finds it is the second one, whatever came between.  The first
 * word is not taken: a small object that is back in its slab has its link there.  Objects of debug caches, and
 * hardened ones that are filled or held back, have no marks: their bytes are checked as they are.  Nor do objects of
 * other caches than malloc's, whose allocations leave their words as they are.
 */
static inline uint64_t *stook_private_mark(const void *object)
{
    return (uint64_t *)(uintptr_t)object + 1;
}
/* Whether the object has `mark`, which those that are free have: the report.  Objects of other caches have no marks. */
STOOK_API bool stook_private_freed(const struct stook_cache *cache, const void *object,
                                   const char *call, bool is_free, uint64_t mark);
/* The same object is used for `size` bytes from now on: for traces and debug caches. */
STOOK_API void stook_private_resized(void *object, size_t size);
/* Whether the object of a cache is with its user, as far as its cache knows: with debug flags or a quarantine.  False: it
 * is free, or the pointer is not its start, which is reported as found by `call`. */
STOOK_API bool stook_private_live(const void *object, const char *call);

/* The report as a table, by pieces, under no lock; 0 or -1 with errno, put()'s if that failed. */
STOOK_API int stook_private_report(int (*put)(void *context, const char *text, size_t size),
                                   void *context);

/*
 * Called at once with what is so now, and whenever that changes; it takes no lock.
 *
 *   GROWS   objects of the program lie within so many bytes from the view's base on, and none of the library's own does
 *   CLOSES  the calls that take the slow path: all, since objects are accounted, or allocations, since they are counted
 */
enum { STOOK_PRIVATE_GROWS, STOOK_PRIVATE_CLOSES };
STOOK_API void stook_private_on_change(void (*fn)(unsigned what, size_t value));

/*
 * A cache with flags that are not public (slab/cache.h).  Beside a fork it waits for that, or is NULL with ENOMEM.
 */
struct stook_cache *private_cache(const char *name, size_t object_size,
                                  const struct stook_cache_args *args, bool wait);

/* An object, of a cache that a user may have, comes back by malloc's cold path: checked for what the fast
 * path cannot decide, and reported where it is free already.  `size`: the caller's, or 0.  `mark`: the word that
 * stook_private_mark() gets, of objects that have marks. */
STOOK_API void stook_private_free(struct stook_cache *cache, void *object,
                                  enum stook_private_call call, size_t size, uint64_t mark);

/* The same of a class by its cache's index, whose object's start and mark were in order: nothing is checked again. */
STOOK_API void stook_private_free_live(uintptr_t index, void *object, uint64_t mark);
/* Bytes of such an object. */
STOOK_API size_t stook_private_room(uintptr_t index);

/* The cache of an object, its size, and whether the pointer is the object's start; or NULL: of none, or the library's own.
 * A debug cache says that it is, and decides that itself.  The size is 0 where stook_private_live() has a report. */
STOOK_API struct stook_cache *stook_private_cache_of(const void *object, size_t *size, bool *start);

/* Large objects (large/large.h), and guarded ones (guard/guard.h), which are of no cache either: these have a
 * size, are freed, and are neither resized nor moved. */
STOOK_API void *stook_private_large_alloc(size_t size, size_t align, bool *zeroed,
                                          const void *from);
STOOK_API size_t stook_private_large_size(const void *object);
STOOK_API bool stook_private_large_free(void *object);
/* The object, in place or with its pages elsewhere; NULL: neither is possible without a copy. */
STOOK_API void *stook_private_large_resize(void *object, size_t size, const void *from);

/* Drains the size classes and gives warm memory back; bytes. */
STOOK_API size_t stook_private_trim(void);

struct stook_private_totals {
    size_t slabs;                /* bytes of the slabs of all size classes */
    size_t active, objects;      /* bytes and number of their objects that are handed out */
    size_t free, free_objects;   /* … that are not */
    size_t large, large_objects; /* bytes and number of large objects */
    size_t warm;                 /* bytes of pages free and resident */
    size_t used;                 /* bytes of pages in use, all caches */
};
STOOK_API void stook_private_totals(struct stook_private_totals *totals);

/*
 * STOOK_LIMIT: all that malloc hands out is charged to a group of its own, "malloc", the owner of its
 * classes and of large objects.  Before the first class, and at the start of a process, so that it finds the group.
 */
void private_limit(void);

/* Whether a pointer lies where no object of the library's can, except for large ones outside of the window. */
STOOK_API bool stook_private_is_foreign(const void *pointer);
/* Reports what is known of a pointer that malloc's callers should not have passed; returns if the program goes
 * on, and the call does nothing. */
STOOK_API void stook_private_bad_pointer(const char *call, const void *pointer);

#endif
