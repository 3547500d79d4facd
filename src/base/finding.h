/* SPDX-License-Identifier: MIT */
/*
 * finding.h - what a check found wrong: made where it is found, reported by debug/report.c, or by
 * slab/wrong.c where the core is all there is.
 */
#ifndef STOOK_BASE_FINDING_H
#define STOOK_BASE_FINDING_H

#include <stddef.h>
#include <stdint.h>

struct slab;
struct stook_cache;
struct track;

enum debug_what {
    /* Bytes: from `at` on, `changed` of them, should be `expected`. */
    DEBUG_RIGHT_ZONE, /* behind an object, and behind what was asked for */
    DEBUG_LEFT_ZONE,  /* before an object */
    DEBUG_POISON,     /* of a free object */
    /* What the library keeps about an object. */
    DEBUG_LINK,   /* of a free object: `value` is what it says, of `objects` in the slab */
    DEBUG_MARK,   /* neither free nor out */
    DEBUG_COLUMN, /* `text` names it */
    DEBUG_COUNT,  /* a slab's count of objects in use: `value`, and `objects` were found */
    /* Calls. */
    DEBUG_DOUBLE_FREE,
    DEBUG_INTERIOR,    /* not the start of an object */
    DEBUG_WRONG_CACHE, /* of no slab of the cache */
    DEBUG_FOREIGN,     /* not of this library */
    DEBUG_LIBRARY,     /* the library's own memory */
    DEBUG_NO_OBJECT,   /* of the library's address space, and in no object */
    DEBUG_AT_ONCE,     /* freed by another thread at the same time */
    DEBUG_STILL_OUT,   /* at destroy */
    DEBUG_SIZE,        /* sized delete: `value` is the size that was given */
    DEBUG_MISMATCH,    /* malloc, new, new[]: `text` says which and which */
    DEBUG_DESTROYED,   /* the cache */
    DEBUG_REALLOC_FREED,
    DEBUG_GUARD, /* of a guarded object (guard/): `text` says it all */
    DEBUG_WHATS,
};

/* What the caller does when the report is made and the program goes on. */
enum debug_done {
    DEBUG_RESTORED,    /* the bytes are as they should be */
    DEBUG_QUARANTINED, /* the object, or its slab's free objects, are never used again */
    DEBUG_REFUSED,     /* the call changes nothing */
    DEBUG_ACCEPTED,    /* the call does what it can */
    DEBUG_ABORTED,     /* there is no going on */
    DEBUG_PASSED,      /* a fault goes on to the program's handler, or ends the process */
    DEBUG_OPENED,      /* the page of the fault may be used from now on */
};

/* What is 0 is not known. */
struct debug_finding {
    enum debug_what what;
    enum debug_done done;
    const char *call;                /* the public call that found it, where the report names it */
    const struct stook_cache *cache; /* the object's, or the one that was called */
    const struct slab *slab;         /* of the object */
    const void *object;              /* its start */
    uint32_t index;                  /* in its slab; with `slab` */
    uint8_t expected;                /* each byte changed */
    const void *at;                  /* the pointer given, or the first byte changed */
    size_t changed;                  /* bytes from `at` to the last one changed, both included */
    size_t size;                     /* of an object without a cache */
    size_t requested;                /* bytes that were asked for */
    size_t value, objects;
    const char *text;
    /* By which it was allocated and freed (debug/track.h); NULL: its column may know. */
    const struct track *track[2];
    uint64_t where; /* base/where.h: the call that found it */
};

#endif
