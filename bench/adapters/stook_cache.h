/* SPDX-License-Identifier: MIT */
/*
 * Stook's typed caches, through calls of the library or, with STOOK_CACHE_INLINE, through the
 * inlined fast path.
 */
#include <stook/group.h>
#include <stook/reserve.h>
#include <stook/rcu.h>
#include <stook/stat.h>
#include <stook/stook.h>
#ifdef STOOK_CACHE_INLINE
#include <stook/inline.h>
#endif

#include "stook_reserve.h"

#define ADAPTER_ACCOUNTS 1
#define ADAPTER_BULK 1
#define ADAPTER_OPENS_AS 1
#define ADAPTER_POOL 1

typedef struct stook_cache *adapter_t;

static inline adapter_t adapter_open(size_t object_size)
{
    struct stook_cache *cache = stook_cache_create("bench", object_size, NULL);
    if (!cache)
        case_die("stook_cache_create failed");
    return cache;
}

/* Called before the cache is made, so that the planner knows which columns the cache needs. */
static inline unsigned adapter_account(enum mode mode)
{
    static struct stook_group group;
    int charged = mode == MODE_GROUP || mode == MODE_BOTH;
    int tagged = mode == MODE_TAG || mode == MODE_BOTH;

    if (tagged && stook_tags_enable(NULL, 1))
        case_die("call sites cannot be counted");
    if (charged && !group.id) {
        group = stook_group_create("bench", STOOK_NO_GROUP, STOOK_UNLIMITED);
        if (!group.id)
            case_die("a group cannot be made");
        (void)stook_group_enter(group);
    }
    return charged ? STOOK_CACHE_ACCOUNT : 0;
}

static inline adapter_t adapter_open_as(const struct case_params *params, size_t count)
{
    struct stook_cache_args args = {
        .size = sizeof(args), .align = params->align, .flags = adapter_account(params->mode)};
    struct stook_cache *cache;

    (void)count;
    if (params->order == ORDER_RANDOM)
        args.flags |= STOOK_CACHE_RANDOM;
    if (params->mode == MODE_LINK_INSIDE)
        args.flags |= STOOK_CACHE_LINK_INSIDE;
    cache = stook_cache_create("bench", params->object_size, &args);
    if (!cache)
        case_die("a cache cannot be made");
    return cache;
}

static inline double adapter_counted(adapter_t cache)
{
    struct stook_cache_usage usage = {.size = sizeof(usage)};
    uint64_t objects;

    if (stook_cache_usage(cache, &usage) != 0)
        return 0;
    objects = usage.in_use + usage.cached + usage.free;
    return objects > 0 ? (double)(usage.bytes + usage.meta) / (double)objects : 0;
}

static inline size_t adapter_alloc_bulk(adapter_t cache, void **objects, size_t n)
{
    return stook_alloc_bulk(cache, 0, n, objects) == 0 ? n : 0;
}

static inline void adapter_free_bulk(adapter_t cache, void **objects, size_t n)
{
    stook_free_bulk(cache, n, objects);
}

static inline void *adapter_alloc(adapter_t cache)
{
#ifdef STOOK_CACHE_INLINE
    return stook_alloc_inline(cache, 0);
#else
    return stook_alloc(cache, 0);
#endif
}

static inline void adapter_free(adapter_t cache, void *object)
{
#ifdef STOOK_CACHE_INLINE
    stook_free_inline(cache, object);
#else
    stook_free(cache, object);
#endif
}

static inline struct stook_pool *adapter_pool_open(adapter_t cache, size_t reserve)
{
    struct stook_pool *pool = stook_pool_create(cache, (unsigned)reserve);
    if (!pool)
        case_die("stook_pool_create failed");
    return pool;
}

static inline void *adapter_pool_alloc(struct stook_pool *pool)
{
    return stook_pool_alloc(pool, 0, NULL);
}

static inline void adapter_pool_free(struct stook_pool *pool, void *object)
{
    stook_pool_free(pool, object);
}

#ifdef BENCH_URCU
#include <stook/urcu.h>

#define ADAPTER_RCU 1

static inline void adapter_rcu_use(enum mode mode)
{
    if (mode == MODE_MEMB ? stook_urcu_use_memb() : stook_urcu_use_qsbr())
        case_die("liburcu cannot be used");
}

static inline void adapter_rcu_free(adapter_t cache, void *object)
{
    stook_free_rcu(cache, object);
}

static inline void adapter_rcu_barrier(void)
{
    stook_rcu_barrier();
}
#endif

static inline void adapter_check(void)
{
}
