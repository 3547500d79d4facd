/* SPDX-License-Identifier: MIT */
/*
 * bag.c - pools whose pointers the caller makes (stook_pool_create_of()), such as mempool_t of stook/kmem.h.  How pointers
 * are put, taken and waited for: pool.h.
 *
 * If these functions are those of a cache or of kmalloc(), what the bag holds is free, as in a stook_pool.  It is checked
 * and poisoned as if it were freed, and checked again when it is taken; it stays charged.  Other pointers are not followed.
 */
#include "reserve/pool.h"

#include "base/context.h"
#include "base/init.h"
#include "base/raw.h"
#include "observe/observe.h"
#include "debug/object.h"
#include "debug/pages.h"
#include "debug/tools.h"
#include "kmalloc/private.h"
#include "slab/slab.h"
#include "slab/wrong.h"

#include <stook/reserve.h>

#include <errno.h>

/* The cache that an element must be of; NULL: it may be anything. */
static struct stook_cache *bag_cache(const struct stook_pool *pool, const void *element)
{
    if (pool->cache || !pool->asked)
        return pool->cache;
    return slab_user_cache(element);
}

/* An element comes; NULL: it is refused, which was reported. */
static void *bag_check_in(const struct stook_pool *pool, void *element)
{
    struct stook_cache *cache = bag_cache(pool, element);

    if (cache)
        observe_reserve(cache, &element);
    else if (pool->asked && stook_private_large_size(element) == 0) {
        stook_private_bad_pointer("stook_pool_put", element);
        element = NULL;
    } else if (pool->asked)
        tools_close(element, stook_private_large_size(element));
    return element;
}

/* An element of whole pages, which say nothing of that, is in the bag already. */
static bool bag_repeats(struct stook_pool *pool, void *element)
{
    if (!pages_zoned || !pool->asked || bag_cache(pool, element) || !pool_has(pool, element))
        return false;
    wrong_found(&(struct debug_finding){
        .what = DEBUG_NO_OBJECT, .done = DEBUG_REFUSED, .call = "stook_pool_put", .at = element});
    return true;
}

static void bag_check_out(const struct stook_pool *pool, void *element, uint64_t where)
{
    struct stook_cache *cache = bag_cache(pool, element);
    struct debug_asks before;

    if (!cache && pool->asked)
        tools_open(element, stook_private_large_size(element));
    if (!cache)
        return;
    before = debug_ask((struct debug_asks){pool->asked, DEBUG_CALL_ANY, NULL});
    observe_unreserve(cache, element, where);
    (void)debug_ask(before);
}

struct stook_pool *stook_pool_create_of(struct stook_cache *cache, size_t size, unsigned limit)
{
    struct stook_pool *pool;

    if (!init_once()) {
        errno = ENOMEM;
        return NULL;
    }
    pool = pool_make(cache, limit);
    if (pool) {
        pool->bag = true;
        pool->asked = size;
    }
    return pool;
}

int stook_pool_put(struct stook_pool *pool, void *pointer)
{
    bool nested = context_enter(), put;
    uint32_t place;

    put = bag_repeats(pool, pointer);
    if (!put && (put = pool_place(pool, &place, nested)))
        pool_store(pool, place, bag_check_in(pool, pointer));
    context_leave();
    /* Also if the bag is full: a waiting thread may take what is in it. */
    if (pool_waiting(pool) > 0)
        pool_wake(pool, 1);
    return put;
}

static void *bag_wait(struct stook_pool *pool)
{
    uint64_t process = pool_announce(pool);
    void *pointer;
    uint32_t turn;

    do {
        turn = atomic_load(&pool->turn);
        pointer = pool_take_outside(pool, 0);
        if (!pointer) {
            raw_wait(&pool->turn, turn, pool_nap);
            pointer = pool_take_outside(pool, 0);
        }
        /* This thread was woken, but another thread was faster. */
    } while (!pointer && atomic_load(&pool->turn) != turn);
    pool_withdraw(pool, process);
    return pointer;
}

void *stook_pool_take(struct stook_pool *pool, unsigned flags)
{
    int saved = errno;
    void *pointer = pool_take_outside(pool, 0);

    if (!pointer && flags == STOOK_WAIT)
        pointer = bag_wait(pool);
    if (pointer)
        bag_check_out(pool, pointer, where_address(__builtin_return_address(0)));
    errno = pointer ? saved : ENOMEM;
    return pointer;
}
