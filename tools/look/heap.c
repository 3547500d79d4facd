/* SPDX-License-Identifier: MIT */
/*
 * heap.c - takes a snapshot of a target's heap: the window of addresses, CPUs, caches and their
 * sums, again until it is whole.
 */
#include "look/heap_own.h"

#include "look/target_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void *heap_row(struct heap *heap, void *rows, size_t n, size_t size)
{
    return target_spend(heap->target, size) ? target_row(rows, n, size) : NULL;
}

/* ---- what is the same in all snapshots of a process ------------------------------------------- */

/* What no reader can do without: a library that lacks it hangs together in another way. */
static const enum view_id heap_needed[] = {VIEW_at_pagemap,     VIEW_at_percpu,
                                           VIEW_at_topology,    VIEW_percpu_slots,
                                           VIEW_at_cache_table, VIEW_pagemap,
                                           VIEW_pagemap_base,   VIEW_pagemap_middle,
                                           VIEW_pagemap_size,   VIEW_pagemap_low,
                                           VIEW_pagemap_high,   VIEW_pagemap_entry,
                                           VIEW_pagemap_meta,   VIEW_pagemap_header,
                                           VIEW_pagemap_zone,   VIEW_PAGE_SHIFT,
                                           VIEW_BLOCK_SHIFT,    VIEW_BLOCK_META,
                                           VIEW_BLOCK_HEADER,   VIEW_ARENA_GRANULE,
                                           VIEW_cache,          VIEW_cache_layout,
                                           VIEW_cache_name,     VIEW_cache_nodes,
                                           VIEW_cache_node,     VIEW_cache_index,
                                           VIEW_cache_alive,    VIEW_layout_stride,
                                           VIEW_layout_objects, VIEW_layout_order,
                                           VIEW_slab,           VIEW_slab_state,
                                           VIEW_slab_page,      VIEW_slot,
                                           VIEW_slot_begin,     VIEW_slot_top,
                                           VIEW_slot_spare,     VIEW_sheaf_size,
                                           VIEW_sheaf_object,   VIEW_percpu_areas,
                                           VIEW_percpu_rows,    VIEW_STOOK_AREA_SHIFT,
                                           VIEW_SLOT_SHIFT,     VIEW_topology_nodes,
                                           VIEW_percpu_rseq,    VIEW_cache_object_size,
                                           VIEW_cache_flags,    VIEW_block_state,
                                           VIEW_BLOCK_RUNS,     VIEW_at_sheaf_none,
                                           VIEW_SLAB_MIN,       VIEW_SLAB_NONE};

static bool heap_check_view(const struct heap *heap, struct target_error *error)
{
    for (size_t i = 0; i < sizeof(heap_needed) / sizeof(heap_needed[0]); i++)
        if (!view_knows(&heap->view, heap_needed[i]))
            return target_fail(
                error,
                "the Stook of process %d (%s), version %s, lacks what this stook needs to know; "
                "use the stook of that version",
                heap->target->pid, heap->target->name, heap->version);
    if (view_value(&heap->view, VIEW_PAGE_SHIFT) != 12)
        return target_fail(error, "the Stook of process %d (%s) has pages of another size",
                           heap->target->pid, heap->target->name);
    return true;
}

struct heap *heap_open(struct target *target, struct target_error *error)
{
    struct heap *heap;

    if (!target)
        return NULL;
    heap = target_need(calloc(1, sizeof(*heap)));
    heap->own = target_need(calloc(1, sizeof(*heap->own)));
    heap->target = target;
    if (view_find(&heap->view, target, error)) {
        const struct view *v = &heap->view;
        snprintf(heap->version, sizeof(heap->version), "%u.%u.%u",
                 (unsigned)view_value(v, VIEW_STOOK_VERSION_MAJOR),
                 (unsigned)view_value(v, VIEW_STOOK_VERSION_MINOR),
                 (unsigned)view_value(v, VIEW_STOOK_VERSION_PATCH));
        if (heap_check_view(heap, error))
            return heap;
    }
    heap_close(heap);
    return NULL;
}

