/* SPDX-License-Identifier: MIT */
/* kmem_pool.h - stook/kmem.h's memory pools: a reserve of elements over any pair of functions. */
#ifndef STOOK_KMEM_POOL_H
#define STOOK_KMEM_POOL_H

#include <stook/kmem_cache.h>
#include <stook/kmem_kmalloc.h>
#ifndef STOOK_KMEM_NO_PAGES
#include <stook/kmem_page.h>
#endif

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

STOOK_C_BEGIN

typedef void *(mempool_alloc_t)(gfp_t gfp, void *pool_data);
typedef void(mempool_free_t)(void *element, void *pool_data);

/* A reserve of min_nr elements over any pair of functions.  The first four are for reading. */
typedef struct mempool {
    int min_nr;
    void *pool_data;
    mempool_alloc_t *alloc;
    mempool_free_t *free;
    struct stook_pool *bag;
} mempool_t;

static inline bool mempool_initialized(const mempool_t *pool)
{
    return pool->bag != NULL;
}

/* Whether the reserve is full. */
static inline bool mempool_is_saturated(const mempool_t *pool)
{
    return stook_pool_available(pool->bag) >=
           (unsigned)__atomic_load_n(&pool->min_nr, __ATOMIC_RELAXED);
}

/* What it keeps goes back.  A pool of zeros, or one that has ended already, is fine. */
static inline void mempool_exit(mempool_t *pool)
{
    int saved = errno;
    void *element;

    if (!pool->bag)
        return;
    while ((element = stook_pool_take(pool->bag, STOOK_NORECLAIM)) != NULL)
        pool->free(element, pool->pool_data);
    errno = saved;
    (void)stook_pool_destroy(pool->bag);
    pool->bag = NULL;
}

/* Elements into the reserve until it is full; false without memory. */
static inline bool kmem_mempool_fill(mempool_t *pool, gfp_t gfp)
{
    while (!mempool_is_saturated(pool)) {
        void *element = pool->alloc(gfp, pool->pool_data);
        if (!element)
            return false;
        if (!stook_pool_put(pool->bag, element)) {
            pool->free(element, pool->pool_data);
            break;
        }
    }
    return true;
}

/* Elements of a cache without constructor (pool_data), or of kmalloc() (pool_data is their size). */
static inline STOOK_WARN_UNUSED void *mempool_alloc_slab(gfp_t gfp, void *pool_data)
{
    return kmem_cache_alloc((struct kmem_cache *)pool_data, gfp);
}

static inline void mempool_free_slab(void *element, void *pool_data)
{
    kmem_cache_free((struct kmem_cache *)pool_data, element);
}

static inline STOOK_WARN_UNUSED void *mempool_kmalloc(gfp_t gfp, void *pool_data)
{
    return kmalloc((size_t)(uintptr_t)pool_data, gfp);
}

static inline void mempool_kfree(void *element, void *pool_data)
{
    (void)pool_data;
    kfree(element);
}

/* Elements of 2^order pages; pool_data is the order. */
#ifndef STOOK_KMEM_NO_PAGES
static inline STOOK_WARN_UNUSED void *mempool_alloc_pages(gfp_t gfp, void *pool_data)
{
    return alloc_pages(gfp, (unsigned)(uintptr_t)pool_data);
}

static inline void mempool_free_pages(void *element, void *pool_data)
{
    __free_pages((struct page *)element, (unsigned)(uintptr_t)pool_data);
}
#endif

/* The library knows the elements of these functions alone: those of others may have a state that is to last. */
static inline struct stook_pool *kmem_mempool_bag(const mempool_t *pool)
{
    unsigned limit = (unsigned)pool->min_nr;

#ifndef STOOK_KMEM_NO_PAGES
    if (pool->alloc == mempool_alloc_pages && pool->free == mempool_free_pages &&
        (uintptr_t)pool->pool_data <= KMEM_PAGE_ORDER_MAX)
        return stook_pool_create_of(
            NULL, (size_t)1 << (KMEM_PAGE_SHIFT + (uintptr_t)pool->pool_data), limit);
#endif

    if (pool->alloc == mempool_alloc_slab && pool->free == mempool_free_slab)
        return stook_pool_create_of(kmem_stook_cache((struct kmem_cache *)pool->pool_data), 0,
                                    limit);
    if (pool->alloc == mempool_kmalloc && pool->free == mempool_kfree)
        return stook_pool_create_of(NULL, (size_t)(uintptr_t)pool->pool_data, limit);
    return stook_pool_create_of(NULL, 0, limit);
}

