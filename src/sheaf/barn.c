/* SPDX-License-Identifier: MIT */
/*
 * barn.c - gives and takes whole sheaves under the barn's lock, and adapts the limit of full ones.
 */
#include "sheaf/barn.h"

#include "base/probe.h"
#include "base/report.h"
#include "base/context.h"
#include "os/topology.h"
#include "sheaf/budget.h"
#include "slab/stat.h"

enum {
    BARN_REFUSALS = 4,    /* full sheaves refused in a row, or as many as the limit, halve it … */
    BARN_PATIENCE = 2,    /* … of a cache that has grown, this many times as many */
    BARN_EMPTY_MORE = 2,  /* empty sheaves kept beyond the limit of full ones */
    BARN_PRESSED = 8,     /* misses at the highest limit after which an adaptive cache wants more */
    BARN_SIFTED = 2,      /* full sheaves that are sifted after a refusal, … */
    BARN_SIFTS = 1 << 20, /* … where the cache's slabs on the node are so many bytes */
    BARN_HELD = 2 << 20,  /* bytes of slabs that the objects of a grown sheaf may hold */
    BARN_TICKS = 64,      /* exchanges of a thread from one check of idle caches to the next */
};

static __thread unsigned barn_ticks __attribute__((tls_model("initial-exec")));

static bool barn_lock(struct stook_cache *cache, struct barn *barn, unsigned node, bool nospin)
    LOCK_TRIES(barn->lock);
static bool barn_lock(struct stook_cache *cache, struct barn *barn, unsigned node, bool nospin)
{
    if (!lock_enter(&barn->lock, LOCK_BARN, nospin)) {
        stat_add(cache, STAT_lock_busy, 1);
        return false;
    }
    stat_add_lock(cache, STAT_barn_lock_own, node);
    return true;
}

/* Counts and limits are read without the lock: relaxed atomics. */
static void barn_set(uint32_t *word, uint32_t n)
{
    __atomic_store_n(word, n, __ATOMIC_RELAXED);
}

static struct sheaf *barn_pop(struct sheaf **list, uint32_t *count)
{
    struct sheaf *sheaf = *list;

    if (sheaf) {
        *list = sheaf->next;
        sheaf->next = NULL;
        barn_set(count, *count - 1);
    }
    return sheaf;
}

static void barn_push(struct sheaf **list, uint32_t *count, struct sheaf *sheaf)
{
    sheaf->next = *list;
    *list = sheaf;
    barn_set(count, *count + 1);
}

void barn_init(struct barn *barn, unsigned full_limit)
{
    lock_init(&barn->lock);
    barn_set(&barn->full_limit, full_limit);
}

/* Bytes of the objects in a sheaf. */
static uint64_t barn_bytes(const struct stook_cache *cache, const struct sheaf *sheaf)
{
    return (uint64_t)sheaf->size * cache->layout.stride;
}

static struct sheaf *barn_pop_full(const struct stook_cache *cache, struct barn *barn)
{
    struct sheaf *full = barn_pop(&barn->full, &barn->nr_full);

    if (full)
        barn->bytes -= barn_bytes(cache, full);
    return full;
}

/* Empty sheaves of another capacity are not kept; nor larger ones. */
static bool barn_keeps(const struct stook_cache *cache, const struct sheaf *empty)
{
    return empty->capacity == cache_capacity(cache);
}

static void barn_miss(struct stook_cache *cache, struct barn *barn)
{
    bool adaptive = (cache->flags & STOOK_CACHE_ADAPTIVE) != 0;
    uint32_t bounced = __atomic_load_n(&barn->bounced, __ATOMIC_RELAXED); /* barn_refuses() */
    uint32_t limit = barn->full_limit, base = cache_barn_limit(cache);
    /* Missed after some were refused: what went to slabs would have been of use here. */
    uint32_t most = bounced > 0 ? cache_barn_most(cache) : base;

    barn->get_fail++;
    if (limit < most) {
        limit += 1 + (adaptive && bounced > 0 ? limit / 4 : 0);
        barn_set(&barn->full_limit, limit < most ? limit : most);
    } else if (adaptive && bounced > 0 && !barn->starved && ++barn->pressed >= BARN_PRESSED) {
        barn->pressed = 0;
        __atomic_store_n(&cache->policy.verdict, BARN_WANTS_MORE, __ATOMIC_RELAXED);
    }
    barn_set(&barn->bounced, adaptive && bounced > 0 ? bounced - 1 : 0);
    budget_give_barn(cache, barn);
}