static void heap_forget(struct heap *heap)
{
    for (size_t i = 0; i < heap->caches; i++)
        free(heap->cache[i].node);
    heap->caches = heap->slabs = heap->larges = heap->groups = 0;
    heap->torn = 0;
    heap_forget_sheaves(heap);
}

void heap_close(struct heap *heap)
{
    if (!heap)
        return;
    heap_forget(heap);
    free(heap->cache);
    free(heap->slab);
    free(heap->large);
    free(heap->group);
    free(heap->own);
    target_close(heap->target);
    free(heap);
}

/* ---- the process ------------------------------------------------------------------------------ */

static bool heap_read_window(struct heap *heap)
{
    const struct view *v = &heap->view;
    char room[512];
    struct view_part copy =
        view_copy(heap->target, view_value(v, VIEW_at_pagemap), view_size(v, VIEW_pagemap), room);
    uint64_t bytes = view_get(v, copy, VIEW_pagemap_size);

    heap->base = view_get(v, copy, VIEW_pagemap_base);
    heap->middle = view_get(v, copy, VIEW_pagemap_middle);
    heap->begin = heap->base + view_get(v, copy, VIEW_pagemap_high);
    heap->end = heap->middle + view_get(v, copy, VIEW_pagemap_low);
    heap->own->entry = view_get(v, copy, VIEW_pagemap_entry);
    heap->own->meta = view_get(v, copy, VIEW_pagemap_meta);
    heap->own->header = view_get(v, copy, VIEW_pagemap_header);
    heap->own->zone = view_get(v, copy, VIEW_pagemap_zone);
    heap->own->zones = (unsigned)view_get(v, copy, VIEW_pagemap_zones);
    return bytes > 0 && bytes <= (uint64_t)1 << 44 && heap->base % ((uint64_t)1 << 21) == 0 &&
           heap->begin >= heap->base && heap->begin <= heap->middle && heap->end >= heap->middle &&
           heap->end - heap->base <= bytes && heap->own->zones > 0 &&
           heap->own->zones <= 2 * HEAP_NODES;
}

static bool heap_read_cpus(struct heap *heap)
{
    const struct view *v = &heap->view;
    uint64_t percpu = view_value(v, VIEW_at_percpu), topology = view_value(v, VIEW_at_topology);
    uint64_t rseq, why, rows, slots, cpus, nodes, allowed, online;

    if (!view_read(v, heap->target, percpu, VIEW_percpu_areas, &heap->own->areas) ||
        !view_read(v, heap->target, percpu, VIEW_percpu_rseq, &rseq) ||
        !view_read(v, heap->target, percpu, VIEW_percpu_rows, &rows) ||
        !view_read(v, heap->target, percpu, VIEW_percpu_slots, &slots) ||
        !view_read(v, heap->target, percpu, VIEW_percpu_fences, &heap->membarriers) ||
        !view_read(v, heap->target, topology, VIEW_topology_nodes, &nodes) ||
        !view_read(v, heap->target, topology, VIEW_topology_cpus, &cpus) ||
        !view_read(v, heap->target, topology, VIEW_topology_allowed_cpus, &allowed) ||
        !view_read(v, heap->target, topology, VIEW_topology_online_nodes, &online) || rows == 0 ||
        rows > HEAP_CPUS || nodes == 0 || nodes > HEAP_NODES || cpus > rows ||
        slots > view_value(v, VIEW_STOOK_CACHES_MAX))
        return false;
    memset(heap->used, 0, sizeof(heap->used));
    if (!target_take_some(heap->target, percpu + view_value(v, VIEW_percpu_used), heap->used,
                          rows) ||
        !target_take_some(heap->target, topology + view_value(v, VIEW_topology_node_of_cpu),
                          heap->node_of_cpu, rows))
        return false;
    heap->why[0] = '\0';
    if (view_read(v, heap->target, percpu, VIEW_percpu_why, &why))
        (void)target_read_text(heap->target, why, heap->why, sizeof(heap->why));
    strcpy(heap->mode, rseq & 1 ? "rseq" : "locked");
    heap->rows = (unsigned)rows;
    heap->slots = (unsigned)slots;
    heap->cpus = (unsigned)cpus;
    heap->cpus_allowed = (unsigned)allowed;
    heap->nodes = (unsigned)nodes;
    heap->nodes_online = (unsigned)__builtin_popcountll(online);
    heap->cpus_used = 0;
    for (unsigned cpu = 0; cpu < heap->cpus; cpu++)
        heap->cpus_used += heap->used[cpu] != 0;
    heap->slot_bytes = (uint64_t)heap->cpus_used * slots << view_value(v, VIEW_SLOT_SHIFT);
    return true;
}

