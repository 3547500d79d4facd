/* SPDX-License-Identifier: MIT */
/*
 * tag.h - call sites and their counts: calls and bytes, allocated and freed, by CPU.
 *
 * A tag is a number: of a site that a macro of <stook/stook.h> made, or of a return address.  Numbers
 * are given once and kept for the process's life.  0: none.
 *
 * All tables are append-only and without locks.  A thread may stop in the middle of a step: it was preempted,
 * a handler interrupted it, or a forked child does not have it.  The next thread that needs the step finishes
 * it.  Memory comes in chunks of TAG_CHUNK tags from the OS; unused parts are not touched.
 */
#ifndef STOOK_SITE_TAG_H
#define STOOK_SITE_TAG_H

#include "percpu/rows.h"
#include "site/rows_two.h"

#include <stook/stat.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What was allocated and freed at a tag, on one CPU. */
struct tag_counts {
    struct rows_two came, went;
};

enum {
    TAG_CHUNK_SHIFT = 10,
    TAG_CHUNK = 1 << TAG_CHUNK_SHIFT, /* tags: the counts of a CPU are TAG_ROW bytes */
    TAG_ROW = 1 << ROWS_LARGE,
    TAG_CHUNKS = (STOOK_TAGS_MAX + 1) >> TAG_CHUNK_SHIFT,
};
_Static_assert(TAG_CHUNK * sizeof(struct tag_counts) == TAG_ROW, "a row of counts a CPU");

enum tag_kind { TAG_SITE = 1, TAG_ADDRESS };

/*
 * The record of a site.  The thread that makes the number writes it before it publishes the number.  A thread
 * that loses the race for its key leaves its number unused.  Other threads read a record only once
 * its tag has counts, and then it never changes.
 */
struct tag_record {
    const char *file, *function;
    uint64_t value;        /* the line, or the address */
    _Atomic uint64_t kind; /* enum tag_kind; 0: not yet */
};
_Static_assert(sizeof(struct tag_record) == sizeof(struct tag_counts), "as long as one more row");

/* A chunk: the rows of counts, and the records of the sites. */
extern struct tag_counts *tag_chunks[TAG_CHUNKS] __attribute__((visibility("hidden")));

uint32_t tag_of_site_slow(struct stook_site *site);

/* FNV-1a of a text, or of none (NULL), behind what has that hash (0: nothing). */
uint64_t tag_hash(uint64_t hash, const char *text);

/* The tag of a site; 0 when there is no more room.  Any context, no lock. */
static inline uint32_t tag_of_site(struct stook_site *site)
{
    /* Pairs with the release in tag_of_site_slow(): the tag's chunk is there. */
    uint32_t tag = __atomic_load_n(&site->tag, __ATOMIC_ACQUIRE);

    return __builtin_expect(tag != 0, 1) ? tag : tag_of_site_slow(site);
}

/* The tag of the code that a call returns to; 0 for NULL, and when there is no more room. */
uint32_t tag_of_address(const void *address);

/*
 * The call stack of this thread, innermost first, from the code that returns to `address` on.  NULL: from the
 * caller's caller on, without the library's frames if the library is a file of its own.  How many frames; 0: the
 * address is in none of those that can be walked.
 */
unsigned tag_stack_walk(const void *address, uint64_t *frames, unsigned most);

/* The pages at *place: fresh ones of `size` bytes if it is `old`, or those that are there, which another thread may just
 * have installed.  NULL: out of memory. */
void *tag_map(void *place, void *old, size_t size);

/* Those of CPU 0. */
static inline struct tag_counts *tag_counts_of(uint32_t tag)
{
    struct tag_counts *chunk =
        __atomic_load_n(&tag_chunks[tag >> TAG_CHUNK_SHIFT], __ATOMIC_RELAXED);

    return (struct tag_counts *)rows_first(chunk, ROWS_LARGE) + (tag & (TAG_CHUNK - 1));
}

/* `calls` objects of `bytes` in sum were allocated at, or freed that had been allocated at, the site.
 * Any context; one section on this CPU's counters. */
static inline void tag_count_alloc(uint32_t tag, uint32_t calls, uint64_t bytes)
{
    if (__builtin_expect(tag == 0, 0))
        return;
    rows_add_two(&tag_counts_of(tag)->came, calls, bytes);
}

static inline void tag_count_free(uint32_t tag, uint32_t calls, uint64_t bytes)
{
    if (__builtin_expect(tag == 0, 0))
        return;
    rows_add_two(&tag_counts_of(tag)->went, calls, bytes);
}

/* One object of a tag other than 0, where there are sections; false: nothing was counted, and one of
 * the two above does it. */
static inline __attribute__((always_inline)) bool tag_count_section(uint32_t tag,
                                                                    const struct rows_two *one,
                                                                    bool came, intptr_t rseq)
{
    struct tag_counts *counts = tag_counts_of(tag);

    return rseq_add_two(came ? &counts->came : &counts->went, rseq, *(const op_two *)one) ==
           RSEQ_DONE;
}

#endif
