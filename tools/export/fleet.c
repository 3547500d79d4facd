/* SPDX-License-Identifier: MIT */
/*
 * fleet.c - reads the processes of this host, and chooses which of them, of their caches and groups have rows.
 */
#include "export/fleet.h"

#include "look/apart.h"
#include "stook/look/look_show.h"

#include "base/raw.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const fleet_cache_events[FLEET_CACHE_EVENTS] = {
    [FLEET_SLABS_MADE] = "slab_made",         [FLEET_SLABS_GONE] = "slab_given_back",
    [FLEET_LIST_LOCKS] = "list_lock_taken",   [FLEET_BARN_GETS] = "barn_get",
    [FLEET_BARN_GET_FAILS] = "barn_get_fail", [FLEET_BARN_PUTS] = "barn_put",
    [FLEET_BARN_PUT_FAILS] = "barn_put_fail",
};
const char *const fleet_group_events[FLEET_GROUP_EVENTS] = {
    [FLEET_REFUSED] = "refused",
    [FLEET_RECLAIMS] = "reclaim",
};

static struct fleet_row *fleet_new_row(struct fleet_rows *rows, const char *name)
{
    struct fleet_row *row;

    rows->row = target_row(rows->row, rows->rows, sizeof(*rows->row));
    row = &rows->row[rows->rows++];
    *row = (struct fleet_row){.limit = UINT64_MAX, .soft = UINT64_MAX};
    snprintf(row->name, sizeof(row->name), "%s", name);
    return row;
}

/* Not the limits and peaks, whose sums mean nothing. */
static void fleet_add(struct fleet_row *to, const struct fleet_row *from)
{
    heap_add_bytes(&to->bytes, &from->bytes);
    to->active += from->active;
    to->in_sheaves += from->in_sheaves;
    to->in_slabs += from->in_slabs;
    to->full += from->full;
    to->partial += from->partial;
    to->empty += from->empty;
    for (unsigned i = 0; i < FLEET_EVENTS; i++)
        to->event[i] += from->event[i];
}

/* ---- a process ---------------------------------------------------------------------------------- */

static void fleet_add_cache(struct fleet_rows *rows, const struct heap *heap,
                            const struct heap_cache *cache)
{
    const struct heap_count *count = &cache->count;
    struct fleet_row row = {.bytes = count->bytes,
                            .active = count->active,
                            .in_sheaves = count->in_sheaves,
                            .in_slabs = count->in_slabs,
                            .full = count->slabs - count->partial - count->empty,
                            .partial = count->partial,
                            .empty = count->empty};
    struct fleet_row *same = NULL;

    for (unsigned i = 0; i < heap->nodes; i++) {
        const struct heap_node *node = &cache->node[i];
        row.event[FLEET_SLABS_MADE] += node->made;
        row.event[FLEET_SLABS_GONE] += node->gone;
        row.event[FLEET_LIST_LOCKS] += node->took;
        row.event[FLEET_BARN_GETS] += node->barn_get;
        row.event[FLEET_BARN_GET_FAILS] += node->barn_get_fail;
        row.event[FLEET_BARN_PUTS] += node->barn_put;
        row.event[FLEET_BARN_PUT_FAILS] += node->barn_put_fail;
    }
    if (count->total == 0 && count->slabs == 0 && row.event[FLEET_SLABS_MADE] == 0)
        return; /* it never had a slab */
    for (size_t i = 0; i < rows->rows && !same; i++)
        if (strcmp(rows->row[i].name, cache->name) == 0)
            same = &rows->row[i];
    fleet_add(same ? same : fleet_new_row(rows, cache->name), &row);
}

static void fleet_add_groups(struct fleet_rows *rows, const struct heap *heap, bool names)
{
    for (size_t i = 0; i < heap->groups; i++) {
        const struct heap_group *group = &heap->group[i];
        struct fleet_row *row = fleet_new_row(rows, names ? group->name : "");
        row->number = group->number;
        row->parent = group->parent;
        row->bytes.in_use = group->usage;
        row->bytes.cached = group->stocked;
        row->bytes.peak = group->peak;
        row->limit = group->limit;
        row->soft = group->soft_limit;
        row->event[FLEET_REFUSED] = group->refused;
        row->event[FLEET_RECLAIMS] = group->reclaims;
    }
}

/* The child: all of a process; what it says is this, its caches and its groups. */
struct fleet_seen {
    bool refused, found;
    struct fleet_process process;
};