/* ---- caches ----------------------------------------------------------------------------------- */

static void heap_fill_layout(const struct view *v, struct view_part layout,
                             struct heap_cache *cache)
{
    struct view_part columns = view_field(v, layout, VIEW_layout_column);
    uint64_t kinds = view_value(v, VIEW_LAYOUT_COLUMNS), each = view_size(v, VIEW_column);
    const uint64_t which[HEAP_COLUMNS] = {view_value(v, VIEW_LAYOUT_GROUP),
                                          view_value(v, VIEW_LAYOUT_TAG),
                                          view_value(v, VIEW_LAYOUT_TRACK)};

    cache->stride = (uint32_t)view_get(v, layout, VIEW_layout_stride);
    cache->order = (uint32_t)view_get(v, layout, VIEW_layout_order);
    cache->min_order = (uint32_t)view_get(v, layout, VIEW_layout_min_order);
    cache->slab_objects = (uint32_t)view_get(v, layout, VIEW_layout_objects);
    cache->min_objects = (uint32_t)view_get(v, layout, VIEW_layout_min_objects);
    cache->marks = view_get(v, layout, VIEW_layout_marks) != 0;
    cache->link_outside = view_get(v, layout, VIEW_layout_link_outside) != 0;
    cache->link_offset = (uint32_t)view_get(v, layout, VIEW_layout_link_offset);
    cache->link_stride = (uint32_t)view_get(v, layout, VIEW_layout_link_stride);
    cache->waste = (uint32_t)view_get(v, layout, VIEW_layout_waste);
    cache->room = (uint32_t)view_get(v, layout, VIEW_layout_room);
    cache->lead = (uint32_t)view_get(v, layout, VIEW_layout_lead);
    for (unsigned min = 0; min < 2; min++)
        for (unsigned i = 0; i < HEAP_COLUMNS; i++) {
            struct view_part from = view_within(columns, (min * kinds + which[i]) * each, each);
            if (which[i] >= kinds)
                continue;
            cache->column[min][i] =
                (struct heap_column){.offset = (uint32_t)view_get(v, from, VIEW_column_offset),
                                     .stride = (uint32_t)view_get(v, from, VIEW_column_stride),
                                     .element = (uint32_t)view_get(v, from, VIEW_column_element),
                                     .outside = view_get(v, from, VIEW_column_outside) != 0};
        }
}

static void heap_fill_node(const struct view *v, struct view_part copy,
                           const struct heap_cache *cache, struct heap_node *to, uint64_t *changes)
{
    struct view_part node = view_field(v, copy, VIEW_cache_node_node),
                     barn = view_field(v, copy, VIEW_cache_node_barn);

    *to = (struct heap_node){
        .barn_full = view_get(v, barn, VIEW_barn_nr_full),
        .barn_empty = view_get(v, barn, VIEW_barn_nr_empty),
        .barn_limit = view_get(v, barn, VIEW_barn_full_limit),
        .barn_objects = view_get(v, barn, VIEW_barn_bytes) / cache->stride,
        .peak_pages = view_get(v, node, VIEW_node_peak) << cache->order,
        .made = view_get(v, node, VIEW_node_made),
        .gone = view_get(v, node, VIEW_node_gone),
        .took = view_get(v, node, VIEW_node_took),
        .barn_get = view_get(v, barn, VIEW_barn_get),
        .barn_get_fail = view_get(v, barn, VIEW_barn_get_fail),
        .barn_put = view_get(v, barn, VIEW_barn_put),
        .barn_put_fail = view_get(v, barn, VIEW_barn_put_fail),
    };
    *changes += to->made + to->gone + to->took + to->barn_get + to->barn_put + to->barn_get_fail +
                to->barn_put_fail;
}

