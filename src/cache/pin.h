/* SPDX-License-Identifier: MIT */
/*
 * pin.h - caches that stay while a thread works on them without the list's lock.
 *
 * A pin is a record of one cache on the stack of the thread that holds it.  All records of a thread are a chain, by
 * which a forked child counts anew: of all threads that held pins only one is there.
 */
#ifndef STOOK_CACHE_PIN_H
#define STOOK_CACHE_PIN_H

#include "slab/cache.h"

#include <stdbool.h>

struct pin {
    struct stook_cache *one; /* NULL: none */
    struct pin *below;       /* the record that this thread began before */
};

/* Whether a cache was not destroyed, as far as its descriptor shows that; else errno is EINVAL, and of a cache with debug flags
 * there is a report.  Outside of locks. */
bool pin_alive(struct stook_cache *cache);

/* Records begin and end in pairs, the last first.  No lock. */
void pin_begin(struct pin *pin);
void pin_end(struct pin *pin);

/* Another cache in its place, or none.  Under the cache list's lock. */
void pin_set(struct pin *pin, struct stook_cache *cache);

/* Calls `act` for each cache, the newest first, until it returns false.  Without the list's lock, so it may take that. */
void pin_each(bool (*act)(struct stook_cache *cache, void *arg), void *arg);

/* Until no thread has the cache pinned; it is not alive, so none will.  Inside the library. */
void pin_wait(const struct stook_cache *cache);

/* The forked child: pins are those of this thread. */
void pin_child(void);

#endif
