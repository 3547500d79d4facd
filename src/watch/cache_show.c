/* SPDX-License-Identifier: MIT */
/*
 * cache_show.c - the public calls on a cache's counters; and counters and attributes by their names, as text.
 * docs/statistics.md explains every name; names are only ever added.
 */
#include "base/context.h"
#include "base/grow.h"
#include "base/init.h"
#include "cache/cache_list.h"
#include "debug/flags.h"
#include "percpu/percpu.h"
#include "os/topology.h"
#include "sheaf/barn.h"
#include "sheaf/slot_drain.h"
#include "page/arena.h"
#include "slab/column.h"
#include "slab/node.h"
#include "slab/stat.h"
#include "watch/stats.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A number a cache, a CPU or a node; or an address. */
enum cache_show_kind { SHOW_CACHE, SHOW_CPU, SHOW_NODE, SHOW_ADDRESS };

struct cache_show {
    const char *name;
    uint64_t (*read)(struct stook_cache *cache, unsigned number); /* of the CPU or node */
    enum cache_show_kind kind;
};

/* ---- counters --------------------------------------------------------------------------------- */

int stook_cache_stat_enable(struct stook_cache *cache, int on)
{
    bool done;

    if (on != STOOK_STATS_OFF && on != STOOK_STATS_ALL && on != STOOK_STATS_SLOW) {
        errno = EINVAL;
        return -1;
    }
    context_enter();
    lock_take(&cache_list.lock, LOCK_CACHES);
    done = stat_switch(cache, on);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    if (done)
        return 0;
    errno = ENOMEM;
    return -1;
}

int stook_cache_stat(struct stook_cache *cache, struct stook_stat *stat)
{
    const size_t events = offsetof(struct stook_stat, alloc_fastpath);
    struct stook_stat all = {0};

    if (!grow_is_sized(stat->size)) {
        errno = EINVAL;
        return -1;
    }
    all.cached_bytes = atomic_load_explicit(&cache->policy.cached, memory_order_relaxed);
    all.cached_bytes_max = cache->policy.cached_max;
    for (unsigned event = 0; event < STAT_EVENTS; event++) {
        uint64_t sum = stat_read_sum(cache, (enum stat_event)event);
        memcpy((char *)&all + events + event * sizeof(sum), &sum, sizeof(sum));
    }
    grow_write(stat, &all, sizeof(all));
    return 0;
}

int stook_cache_usage(struct stook_cache *cache, struct stook_cache_usage *usage)
{
    struct stook_cache_usage all = {0};
    struct stats_cache row;
    bool sized = grow_is_sized(usage->size);

    if (!sized || !stats_readable()) {
        errno = sized ? EDEADLK : EINVAL;
        return -1;
    }
    (void)stats_read_cache(cache->index, &row);
    all.in_use = row.active;
    all.cached = row.in_sheaves;
    all.free = row.in_slabs;
    all.slabs = row.slabs;
    all.bytes = row.resident;
    all.bytes_peak = row.peak;
    grow_write(usage, &all, sizeof(all));
    return 0;
}

/* ---- attributes: within the library's context ------------------------------------------------ */

static struct cache_counts cache_show_counts(struct stook_cache *cache)
{
    struct cache_counts counts;

    stats_count(cache, &counts);
    return counts;
}

static struct node_counts cache_show_node(const struct stook_cache *cache, unsigned node)
{
    struct node_counts counts;

    node_count(cache, node, &counts);
    return counts;
}

static struct node_lists cache_show_lists(struct stook_cache *cache, unsigned node)
{
    struct node_lists lists;

    node_count_lists(cache, node, &lists);
    return lists;
}

static struct slot_counts cache_show_slot(const struct stook_cache *cache, unsigned cpu)
{
    struct slot_counts counts = {0};

    slot_count_cpu(cache, cpu, &counts);
    return counts;
}

