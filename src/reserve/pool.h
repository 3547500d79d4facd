/* SPDX-License-Identifier: MIT */
/*
 * pool.h - the reserve of a pool, and how threads wait for an object of it.
 *
 * No operation takes a lock.  A signal handler may interrupt any step and use the same pool, and fork() never finds a
 * lock of a pool held.
 *
 * The reserve is an array of words.  A word holds an object or NULL.  Two counts admit threads to it:
 *
 *   count    objects that a taker may still claim
 *   places   words that are full, or that a putter has claimed
 *
 *   put:   claim a place: places + 1, if places is below the limit;
 *          find a NULL word and store the object by compare-and-swap;
 *          count + 1
 *   take:  claim an object: count - 1, if count is above 0;
 *          find a full word and exchange it for NULL;
 *          places - 1
 *
 *   full words  >= count + takers that have claimed an object and have not yet exchanged a word
 *   places      >= full words + putters that have claimed a place and have not yet filled a word
 *   limit       <= words of the array
 *
 * Therefore a taker that has claimed an object finds a full word, and a putter that has claimed a place finds a NULL
 * word.  A search takes more steps only if other threads have completed steps of theirs.  It begins at the index that
 * the count gives, so it is short.  The array grows by chunks, which stay mapped until the pool is destroyed.
 *
 * A thread that waits, and one that frees:
 *
 *   waiter:  1. waiters + 1, a full fence
 *            2. read turn
 *            3. try the reserve, then the cache: reclaim drains the sheaves of all CPUs
 *            4. sleep (futex) unless turn has changed since step 2
 *            5. try the reserve; waiters - 1; without an object, begin again
 *   free:    1. put the object into the reserve or the cache
 *            2. read waiters
 *            3. if there are any: turn + 1, wake one
 *
 * Each of the two publishes first and reads then, so one of them sees the other: the waiter finds the object, or the
 * free finds the waiter and changes turn.  If turn changes between steps 2 and 4, futex() returns at once.
 * A put into the reserve wakes one waiter, and a waiter that wakes tries the reserve first.  Therefore no waiter
 * sleeps while the reserve holds an object.
 *
 * In a forked child the counts may be wrong: other threads of the parent may have been between two steps.  The first
 * call there that did not interrupt another call of the library counts the array's objects (pool_is_current()).
 */
#ifndef STOOK_RESERVE_POOL_H
#define STOOK_RESERVE_POOL_H

#include "percpu/rows.h"
#include "slab/cache.h"

#include <stook/reserve.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    POOL_FIRST = 64,   /* words of the first chunk; each further one doubles the array */
    POOL_CHUNKS = 19,  /* POOL_FIRST << 18 is STOOK_POOL_OBJECTS_MAX */
    POOL_COUNTING = 1, /* a flag in `forks`: a thread is counting the array's objects */
};

struct stook_pool {
    /* This line holds the words that a free reads when nothing is short, and they are rarely written.  Bytes 8 to
     * 15 are words that it does not read (percpu/percpu.h, struct sheaf). */
    struct stook_cache *cache; /* NULL: a bag (bag.c) whose pointers are no objects of a cache */
    _Atomic uint32_t turn;     /* a futex: changes when a waiter may find an object */
    _Atomic uint32_t count;
    _Atomic uint64_t waiters; /* fork_count << 32 | threads that wait */
    _Atomic uint32_t min;     /* objects that the reserve should have: the limit of `places` */
    _Atomic uint32_t forks;   /* 2 x fork_count when the counts were true, | POOL_COUNTING */
    _Atomic uint32_t places;

    _Atomic uint32_t words __attribute__((aligned(64))); /* of the array */
    _Atomic(_Atomic(void *) *) chunk[POOL_CHUNKS];
    size_t asked; /* a bag of stook_kmalloc()'s objects: their size; else 0 */
    bool bag;     /* the caller makes the objects: nothing is taken from or returned to `cache` */
    _Atomic(void *) first[POOL_FIRST] __attribute__((aligned(64)));
    uint64_t out[]
        __attribute__((aligned(64))); /* rows of ROWS_LINE: objects taken, objects freed */
};

/* The second word stays unused.  A sheaf's size has that offset, and a load waits for an earlier store to an address
 * that differs by a multiple of 4 KiB (sheaf/sheaf.h). */
enum pool_counter { POOL_ALLOCATED = 0, POOL_FREED = 2 };

static inline uint64_t *pool_counter(struct stook_pool *pool, enum pool_counter word)
{
    return (uint64_t *)rows_first(pool->out, ROWS_LINE) + word;
}

/* Objects that are in use: exact while no thread allocates or frees one. */
static inline int64_t pool_out(struct stook_pool *pool)
{
    return (int64_t)(rows_sum(pool_counter(pool, POOL_ALLOCATED), ROWS_LINE) -
                     rows_sum(pool_counter(pool, POOL_FREED), ROWS_LINE));
}

/* An empty pool; NULL with errno E2BIG or ENOMEM. */
struct stook_pool *pool_make(struct stook_cache *cache, unsigned min);

/* The two halves of a put, within the context.  pool_place() claims a place; false: the reserve is full.  pool_store()
 * puts the object there; NULL gives the place up. */
bool pool_place(struct stook_pool *pool, uint32_t *place, bool nested);
void pool_store(struct stook_pool *pool, uint32_t place, void *object);
/* Whether the reserve holds the object; racy. */
bool pool_has(struct stook_pool *pool, const void *object);
/* Takes an object if the reserve holds more than `keep`; else NULL.  Outside the context. */
void *pool_take_outside(struct stook_pool *pool, uint32_t keep);

/* Adds this thread to `waiters`; pool_withdraw() removes it, and takes the value that pool_announce() returned. */
uint64_t pool_announce(struct stook_pool *pool);
void pool_withdraw(struct stook_pool *pool, uint64_t process);
/* How many threads of this process wait. */
uint32_t pool_waiting(const struct stook_pool *pool);
/* Changes turn and wakes n threads. */
void pool_wake(struct stook_pool *pool, int n);

/* Nanoseconds after which a waiting thread tries again without being woken; 0: never (tests). */
extern uint64_t pool_nap __attribute__((visibility("hidden")));

#endif
