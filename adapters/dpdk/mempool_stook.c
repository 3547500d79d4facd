/* SPDX-License-Identifier: MIT */
/*
 * mempool_stook.c - a mempool driver for DPDK, "stook": the free elements of a mempool wait in the per-CPU sheaves,
 * barns and slabs of a Stook cache.
 *
 * DPDK owns the memory of elements: it is populated once, and devices know its IO addresses.  Stook cannot put
 * objects of its own there.  So each element has a token, an object of 8 bytes in a typed cache, which holds the
 * element's address.  The token is free in Stook exactly while the element is free in the mempool:
 *
 *   dequeue   allocates n tokens in bulk and reads the elements from them
 *   enqueue   finds the elements' tokens in a table by address, and frees them in bulk
 *
 * The cache's constructor gives a token its element, so a free token keeps it (Stook leaves constructed objects
 * alone).  Elements that have no token lie on a stack, `spare`: all of them at first, and those of slabs that Stook
 * gave back, by the destructor.  A slab may have more tokens than there are spare elements: the rest are blank.
 * Dequeue puts blank tokens aside, allocated, on a list that runs through their own words.
 *
 * Invariant: each element is in use, or in a free token, or spare.  It is in `spare` or has a token, never both.
 *
 * A mempool has a fixed number of elements, and other CPUs' sheaves may hold the last ones.  If a dequeue finds
 * only blank tokens while the counts say that enough elements are free, it flushes all sheaves
 * (stook_cache_shrink()) and tries again.
 *
 * The tokens are the process's own memory: secondary processes cannot use such a mempool.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mempool.h>
#include <rte_spinlock.h>

#include <stook/stook.h>

#define BATCH 64u /* tokens that one call of Stook moves */
#define LATE (2 * STOOK_SHEAF_CAPACITY_MAX)
#define CAPACITY_MIN 8u
#define CAPACITY_MAX 512u

struct token {
    union {
        void *element;      /* NULL: blank */
        struct token *next; /* while it is aside */
    };
};

/* A stretch of memory that DPDK populated: tokens by (address - start) >> shift. */
struct chunk {
    struct chunk *next;
    uintptr_t start, length;
    struct token *tokens[];
};

/* Elements taken less elements put by one lcore, which alone writes it; the last entry is for all other threads. */
struct count {
    int64_t taken;
} __rte_cache_aligned;

struct pool {
    struct stook_cache *cache;
    struct chunk *chunks; /* the newest first; fixed once the mempool is populated */
    unsigned shift;       /* 1 << shift is no more than the distance of two elements */
    rte_spinlock_t lock;  /* of all below */
    struct token *aside;
    unsigned spares, elements;
    unsigned blanks; /* blank tokens made so far */
    void **spare;
    struct count counts[RTE_MAX_LCORE + 1];
};

/* False in a secondary process, where pool_data points into another process. */
static bool ours;

static struct token **token_of(const struct pool *pool, const void *element)
{
    struct chunk *chunk = pool->chunks;

    while ((uintptr_t)element - chunk->start >= chunk->length)
        chunk = chunk->next;
    return &chunk->tokens[((uintptr_t)element - chunk->start) >> pool->shift];
}

/* Stook runs both outside of its locks, and `lock` is never held around a call of Stook. */
static void token_construct(void *object, void *arg)
{
    struct token *token = object;
    struct pool *pool = arg;

    rte_spinlock_lock(&pool->lock);
    token->element = pool->spares ? pool->spare[--pool->spares] : NULL;
    if (token->element)
        *token_of(pool, token->element) = token;
    else
        __atomic_store_n(&pool->blanks, pool->blanks + 1, __ATOMIC_RELAXED);
    rte_spinlock_unlock(&pool->lock);
}

static void token_destruct(void *object, void *arg)
{
    struct token *token = object;
    struct pool *pool = arg;

    if (!token->element)
        return;
    rte_spinlock_lock(&pool->lock);
    *token_of(pool, token->element) = NULL;
    pool->spare[pool->spares++] = token->element;
    rte_spinlock_unlock(&pool->lock);
}

static void pool_count(struct pool *pool, int64_t taken)
{
    unsigned lcore = rte_lcore_id();

    if (likely(lcore < RTE_MAX_LCORE))
        __atomic_store_n(&pool->counts[lcore].taken, pool->counts[lcore].taken + taken,
                         __ATOMIC_RELAXED);
    else
        __atomic_fetch_add(&pool->counts[RTE_MAX_LCORE].taken, taken, __ATOMIC_RELAXED);
}