/* Handed out by the slabs: what waits in sheaves counts, as in Linux. */
static uint64_t cache_show_allocated(struct stook_cache *cache, unsigned node)
{
    uint64_t total = cache_show_node(cache, node).objects,
             free = cache_show_lists(cache, node).free;

    return total > free ? total - free : 0;
}

/* Of the descriptors of a node's slabs, with the columns behind them. */
static uint64_t cache_show_meta(const struct stook_cache *cache, const struct node *node)
{
    uint64_t least = __atomic_load_n(&node->made_min, __ATOMIC_RELAXED) -
                     __atomic_load_n(&node->gone_min, __ATOMIC_RELAXED);
    uint64_t all = __atomic_load_n(&node->made, __ATOMIC_RELAXED) -
                   __atomic_load_n(&node->gone, __ATOMIC_RELAXED);
    uint32_t tagged = atomic_load_explicit(&cache->tagged, memory_order_relaxed) ? SLAB_TAGGED : 0;
    size_t meta_least = column_meta(cache, SLAB_MIN | tagged), meta = column_meta(cache, tagged);

    return least * ((meta_least + ARENA_GRANULE - 1) & -(size_t)ARENA_GRANULE) +
           (all - least) * ((meta + ARENA_GRANULE - 1) & -(size_t)ARENA_GRANULE);
}

static uint64_t cache_show_barn(struct barn *barn)
{
    uint64_t bytes;

    lock_take(&barn->lock, LOCK_BARN);
    bytes = barn->bytes;
    lock_drop(&barn->lock, LOCK_BARN);
    return bytes;
}

static uint64_t cache_show_debug(const struct stook_cache *cache, uint32_t flag)
{
    return (debug_of(cache) & flag) != 0;
}

