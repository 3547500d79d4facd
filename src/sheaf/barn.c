/* SPDX-License-Identifier: MIT */
#include "sheaf/barn.h"

#include "base/report.h"
#include "slab/stat.h"

enum {
    BARN_REFUSALS = 4,    /* full sheaves refused in a row, or as many as the limit, halve it */
    BARN_MORE = 8,        /* a limit grows to this many times the cache's … */
    BARN_BYTES = 1 << 20, /* … and to no more bytes than this */
    BARN_EMPTY_MORE = 2,  /* empty sheaves kept beyond the limit of full ones */
};

static struct barn *barn_of(struct stook_cache *cache, unsigned node)
{
    return &cache->nodes[node].barn;
}

static bool barn_lock(struct stook_cache *cache, unsigned node, bool nospin)
{
    if (!lock_enter(&barn_of(cache, node)->lock, LOCK_BARN, nospin)) {
        stat_add(cache, STAT_lock_busy, 1);
        return false;
    }
    stat_add_lock(cache, STAT_barn_lock_own, node);
    return true;
}

/* The counts are looked at without the lock: relaxed atomics. */
static void barn_set_count(uint32_t *count, uint32_t n)
{
    __atomic_store_n(count, n, __ATOMIC_RELAXED);
}

static struct sheaf *barn_pop(struct sheaf **list, uint32_t *count)
{
    struct sheaf *sheaf = *list;

    if (sheaf) {
        *list = sheaf->next;
        sheaf->next = NULL;
        barn_set_count(count, *count - 1);
    }
    return sheaf;
}

static void barn_push(struct sheaf **list, uint32_t *count, struct sheaf *sheaf)
{
    sheaf->next = *list;
    *list = sheaf;
    barn_set_count(count, *count + 1);
}

static void barn_set_limit(struct barn *barn, uint32_t limit)
{
    /* Atomic for barn_declines(), which reads without the lock. */
    __atomic_store_n(&barn->full_limit, limit, __ATOMIC_RELAXED);
}

uint32_t barn_most(const struct stook_cache *cache)
{
    size_t sheaf = (size_t)cache->capacity * cache->layout.stride;
    size_t most = sheaf ? BARN_BYTES / sheaf : 0;

    if (most > (size_t)BARN_MORE * cache->barn_limit)
        most = (size_t)BARN_MORE * cache->barn_limit;
    return most > cache->barn_limit && !(cache->flags & CACHE_MALLOC) ? (uint32_t)most
                                                                      : cache->barn_limit;
}

void barn_init(struct barn *barn, unsigned full_limit)
{
    lock_init(&barn->lock);
    barn_set_limit(barn, full_limit);
}

struct sheaf *barn_get_full(struct stook_cache *cache, unsigned node, struct sheaf **empty,
                            bool nospin)
{
    struct barn *barn = barn_of(cache, node);
    struct sheaf *full;

    /* Nothing there and nothing to learn: a memoryless node's CPUs ask here first each time. */
    if (__atomic_load_n(&barn->nr_full, __ATOMIC_RELAXED) == 0 &&
        __atomic_load_n(&barn->full_limit, __ATOMIC_RELAXED) >= cache->barn_limit &&
        __atomic_load_n(&barn->bounced, __ATOMIC_RELAXED) == 0) {
        stat_add(cache, STAT_barn_get_fail, 1);
        return NULL;
    }
    if (!barn_lock(cache, node, nospin))
        return NULL;
    full = barn_pop(&barn->full, &barn->nr_full);
    barn->refused = 0;
    if (full) {
        barn->get++;
        STOOK_ASSERT(full->size > 0);
        if (*empty) {
            barn_push(&barn->empty, &barn->nr_empty, *empty);
            *empty = NULL;
        }
    } else {
        barn->get_fail++;
        /* Missed after some were refused: what went to slabs would have been of use here. */
        if (barn->full_limit < (barn->bounced ? barn_most(cache) : cache->barn_limit))
            barn_set_limit(barn, barn->full_limit + 1);
        barn_set_count(&barn->bounced, 0);
    }
    lock_drop(&barn->lock, LOCK_BARN);
    stat_add(cache, full ? STAT_barn_get : STAT_barn_get_fail, 1);
    return full;
}

struct sheaf *barn_put_full(struct stook_cache *cache, unsigned node, struct sheaf *full,
                            struct sheaf **empty, bool nospin)
{
    struct barn *barn = barn_of(cache, node);
    struct sheaf *chain = NULL;

