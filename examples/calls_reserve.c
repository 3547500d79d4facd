/* SPDX-License-Identifier: MIT */
/* The calls of reserve.h: objects set aside for what must not fail, and memory that the program can do without. */
#include <time.h>

#include <stook/reserve.h>
#include <stook/stook.h>

struct node {
    long key, value;
};

static struct node *spare; /* a node that the program keeps, and could do without */

static size_t give_back(size_t wanted, void *arg)
{
    struct stook_cache *cache = arg;
    size_t bytes = spare && wanted > 0 ? sizeof(*spare) : 0;

    stook_free(cache, spare);
    spare = NULL;
    return bytes; /* how much less the program has now */
}

/* An operation that needs up to seven nodes, and cannot fail once it has begun. */
static int prefilled(struct stook_cache *cache)
{
    struct stook_sheaf *sheaf = stook_sheaf_prefill(cache, STOOK_WAIT, 7);
    struct node *node;

    if (!sheaf || stook_sheaf_size(sheaf) < 7)
        return -1;
    node = stook_sheaf_alloc(cache, 0, sheaf); /* not NULL, seven times */
    stook_free(cache, node);
    if (stook_sheaf_refill(cache, STOOK_WAIT, &sheaf, 7) != 0)
        return -1;
    stook_sheaf_return(cache, sheaf);
    return 0;
}

/* A thread that holds one node can always finish: the reserve is there for the next one. */
static int pool_of_a_cache(struct stook_cache *cache)
{
    struct stook_pool *pool = stook_pool_create(cache, 4);
    struct timespec until;
    struct node *node;

    if (!pool || stook_pool_available(pool) != 4 || stook_pool_resize(pool, 8) != 0)
        return -1;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    node = stook_pool_alloc(pool, STOOK_WAIT, &until); /* NULL and ETIMEDOUT after a second */
    if (!node)
        return -1;
    stook_pool_free(pool, node);
    return stook_pool_destroy(pool);
}

/* A pool of what the program makes itself. */
static int pool_of_anything(void)
{
    static long things[2];
    struct stook_pool *pool = stook_pool_create_of(NULL, 0, 2);

    if (!pool || stook_pool_put(pool, &things[0]) != 1 || stook_pool_put(pool, &things[1]) != 1)
        return -1;
    if (!stook_pool_take(pool, 0) || !stook_pool_take(pool, 0))
        return -1;
    return stook_pool_destroy(pool);
}

int main(void)
{
    struct stook_cache *cache = stook_cache_create("node", sizeof(struct node), NULL);

    if (!cache || stook_reclaim_register(give_back, cache) != 0)
        return 1;
    spare =
        stook_alloc(cache, STOOK_WAIT); /* without memory give_back() runs, then it tries again */
    if (!spare || prefilled(cache) != 0 || pool_of_a_cache(cache) != 0 || pool_of_anything() != 0)
        return 1;
    if (stook_reclaim_unregister(give_back, cache) != 0)
        return 1;
    stook_free(cache, spare);
    return stook_cache_destroy(cache);
}
