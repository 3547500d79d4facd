/* SPDX-License-Identifier: MIT */
/*
 * top_data.c - reads the rows of stook top, computes their rates, and sorts them.
 */
#include "stook/top/top_data.h"

#include "stook/look/look_show.h"

#include "look/apart.h"

#include "base/raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ------------------------------------------------------------------------------------- */

static struct top_row *top_add(struct top_data *data)
{
    data->row = target_row(data->row, data->rows, sizeof(*data->row));
    memset(&data->row[data->rows], 0, sizeof(data->row[0]));
    return &data->row[data->rows++];
}

/* What was read becomes what was before. */
static void top_begin(struct top_data *data)
{
    free(data->before);
    data->before = data->row;
    data->old_rows = data->rows;
    data->time_before = data->time;
    data->row = NULL;
    data->rows = 0;
    data->total = (struct heap_count){0};
    data->warm = data->rss = 0;
    data->counted = false;
    data->growth = 0;
}

static const struct top_row *top_before(const struct top_data *data, const struct top_row *row)
{
    for (size_t i = 0; i < data->old_rows; i++)
        if (data->before[i].key == row->key && strcmp(data->before[i].name, row->name) == 0)
            return &data->before[i];
    return NULL;
}

static double top_per_second(uint64_t now, uint64_t before, double seconds)
{
    return now > before ? (double)(now - before) / seconds : 0;
}

static void top_end(struct top_data *data, uint64_t time)
{
    double seconds = data->time_before ? (double)(time - data->time_before) / 1e9 : 0;

    data->time = time;
    for (size_t i = 0; i < data->rows; i++) {
        struct top_row *row = &data->row[i];
        const struct top_row *before = top_before(data, row);
        data->counted |= row->counted;
        if (seconds <= 0)
            continue;
        row->growth =
            ((double)row->bytes.resident - (before ? (double)before->bytes.resident : 0)) / seconds;
        data->growth += row->folded ? 0 : row->growth;
        if (!before)
            continue;
        row->event_rate = top_per_second(row->events, before->events, seconds);
        row->alloc_rate = top_per_second(row->allocs, before->allocs, seconds);
    }
}

void top_forget(struct top_data *data)
{
    free(data->row);
    free(data->before);
    data->row = data->before = NULL;
    data->rows = data->old_rows = 0;
    data->time = data->time_before = 0;
}

/* ---- of a process ----------------------------------------------------------------------------- */

static void top_events(const struct heap *heap, const struct heap_cache *cache, struct top_row *row)
{
    row->events += cache->changes;
    for (unsigned event = 0; cache->stat && event < heap->view.stats; event++)
        if (strcmp(heap->view.stat[event], "alloc_fastpath") == 0 ||
            strcmp(heap->view.stat[event], "alloc_slowpath") == 0)
            row->allocs += heap_stat_sum(heap, cache, event);
    row->counted |= cache->stat != 0;
}

static void top_count(struct top_row *row, const struct heap_count *n)
{
    row->active += n->active;
    row->total += n->total;
    row->slabs += n->slabs;
    heap_add_bytes(&row->bytes, &n->bytes);
}

static void top_add_cache(struct top_data *data, const struct heap_cache *cache)
{
    struct top_row *row = top_add(data);

    memcpy(row->name, cache->name, sizeof(row->name));
    row->key = cache->address;
    row->internal = cache->internal;
    row->torn = cache->torn;
    row->size = cache->object_size;
    top_count(row, &cache->count);
    top_events(data->heap, cache, row);
}

static struct top_row *top_add_sum(struct top_data *data, const char *name, uint64_t key)
{
    struct top_row *row = top_add(data);

    strcpy(row->name, name);
    row->key = key; /* the address of no cache */
    return row;
}

bool top_read_caches(struct top_data *data, struct target_error *error)
{
    struct heap *heap = data->heap;
    struct top_row *row;

    if (!heap_read(heap, error))
        return false;
    top_begin(data);
    for (size_t i = 0; i < heap->caches; i++)
        top_add_cache(data, &heap->cache[i]);
    if (heap->large_objects > 0 || heap->larges > 0) {
        row = top_add_sum(data, HEAP_ROW_LARGE, 1);
        row->active = row->total = heap->large_objects;
        row->bytes.resident = row->bytes.in_use = heap->large_bytes;
    }
    row = top_add_sum(data, HEAP_ROW_LIBRARY, 2);
    row->folded = true;
    for (size_t i = 0; i < heap->caches; i++)
        if (heap->cache[i].internal) {
            top_count(row, &heap->cache[i].count);
            top_events(heap, &heap->cache[i], row);
        }
    data->total = heap->total;
    data->warm = heap->arena.warm;
    data->rss = look_resident(heap->target->pid);
    top_end(data, heap->target->time);
    return true;
}

/* ---- of the host ------------------------------------------------------------------------------ */