static void fleet_fill(struct fleet_process *process, const struct heap *heap, bool group_names)
{
    struct fleet_row *large;

    *process = (struct fleet_process){.pid = heap->target->pid,
                                      .start = apart_started(heap->target->pid),
                                      .resident = look_resident(heap->target->pid),
                                      .warm = heap->arena.warm,
                                      .objects = heap->total.active,
                                      .torn = heap->torn,
                                      .bytes = heap->total.bytes};
    snprintf(process->name, sizeof(process->name), "%s", heap->target->name);
    snprintf(process->version, sizeof(process->version), "%s", heap->version);
    snprintf(process->mode, sizeof(process->mode), "%s", heap->mode);
    large = fleet_new_row(&process->cache, "large objects");
    large->bytes.resident = large->bytes.in_use = heap->large_bytes;
    large->active = heap->large_objects;
    for (size_t i = 0; i < heap->caches; i++)
        fleet_add_cache(&process->cache, heap, &heap->cache[i]);
    fleet_add_groups(&process->group, heap, group_names);
}

static void fleet_look(int pid, FILE *to, void *arg)
{
    const struct fleet *fleet = arg;
    struct target_error error = {.refused = false};
    struct heap *heap = heap_open(target_open_pid(pid, &error), &error);
    struct fleet_seen seen = {.found = heap && heap_read(heap, &error)};
    struct fleet_process *process = &seen.process;

    if (seen.found)
        fleet_fill(process, heap, fleet->group_names);
    seen.refused = error.refused || error.damaged;
    fwrite(&seen, sizeof(seen), 1, to);
    fwrite(process->cache.row, sizeof(struct fleet_row), process->cache.rows, to);
    fwrite(process->group.row, sizeof(struct fleet_row), process->group.rows, to);
    heap_close(heap);
}

/* Rows that follow at *at; false: there are not so many. */
static bool fleet_copy_rows(struct fleet_rows *rows, const char **at, const char *end)
{
    size_t n = rows->rows;

    *rows = (struct fleet_rows){0};
    if (n > (size_t)(end - *at) / sizeof(*rows->row))
        return false;
    rows->row = target_need(malloc(n * sizeof(*rows->row) + 1));
    memcpy(rows->row, *at, n * sizeof(*rows->row));
    rows->rows = n;
    *at += n * sizeof(*rows->row);
    return true;
}

static void fleet_take(int pid, char *said, size_t size, void *arg)
{
    struct fleet *fleet = arg;
    const char *at = said + sizeof(struct fleet_seen), *end = said + size;
    struct fleet_process *process;
    struct fleet_seen seen;

    (void)pid;
    if (size < sizeof(seen))
        return;
    memcpy(&seen, said, sizeof(seen));
    fleet->unreadable += seen.refused;
    if (!seen.found)
        return;
    fleet->process = target_row(fleet->process, fleet->processes, sizeof(*fleet->process));
    process = &fleet->process[fleet->processes];
    *process = seen.process;
    if (fleet_copy_rows(&process->cache, &at, end)) {
        if (fleet_copy_rows(&process->group, &at, end))
            fleet->processes++;
        else
            free(process->cache.row);
    }
}

/* ---- which have rows ---------------------------------------------------------------------------- */

static int fleet_compare_rows(const void *a, const void *b)
{
    const struct fleet_row *x = a, *y = b;
    uint64_t size_x = x->bytes.resident + x->bytes.in_use,
             size_y = y->bytes.resident + y->bytes.in_use;

    if (x->kept != y->kept)
        return x->kept ? -1 : 1;
    if (size_x != size_y)
        return size_x > size_y ? -1 : 1;
    return x->number != y->number ? (x->number < y->number ? -1 : 1) : strcmp(x->name, y->name);
}

static bool fleet_is_same_row(const struct fleet_row *a, const struct fleet_row *b)
{
    return a->number == b->number && strcmp(a->name, b->name) == 0;
}

/* What a group is charged with is in its parent's bytes too: of the rest, those count whose parents are not in it. */
static bool fleet_is_within_rest(const struct fleet_rows *rows, const struct fleet_row *row)
{
    for (size_t i = rows->shown; row->parent != 0 && i < rows->rows; i++)
        if (rows->row[i].number == row->parent)
            return true;
    return false;
}

/* `other`'s counters: what the rest counted since the last reading.  Where some of it went, nothing is added. */
static void fleet_count_rest(struct fleet_rows *rows)
{
    for (unsigned i = 0; i < FLEET_EVENTS; i++) {
        uint64_t now = rows->other.event[i];
        if (now > rows->seen[i])
            rows->said[i] += now - rows->seen[i];
        rows->seen[i] = now;
        rows->other.event[i] = rows->said[i];
    }
}

static void fleet_sum_rest(struct fleet_rows *rows)
{
    rows->other = (struct fleet_row){.name = "other", .limit = UINT64_MAX, .soft = UINT64_MAX};
    for (size_t i = rows->shown; i < rows->rows; i++) {
        struct fleet_row row = rows->row[i];
        if (row.number != 0 && fleet_is_within_rest(rows, &row))
            row.bytes.in_use = row.bytes.cached = 0;
        fleet_add(&rows->other, &row);
    }
    rows->rest |= rows->rows > rows->shown;
    fleet_count_rest(rows);
}

