/* SPDX-License-Identifier: MIT */
/*
 * heap_rest.c - what is beside caches and slabs: the arena's counts, large and guarded objects, groups, counters.
 */
#include "look/heap_own.h"

#include <string.h>
#include <stdlib.h>

static unsigned rest_zone(const struct heap *heap, uint64_t address)
{
    uint32_t word;

    return address >= heap->begin && address < heap->end &&
                   target_take(heap->target, heap->own->zone + ((address - heap->base) >> 21) * 4,
                               &word)
               ? word & ((1u << view_value(&heap->view, VIEW_PAGEMAP_ZONE_BITS)) - 1)
               : UINT32_MAX;
}

/* Pages of runs and spans that were freed last and are out of their blocks: used to the zones, warm to people; of the
 * last row they are not resident. */
static uint64_t rest_kept(struct heap *heap, uint64_t *clean)
{
    const struct view *v = &heap->view;
    uint64_t rows = view_value(v, VIEW_KEPT_CLEAN) + 1, at = view_value(v, VIEW_at_zone_kept_row);
    uint32_t size = view_size(v, VIEW_arena_kept), runs = view_size(v, VIEW_arena_kept_run) / 8;
    uint64_t word, n, pages = 0;

    *clean = 0;
    if (!view_knows(v, VIEW_at_zone_kept_row))
        return 0;
    target_expect(heap->target, at, rows * size);
    for (uint64_t row = 0; row < rows; row++)
        for (uint32_t i = 0; i < runs; i++)
            if (target_take(heap->target, at + row * size + i * 8u, &word) && word &&
                rest_zone(heap, word) < heap->own->zones) {
                n = word & ((row + 2 < rows ? 1 : HEAP_BLOCK_PAGES) * TARGET_PAGE - 1);
                pages += n;
                *clean += row + 1 < rows ? 0 : n;
            }
    return pages;
}

static bool rest_arena(struct heap *heap)
{
    const struct view *v = &heap->view;
    uint64_t at = view_value(v, VIEW_at_zone_all) + view_value(v, VIEW_zones_zone), kept, clean;
    static char room[64 << 10];

    heap->arena = (struct heap_arena){0};
    if (!view_knows(v, VIEW_at_zone_all) || view_size(v, VIEW_zone) == 0)
        return true;
    for (unsigned i = 0; i < heap->own->zones; i++) {
        struct view_part copy = view_copy(heap->target, at + (uint64_t)i * view_size(v, VIEW_zone),
                                          view_size(v, VIEW_zone), room);
        if (copy.size == 0)
            return false;
        heap->arena.used += view_get(v, copy, VIEW_zone_used_pages) << 12;
        heap->arena.peak += view_get(v, copy, VIEW_zone_peak_pages) << 12;
        heap->arena.warm += view_get(v, copy, VIEW_zone_warm_pages) << 12;
        heap->arena.limit += view_get(v, copy, VIEW_zone_limit_pages) << 12;
        heap->arena.blocks += view_get(v, copy, VIEW_zone_opened);
        heap->arena.purged += view_get(v, copy, VIEW_zone_purged);
        heap->arena.committed += view_get(v, copy, VIEW_zone_missed);
    }
    kept = rest_kept(heap, &clean) << 12;
    if (kept <= heap->arena.used) {
        heap->arena.used -= kept;
        heap->arena.warm += kept - (clean << 12);
    }
    return true;
}

