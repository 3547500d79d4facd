/* SPDX-License-Identifier: MIT */
/*
 * pool.h - objects in reserve, without a lock: a signal handler may interrupt any step here and
 * use the same pool, and a fork finds nothing held.
 *
 * The reserve is an array of words, each an object or NULL, and two counts around it:
 *
 *   put:   a place: places + 1, while that is below the limit;
 *          a NULL word: compare-and-swap to the object;  count + 1
 *   take:  count - 1, while that is above 0;
 *          a word with an object: exchange for NULL;  places - 1
 *
 *   words with an object >= count + takers that have counted and not yet exchanged
 *   places               >= words with an object + putters that have a place and not yet a word
 *   limit                <= words of the array
 *
 * so whoever has counted finds a word, with steps that only others' progress can add to.  The array
 * grows by chunks that stay until the pool goes; where the counts start the search, it is short.
 *
 * Who waits announces it, notes the turn, looks once more everywhere, and sleeps while the turn
 * stays.  Who frees, then looks whether anybody waits: one of the two sees the other.  Each object
 * that is put wakes one sleeper, and a sleeper that wakes looks into the reserve first, so nobody
 * sleeps on while there is something in it.
 *
 * In a forked child other threads are gone in the middle of anything: the first use there that is
 * not a handler's counts anew what the array holds.
 */
#ifndef STOOK_RESERVE_POOL_H
#define STOOK_RESERVE_POOL_H

#include "percpu/rows.h"
#include "slab/cache.h"

#include <stook/pool.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    POOL_FIRST = 64,   /* words of the first chunk; each further one doubles the array */
    POOL_CHUNKS = 19,  /* POOL_FIRST << 18 is STOOK_POOL_OBJECTS_MAX */
    POOL_COUNTING = 1, /* a flag beside the number of forks: somebody counts anew */
};

struct stook_pool {
    /* What a call reads that meets no shortage; rarely written. */
    struct stook_cache *cache; /* NULL: of a bag (bag.c) of something else */
    _Atomic uint32_t turn;     /* a futex: changes when there may be something for a waiter */
    _Atomic uint32_t
        count; /* 8 to 15: nothing here that a call reads (percpu/percpu.h, struct sheaf) */
    _Atomic uint64_t waiters; /* fork_count << 32 | threads */
    _Atomic uint32_t min;     /* objects that the reserve should have */
    _Atomic uint32_t forks;   /* 2 x fork_count when the counts were true */
    _Atomic uint32_t places;

    _Atomic uint32_t words __attribute__((aligned(64))); /* of the array */
    _Atomic(_Atomic(void *) *) chunk[POOL_CHUNKS];
    size_t asked; /* of a bag: bytes of each, objects of stook_kmalloc(); 0: they are not */
    _Atomic(void *) first[POOL_FIRST] __attribute__((aligned(64)));
    uint64_t out[]
        __attribute__((aligned(64))); /* rows of ROWS_LINE: objects taken, objects freed */
};

/* Not the second word: a sheaf's size is there, and lines 4 KiB apart would be waited for. */
enum pool_counter { POOL_CAME = 0, POOL_WENT = 2 };

static inline uint64_t *pool_counter(struct stook_pool *pool, enum pool_counter word)
{
    return (uint64_t *)rows_first(pool->out, ROWS_LINE) + word;
}

/* Objects that are out: exact once no thread takes or frees any. */
static inline int64_t pool_out(struct stook_pool *pool)
{
    return (int64_t)(rows_sum(pool_counter(pool, POOL_CAME), ROWS_LINE) -
                     rows_sum(pool_counter(pool, POOL_WENT), ROWS_LINE));
}

/* An empty pool; NULL with errno E2BIG or ENOMEM. */
struct stook_pool *pool_make(struct stook_cache *cache, unsigned min);
/* What the reserve holds is forgotten. */
void pool_unmake(struct stook_pool *pool);
/* Another limit; 0, or -1 with errno E2BIG or ENOMEM. */
int pool_set_min(struct stook_pool *pool, unsigned min);

/* A place in the reserve, within the context; false: it is full.  Then what is put there; NULL gives the place back. */
bool pool_place(struct stook_pool *pool, uint32_t *place, bool nested);
void pool_store(struct stook_pool *pool, uint32_t place, void *object);
/* Whether the reserve holds it; racy. */
bool pool_has(struct stook_pool *pool, const void *object);
/* Out of the reserve while it holds more than `keep`, or NULL. */
void *pool_take_outside(struct stook_pool *pool, uint32_t keep);

/* Counts this thread among those that wait, and no longer: with what pool_announce() returned. */
uint64_t pool_announce(struct stook_pool *pool);
void pool_withdraw(struct stook_pool *pool, uint64_t process);
/* Threads of this process that wait; wakes n of them. */
uint32_t pool_waiting(const struct stook_pool *pool);
void pool_wake(struct stook_pool *pool, int n);

/* Nanoseconds after which who waits looks again; 0: never.  Tests want no second chance. */
extern uint64_t pool_nap __attribute__((visibility("hidden")));

#endif