static void fleet_choose_rows(struct fleet_rows *rows, const struct fleet_rows *before, size_t most)
{
    size_t named = rows->rows;

    for (size_t i = 0; i < rows->rows; i++)
        for (size_t k = 0; before && k < before->shown && !rows->row[i].kept; k++)
            rows->row[i].kept = fleet_is_same_row(&rows->row[i], &before->row[k]);
    if (before) {
        rows->rest = before->rest;
        memcpy(rows->seen, before->seen, sizeof(rows->seen));
        memcpy(rows->said, before->said, sizeof(rows->said));
    }
    /* A cache of that name is part of the sum, since no reader could distinguish them. */
    for (size_t i = 0; i < named; i++)
        if (rows->row[i].number == 0 && strcmp(rows->row[i].name, "other") == 0) {
            struct fleet_row other = rows->row[i];
            rows->row[i--] = rows->row[--named];
            rows->row[named] = other;
        }
    if (named > 1)
        qsort(rows->row, named, sizeof(*rows->row), fleet_compare_rows);
    rows->shown = named < most ? named : most;
    fleet_sum_rest(rows);
}

static int fleet_compare_processes(const void *a, const void *b)
{
    const struct fleet_process *x = a, *y = b;

    if (x->kept != y->kept)
        return x->kept ? -1 : 1;
    if (x->bytes.resident != y->bytes.resident)
        return x->bytes.resident > y->bytes.resident ? -1 : 1;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* All that other processes have, as one whose caches and groups are all its rest. */
static void fleet_sum_processes(struct fleet *fleet, const struct fleet_process *before)
{
    struct fleet_process *other = &fleet->other;

    *other = (struct fleet_process){.name = "other"};
    other->cache = before->cache;
    other->group = before->group;
    other->cache.other = other->group.other =
        (struct fleet_row){.name = "other", .limit = UINT64_MAX, .soft = UINT64_MAX};
    for (size_t i = fleet->shown; i < fleet->processes; i++) {
        struct fleet_process *process = &fleet->process[i];
        fleet->rest = true;
        other->resident += process->resident;
        other->warm += process->warm;
        other->objects += process->objects;
        other->torn += process->torn;
        heap_add_bytes(&other->bytes, &process->bytes);
        process->cache.shown = process->group.shown = 0;
        fleet_sum_rest(&process->cache);
        fleet_sum_rest(&process->group);
        fleet_add(&other->cache.other, &process->cache.other);
        fleet_add(&other->group.other, &process->group.other);
        other->cache.rest |= process->cache.rest;
        other->group.rest |= process->group.rest;
    }
    fleet_count_rest(&other->cache);
    fleet_count_rest(&other->group);
}

static const struct fleet_process *fleet_find(const struct fleet_process *in, size_t n,
                                              const struct fleet_process *process)
{
    for (size_t i = 0; i < n; i++)
        if (in[i].pid == process->pid && in[i].start == process->start)
            return &in[i];
    return NULL;
}

static void fleet_choose(struct fleet *fleet, const struct fleet *before)
{
    for (size_t i = 0; i < fleet->processes; i++)
        fleet->process[i].kept =
            fleet_find(before->process, before->shown, &fleet->process[i]) != NULL;
    if (fleet->processes > 1)
        qsort(fleet->process, fleet->processes, sizeof(*fleet->process), fleet_compare_processes);
    fleet->shown =
        fleet->processes < fleet->processes_most ? fleet->processes : fleet->processes_most;
    for (size_t i = 0; i < fleet->shown; i++) {
        struct fleet_process *process = &fleet->process[i];
        const struct fleet_process *was = fleet_find(before->process, before->shown, process);
        fleet_choose_rows(&process->cache, was ? &was->cache : NULL, fleet->caches_most);
        fleet_choose_rows(&process->group, was ? &was->group : NULL, fleet->groups_most);
    }
    fleet_sum_processes(fleet, &before->other);
}

void fleet_read(struct fleet *fleet)
{
    const struct apart apart = {fleet_look, fleet_take, fleet};
    struct fleet before = *fleet;
    uint64_t begin = raw_clock();

    fleet->process = NULL;
    fleet->processes = fleet->shown = 0;
    fleet->unreadable = 0;
    fleet->late = apart_each(&apart, fleet->pid, fleet->pids);
    fleet_choose(fleet, &before);
    fleet_free(&before);
    fleet->seconds = 1e-9 * (double)(raw_clock() - begin);
}

void fleet_free(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->processes; i++) {
        free(fleet->process[i].cache.row);
        free(fleet->process[i].group.row);
    }
    free(fleet->process);
    fleet->process = NULL;
    fleet->processes = fleet->shown = 0;
}