static bool rest_large(struct heap *heap)
{
    const struct view *v = &heap->view;
    uint64_t at = view_value(v, VIEW_at_large_row), rows = view_value(v, VIEW_LARGE_ROWS), sum = 0,
             word;
    unsigned bits = (unsigned)view_value(v, VIEW_LARGE_OBJECT_BITS);
    int64_t count, pages;

    heap->large_objects = heap->large_bytes = 0;
    if (!view_knows(v, VIEW_at_large_row) || bits == 0)
        return true;
    if (rows > heap->rows + 1) /* row -1 is counted, too */
        rows = heap->rows + 1;
    target_expect(heap->target, at, rows * view_size(v, VIEW_large_row));
    for (uint64_t i = 0; i < rows; i++) {
        if (!view_read(v, heap->target, at + i * view_size(v, VIEW_large_row), VIEW_large_row_count,
                       &word))
            return false;
        sum += word;
    }
    /* As large_count(): words read at different times may have the end of an object without its beginning. */
    count = (int64_t)(sum << (64 - bits)) >> (64 - bits);
    pages = (int64_t)(sum - (uint64_t)count) >> bits;
    heap->large_objects = count > 0 ? (uint64_t)count : 0;
    heap->large_bytes = pages > 0 ? (uint64_t)pages << 12 : 0;
    return true;
}

static void rest_guard(struct heap *heap)
{
    const struct view *v = &heap->view;
    uint64_t guard = view_value(v, VIEW_at_guard);

    heap->guarded_objects = heap->guarded_bytes = heap->guarded_ever = 0;
    if (!view_knows(v, VIEW_at_guard))
        return;
    (void)view_read(v, heap->target, guard, VIEW_guard_live, &heap->guarded_objects);
    (void)view_read(v, heap->target, guard, VIEW_guard_live_bytes, &heap->guarded_bytes);
    (void)view_read(v, heap->target, guard, VIEW_guard_sampled, &heap->guarded_ever);
}

/* ---- groups ----------------------------------------------------------------------------------- */

static bool rest_add_group(struct heap *heap, struct view_part copy)
{
    const struct view *v = &heap->view;
    struct heap_group *group;
    uint64_t returned = view_get(v, copy, VIEW_group_returned);

    if (view_get(v, copy, VIEW_group_state) != view_value(v, VIEW_GROUP_LIVES))
        return true;
    group = heap_row(heap, heap->group, heap->groups, sizeof(*group));
    if (!group)
        return false;
    heap->group = group;
    group += heap->groups++;
    *group = (struct heap_group){
        .number = (uint32_t)view_get(v, copy, VIEW_group_number),
        .depth = (uint32_t)view_get(v, copy, VIEW_group_depth),
        .usage = view_get(v, copy, VIEW_group_charged) - returned,
        .limit = view_get(v, copy, VIEW_group_limit),
        .soft_limit = view_get(v, copy, VIEW_group_soft),
        .peak = view_get(v, copy, VIEW_group_peak),
        .refused = view_get(v, copy, VIEW_group_refused),
        .reclaims = view_get(v, copy, VIEW_group_reclaims),
    };
    group->parent = (uint32_t)view_element(view_field(v, copy, VIEW_group_lineage), 1, 4);
    view_text(v, copy, VIEW_group_name, group->name);
    return true;
}

/* What CPUs took in advance for each group, by its number and place: a stock is a word, its number and its bytes. */
static bool rest_own_stocks(struct heap *heap, uint64_t *own)
{
    const struct view *v = &heap->view;
    uint64_t at = view_value(v, VIEW_at_group_stocks), rows = 0, used = 0, word;
    unsigned shift = (unsigned)view_value(v, VIEW_ROWS_LARGE);
    uint32_t kind = (uint32_t)view_value(v, VIEW_GROUP_STOCK_WORD);

    if (!view_knows(v, VIEW_at_group_stocks) || shift > 20 ||
        !view_read(v, heap->target, at, VIEW_group_stocks_rows, &rows) || rows == 0 ||
        !view_read(v, heap->target, at, VIEW_group_stocks_row_used, &used))
        return false;
    for (uint64_t row = 0; row <= heap->rows; row++) { /* the first one is of no CPU */
        if (!target_take(heap->target, used + row / 64 * 8, &word))
            return false;
        for (size_t i = 0; word >> row % 64 & 1 && i < heap->groups; i++) {
            uint32_t number = heap->group[i].number;
            uint64_t stock = rows + (row << shift) - (UINT64_C(1) << shift) +
                             number % view_value(v, VIEW_GROUP_PLACES) * 8;
            uint64_t value;
            if (target_take(heap->target, stock, &value) && ((uint32_t)value & ~kind) == number)
                own[i] += value >> 32;
        }
    }
    return true;
}

