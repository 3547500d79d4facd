/* SPDX-License-Identifier: MIT */
/*
 * guard.h - the sampling guard: a sampled object of malloc or kmalloc lies alone on a page between pages without
 * access, and its page loses access when it is freed.  A use beyond its ends or after its free is a fault,
 * which guard_fault.c reports with the stacks of its allocation and free.
 *
 *   pool:   guard | data 0 | guard | data 1 | guard | ... | data n-1 | guard        a page each
 *   slot:   NEVER --> LIVE --> FREED --> LIVE ...      BUSY while a thread changes it.  OPEN for good after a fault
 *           that the program survived, or if the kernel refused to take the access away
 *
 * The library maps the pool and installs the handler of SIGSEGV with the first sampled object.  A slot's state is one
 * word, which threads change by compare-and-swap.  There is no lock, so a signal handler may allocate and free here.  The
 * slot that was freed first is used again first.
 *
 * To malloc and kmalloc a guarded object is an object without a slab, like a large one (kmalloc/private.c).  A free finds
 * it on its cold path by one comparison.  It replaces an object of a size class, and belongs to no cache.
 */
#ifndef STOOK_GUARD_GUARD_H
#define STOOK_GUARD_GUARD_H

#include "debug/track.h"
#include "sample/sample.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GUARD_SLOTS = 16, /* objects at a time */
    GUARD_ZONE =
        64, /* bytes on either side, within the page, that are checked when an object is freed */
    GUARD_PAUSE = 2,              /* bytes of the mean for each object between two of a thread's */
    GUARD_PAUSE_LEAST = 16 << 10, /* a mean; with a lower one each sample is guarded */
};

enum guard_state { GUARD_NEVER, GUARD_BUSY, GUARD_LIVE, GUARD_FREED, GUARD_OPEN };
enum { GUARD_STATE_BITS = 3 };
enum {
    GUARD_REPORTED = 1, /* there was a report of a fault */
    GUARD_BROKEN = 2,   /* an adjacent page lost its protection: the slot is not used again */
};

struct guard_slot {
    _Atomic uint64_t word;  /* the change's number << GUARD_STATE_BITS | state */
    _Atomic uint32_t flags; /* GUARD_REPORTED, GUARD_BROKEN: of this object */
    /* Of the thread that made the slot BUSY; read racily by reports. */
    uint32_t align;
    char *object;
    size_t size; /* as requested */
    const struct stook_cache *cache;
    struct track allocated, freed;
};

struct guard {
    uintptr_t base;       /* of the pool */
    _Atomic size_t bytes; /* of it; 0: there is none */
    /* Constant while bytes is not 0. */
    size_t page;
    struct guard_slot *slot;
    /* Atomic. */
    _Atomic uint64_t changes; /* changes of state so far */
    _Atomic uint64_t sampled; /* objects that were guarded so far */
    _Atomic uint64_t live, live_bytes;
};
extern struct guard guard __attribute__((visibility("hidden")));

/* Any pointer. */
static inline bool guard_covers(const void *pointer)
{
    return (uintptr_t)pointer - guard.base <
           atomic_load_explicit(&guard.bytes, memory_order_relaxed);
}

static inline enum guard_state guard_state_of(uint64_t word)
{
    return (enum guard_state)(word & ((1u << GUARD_STATE_BITS) - 1));
}

static inline enum guard_state guard_state(const struct guard_slot *slot)
{
    return guard_state_of(atomic_load_explicit(&slot->word, memory_order_acquire));
}

static inline char *guard_page(const struct guard_slot *slot)
{
    return (char *)guard.base + (2 * (size_t)(slot - guard.slot) + 1) * guard.page;
}

/* The slot whose data page an address of the pool is in; NULL: it is in a page between. */
static inline struct guard_slot *guard_slot_of(const void *address)
{
    size_t page = ((uintptr_t)address - guard.base) / guard.page;

    return page % 2 ? &guard.slot[page / 2] : NULL;
}

/* Starts the guard: one sample for `mean` bytes (not 0) on average. */
void guard_begin(uint64_t mean);

/*
 * A guarded object in the place of one of the cache's: `size` zero bytes at a multiple of `align` and of the cache's
 * alignment, for a call at `where`, as a sample that stands for `weight` objects.  NULL: there is none.  Outside the
 * context.
 */
void *guard_alloc(const struct stook_cache *cache, size_t size, size_t align, uint64_t where,
                  float weight);

/* The size of the live object that begins at this address; 0: none does.  Any pointer. */
size_t guard_size(const void *object);

/* Frees an object, or reports a wrong pointer.  guard_covers() must be true of it.  errno is kept. */
void guard_free(void *object, const char *call);

/* Reports a wrong pointer that was passed to `call`.  Returns if the program goes on. */
void guard_bad_pointer(const char *call, const void *pointer);

#endif