/* What the child says of a process. */
struct top_seen {
    bool refused, found;
    struct top_row row;
    struct heap_count total;
};

static void top_look(int pid, FILE *to, void *arg)
{
    struct target_error error = {.refused = false};
    struct heap *heap = heap_open(target_open_pid(pid, &error), &error);
    struct top_seen seen = {.found = heap && heap_read(heap, &error)};
    struct top_row *row = &seen.row;

    (void)arg;
    seen.refused = error.refused;
    if (seen.found) {
        memcpy(row->name, heap->target->name, sizeof(heap->target->name));
        memcpy(row->mode, heap->mode, sizeof(row->mode));
        row->key = (uint64_t)pid;
        row->is_process = true;
        top_count(row, &heap->total);
        row->warm = heap->arena.warm;
        row->rss = look_resident(pid);
        for (size_t i = 0; i < heap->caches; i++)
            top_events(heap, &heap->cache[i], row);
        seen.total = heap->total;
    }
    fwrite(&seen, sizeof(seen), 1, to);
    heap_close(heap);
}

static void top_take(int pid, char *said, size_t size, void *arg)
{
    struct top_data *data = arg;
    struct top_seen seen;

    (void)pid;
    if (size != sizeof(seen))
        return;
    memcpy(&seen, said, sizeof(seen));
    data->refused += seen.refused;
    if (!seen.found)
        return;
    seen.row.name[sizeof(seen.row.name) - 1] = seen.row.mode[sizeof(seen.row.mode) - 1] = '\0';
    *top_add(data) = seen.row;
    data->rss += seen.row.rss;
    data->warm += seen.row.warm;
    heap_add(&data->total, &seen.total);
}

void top_read_processes(struct top_data *data)
{
    const struct apart apart = {top_look, top_take, data};

    top_begin(data);
    data->refused = 0;
    (void)apart_each(&apart, NULL, 0);
    top_end(data, raw_clock());
}

/* ---- in order --------------------------------------------------------------------------------- */

static enum top_sort top_by;
static bool top_inverted, top_by_allocs;

static double top_value(const struct top_row *row)
{
    const double values[TOP_SORTS] = {
        [TOP_RESIDENT] = (double)row->bytes.resident,
        [TOP_IN_USE] = (double)row->bytes.in_use,
        [TOP_CACHED] = (double)row->bytes.cached,
        [TOP_WASTED] = (double)row->bytes.wasted,
        [TOP_GROWTH] = row->growth,
        [TOP_OBJECTS] = (double)row->active,
        [TOP_RATE] = top_by_allocs ? row->alloc_rate : row->event_rate,
    };

    return values[top_by];
}

/* The largest first, names from A on; what is equal by bytes and then by name, so that rows stay where they are. */
static int top_order(const void *a, const void *b)
{
    const struct top_row *x = a, *y = b;
    double vx = top_value(x), vy = top_value(y);
    int order = 0;

    if (top_by != TOP_NAME)
        order = vx > vy ? -1 : vx < vy;
    if (order == 0 && top_by != TOP_NAME && x->bytes.resident != y->bytes.resident)
        order = x->bytes.resident > y->bytes.resident ? -1 : 1;
    if (order == 0)
        order = strcmp(x->name, y->name);
    if (order == 0)
        order = x->key < y->key ? -1 : x->key > y->key;
    return top_inverted ? -order : order;
}

void top_sort(struct top_data *data, enum top_sort sort, bool inverted)
{
    top_by = sort;
    top_inverted = inverted;
    top_by_allocs = data->counted;
    if (data->rows > 0)
        qsort(data->row, data->rows, sizeof(data->row[0]), top_order);
}

const char *const top_sort_names[TOP_SORTS + 1] = {"resident", "in-use", "cached",  "wasted",
                                                   "growth",   "rate",   "objects", "name"};

/* ---- text ------------------------------------------------------------------------------------- */

const char *top_size(uint64_t bytes, char text[TOP_SIZE])
{
    static const char units[] = "KMGTPE";
    uint64_t tenths = bytes;
    int unit = -1;

    if (bytes < 10000) {
        snprintf(text, TOP_SIZE, "%u", (unsigned)bytes);
        return text;
    }
    for (tenths *= 10; tenths >= 10240; unit++)
        tenths = (tenths + 512) / 1024;
    snprintf(text, TOP_SIZE, "%u.%u%c", (unsigned)(tenths / 10), (unsigned)(tenths % 10),
             units[unit]);
    return text;
}

const char *top_growth(double bytes, char text[TOP_SIZE])
{
    char size[TOP_SIZE];

    if (bytes > -0.5 && bytes < 0.5) {
        text[0] = '\0';
        return text;
    }
    top_size((uint64_t)(bytes < 0 ? -bytes : bytes), size);
    snprintf(text, TOP_SIZE, "%c%.10s", bytes < 0 ? '-' : '+', size);
    return text;
}