/* An exchange is over, and the lock dropped. */
static void barn_end(bool nospin)
{
    if (!nospin && ++barn_ticks % BARN_TICKS == 0)
        context_self()->due |= CONTEXT_DUE_CAPACITY;
}

static struct sheaf *barn_get(struct stook_cache *cache, unsigned node, struct sheaf **empty,
                              bool nospin)
{
    struct barn *barn = &cache->nodes[node].barn;
    struct sheaf *full;

    /* Nothing there and nothing to learn: a memoryless node's CPUs ask here first each time. */
    if (__atomic_load_n(&barn->nr_full, __ATOMIC_RELAXED) == 0 &&
        __atomic_load_n(&barn->full_limit, __ATOMIC_RELAXED) >= cache_barn_limit(cache) &&
        __atomic_load_n(&barn->bounced, __ATOMIC_RELAXED) == 0 &&
        __atomic_load_n(&barn->granted, __ATOMIC_RELAXED) == 0) {
        stat_add(cache, STAT_barn_get_fail, 1);
        PROBE3(barn_get, &cache->name[0], node, (struct sheaf *)NULL);
        return NULL;
    }
    if (!barn_lock(cache, barn, node, nospin))
        return NULL;
    full = barn_pop_full(cache, barn);
    barn_set(&barn->refused, 0);
    if (full) {
        barn->get++;
        STOOK_ASSERT(full->size > 0);
        if (*empty && barn_keeps(cache, *empty)) {
            barn_push(&barn->empty, &barn->nr_empty, *empty);
            *empty = NULL;
        }
    } else {
        barn_miss(cache, barn);
    }
    lock_drop(&barn->lock, LOCK_BARN);
    barn_end(nospin);
    stat_add(cache, full ? STAT_barn_get : STAT_barn_get_fail, 1);
    PROBE3(barn_get, &cache->name[0], node, full);
    return full;
}

struct sheaf *barn_get_full(struct stook_cache *cache, unsigned node, struct sheaf **empty,
                            bool nospin)
{
    unsigned home = topology.home_of_node[node];
    struct sheaf *full = barn_get(cache, node, empty, nospin);

    return full || home == node ? full : barn_get(cache, home, empty, nospin);
}

/* A full sheaf is refused.  Many in a row halve the limit; barn_shed() flushes what is beyond it. */
static void barn_refuse(struct stook_cache *cache, struct barn *barn)
{
    uint32_t limit = barn->full_limit, patience = limit;
    uint32_t bounced = __atomic_load_n(&barn->bounced, __ATOMIC_RELAXED);

    barn->put_fail++;
    barn_set(&barn->bounced,
             (cache->flags & STOOK_CACHE_ADAPTIVE) && bounced < UINT32_MAX ? bounced + 1 : 1);
    if (cache_level(cache) > 0)
        patience *= BARN_PATIENCE;
    barn_set(&barn->refused, barn->refused + 1);
    if (barn->refused < BARN_REFUSALS || barn->refused < patience || limit == 0)
        return;
    barn_set(&barn->refused, 0);
    barn_set(&barn->full_limit, limit / 2);
    budget_give_barn(cache, barn);
    if (cache_level(cache) > 0 && limit / 2 < cache_barn_limit(cache))
        __atomic_store_n(&cache->policy.verdict, BARN_WANTS_LESS, __ATOMIC_RELAXED);
}

/* Racy: it has more than it may keep. */
static bool barn_is_beyond(const struct barn *barn)
{
    return __builtin_expect(__atomic_load_n(&barn->nr_full, __ATOMIC_RELAXED) >
                                __atomic_load_n(&barn->full_limit, __ATOMIC_RELAXED),
                            0);
}

uint32_t barn_sift(struct stook_cache *cache, unsigned node, struct sheaf *full)
{
    const struct cache_node *at = &cache->nodes[node];
    uint64_t slabs = __atomic_load_n(&at->node.made, __ATOMIC_RELAXED) -
                     __atomic_load_n(&at->node.gone, __ATOMIC_RELAXED);

    return __atomic_load_n(&at->barn.refused, __ATOMIC_RELAXED) > 0 &&
                   (slabs * PAGE_SIZE << cache->layout.order) >= BARN_SIFTS
               ? sheaf_sift(cache, full)
               : 0;
}

void barn_scatters(struct stook_cache *cache, uint32_t sparse, unsigned slabs)
{
    size_t held = (size_t)cache_capacity(cache) * PAGE_SIZE << cache->layout.order;

    if (sparse >= SHEAF_SIFT / 2 && sparse < 2 * slabs && cache_level(cache) > 0 &&
        held > BARN_HELD)
        __atomic_store_n(&cache->policy.verdict, BARN_WANTS_LESS, __ATOMIC_RELAXED);
}