/* 0, -ENOMEM or -EINVAL; nothing is kept then.  The reserve is filled with gfp; the node is that of no element. */
static inline int mempool_init_node(mempool_t *pool, int min_nr, mempool_alloc_t *alloc_fn,
                                    mempool_free_t *free_fn, void *pool_data, gfp_t gfp, int node)
{
    (void)node;
    if (min_nr < 0)
        return -EINVAL;
    pool->min_nr = min_nr;
    pool->pool_data = pool_data;
    pool->alloc = alloc_fn;
    pool->free = free_fn;
    pool->bag = kmem_mempool_bag(pool);
    if (pool->bag && kmem_mempool_fill(pool, gfp))
        return 0;
    mempool_exit(pool);
    return -ENOMEM;
}

static inline int mempool_init(mempool_t *pool, int min_nr, mempool_alloc_t *alloc_fn,
                               mempool_free_t *free_fn, void *pool_data)
{
    return mempool_init_node(pool, min_nr, alloc_fn, free_fn, pool_data, GFP_KERNEL, NUMA_NO_NODE);
}

static inline STOOK_WARN_UNUSED mempool_t *mempool_create_node(int min_nr,
                                                               mempool_alloc_t *alloc_fn,
                                                               mempool_free_t *free_fn,
                                                               void *pool_data, gfp_t gfp, int node)
{
    mempool_t *pool = (mempool_t *)kzalloc_node(sizeof(*pool), gfp, node);

    if (!pool || mempool_init_node(pool, min_nr, alloc_fn, free_fn, pool_data, gfp, node) == 0)
        return pool;
    kfree(pool);
    return NULL;
}

static inline STOOK_WARN_UNUSED mempool_t *mempool_create(int min_nr, mempool_alloc_t *alloc_fn,
                                                          mempool_free_t *free_fn, void *pool_data)
{
    return mempool_create_node(min_nr, alloc_fn, free_fn, pool_data, GFP_KERNEL, NUMA_NO_NODE);
}

static inline void mempool_destroy(mempool_t *pool)
{
    if (!pool)
        return;
    mempool_exit(pool);
    kfree(pool);
}

/* The first try of the pool's function does not wait: the reserve comes before that. */
static inline gfp_t kmem_mempool_first(gfp_t gfp)
{
    return (gfp & ~(__GFP_DIRECT_RECLAIM | __GFP_IO | __GFP_NOFAIL)) | KMEM_GFP_MODEST;
}

/*
 * Allocates an element: first from the pool's function without waiting, then from the reserve.  With
 * __GFP_DIRECT_RECLAIM it then calls the function with all of gfp, and waits for a freed element, until one
 * of both succeeds: so it never fails.  __GFP_ZERO fails with EINVAL, since the reserve's elements are not
 * zeros.
 */
static inline STOOK_WARN_UNUSED void *mempool_alloc(mempool_t *pool, gfp_t gfp)
{
    gfp_t first = kmem_mempool_first(gfp);
    int saved = errno;
    void *element;

    if (gfp & __GFP_ZERO) {
        errno = EINVAL;
        return NULL;
    }
    element = pool->alloc(first, pool->pool_data);
    if (!element)
        element = stook_pool_take(pool->bag, STOOK_NORECLAIM);
    gfp &= ~__GFP_NOFAIL; /* it waits for the reserve, not only for memory */
    while (!element && (gfp & __GFP_DIRECT_RECLAIM)) {
        element = pool->alloc(gfp, pool->pool_data);
        if (!element)
            element = stook_pool_take(pool->bag, STOOK_WAIT);
    }
    errno = element ? saved : ENOMEM;
    return element;
}

/* From the reserve alone, or NULL. */
static inline STOOK_WARN_UNUSED void *mempool_alloc_preallocated(mempool_t *pool)
{
    return stook_pool_take(pool->bag, STOOK_NORECLAIM);
}

/*
 * Takes `n` elements of the reserve, or none, and returns how many.  A call that kept a part while it waits for the
 * rest could keep the elements that another call waits for.  Elements that cannot go back, because other threads filled
 * the reserve meanwhile, stay with the caller.
 */
static inline unsigned kmem_mempool_take(mempool_t *pool, void **elements, unsigned n)
{
    unsigned got = 0, kept = 0;

    while (got < n && (elements[got] = stook_pool_take(pool->bag, STOOK_NORECLAIM)) != NULL)
        got++;
    if (got == n)
        return n;
    for (unsigned i = 0; i < got; i++)
        if (!stook_pool_put(pool->bag,
                            elements[i])) /* full meanwhile: no thread waits for this one */
            elements[kept++] = elements[i];
    return kept;
}