/* Elements that are free; off by those that move meanwhile. */
static unsigned pool_free_elements(const struct pool *pool)
{
    int64_t left = pool->elements;

    for (unsigned i = 0; i <= RTE_MAX_LCORE; i++)
        left -= __atomic_load_n(&pool->counts[i].taken, __ATOMIC_RELAXED);
    return left < 0 ? 0 : left > pool->elements ? pool->elements : (unsigned)left;
}

static void pool_put_aside(struct pool *pool, struct token *token)
{
    rte_spinlock_lock(&pool->lock);
    token->next = pool->aside;
    pool->aside = token;
    rte_spinlock_unlock(&pool->lock);
}

/* Frees the blank tokens that are aside, and flushes: free tokens of all CPUs return to slabs, full slabs of them to Stook. */
static void pool_flush(struct pool *pool)
{
    struct token *token, *next;

    rte_spinlock_lock(&pool->lock);
    token = pool->aside;
    pool->aside = NULL;
    rte_spinlock_unlock(&pool->lock);
    for (; token; token = next) {
        next = token->next;
        token->element = NULL;
        stook_free(pool->cache, token);
    }
    (void)stook_cache_shrink(pool->cache);
}

/* What the loop needs of the pool and of its newest chunk, most often the only one, stays in registers. */
static void pool_put(struct pool *pool, void *const *elements, unsigned n)
{
    const struct chunk *newest = pool->chunks;
    const uintptr_t start = newest->start, length = newest->length;
    const unsigned shift = pool->shift;
    void *tokens[BATCH];

    while (n) {
        unsigned part = n < BATCH ? n : BATCH;

        for (unsigned i = 0; i < part; i++) {
            uintptr_t offset = (uintptr_t)elements[i] - start;

            tokens[i] = likely(offset < length) ? newest->tokens[offset >> shift]
                                                : *token_of(pool, elements[i]);
        }
        stook_free_bulk(pool->cache, part, tokens);
        elements += part;
        n -= part;
    }
}

/*
 * Takes tokens one by one and puts blank ones aside.  Once Stook makes a slab of blank ones, its partial slabs are
 * used up: elements are left in this CPU's sheaf at most, LATE tokens deep.
 */
static unsigned pool_scrape(struct pool *pool, void **elements, unsigned n)
{
    unsigned blanks = __atomic_load_n(&pool->blanks, __ATOMIC_RELAXED);

    for (unsigned got = 0, late = 0;;) {
        struct token *token;

        if (got == n || late == LATE)
            return got;
        token = stook_alloc(pool->cache, STOOK_NORECLAIM);
        if (!token)
            return got;
        if (token->element)
            elements[got++] = token->element;
        else
            pool_put_aside(pool, token);
        late += __atomic_load_n(&pool->blanks, __ATOMIC_RELAXED) != blanks;
    }
}

/* The rest of a dequeue that met a blank token; `got` elements are there already.  All or nothing. */
static int __attribute__((noinline, cold))
pool_take_slow(struct pool *pool, void **elements, unsigned got, unsigned n)
{
    for (unsigned tries = 0; got < n; tries++) {
        if (pool_free_elements(pool) < n || tries == 3) {
            pool_put(pool, elements, got);
            return -ENOBUFS;
        }
        if (tries)
            pool_flush(pool);
        got += pool_scrape(pool, elements + got, n - got);
    }
    return 0;
}

static int pool_take(struct pool *pool, void **elements, unsigned n)
{
    void *tokens[BATCH];
    bool blank = false;

    for (unsigned done = 0; done < n;) {
        unsigned part = n - done < BATCH ? n - done : BATCH;

        if (unlikely(stook_alloc_bulk(pool->cache, STOOK_NORECLAIM, part, tokens)))
            return pool_take_slow(pool, elements, done, n);
        for (unsigned i = 0; i < part; i++) {
            elements[done + i] = ((struct token *)tokens[i])->element;
            blank |= !elements[done + i];
        }
        if (unlikely(blank)) {
            for (unsigned i = 0; i < part; i++) {
                struct token *token = tokens[i];

                if (token->element)
                    elements[done++] = token->element;
                else
                    pool_put_aside(pool, token);
            }
            return pool_take_slow(pool, elements, done, n);
        }
        done += part;
    }
    return 0;
}

/* ---- DPDK's operations --------------------------------------------------------------------------- */