/* X(name, kind, value): of `cache`, and of CPU or node `number`. */
#define SHOW_ATTRIBUTES(X)                                                                         \
    /* Linux's names. */                                                                           \
    X(align, SHOW_CACHE, cache->align)                                                             \
    X(ctor, SHOW_ADDRESS, (uintptr_t)cache->ctor)                                                  \
    X(destroy_by_rcu, SHOW_CACHE, (cache->flags & STOOK_CACHE_TYPESAFE) != 0)                      \
    X(failslab, SHOW_CACHE, cache_show_debug(cache, STOOK_CACHE_DEBUG_FAIL))                       \
    X(hwcache_align, SHOW_CACHE, (cache->flags & STOOK_CACHE_HWALIGN) != 0)                        \
    X(min_partial, SHOW_CACHE, cache->min_partial)                                                 \
    X(object_size, SHOW_CACHE, cache->object_size)                                                 \
    X(objects, SHOW_NODE, cache_show_allocated(cache, number))                                     \
    X(objects_partial, SHOW_NODE, cache_show_lists(cache, number).partial_inuse)                   \
    X(objs_per_slab, SHOW_CACHE, cache->layout.objects)                                            \
    X(order, SHOW_CACHE, cache->layout.order)                                                      \
    X(partial, SHOW_NODE, cache_show_lists(cache, number).partial)                                 \
    X(poison, SHOW_CACHE, cache_show_debug(cache, STOOK_CACHE_DEBUG_POISON))                       \
    X(red_zone, SHOW_CACHE, cache_show_debug(cache, STOOK_CACHE_DEBUG_RED_ZONE))                   \
    X(sanity_checks, SHOW_CACHE, cache_show_debug(cache, STOOK_CACHE_DEBUG_CHECKS))                \
    X(sheaf_capacity, SHOW_CACHE, cache_capacity(cache))                                           \
    X(slab_size, SHOW_CACHE, cache->layout.stride)                                                 \
    X(slabs, SHOW_NODE, cache_show_node(cache, number).slabs)                                      \
    X(store_user, SHOW_CACHE, cache_show_debug(cache, STOOK_CACHE_DEBUG_USER))                     \
    X(total_objects, SHOW_NODE, cache_show_node(cache, number).objects)                            \
    X(trace, SHOW_CACHE, cache_show_debug(cache, STOOK_CACHE_DEBUG_TRACE))                         \
    /* Ours. */                                                                                    \
    X(active, SHOW_CACHE, cache_show_counts(cache).active)                                         \
    X(adaptive, SHOW_CACHE, (cache->flags & STOOK_CACHE_ADAPTIVE) != 0)                            \
    X(barn_bytes, SHOW_NODE, cache_show_barn(&cache->nodes[number].barn))                          \
    X(barn_empty, SHOW_NODE,                                                                       \
      __atomic_load_n(&cache->nodes[number].barn.nr_empty, __ATOMIC_RELAXED))                      \
    X(barn_full, SHOW_NODE, __atomic_load_n(&cache->nodes[number].barn.nr_full, __ATOMIC_RELAXED)) \
    X(barn_full_limit, SHOW_NODE,                                                                  \
      __atomic_load_n(&cache->nodes[number].barn.full_limit, __ATOMIC_RELAXED))                    \
    X(barn_limit, SHOW_CACHE, cache_barn_limit(cache))                                             \
    X(barn_most, SHOW_CACHE, cache_barn_most(cache))                                               \
    X(cached_bytes, SHOW_CACHE, atomic_load_explicit(&cache->policy.cached, memory_order_relaxed)) \
    X(cached_bytes_max, SHOW_CACHE, cache->policy.cached_max)                                      \
    X(capacity_level, SHOW_CACHE, cache_level(cache))                                              \
    X(empty, SHOW_NODE, cache_show_lists(cache, number).empty)                                     \
    X(link_outside, SHOW_CACHE, cache->layout.link_outside)                                        \
    X(min_order, SHOW_CACHE, cache->layout.min_order)                                              \
    X(prefilled, SHOW_CACHE, atomic_load_explicit(&cache->prefilled, memory_order_relaxed))        \
    X(random_order, SHOW_CACHE, (cache->flags & STOOK_CACHE_RANDOM) != 0)                          \
    X(remote_objects, SHOW_CPU, cache_show_slot(cache, number).remote)                             \
    X(sheaf_objects, SHOW_CPU, cache_show_slot(cache, number).objects)                             \
    X(sheaves, SHOW_CPU, cache_show_slot(cache, number).sheaves)                                   \
    X(slab_bytes, SHOW_NODE, cache_show_node(cache, number).pages << PAGE_SHIFT)                   \
    X(slab_bytes_max, SHOW_CACHE, cache->slab_bytes_max)                                           \
    X(slab_meta, SHOW_NODE, cache_show_meta(cache, &cache->nodes[number].node))                    \
    X(statistics, SHOW_CACHE, __atomic_load_n(&cache->stat_mode, __ATOMIC_RELAXED))                \
    X(waste, SHOW_CACHE, cache->layout.waste)

#define SHOW_READ(name, kind, value)                                                               \
    static uint64_t cache_show_##name(struct stook_cache *cache, unsigned number)                  \
    {                                                                                              \
        (void)number;                                                                              \
        return (uint64_t)(value);                                                                  \
    }
SHOW_ATTRIBUTES(SHOW_READ)

/* A counter must not have the name of an attribute, which it would hide: "redeclared" here means that. */
enum {
#define SHOW_COUNTER(name, what) cache_show_##name,
    STOOK_STAT_EVENTS(SHOW_COUNTER)
#undef SHOW_COUNTER
};

static const char *const cache_show_counters[STAT_EVENTS] = {
#define SHOW_NAME(name, what) #name,
    STOOK_STAT_EVENTS(SHOW_NAME)
#undef SHOW_NAME
};

#define SHOW_ATTRIBUTE(name, kind, value) {#name, cache_show_##name, kind},
static const struct cache_show cache_show_attributes[] = {SHOW_ATTRIBUTES(SHOW_ATTRIBUTE)};
enum {
    SHOW_COUNT = STAT_EVENTS + sizeof(cache_show_attributes) / sizeof(cache_show_attributes[0])
};