enum heap_found { HEAP_TORN, HEAP_NONE, HEAP_FOUND };

/* Whether so many objects lie within a slab. */
static bool heap_fits(const struct heap_cache *cache, uint32_t objects, uint32_t order)
{
    return order <= HEAP_ORDER_MAX && objects < HEAP_OBJECTS &&
           (objects == 0 ||
            cache->lead + (objects - 1) * (uint64_t)cache->stride + cache->object_size <=
                (uint64_t)TARGET_PAGE << order);
}

/* What has to be so of each cache: else its structure was read while it was made or unmade. */
static bool heap_is_cache(const struct heap_cache *cache, uint32_t index)
{
    return cache->index == index && cache->stride > 0 && cache->object_size > 0 &&
           cache->object_size <= cache->stride && cache->slab_objects > 0 &&
           cache->min_objects <= cache->slab_objects &&
           heap_fits(cache, cache->slab_objects, cache->order) &&
           heap_fits(cache, cache->min_objects, cache->min_order);
}

static enum heap_found heap_fill_cache(struct heap *heap, uint32_t index, uint64_t address,
                                       struct heap_cache *cache)
{
    const struct view *v = &heap->view;
    uint64_t head = view_value(v, VIEW_cache_nodes), each = view_size(v, VIEW_cache_node);
    struct view_part copy =
        view_copy(heap->target, address, head + each * heap->nodes, heap->own->copy);
    struct view_part policy = view_field(v, copy, VIEW_cache_policy);
    bool alive = view_get(v, copy, VIEW_cache_alive) != 0;

    if (copy.size == 0)
        return HEAP_TORN;
    *cache = (struct heap_cache){
        .address = address,
        .index = (uint32_t)view_get(v, copy, VIEW_cache_index),
        .flags = (uint32_t)view_get(v, copy, VIEW_cache_flags),
        .object_size = view_get(v, copy, VIEW_cache_object_size),
        .align = view_get(v, copy, VIEW_cache_align),
        .secret = (uint16_t)view_get(v, copy, VIEW_cache_secret),
        .ctor = view_get(v, copy, VIEW_cache_ctor) != 0,
        .prefilled = view_get(v, copy, VIEW_cache_prefilled),
        .count.in_sheaves = view_get(v, copy, VIEW_cache_held),
        .stat = view_get(v, copy, VIEW_cache_stat_kept),
        .stat_mode = (int)view_get(v, copy, VIEW_cache_stat_mode),
        .capacity = (uint32_t)view_get(v, policy, VIEW_policy_capacity),
        .level = view_get(v, policy, VIEW_policy_level),
        .cached_bytes = view_get(v, policy, VIEW_policy_cached),
        .cached_bytes_max = view_get(v, policy, VIEW_policy_cached_max),
        .account_key = view_get(v, view_field(v, copy, VIEW_cache_account), VIEW_account_key),
    };
    cache->shadow =
        view_knows(v, VIEW_at_shadow_use) && (cache->flags & view_value(v, VIEW_CACHE_SHADOW)) != 0;
    if (view_knows(v, VIEW_at_shadow_use))
        (void)target_take(heap->target,
                          view_value(v, VIEW_at_shadow_use) + index * sizeof(cache->shadows),
                          &cache->shadows);
    cache->internal = cache->shadow || (cache->flags & view_value(v, VIEW_CACHE_INTERNAL)) != 0;
    cache->malloc = (cache->flags & view_value(v, VIEW_CACHE_MALLOC)) != 0;
    heap_fill_layout(v, view_field(v, copy, VIEW_cache_layout), cache);
    view_text(v, copy, VIEW_cache_name, cache->name);
    if (!heap_is_cache(cache, index))
        return alive ? HEAP_TORN : HEAP_NONE;
    if (!target_spend(heap->target, heap->nodes * sizeof(*cache->node)))
        return HEAP_TORN;
    cache->node = target_need(calloc(heap->nodes, sizeof(*cache->node)));
    for (unsigned node = 0; node < heap->nodes; node++)
        heap_fill_node(v, view_within(copy, head + node * each, each), cache, &cache->node[node],
                       &cache->changes);
    return HEAP_FOUND;
}