static int stook_mempool_alloc(struct rte_mempool *mp)
{
    struct pool *pool =
        rte_zmalloc_socket("stook", sizeof(*pool), RTE_CACHE_LINE_SIZE, mp->socket_id);
    struct stook_cache_args args = {
        .size = sizeof(args), .ctor = token_construct, .dtor = token_destruct, .arg = pool};
    size_t distance = (size_t)mp->header_size + mp->elt_size + mp->trailer_size;
    char name[RTE_MEMPOOL_NAMESIZE + 8];

    if (!pool)
        return -ENOMEM;
    pool->spare = rte_malloc_socket("stook", (mp->size + 1) * sizeof(void *), 0, mp->socket_id);
    /* A CPU's two sheaves strand half of its share of the elements at most, before a dequeue must flush. */
    args.sheaf_capacity =
        RTE_MIN(RTE_MAX(mp->size / (4 * rte_lcore_count()), CAPACITY_MIN), CAPACITY_MAX);
    pool->shift = 63 - (unsigned)__builtin_clzll(distance);
    rte_spinlock_init(&pool->lock);
    snprintf(name, sizeof(name), "mempool.%s", mp->name);
    if (pool->spare)
        pool->cache = stook_cache_create(name, sizeof(struct token), &args);
    if (!pool->cache) {
        rte_free(pool->spare);
        rte_free(pool);
        return -ENOMEM;
    }
    ours = true;
    mp->pool_data = pool;
    return 0;
}

/*
 * DPDK has dequeued all elements that were left, and elements in use are given up with the mempool: so all tokens
 * are allocated.  If a dequeue failed, the pool stays: a second free of its tokens would be worse.
 */
static void stook_mempool_free(struct rte_mempool *mp)
{
    struct pool *pool = mp->pool_data;
    struct chunk *chunk;

    if (!ours)
        return;
    if (pool_free_elements(pool)) {
        RTE_LOG(ERR, MEMPOOL,
                "mempool %s: %u elements were not dequeued; its tokens are not freed\n", mp->name,
                pool_free_elements(pool));
        return;
    }
    for (chunk = pool->chunks; chunk; chunk = chunk->next) {
        for (size_t i = 0; i <= chunk->length >> pool->shift; i++) {
            if (!chunk->tokens[i])
                continue;
            chunk->tokens[i]->element = NULL;
            stook_free(pool->cache, chunk->tokens[i]);
        }
    }
    pool_flush(pool);
    if (stook_cache_destroy(pool->cache))
        return; /* Stook has said why */
    while ((chunk = pool->chunks)) {
        pool->chunks = chunk->next;
        rte_free(chunk);
    }
    rte_free(pool->spare);
    rte_free(pool);
}

/* Only DPDK's populating code puts an element that has no token: it becomes a spare one. */
static int stook_mempool_enqueue(struct rte_mempool *mp, void *const *elements, unsigned n)
{
    struct pool *pool = mp->pool_data;

    if (unlikely(!ours))
        return -ENOTSUP;
    if (unlikely(mp->populated_size > pool->elements)) {
        rte_spinlock_lock(&pool->lock);
        for (unsigned i = 0; i < n; i++)
            pool->spare[pool->spares++] = elements[i];
        pool->elements += n;
        rte_spinlock_unlock(&pool->lock);
        return 0;
    }
    pool_put(pool, elements, n);
    pool_count(pool, -(int64_t)n);
    return 0;
}

static int stook_mempool_dequeue(struct rte_mempool *mp, void **elements, unsigned n)
{
    struct pool *pool = mp->pool_data;
    int result;

    if (unlikely(!ours))
        return -ENOTSUP;
    result = pool_take(pool, elements, n);
    if (likely(!result))
        pool_count(pool, n);
    return result;
}

static unsigned stook_mempool_get_count(const struct rte_mempool *mp)
{
    return ours ? pool_free_elements(mp->pool_data) : 0;
}

static int stook_mempool_populate(struct rte_mempool *mp, unsigned int max, void *address,
                                  rte_iova_t iova, size_t length,
                                  rte_mempool_populate_obj_cb_t *add, void *arg)
{
    struct pool *pool = mp->pool_data;
    size_t entries = (length >> pool->shift) + 1;
    struct chunk *chunk = rte_zmalloc_socket(
        "stook", sizeof(*chunk) + entries * sizeof(chunk->tokens[0]), 0, mp->socket_id);

    if (!chunk)
        return -ENOMEM;
    chunk->start = (uintptr_t)address;
    chunk->length = length;
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    return rte_mempool_op_populate_default(mp, max, address, iova, length, add, arg);
}

static const struct rte_mempool_ops stook_mempool_ops = {
    .name = "stook",
    .alloc = stook_mempool_alloc,
    .free = stook_mempool_free,
    .enqueue = stook_mempool_enqueue,
    .dequeue = stook_mempool_dequeue,
    .get_count = stook_mempool_get_count,
    .populate = stook_mempool_populate,
};

RTE_MEMPOOL_REGISTER_OPS(stook_mempool_ops);