/* Under the lock, if the budgets let it: as the first one, or the last. */
static bool barn_add(struct stook_cache *cache, struct barn *barn, struct sheaf *full, bool last)
{
    uint64_t bytes = barn_bytes(cache, full);
    struct sheaf **at = last && barn->full ? &barn->last->next : &barn->full;

    if (!budget_take_barn(cache, barn, bytes))
        return false;
    if (last || !barn->full)
        barn->last = full;
    barn_push(at, &barn->nr_full, full);
    barn->bytes += bytes;
    return true;
}

bool barn_put_full(struct stook_cache *cache, unsigned node, struct sheaf *full,
                   struct sheaf **empty, bool nospin)
{
    struct barn *barn = &cache->nodes[node].barn;
    bool room, taken;
    uint32_t sparse;

    STOOK_ASSERT(full->size > 0);
    if (empty)
        *empty = NULL;
    if (full->capacity > cache_capacity(cache) || barn_refuses(cache, node, nospin))
        return false;
    sparse = barn_sift(cache, node, full);
    if (!barn_lock(cache, barn, node, nospin))
        return false;
    room = barn->nr_full < barn->full_limit && sparse == 0;
    taken = room && barn_add(cache, barn, full, false);
    if (taken) {
        barn->put++;
        barn->starved = 0;
        if (empty)
            *empty = barn_pop(&barn->empty, &barn->nr_empty);
    } else {
        barn->starved = room;
        barn_refuse(cache, barn);
    }
    lock_drop(&barn->lock, LOCK_BARN);
    barn_end(nospin);
    stat_add(cache, taken ? STAT_barn_put : STAT_barn_put_fail, 1);
    PROBE4(barn_put, &cache->name[0], node, full, taken);
    return taken;
}

void barn_put_rest(struct stook_cache *cache, unsigned node, struct sheaf *rest, bool last,
                   bool nospin)
{
    struct barn *barn = &cache->nodes[node].barn;
    bool taken = false;

    if (rest->size > 0 && barn_lock(cache, barn, node, nospin)) {
        taken = (!last || barn->nr_full < barn->full_limit) && barn_add(cache, barn, rest, last);
        lock_drop(&barn->lock, LOCK_BARN);
    }
    if (!taken) {
        sheaf_flush(cache, rest, nospin);
        barn_put_empty(cache, node, rest, nospin);
    }
}

void barn_shed(struct stook_cache *cache, unsigned node, bool sift, bool nospin)
{
    struct barn *barn = &cache->nodes[node].barn;
    unsigned slabs = SHEAF_FLUSH_SLABS, turns = 0;
    bool beyond;

    while (slabs > 0 && ((beyond = barn_is_beyond(barn)) || (sift && turns++ < BARN_SIFTED)) &&
           barn_lock(cache, barn, node, nospin)) {
        struct sheaf *full = barn_pop_full(cache, barn);
        uint32_t n;
        lock_drop(&barn->lock, LOCK_BARN);
        if (!full)
            return;
        n = beyond ? full->size : sheaf_sift(cache, full);
        if (n > 0)
            (void)sheaf_flush_some(cache, full, n, &slabs, nospin);
        barn_put_rest(cache, node, full, !beyond, nospin);
    }
}

bool barn_refuses(struct stook_cache *cache, unsigned node, bool nospin)
{
    struct barn *barn = &cache->nodes[node].barn;
    uint32_t bounced = __atomic_load_n(&barn->bounced, __ATOMIC_RELAXED);

    if (barn_declines(cache, node) && cache->flags & STOOK_CACHE_ADAPTIVE) {
        barn_set(&barn->bounced,
                 bounced + (bounced < UINT32_MAX)); /* of two at one time, one counts */
        barn_end(nospin);
    }
    return barn_declines(cache, node) && (cache->flags & STOOK_CACHE_ADAPTIVE || bounced > 0);
}

struct sheaf *barn_get_empty(struct stook_cache *cache, unsigned node, bool nospin)
{
    struct barn *barn = &cache->nodes[node].barn;
    uint32_t capacity = cache_capacity(cache);
    struct sheaf *empty = NULL;

    if (__atomic_load_n(&barn->nr_empty, __ATOMIC_RELAXED) > 0 &&
        barn_lock(cache, barn, node, nospin)) {
        empty = barn_pop(&barn->empty, &barn->nr_empty);
        lock_drop(&barn->lock, LOCK_BARN);
    }
    if (!empty) {
        empty = sheaf_alloc(capacity, capacity, node, nospin);
        stat_add(cache, STAT_sheaf_alloc, empty != NULL);
    }
    return empty;
}