static bool heap_read_caches(struct heap *heap)
{
    const struct view *v = &heap->view;
    uint64_t table = view_value(v, VIEW_at_cache_table), end, *pointer = heap->own->table;

    if (!view_read(v, heap->target, view_value(v, VIEW_at_percpu), VIEW_percpu_slots, &end) ||
        end > view_value(v, VIEW_STOOK_CACHES_MAX) ||
        !target_take_some(heap->target, table, heap->own->table, end))
        return false;
    heap->cache = target_need(realloc(heap->cache, (size_t)(end + 1) * sizeof(*heap->cache)));
    for (uint32_t i = 1; i < end; i++)
        if (pointer[i])
            target_expect(heap->target, pointer[i],
                          view_value(v, VIEW_cache_nodes) +
                              (uint64_t)heap->nodes * view_size(v, VIEW_cache_node));
    for (uint32_t i = 1; i < end; i++) {
        enum heap_found found =
            pointer[i] ? heap_fill_cache(heap, i, pointer[i], &heap->cache[heap->caches])
                       : HEAP_NONE;
        if (found == HEAP_TORN)
            return false;
        heap->caches += found == HEAP_FOUND;
    }
    return true;
}

struct heap_cache *heap_cache_at(const struct heap *heap, uint32_t index)
{
    size_t n = target_rows_to(heap->cache, heap->caches, index, index);

    return n > 0 && heap->cache[n - 1].index == index ? &heap->cache[n - 1] : NULL;
}

struct heap_cache *heap_cache_named(const struct heap *heap, const char *name)
{
    char *end;
    unsigned long number = strtoul(name, &end, 0);

    for (size_t i = 0; i < heap->caches; i++)
        if (strcmp(heap->cache[i].name, name) == 0)
            return &heap->cache[i];
    return *name && !*end && number <= UINT32_MAX ? heap_cache_at(heap, (uint32_t)number) : NULL;
}

/* ---- the sums --------------------------------------------------------------------------------- */

static uint64_t heap_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* From slabs, sheaves and barns.  False: they were not so at one time. */
static bool heap_sum_cache(struct heap_cache *cache, unsigned nodes)
{
    struct heap_count *n = &cache->count;
    uint64_t out = 0, pages = 0, made = 0;
    bool whole;

    for (unsigned i = 0; i < nodes; i++) {
        const struct heap_node *node = &cache->node[i];
        n->slabs += node->slabs;
        n->partial += node->partial;
        n->empty += node->empty;
        n->total += node->objects;
        n->barns += node->barn_full + node->barn_empty;
        n->in_sheaves += node->barn_objects;
        n->bytes.resident += node->bytes;
        out += node->out;
        pages += node->peak_pages;
        made += node->made - node->gone;
    }
    whole = n->in_sheaves <= out && n->slabs == made;
    n->in_sheaves = heap_least(n->in_sheaves, out);
    n->active = out - n->in_sheaves;
    n->in_slabs = n->total - out;
    if (cache->shadow) {
        n->total -= n->active;
        n->active = 0;
        n->bytes.resident -= heap_least(cache->shadows, n->bytes.resident);
    } else {
        n->total += cache->shadows;
        n->active += cache->shadows;
        n->bytes.resident += cache->shadows * cache->stride;
    }
    n->bytes.peak = pages << 12;
    n->bytes.in_use = heap_least(n->active * cache->object_size, n->bytes.resident);
    n->bytes.cached = heap_least((n->in_sheaves + n->in_slabs) * cache->object_size,
                                 n->bytes.resident - n->bytes.in_use);
    n->bytes.wasted = n->bytes.resident - n->bytes.in_use - n->bytes.cached;
    return whole;
}

void heap_add_bytes(struct heap_bytes *sum, const struct heap_bytes *bytes)
{
    sum->resident += bytes->resident;
    sum->in_use += bytes->in_use;
    sum->cached += bytes->cached;
    sum->wasted += bytes->wasted;
}

