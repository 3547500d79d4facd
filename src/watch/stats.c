/* SPDX-License-Identifier: MIT */
/* stats.c - reads the counts of one cache, of the arena and of the process, for reports. */
#include "watch/stats.h"

#include "base/context.h"
#include "cache/cache_list.h"
#include "base/init.h"
#include "base/raw.h"
#include "os/os.h"
#include "percpu/percpu.h"
#include "os/topology.h"
#include "page/pagemap.h"
#include "sample/shadow.h"

#include <stdlib.h>
#include <string.h>

unsigned stats_caches(void)
{
    unsigned slots;

    (void)init_once();
    context_enter();
    lock_take(&percpu.lock, LOCK_PERCPU);
    slots = percpu.slots;
    lock_drop(&percpu.lock, LOCK_PERCPU);
    context_leave();
    return slots;
}

bool stats_readable(void)
{
    return context_self()->depth == 0;
}

static uint64_t stats_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void stats_split(struct stats_cache *row)
{
    /* Slabs, objects and pages are counted one after the other: no part may outgrow the whole. */
    row->in_use = stats_min(row->active * row->object_size, row->resident);
    row->cached = stats_min((row->in_sheaves + row->in_slabs) * row->object_size,
                            row->resident - row->in_use);
    row->wasted = row->resident - row->in_use - row->cached;
}

/* cache_count(), with samples as objects of the caches that they stand in for (sample/shadow.h). */
static void stats_count(struct stook_cache *cache, struct cache_counts *counts)
{
    uint64_t use = atomic_load_explicit(&shadow_use[cache->index], memory_order_relaxed);

    cache_count(cache, counts);
    if (cache->flags & CACHE_SHADOW) {
        counts->objects -= counts->active;
        counts->active = 0;
    } else {
        counts->objects += use;
        counts->active += use;
    }
}

/* Bytes of a cache's pages, with those of its objects in shadow caches and without those of others. */
static uint64_t stats_resident(const struct stook_cache *cache, uint64_t pages)
{
    uint64_t use = atomic_load_explicit(&shadow_use[cache->index], memory_order_relaxed);
    uint64_t bytes = pages << PAGE_SHIFT;

    if (cache->flags & CACHE_SHADOW)
        return bytes - stats_min(use, bytes);
    return bytes + use * cache->layout.stride;
}

static void stats_fill(struct stook_cache *cache, struct stats_cache *row)
{
    struct cache_counts counts;

    stats_count(cache, &counts);
    memcpy(row->name, cache->name, sizeof(row->name));
    row->object_size = cache->object_size;
    row->align = cache->align;
    row->stride = cache->layout.stride;
    row->order = cache->layout.order;
    row->slab_objects = cache->layout.objects;
    row->capacity = cache_capacity(cache);
    row->internal = (cache->flags & (CACHE_INTERNAL | CACHE_SHADOW)) != 0;
    row->active = counts.active;
    row->in_sheaves = counts.cached;
    row->in_slabs = counts.objects - counts.active - counts.cached;
    row->total = counts.objects;
    row->slabs = counts.slabs;
    row->sheaves = counts.sheaves;
    row->barns = counts.barns;
    row->resident = stats_resident(cache, counts.pages);
    row->peak = counts.peak_pages << PAGE_SHIFT;
    stats_split(row);
    row->counted = stat_is_kept(cache);
    for (unsigned event = 0; row->counted && event < STAT_EVENTS; event++)
        row->counter[event] = stat_read_sum(cache, (enum stat_event)event);
}

bool stats_read_cache(unsigned number, struct stats_cache *row)
{
    struct stook_cache *cache = NULL;

    if (number == 0 || number >= STOOK_CACHES_MAX)
        return false;
    memset(row, 0, sizeof(*row));
    /* The list's lock for one cache at a time.  The cache cannot be destroyed while it is read, and a slow reader of the
     * report does not delay threads that make caches. */
    context_enter();
    lock_take(&cache_list.lock, LOCK_CACHES);
    cache = cache_table[number];
    if (cache)
        stats_fill(cache, row);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    return cache != NULL;
}

void stats_add(struct stats_cache *sum, const struct stats_cache *row)
{
#define STATS_ADD(member, key) sum->member += row->member;
    STATS_SUMS(STATS_ADD)
#undef STATS_ADD
}

void stats_read_arena(struct arena_stat *arena)
{
    context_enter();
    arena_stat(arena);
    context_leave();
}

/* The second number of /proc/self/statm, in pages. */
static uint64_t stats_process_resident(void)
{
    char text[128], *at;

    if (os_read_file("/proc/self/statm", text, sizeof(text)) <= 0 || !(at = strchr(text, ' ')))
        return 0;
    return strtoull(at, NULL, 10) * os_page_size();
}

void stats_read_process(struct stats_process *process)
{
    int n;

    memset(process, 0, sizeof(*process));
    process->pid = (int)raw_getpid();
    n = os_read_file("/proc/self/comm", process->program, sizeof(process->program));
    if (n > 0 && process->program[n - 1] == '\n')
        process->program[n - 1] = '\0';
    process->mode = stook_mode(&process->why);
    process->membarriers = atomic_load_explicit(&percpu.fences, memory_order_relaxed);
    topology_learn();
    process->cpus = topology.cpus;
    process->cpus_allowed = topology.allowed_cpus;
    process->nodes = (unsigned)__builtin_popcountll(topology.online_nodes);
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++)
        process->cpus_used += percpu_slot(cpu, 0) != NULL;
    process->slot_bytes = (uint64_t)process->cpus_used * percpu_offset(stats_caches());
    process->resident = stats_process_resident();
}