/*
 * Allocates `n` elements, as mempool_alloc() with GFP_KERNEL does: it never fails, and returns 0.  Elements
 * that the pool's function does not give come from the reserve, if it holds all of them.  Otherwise the call waits, so
 * that several callers never block each other.  n is at most min_nr; with more it may wait for memory alone.
 */
static inline int mempool_alloc_bulk(mempool_t *pool, void **elements, unsigned n)
{
    gfp_t gfp = kmem_mempool_first(GFP_KERNEL);
    unsigned got = 0, naps = 0;
    int saved = errno;

    for (;;) {
        void *element;
        while (got < n && (elements[got] = pool->alloc(gfp, pool->pool_data)) != NULL)
            got++;
        if (got < n)
            got += kmem_mempool_take(pool, elements + got, n - got);
        if (got == n)
            break;
        if (gfp == GFP_KERNEL && (element = stook_pool_take(pool->bag, STOOK_WAIT)) != NULL) {
            unsigned before = got;
            elements[got] = element;
            got += 1 + kmem_mempool_take(pool, elements + got + 1, n - got - 1);
            if (got == n)
                break;
            if (got == before + 1 && stook_pool_put(pool->bag, element)) {
                got = before;
                kmem_stook_nap(++naps); /* there are some, but too few */
            }
        }
        gfp = GFP_KERNEL;
    }
    errno = saved;
    return 0;
}

/* From the pool's function alone, or NULL. */
#define mempool_alloc_noreserve(pool, gfp) ((pool)->alloc((gfp), (pool)->pool_data))

/*
 * Puts elements into the reserve, from the first on, while that is not full, and returns how many.  The caller frees
 * the others by itself.
 */
static inline unsigned mempool_free_bulk(mempool_t *pool, void **elements, unsigned n)
{
    unsigned put = 0;

    while (put < n && (!elements[put] || stook_pool_put(pool->bag, elements[put])))
        put++;
    return put;
}

/* To the reserve while that is not full; wakes one who waits.  NULL is accepted. */
static inline void mempool_free(void *element, mempool_t *pool)
{
    if (element && !stook_pool_put(pool->bag, element))
        pool->free(element, pool->pool_data);
}

/* Beside any other call.  0, -ENOMEM or -EINVAL; what cannot be filled now is by frees. */
static inline int mempool_resize(mempool_t *pool, int min_nr)
{
    int saved = errno;
    void *element;

    if (min_nr < 0)
        return -EINVAL;
    if (stook_pool_resize(pool->bag, (unsigned)min_nr) != 0)
        return -ENOMEM;
    __atomic_store_n(&pool->min_nr, min_nr, __ATOMIC_RELAXED);
    while (stook_pool_available(pool->bag) > (unsigned)min_nr &&
           (element = stook_pool_take(pool->bag, STOOK_NORECLAIM)) != NULL)
        mempool_free(element,
                     pool); /* back into the reserve if other threads took some meanwhile */
    errno = saved;
    (void)kmem_mempool_fill(pool, GFP_KERNEL);
    return 0;
}

static inline STOOK_WARN_UNUSED mempool_t *mempool_create_slab_pool(int min_nr,
                                                                    struct kmem_cache *cache)
{
    return mempool_create(min_nr, mempool_alloc_slab, mempool_free_slab, cache);
}

static inline int mempool_init_slab_pool(mempool_t *pool, int min_nr, struct kmem_cache *cache)
{
    return mempool_init(pool, min_nr, mempool_alloc_slab, mempool_free_slab, cache);
}

static inline STOOK_WARN_UNUSED mempool_t *mempool_create_kmalloc_pool(int min_nr, size_t size)
{
    return mempool_create(min_nr, mempool_kmalloc, mempool_kfree, (void *)(uintptr_t)size);
}

static inline int mempool_init_kmalloc_pool(mempool_t *pool, int min_nr, size_t size)
{
    return mempool_init(pool, min_nr, mempool_kmalloc, mempool_kfree, (void *)(uintptr_t)size);
}

#ifndef STOOK_KMEM_NO_PAGES
static inline STOOK_WARN_UNUSED mempool_t *mempool_create_page_pool(int min_nr, int order)
{
    return mempool_create(min_nr, mempool_alloc_pages, mempool_free_pages, (void *)(intptr_t)order);
}

static inline int mempool_init_page_pool(mempool_t *pool, int min_nr, int order)
{
    return mempool_init(pool, min_nr, mempool_alloc_pages, mempool_free_pages,
                        (void *)(intptr_t)order);
}
#endif

#define mempool_init_noprof mempool_init
#define mempool_create_node_noprof mempool_create_node
#define mempool_alloc_noprof mempool_alloc
#define mempool_alloc_bulk_noprof mempool_alloc_bulk

STOOK_C_END

#endif /* STOOK_KMEM_POOL_H */