void barn_put_empty(struct stook_cache *cache, unsigned node, struct sheaf *empty, bool nospin)
{
    struct barn *barn = &cache->nodes[node].barn;

    STOOK_ASSERT(empty->size == 0);
    if (barn_keeps(cache, empty) && barn_lock(cache, barn, node, nospin)) {
        /* Once more, now that a change of the capacity has not looked at this barn yet, or is seen. */
        if (barn_keeps(cache, empty) && barn->nr_empty < barn->full_limit + BARN_EMPTY_MORE) {
            barn_push(&barn->empty, &barn->nr_empty, empty);
            empty = NULL;
        }
        lock_drop(&barn->lock, LOCK_BARN);
    }
    sheaf_drop(cache, empty, nospin);
}

void barn_return(struct stook_cache *cache, unsigned node, struct sheaf *sheaf, bool nospin)
{
    /* It was a CPU's, and may have objects of other nodes. */
    if (sheaf->size > 0 && sheaf_owner(sheaf) == (int)topology.home_of_node[node] &&
        barn_put_full(cache, node, sheaf, NULL, nospin))
        return;
    sheaf_flush(cache, sheaf, nospin);
    barn_put_empty(cache, node, sheaf, nospin);
}

void *barn_take_object(struct stook_cache *cache, unsigned node, bool nospin)
{
    struct barn *barn = &cache->nodes[node].barn;
    struct sheaf *sheaf, *worn = NULL;
    void *object = NULL;

    if (__atomic_load_n(&barn->nr_full, __ATOMIC_RELAXED) == 0 ||
        !barn_lock(cache, barn, node, nospin))
        return NULL;
    sheaf = barn->full;
    if (sheaf) {
        object = sheaf->object[--sheaf->size];
        barn->bytes -= cache->layout.stride;
        if (sheaf->size == 0)
            worn = barn_pop(&barn->full, &barn->nr_full);
    }
    lock_drop(&barn->lock, LOCK_BARN);
    if (worn)
        barn_put_empty(cache, node, worn, nospin);
    return object;
}

/*
 * Keeps at most so many sheaves of a list, none that is larger than new ones, and no empty one of another capacity.
 * The others join the chain.
 */
static void barn_cut_list(struct stook_cache *cache, struct barn *barn, struct sheaf **list,
                          uint32_t *count, uint32_t most, struct sheaf **chain)
{
    uint32_t kept = 0;

    while (*list) {
        struct sheaf *sheaf = *list;
        if (kept < most && (sheaf->size > 0 ? sheaf->capacity <= cache_capacity(cache)
                                            : barn_keeps(cache, sheaf))) {
            barn->last = sheaf; /* the list of full ones comes second */
            list = &sheaf->next;
            kept++;
            continue;
        }
        *list = sheaf->next;
        barn->bytes -= barn_bytes(cache, sheaf);
        sheaf->next = *chain;
        *chain = sheaf;
    }
    barn_set(count, kept);
}

/* Under the lock, which is dropped: the barn keeps so many full and empty ones, and the others go. */
static void barn_cut(struct stook_cache *cache, struct barn *barn, uint32_t full, uint32_t empty)
    LOCK_DROPS(barn->lock);
static void barn_cut(struct stook_cache *cache, struct barn *barn, uint32_t full, uint32_t empty)
{
    struct sheaf *chain = NULL;

    barn_cut_list(cache, barn, &barn->empty, &barn->nr_empty, empty, &chain);
    barn_cut_list(cache, barn, &barn->full, &barn->nr_full, full, &chain);
    budget_give_barn(cache, barn);
    lock_drop(&barn->lock, LOCK_BARN);
    sheaf_drop(cache, chain, false);
}

void barn_fit(struct stook_cache *cache, unsigned node)
{
    struct barn *barn = &cache->nodes[node].barn;
    uint32_t most;

    if (!lock_enter(&barn->lock, LOCK_BARN, false))
        return;
    most = cache_level(cache) > 0 ? cache_barn_most(cache) : cache_barn_limit(cache);
    if (barn->full_limit > most)
        barn_set(&barn->full_limit, most);
    barn_cut(cache, barn, barn->full_limit, barn->full_limit + BARN_EMPTY_MORE);
}

__attribute__((cold)) void barn_drain(struct stook_cache *cache, unsigned node)
{
    struct barn *barn = &cache->nodes[node].barn;

    lock_take(&barn->lock, LOCK_BARN);
    stat_add_lock(cache, STAT_barn_lock_own, node);
    barn_cut(cache, barn, 0, 0);
}
