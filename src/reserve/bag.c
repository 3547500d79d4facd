/* SPDX-License-Identifier: MIT */
/*
 * bag.c - the reserve of mempool_t in stook/kmem.h: a pool whose pointers were made by functions of the caller.  How
 * pointers are put, taken and waited for: pool.h.
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

#include <stook/kmem_private.h>

#include <errno.h>

_Static_assert(STOOK_KMEM_BAG_MAX == STOOK_POOL_OBJECTS_MAX, "what pool_set_min() accepts");

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
        stook_private_bad_pointer("mempool_free", element);
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
        .what = DEBUG_NO_OBJECT, .done = DEBUG_REFUSED, .call = "mempool_free", .at = element});
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

static void *bag_take(struct stook_pool *pool, uint32_t keep, const void *from)
{
    void *element = pool_take_outside(pool, keep);

    if (element)
        bag_check_out(pool, element, where_address(from));
    return element;
}

struct stook_pool *stook_kmem_bag_create_of(unsigned limit, struct stook_cache *cache, size_t size)
{
    struct stook_pool *pool;

    if (!init_once()) {
        errno = ENOMEM;
        return NULL;
    }
    pool = pool_make(cache, limit);
    if (pool)
        pool->asked = size;
    return pool;
}

void stook_kmem_bag_destroy(struct stook_pool *pool)
{
    if (pool)
        pool_unmake(pool);
}

int stook_kmem_bag_put(struct stook_pool *pool, void *pointer)
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

void *stook_kmem_bag_take(struct stook_pool *pool)
{
    return bag_take(pool, 0, __builtin_return_address(0));
}

void *stook_kmem_bag_spill(struct stook_pool *pool)
{
    return bag_take(pool, atomic_load(&pool->min), __builtin_return_address(0));
}

void *stook_kmem_bag_wait(struct stook_pool *pool)
{
    uint64_t process = pool_announce(pool);
    int saved = errno;
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
    if (pointer)
        bag_check_out(pool, pointer, where_address(__builtin_return_address(0)));
    errno = saved;
    return pointer;
}

int stook_kmem_bag_resize(struct stook_pool *pool, unsigned limit)
{
    return pool_set_min(pool, limit);
}
