/* SPDX-License-Identifier: MIT */
/*
 * tag.h - where the memory goes: the objects and bytes of every call site that allocates.
 *
 * A site is a call of stook_alloc() and its like, or of malloc, known by the address that it returns to;
 * by file, function and line where the program defines STOOK_SITES (stook/stook.h).  Each
 * gets a number, its tag, which is written beside every object that is allocated there; a thread that frees
 * an object subtracts it from its site.  Sums are exact: objects and bytes, by CPU, without a lock.
 *
 * Tags are off until they are switched on, per cache or for all, while the program runs.
 * `stook profile` does it for a program as it is, and reads what stook_profile_write() writes
 * (docs/profile.md).
 *
 * Environment, read once at start, ignored with raised privileges:
 *   STOOK_TAGS=1               tags for all caches from the start, those of malloc included
 *   STOOK_PROFILE=FILE         the profile, at the process's end; %p becomes the process number, %%
 *                              a percent sign; an existing file is replaced, a symbolic link is refused
 *   STOOK_PROFILE_SIGNAL=USR2  besides, FILE.1, FILE.2, … at each such signal
 */
#ifndef STOOK_TAG_H
#define STOOK_TAG_H

#include <stook/stook.h>

#include <stddef.h>
#include <stdint.h>

STOOK_C_BEGIN

/* The largest tag; objects that are allocated at further sites have none. */
#define STOOK_TAGS_MAX 65535u
/* Bytes of a file's or function's name that are kept: a file's last ones, a function's first. */
#define STOOK_TAG_NAME_MAX 511u

/*
 * Switch tags of a cache on (1) or off (0).
 *
 * NULL: of all caches, also later ones and malloc's.  Slabs that were made before have no room for tags:
 * their objects stay untagged; the profile says how many bytes are covered.  While tags are off neither allocations nor frees are
 * counted.  An object that is freed meanwhile counts as live at its site until its place is used again
 * while tags are on, or until its slab is returned.  Safe beside any other call.
 *
 * errors:  EINVAL   `on` is neither
 *          ENOMEM   out of memory
 * context: not in a signal handler
 * locks:   cache list
 * cost:    none while off; on: docs/profile.md; calls that are inlined become calls
 */
STOOK_API int stook_tags_enable(struct stook_cache *cache, int on);

/*
 * Read the numbers of a call site.
 *
 * The caller sets stat->size to sizeof(*stat).  Each number includes all that happened before the call.  An
 * event of another thread meanwhile may be in one number and not in the next.
 *
 * errors:  EINVAL   stat->size is not a sizeof
 *          ENOENT   there is no such tag
 * context: any
 * locks:   none
 * cost:    four loads a CPU
 */
struct stook_tag_stat {
    size_t size;
    /* The library's strings, valid for good.  NULL for a site that is known by its address. */
    const char *file, *function;
    uint64_t address; /* the instruction behind the call; 0 for a site that is known by its line */
    uint64_t line;
    /* Bytes are what an object takes in its slab: its stride. */
    uint64_t live_objects, live_bytes;   /* allocated there and not freed yet */
    uint64_t total_objects, total_bytes; /* allocated there since tags were first on */
};
STOOK_API int stook_tag_stat(unsigned tag, struct stook_tag_stat *stat) STOOK_NONNULL(2);

/*
 * The tag after another one.
 *
 * 0 gives the first.
 *
 * returns: the tag, or 0 after the last
 * context: any
 * locks:   none
 */
STOOK_API unsigned stook_tag_next(unsigned tag);

/*
 * The tag of a live object.
 *
 * returns: the tag; 0 if the object has none.  If the object was allocated while tags were off, or is not
 *          live: 0, or the tag of the last object there
 * context: any
 * locks:   none
 */
STOOK_API unsigned stook_tag_of(const void *object);

/*
 * Write the profile as one JSON document (docs/profile.md).
 *
 * It has all sites, the mappings of the process, and the build IDs.  `stook profile` reads it on this machine or on
 * another one that has the same programs.  The call needs no memory.
 *
 * errors:  as write(2)
 * context: any; in a handler that interrupted the library the sums of all caches are null
 * locks:   in a handler none; else all but slots, in turn
 */
STOOK_API int stook_profile_write(int fd);

STOOK_C_END

#endif /* STOOK_TAG_H */
