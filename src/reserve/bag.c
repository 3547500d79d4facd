/* SPDX-License-Identifier: MIT */
/*
 * bag.c - the reserve of mempool_t in stook/kmem.h: a pool without a cache, whose pointers were made by
 * functions of the caller.  How pointers are put, taken and waited for: pool.h.
 */
#include "reserve/pool.h"

#include "base/init.h"
#include "os/os.h"

#include <stook/kmem_private.h>

#include <errno.h>

_Static_assert(STOOK_KMEM_BAG_MAX == STOOK_POOL_OBJECTS_MAX, "what pool_set_min() accepts");

/* struct stook_kmem_bag is a struct stook_pool. */
static struct stook_pool *bag_pool(const struct stook_kmem_bag *bag)
{
    return (struct stook_pool *)(uintptr_t)bag;
}

struct stook_kmem_bag *stook_kmem_bag_create(unsigned limit)
{
    if (!init_once()) {
        errno = ENOMEM;
        return NULL;
    }
    return (struct stook_kmem_bag *)(void *)pool_make(NULL, limit);
}

void stook_kmem_bag_destroy(struct stook_kmem_bag *bag)
{
    if (bag)
        pool_unmake(bag_pool(bag));
}

int stook_kmem_bag_put(struct stook_kmem_bag *bag, void *pointer)
{
    bool put = pool_put_outside(bag_pool(bag), pointer);

    /* Also if the bag is full: a waiting thread may take what is in it. */
    if (pool_waiting(bag_pool(bag)) > 0)
        pool_wake(bag_pool(bag), 1);
    return put;
}

void *stook_kmem_bag_take(struct stook_kmem_bag *bag)
{
    return pool_take_outside(bag_pool(bag), 0);
}

void *stook_kmem_bag_spill(struct stook_kmem_bag *bag)
{
    return pool_take_outside(bag_pool(bag), stook_kmem_bag_limit(bag));
}

void *stook_kmem_bag_wait(struct stook_kmem_bag *bag)
{
    struct stook_pool *pool = bag_pool(bag);
    uint64_t process = pool_announce(pool);
    int saved = errno;
    void *pointer;
    uint32_t turn;

    do {
        turn = atomic_load(&pool->turn);
        pointer = pool_take_outside(pool, 0);
        if (!pointer) {
            os_wait(&pool->turn, turn, pool_nap);
            pointer = pool_take_outside(pool, 0);
        }
        /* This thread was woken, but another thread was faster. */
    } while (!pointer && atomic_load(&pool->turn) != turn);
    pool_withdraw(pool, process);
    errno = saved;
    return pointer;
}

int stook_kmem_bag_resize(struct stook_kmem_bag *bag, unsigned limit)
{
    return pool_set_min(bag_pool(bag), limit);
}

unsigned stook_kmem_bag_count(const struct stook_kmem_bag *bag)
{
    return stook_pool_available(bag_pool(bag));
}

unsigned stook_kmem_bag_limit(const struct stook_kmem_bag *bag)
{
    return atomic_load(&bag_pool(bag)->min);
}