/* ---- both kinds of names, by their numbers: counters first ------------------------------------ */

static const struct cache_show *cache_show_attribute(unsigned number)
{
    return number < STAT_EVENTS ? NULL : &cache_show_attributes[number - STAT_EVENTS];
}

const char *stook_cache_show_name(unsigned number)
{
    if (number < STAT_EVENTS)
        return cache_show_counters[number];
    return number < SHOW_COUNT ? cache_show_attribute(number)->name : NULL;
}

static enum cache_show_kind cache_show_kind(unsigned number)
{
    return number < STAT_EVENTS ? SHOW_CPU : cache_show_attribute(number)->kind;
}

static unsigned cache_show_parts(unsigned number)
{
    enum cache_show_kind kind = cache_show_kind(number);

    return kind == SHOW_CPU ? percpu.rows : kind == SHOW_NODE ? topology.nodes : 0;
}

static uint64_t cache_show_part(struct stook_cache *cache, unsigned number, unsigned part)
{
    const struct cache_show *attribute = cache_show_attribute(number);

    return attribute ? attribute->read(cache, part)
                     : stat_read(cache, (int)part, (enum stat_event)number);
}

static uint64_t cache_show_sum(struct stook_cache *cache, unsigned number)
{
    unsigned parts = cache_show_parts(number);
    uint64_t sum = 0;

    if (number < STAT_EVENTS)
        return stat_read_sum(cache, (enum stat_event)number);
    if (parts == 0)
        return cache_show_part(cache, number, 0);
    for (unsigned i = 0; i < parts; i++)
        sum += cache_show_part(cache, number, i);
    return sum;
}

/* ---- text ------------------------------------------------------------------------------------ */

struct cache_show_text {
    char *buf;
    size_t size, used; /* used: as if there were no end */
};

static __attribute__((format(printf, 2, 3))) void cache_show_print(struct cache_show_text *text,
                                                                   const char *format, ...)
{
    size_t room = text->used < text->size ? text->size - text->used : 0;
    va_list args;

    va_start(args, format);
    text->used += (size_t)vsnprintf(room > 0 ? text->buf + text->used : NULL, room, format, args);
    va_end(args);
}

static void cache_show_write(struct stook_cache *cache, unsigned number,
                             struct cache_show_text *text)
{
    char letter = cache_show_kind(number) == SHOW_CPU ? 'C' : 'N';
    uint64_t sum = cache_show_sum(cache, number);

    if (cache_show_kind(number) == SHOW_ADDRESS) {
        if (sum) /* Linux shows nothing at all where there is none */
            cache_show_print(text, "0x%llx\n", (unsigned long long)sum);
        return;
    }
    cache_show_print(text, "%llu", (unsigned long long)sum);
    for (unsigned i = 0, parts = cache_show_parts(number); i < parts; i++) {
        uint64_t part = cache_show_part(cache, number, i);
        if (part)
            cache_show_print(text, " %c%u=%llu", letter, i, (unsigned long long)part);
    }
    cache_show_print(text, "\n");
}

ssize_t stook_cache_show(struct stook_cache *cache, const char *name, char *buf, size_t len)
{
    struct cache_show_text text = {buf, len, 0};
    unsigned number = 0;

    while (number < SHOW_COUNT && strcmp(stook_cache_show_name(number), name) != 0)
        number++;
    if (number == SHOW_COUNT) {
        errno = ENOENT;
        return -1;
    }
    if (number >= STAT_EVENTS && !stats_readable()) {
        errno = EDEADLK;
        return -1;
    }
    context_enter();
    cache_show_write(cache, number, &text);
    context_leave();
    if (len > 0)
        buf[text.used < len ? text.used : len - 1] = '\0';
    return (ssize_t)text.used;
}