void heap_add(struct heap_count *sum, const struct heap_count *n)
{
    sum->active += n->active;
    sum->in_sheaves += n->in_sheaves;
    sum->in_slabs += n->in_slabs;
    sum->total += n->total;
    sum->slabs += n->slabs;
    sum->partial += n->partial;
    sum->empty += n->empty;
    sum->sheaves += n->sheaves;
    sum->barns += n->barns;
    heap_add_bytes(&sum->bytes, &n->bytes);
}

/* Whether slabs or sheaves of a cache have come or gone since its structure was read. */
static bool heap_cache_moved(struct heap *heap, const struct heap_cache *cache)
{
    const struct view *v = &heap->view;
    uint64_t each = view_size(v, VIEW_cache_node), changes = 0, size = each * heap->nodes;
    struct heap_node node;

    if (!target_read_now(heap->target, cache->address + view_value(v, VIEW_cache_nodes),
                         heap->own->copy, sizeof(heap->own->copy), size))
        return true;
    for (unsigned i = 0; i < heap->nodes; i++)
        heap_fill_node(v, view_within((struct view_part){heap->own->copy, size}, i * each, each),
                       cache, &node, &changes);
    return changes != cache->changes;
}

static unsigned heap_sum(struct heap *heap)
{
    unsigned torn = 0;

    heap->total = (struct heap_count){0};
    for (size_t i = 0; i < heap->caches; i++) {
        struct heap_cache *cache = &heap->cache[i];
        bool whole = heap_sum_cache(cache, heap->nodes);
        cache->moved = heap->target->live && heap_cache_moved(heap, cache);
        cache->torn = !whole && cache->moved;
        torn += cache->torn;
        heap_add(&heap->total, &cache->count);
    }
    heap->total.active += heap->large_objects;
    heap->total.total += heap->large_objects;
    heap->total.bytes.resident += heap->large_bytes;
    heap->total.bytes.in_use += heap->large_bytes;
    heap->total.bytes.peak = heap->arena.peak;
    return torn;
}

/* ---- a snapshot ------------------------------------------------------------------------------- */

static bool heap_try(struct heap *heap)
{
    heap_forget(heap);
    target_renew(heap->target);
    if (!heap_read_window(heap) || !heap_read_cpus(heap) || !heap_read_caches(heap) ||
        !heap_read_slots(heap) || !heap_read_slabs(heap) || !heap_read_rest(heap))
        return false;
    heap->torn = heap_sum(heap);
    return true;
}

/* What moves all the time in a process that starts, or in threads that take turns on a CPU, rests soon. */
static void heap_pause(unsigned tries)
{
    struct timespec time = {.tv_nsec = (long)tries * tries * 500000};

    if (tries > 1)
        nanosleep(&time, NULL);
}

bool heap_read(struct heap *heap, struct target_error *error)
{
    bool done = false;

    target_allow(heap->target, 1);
    for (heap->tries = 1; heap->tries <= HEAP_TRIES; heap->tries++) {
        heap_pause(heap->tries - 1);
        done = heap_try(heap);
        if (done && heap->torn == 0)
            return true;
        if (!target_alive(heap->target))
            return target_fail(error, "process %d (%s) has ended", heap->target->pid,
                               heap->target->name);
        if (heap->target->over)
            return target_damaged(heap->target, error);
        if (!view_holds(&heap->view, heap->target))
            return target_fail(error, "process %d (%s) has become another program",
                               heap->target->pid, heap->target->name);
        if (!heap->target->live)
            break;
    }
    if (heap->tries > HEAP_TRIES)
        heap->tries--;
    if (done)
        return true;
    if (!heap->target->live)
        return target_fail(error, "the core file of process %d (%s) lacks the library's tables: %s",
                           heap->target->pid, heap->target->name, target_core_lacks);
    (void)target_fail(
        error, "process %d (%s) changes faster than it can be read, or its tables are damaged",
        heap->target->pid, heap->target->name);
    error->damaged = true;
    return false;
}