    STOOK_ASSERT(full->size > 0);
    if (empty)
        *empty = NULL;
    if (!barn_lock(cache, node, nospin)) {
        full->next = NULL;
        return full;
    }
    if (barn->nr_full < barn->full_limit) {
        barn_push(&barn->full, &barn->nr_full, full);
        barn->put++;
        if (empty)
            *empty = barn_pop(&barn->empty, &barn->nr_empty);
    } else {
        uint32_t n = 0;
        barn_push(&chain, &n, full);
        barn->put_fail++;
        barn_set_count(&barn->bounced, 1);
        if (++barn->refused >= BARN_REFUSALS && barn->refused >= barn->full_limit &&
            barn->full_limit > 0) {
            barn->refused = 0;
            barn_set_limit(barn, barn->full_limit / 2);
            while (barn->nr_full > barn->full_limit)
                barn_push(&chain, &n, barn_pop(&barn->full, &barn->nr_full));
        }
    }
    lock_drop(&barn->lock, LOCK_BARN);
    stat_add(cache, chain ? STAT_barn_put_fail : STAT_barn_put, 1);
    return chain;
}

struct sheaf *barn_get_empty(struct stook_cache *cache, unsigned node, bool nospin)
{
    struct barn *barn = barn_of(cache, node);
    struct sheaf *empty;

    if (__atomic_load_n(&barn->nr_empty, __ATOMIC_RELAXED) == 0 || !barn_lock(cache, node, nospin))
        return NULL;
    empty = barn_pop(&barn->empty, &barn->nr_empty);
    lock_drop(&barn->lock, LOCK_BARN);
    return empty;
}

struct sheaf *barn_make_empty(struct stook_cache *cache, unsigned node, bool nospin)
{
    struct sheaf *empty = barn_get_empty(cache, node, nospin);

    if (!empty) {
        empty = sheaf_alloc(cache->capacity, node, nospin);
        stat_add(cache, STAT_sheaf_alloc, empty != NULL);
    }
    return empty;
}

void barn_put_empty(struct stook_cache *cache, unsigned node, struct sheaf *empty, bool nospin)
{
    struct barn *barn = barn_of(cache, node);

    STOOK_ASSERT(empty->size == 0);
    if (empty->capacity == cache->capacity && !sheaf_is_over(empty) &&
        barn_lock(cache, node, nospin)) {
        if (barn->nr_empty < barn->full_limit + BARN_EMPTY_MORE) {
            barn_push(&barn->empty, &barn->nr_empty, empty);
            empty = NULL;
        }
        lock_drop(&barn->lock, LOCK_BARN);
    }
    if (empty) {
        stat_add(cache, STAT_sheaf_free, 1);
        sheaf_free(empty, nospin);
    }
}

struct sheaf *barn_flush(struct stook_cache *cache, unsigned node, struct sheaf *chain, bool keep,
                         bool nospin)
{
    struct sheaf *kept = NULL;

    while (chain) {
        struct sheaf *next = chain->next;
        chain->next = NULL;
        sheaf_flush(cache, chain, nospin);
        if (keep && !kept)
            kept = chain;
        else
            barn_put_empty(cache, node, chain, nospin);
        chain = next;
    }
    return kept;
}

void barn_return(struct stook_cache *cache, unsigned node, struct sheaf *sheaf, bool nospin)
{
    if (sheaf->size > 0)
        barn_flush(cache, node, barn_put_full(cache, node, sheaf, NULL, nospin), false, nospin);
    else
        barn_put_empty(cache, node, sheaf, nospin);
}

void *barn_take_object(struct stook_cache *cache, unsigned node, bool nospin)
{
    struct barn *barn = barn_of(cache, node);
    void *object = NULL;

    if (__atomic_load_n(&barn->nr_full, __ATOMIC_RELAXED) == 0 || !barn_lock(cache, node, nospin))
        return NULL;
    if (barn->full) {
        struct sheaf *sheaf = barn->full;
        object = sheaf->object[--sheaf->size];
        if (sheaf->size == 0) {
            barn_pop(&barn->full, &barn->nr_full);
            barn_push(&barn->empty, &barn->nr_empty, sheaf);
        }
    }
    lock_drop(&barn->lock, LOCK_BARN);
    return object;
}

void barn_drain(struct stook_cache *cache, unsigned node)
{
    struct barn *barn = barn_of(cache, node);
    struct sheaf *full, *empty;

    barn_lock(cache, node, false);
    full = barn->full;
    empty = barn->empty;
    barn->full = barn->empty = NULL;
    barn_set_count(&barn->nr_full, 0);
    barn_set_count(&barn->nr_empty, 0);
    lock_drop(&barn->lock, LOCK_BARN);
    while (full) {
        struct sheaf *next = full->next;
        sheaf_flush(cache, full, false);
        stat_add(cache, STAT_sheaf_free, 1);
        sheaf_free(full, false);
        full = next;
    }
    while (empty) {
        struct sheaf *next = empty->next;
        stat_add(cache, STAT_sheaf_free, 1);
        sheaf_free(empty, false);
        empty = next;
    }
}