/* A group's stocks, and of those below it, are charged, but not used: as stook_group_stat() has it. */
static void rest_stocks(struct heap *heap, uint64_t high)
{
    uint64_t places = view_value(&heap->view, VIEW_GROUP_PLACES);
    uint64_t *own = target_need(calloc(heap->groups + 1, sizeof(*own)));
    uint32_t *by_place = target_need(calloc(high + 1, sizeof(*by_place))); /* a group's index + 1 */
    bool known = rest_own_stocks(heap, own);

    for (size_t i = 0; known && i < heap->groups; i++)
        if (heap->group[i].number % places <= high)
            by_place[heap->group[i].number % places] = (uint32_t)i + 1;
    for (size_t i = 0; known && i < heap->groups; i++) {
        uint32_t number = heap->group[i].number, index;
        for (unsigned depth = 0; depth < HEAP_GROUP_DEPTH && number % places <= high; depth++) {
            index = by_place[number % places];
            if (index == 0 || heap->group[index - 1].number != number)
                break;
            heap->group[index - 1].stocked += own[i];
            number = heap->group[index - 1].parent;
        }
    }
    for (size_t i = 0; i < heap->groups; i++) {
        struct heap_group *group = &heap->group[i];
        group->usage -= group->stocked < group->usage ? group->stocked : group->usage;
    }
    free(own);
    free(by_place);
}

static bool rest_groups(struct heap *heap)
{
    const struct view *v = &heap->view;
    uint64_t table = view_value(v, VIEW_at_group_table), at = 0, high = 0;
    uint64_t size = view_size(v, VIEW_group);
    char room[1024];

    if (!view_knows(v, VIEW_at_group_table) ||
        !view_read(v, heap->target, table, VIEW_group_table_at, &at) || at == 0 ||
        !view_read(v, heap->target, table, VIEW_group_table_high, &high))
        return true;
    if (high >= view_value(v, VIEW_GROUP_PLACES))
        return false;
    target_expect(heap->target, at, (high + 1) * size);
    for (uint64_t i = 1; i <= high; i++) {
        struct view_part copy = view_copy(heap->target, at + i * size, size, room);
        if (copy.size == 0 || !rest_add_group(heap, copy))
            return false;
    }
    if (heap->groups > 0 && high < 1 << 16)
        rest_stocks(heap, high);
    return true;
}

bool heap_read_rest(struct heap *heap)
{
    rest_guard(heap);
    return rest_large(heap) && rest_arena(heap) && rest_groups(heap);
}

/* ---- counters --------------------------------------------------------------------------------- */

uint64_t heap_stat(const struct heap *heap, const struct heap_cache *cache, int cpu, unsigned event)
{
    unsigned shift = (unsigned)view_value(&heap->view, VIEW_ROWS_STAT);
    uint64_t n = 0, more = 0, row;
    const char *name = event < heap->view.stats ? heap->view.stat[event] : "";

    if (!cache->stat || cpu < -1 || cpu >= (int)heap->rows || shift == 0 ||
        event >= (1u << shift) / 8)
        return 0;
    row = cache->stat + ((uint64_t)(int64_t)cpu << shift);
    if (!target_take(heap->target, row + event * 8u, &n))
        return 0;
    /* Objects straight from and to the main sheaf are counted once, and belong to both. */
    if (strcmp(name, "alloc_fastpath") == 0 || strcmp(name, "free_fastpath") == 0)
        (void)target_take(heap->target, row + (event + view_value(&heap->view, VIEW_STAT_MAIN)) * 8,
                          &more);
    return n + more;
}

uint64_t heap_stat_sum(const struct heap *heap, const struct heap_cache *cache, unsigned event)
{
    uint64_t sum = 0;

    for (int cpu = -1; cpu < (int)heap->cpus && !heap->target->over; cpu++)
        sum += heap_stat(heap, cache, cpu, event);
    return sum;
}
