/* SPDX-License-Identifier: MIT */
/*
 * sites.h - where samples were allocated: a table of call stacks with their counts, for the profile that the
 * process writes (watch/profile_samples.c) and for readers outside of it.
 *
 * A reader finds `sites` (the description of the library's memory names it).  It holds for a format of
 * SITES_FORMAT:
 *
 *   - `site` is an array of `most` records of `record` bytes, of which the first `used` were given; a record
 *     whose `state` is not SITE_READY is not complete.  It is NULL before the first sample.
 *   - What a complete record says besides counts never changes.  Records are never given back.  A reader that
 *     reads `went` before `came` never finds more that went.
 *   - Record 0 has what found no place: `depth` is 0.
 *   - Objects are counted in 1 / SITES_ONE: each sample counts for those that it stands for.
 *
 * A key is a stack, the cache, the group and the thread.  When half of the table is used, keys do not
 * have the thread any more; when all is, record 0 counts.
 */
#ifndef STOOK_SAMPLE_SITES_H
#define STOOK_SAMPLE_SITES_H

#include <stook/stook.h>

#include <stdatomic.h>
#include <stdint.h>

enum {
    SITES_FORMAT = 1,
    SITES_MOST = 8192,
    SITES_FRAMES = 32,
    SITES_ONE = 256,
    SITES_LIVES = 8, /* below 1 MB, 10 MB, ... 1 TB, and what lives longer */
    SITES_LIFE = 1000000,
};

enum site_state { SITE_NONE, SITE_READY };

/* How a record's samples are known. */
enum site_kind {
    SITE_OTHERS, /* record 0: of any kind */
    SITE_OBJECT, /* of malloc and kmalloc: their frees are seen */
    SITE_LARGE,  /* large objects: so, too */
    SITE_TYPED, /* of a cache whose frees are not seen: a typed one, or one that is closed to the fast path */
};

/* Plain numbers of fixed sizes: other programs read them. */
struct site {
    _Atomic uint32_t state;
    uint16_t kind, depth;
    uint32_t cache;  /* its number in the page map; 0: large objects */
    uint32_t group;  /* that pays, or that the thread had entered; 0: none */
    uint32_t thread; /* the kernel's number; 0: any */
    uint32_t hash;
    char name[STOOK_NAME_MAX + 1]; /* of the cache */
    /* Atomic. */
    _Atomic uint64_t came, came_objects, came_bytes, came_asked; /* samples; what they stand for */
    _Atomic uint64_t went, went_objects, went_bytes;
    _Atomic uint64_t lived;             /* bytes, of the samples that went */
    _Atomic uint32_t life[SITES_LIVES]; /* samples that went, by how long they lived */
    uint64_t frames[SITES_FRAMES];      /* addresses that calls return to, innermost first */
};

struct sites {
    uint32_t format, size; /* SITES_FORMAT, bytes of this structure */
    uint32_t record, most; /* bytes of a record, how many there may be */
    uint32_t frames, one;
    _Atomic uint32_t used;
    uint32_t reserved;
    _Atomic uint64_t mean; /* bytes between two samples; 0: none are taken */
    _Atomic uint64_t
        lost; /* samples that had no place in a table, in record 0 or without their free */
    _Atomic(struct site *) site;
    _Atomic uint64_t came; /* bytes that all samples stood for: what their ages are counted in */
};
extern struct sites sites __attribute__((visibility("hidden")));

/*
 * The records, of which the first ones may be used, or NULL.  The start calls it: a sandbox that a process enters before
 * its first sample may allow no system call at all.
 */
struct site *sites_begin(void);

/* What a sample is counted at. */
struct site_key {
    enum site_kind kind;
    uint32_t cache, group;
    const char *name;
    uint64_t where; /* base/where.h */
};

/* The number of the record of this thread's stack; 0: record 0.  Any context, no lock; unwinds. */
uint32_t sites_find(const struct site_key *key);

/* A sample came, that stands for `weight` objects, of so many bytes each. */
void sites_came(uint32_t number, float weight, uint64_t bytes, uint64_t asked);
void sites_went(uint32_t number, float weight, uint64_t bytes, uint64_t born);

/* The time, for ages of samples: bytes that the process has allocated, as far as samples say.  No clock is read in malloc. */
static inline uint64_t sites_age(void)
{
    return atomic_load_explicit(&sites.came, memory_order_relaxed);
}

/* The kernel's number of this thread, from the C library's record; 0: unknown. */
uint32_t sites_thread(void);

/* A complete record, or NULL. */
const struct site *sites_at(uint32_t number);

#endif
