/* SPDX-License-Identifier: MIT */
/*
 * show.c - stook_report(): the caches as a table for people and as one JSON object for machines.
 * docs/report.md explains every column and key; keys are only ever added.
 */
#include "charge/group.h"
#include "guard/guard.h"
#include "kmalloc/private.h"
#include "large/large.h"
#include "watch/stats.h"
#include "text/writer.h"

#include <errno.h>
#include <string.h>

enum {
    SHOW_NAME_MIN = 16,
    SHOW_FIRST = 128, /* rows of a table in order; what peaked lower has none */
    SHOW_GROUPS_NAME = 16,
    SHOW_JSON_FORMAT = 1, /* grows when a key changes its meaning or goes */
};

/* The large objects as a row, into the sum; the peak of all together is the arena's. */
static void show_add_large(struct stats_cache *row, struct stats_cache *sum)
{
    struct arena_stat arena;

    stats_read_arena(&arena);
    sum->peak = arena.peak;
    *row = (struct stats_cache){.name = "(large)"};
    large_count(&row->total, &row->resident);
    row->active = row->total;
    row->in_use = row->resident; /* all of their pages */
    stats_add(sum, row);
}

/* ---- table ---------------------------------------------------------------------------------- */

/* The sum of all caches and of large objects (`large`), and the width of their names. */
static int show_sum(struct stats_cache *sum, struct stats_cache *large)
{
    struct stats_cache row;
    size_t width = SHOW_NAME_MIN;

    *sum = (struct stats_cache){.name = "total"};
    for (unsigned i = 1, end = stats_caches(); i < end; i++) {
        if (!stats_read_cache(i, &row))
            continue;
        stats_add(sum, &row);
        if (strlen(row.name) > width)
            width = strlen(row.name);
    }
    show_add_large(large, sum);
    return (int)width;
}

/* Also of what is no cache, and has no slabs of one size. */
static void show_row(struct writer *w, const struct stats_cache *row, int width)
{
    writer_cell(w, row->name, width);
    if (row->peak)
        writer_size(w, row->peak);
    else
        writer_print(w, " %8s", "-");
    writer_size(w, row->resident);
    writer_size(w, row->in_use);
    writer_size(w, row->cached);
    writer_size(w, row->wasted);
    writer_print(w, " %10llu %10llu %7llu %7llu %6llu", (unsigned long long)row->active,
                 (unsigned long long)row->total, (unsigned long long)row->slabs,
                 (unsigned long long)row->sheaves, (unsigned long long)row->barns);
    if (row->slab_objects)
        writer_print(w, " %7llu %7u %5u %8u", (unsigned long long)row->object_size, row->stride,
                     row->order, row->slab_objects);
    writer_print(w, "\n");
}

static void show_line(struct writer *w, const char *label, uint64_t bytes, const char *what)
{
    writer_print(w, "%-10s", label);
    writer_size(w, bytes);
    writer_print(w, "  %s\n", what);
}

static void show_process(struct writer *w, const struct stats_cache *sum)
{
    struct stats_process p;
    struct arena_stat arena;

    stats_read_process(&p);
    stats_read_arena(&arena);
    writer_print(w, "stook %d.%d.%d: process %d (", STOOK_VERSION_MAJOR, STOOK_VERSION_MINOR,
                 STOOK_VERSION_PATCH, p.pid);
    writer_cell(w, p.program, 0);
    writer_print(w, ")\nmode %s: %s; %llu membarriers sent; %u of %u CPUs used, %u node%s\n",
                 p.mode, p.why, (unsigned long long)p.membarriers, p.cpus_used, p.cpus, p.nodes,
                 p.nodes == 1 ? "" : "s");
    show_line(w, "peak", sum->peak, "resident, the most at one time");
    show_line(w, "resident", sum->resident, "pages with objects: in use, cached and wasted bytes");
    show_line(w, "warm", arena.warm, "free pages, kept for what comes next");
    if (p.resident)
        show_line(w, "RSS", p.resident,
                  "of the whole process, with code, stacks and other mappings");
}

static void show_arena(struct writer *w)
{
    struct stats_process p;
    struct arena_stat arena;

    stats_read_process(&p);
    stats_read_arena(&arena);
    writer_print(w, "\n");
    show_line(w, "limit", arena.limit, "of warm bytes now; it follows what the program reuses");
    show_line(w, "metadata", arena.meta, "descriptors, links outside the objects, page map");
    show_line(w, "slots", p.slot_bytes, "of the CPUs that were used");
    show_line(w, "reserved", arena.reserved, "address space that is mapped, no memory");
}

/* Where objects were sampled. */
static void show_guard(struct writer *w)
{
    uint64_t sampled = atomic_load_explicit(&guard.sampled, memory_order_relaxed);

    if (sampled > 0)
        writer_print(w,
                     "guarded    %8llu  objects between pages without access, of %llu that were\n",
                     (unsigned long long)atomic_load_explicit(&guard.live, memory_order_relaxed),
                     (unsigned long long)sampled);
}

static void show_json_guard(struct writer *w)
{
    writer_print(w, " \"guard\": {");
    writer_key(w, "objects", atomic_load_explicit(&guard.live, memory_order_relaxed), ", ");
    writer_key(w, "bytes", atomic_load_explicit(&guard.live_bytes, memory_order_relaxed), ", ");
    writer_key(w, "sampled_objects", atomic_load_explicit(&guard.sampled, memory_order_relaxed),
               "},\n");
}

static unsigned show_groups_depth(struct stook_group group)
{
    unsigned depth = 0;

    while ((group = group_parent_of(group)).id)
        depth++;
    return depth;
}

static void show_groups_limit(struct writer *w, uint64_t bytes)
{
    if (bytes != STOOK_UNLIMITED)
        writer_size(w, bytes);
    else
        writer_print(w, " %8s", "-");
}

static void show_groups_row(struct writer *w, struct stook_group group)
{
    struct stook_group_stat stat = {.size = sizeof(stat)};
    const char *name = group_name_of(group);
    int indent = (int)show_groups_depth(group);

    if (!name || stook_group_stat(group, &stat) != 0) /* it goes meanwhile */
        return;
    writer_print(w, "%*s", indent, "");
    writer_cell(w, name, SHOW_GROUPS_NAME - indent);
    show_groups_limit(w, stat.limit);
    writer_size(w, stat.usage);
    writer_size(w, stat.own);
    writer_size(w, stat.stocked);
    writer_size(w, stat.peak);
    writer_print(w, " %8llu %8llu %8llu\n", (unsigned long long)stat.refused,
                 (unsigned long long)stat.reclaims, (unsigned long long)stat.soft_events);
}

/* A parent's children below it.  In groups made meanwhile it may miss some, as listing them does. */
static void show_groups_below(struct writer *w, struct stook_group parent)
{
    for (struct stook_group g = stook_group_next(STOOK_NO_GROUP); g.id; g = stook_group_next(g))
        if (stook_group_same(group_parent_of(g), parent)) {
            show_groups_row(w, g);
            show_groups_below(w, g); /* as deep as groups can be */
        }
}

/* A table with an empty line before it; nothing where there are no groups. */
static void show_groups_table(struct writer *w)
{
    if (!stook_group_next(STOOK_NO_GROUP).id)
        return;
    writer_print(w, "\n%-*s %8s %8s %8s %8s %8s %8s %8s %8s\n", SHOW_GROUPS_NAME, "group", "limit",
                 "usage", "own", "stocked", "peak", "refused", "reclaims", "soft");
    show_groups_below(w, STOOK_NO_GROUP);
}

_Static_assert(STOOK_CACHES_MAX <= PAGE_SIZE, "a peak has room for a cache's number");

/* Puts a cache, by its peak with its number, among those that peaked highest; how many there are then. */
static unsigned show_insert(uint64_t first[SHOW_FIRST], unsigned n, uint64_t peak)
{
    unsigned at = n < SHOW_FIRST ? n++ : SHOW_FIRST;

    for (; at > 0 && first[at - 1] < peak; at--)
        if (at < SHOW_FIRST)
            first[at] = first[at - 1];
    if (at < SHOW_FIRST)
        first[at] = peak;
    return n;
}

/* The rows of caches: all in the order of their making, or those of the program's own by their peaks. */
static void show_caches(struct writer *w, int width, bool all)
{
    uint64_t first[SHOW_FIRST];
    struct stats_cache row, own = {.name = "(library)"};
    unsigned n = 0, more = 0;

    for (unsigned i = 1, end = stats_caches(); i < end; i++) {
        if (!stats_read_cache(i, &row))
            continue;
        more += !row.internal;
        if (all)
            show_row(w, &row, width);
        else if (row.internal)
            stats_add(&own, &row);
        else if (row.peak > 0 || row.resident > 0)
            n = show_insert(first, n, row.peak | i);
    }
    for (unsigned i = 0; i < n; i++)
        if (stats_read_cache(first[i] % PAGE_SIZE, &row))
            show_row(w, &row, width);
    if (all)
        return;
    show_row(w, &own, width);
    if (more > n)
        writer_print(w, "(%u caches that never had slabs, or had few, are left out)\n", more - n);
}

static void show_table(struct writer *w, bool all)
{
    struct stats_cache large, sum;
    int width = show_sum(&sum, &large);

    show_process(w, &sum);
    writer_print(w, "\n%-*s %8s %8s %8s %8s %8s %10s %10s %7s %7s %6s %7s %7s %5s %8s\n", width,
                 "cache", "peak", "resident", "in use", "cached", "wasted", "objects", "total",
                 "slabs", "sheaves", "barns", "size", "stride", "order", "obj/slab");
    show_caches(w, width, all);
    if (large.total > 0 || all)
        show_row(w, &large, width);
    show_row(w, &sum, width);
    show_groups_table(w);
    show_arena(w);
    show_guard(w);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void show_json_counts(struct writer *w, const struct stats_cache *row)
{
#define SHOW_KEY(member, key) writer_key(w, key, row->member, ", ");
    STATS_SUMS(SHOW_KEY)
#undef SHOW_KEY
    writer_key(w, "peak_bytes", row->peak, "");
    static const char *const names[STAT_EVENTS] = {
#define SHOW_NAME(name, what) #name,
        STOOK_STAT_EVENTS(SHOW_NAME)
#undef SHOW_NAME
    };
    for (unsigned event = 0; row->counted && event < STAT_EVENTS; event++) {
        writer_print(w, event ? ", " : ",\n   \"counters\": {");
        writer_key(w, names[event], row->counter[event], "");
    }
    writer_print(w, row->counted ? "}}" : "}");
}

static void show_json_cache(struct writer *w, const struct stats_cache *row)
{
    writer_print(w, "{\"name\": ");
    writer_json(w, row->name);
    writer_print(w, ", \"internal\": %s, ", row->internal ? "true" : "false");
    writer_key(w, "object_size", row->object_size, ", ");
    writer_key(w, "align", row->align, ", ");
    writer_key(w, "stride", row->stride, ", ");
    writer_key(w, "order", row->order, ", ");
    writer_key(w, "objects_per_slab", row->slab_objects, ", ");
    writer_key(w, "sheaf_capacity", row->capacity, ", ");
    show_json_counts(w, row);
}

static void show_json_process(struct writer *w)
{
    struct stats_process p;

    stats_read_process(&p);
    writer_print(w, "{\"stook\": \"%d.%d.%d\", \"format\": %d, \"pid\": %d,\n \"program\": ",
                 STOOK_VERSION_MAJOR, STOOK_VERSION_MINOR, STOOK_VERSION_PATCH, SHOW_JSON_FORMAT,
                 p.pid);
    writer_json(w, p.program);
    writer_print(w, ", \"mode\": \"%s\", \"mode_why\": ", p.mode);
    writer_json(w, p.why);
    writer_print(w, ",\n ");
    writer_key(w, "membarriers", p.membarriers, ", ");
    writer_key(w, "cpus_possible", p.cpus, ", ");
    writer_key(w, "cpus_allowed", p.cpus_allowed, ", ");
    writer_key(w, "cpus_used", p.cpus_used, ", ");
    writer_key(w, "nodes", p.nodes, ", ");
    writer_key(w, "slot_bytes", p.slot_bytes, ", ");
    writer_key(w, "process_resident_bytes", p.resident, ",\n");
}

static void show_json_arena(struct writer *w)
{
    struct arena_stat arena;

    stats_read_arena(&arena);
    writer_print(w, " \"arena\": {");
    writer_key(w, "reserved_bytes", arena.reserved, ", ");
    writer_key(w, "used_bytes", arena.used, ", ");
    writer_key(w, "warm_bytes", arena.warm, ", ");
    writer_key(w, "warm_limit_bytes", arena.limit, ", ");
    writer_key(w, "reserve_bytes", arena.reserve, ", ");
    writer_key(w, "metadata_bytes", arena.meta, ", ");
    writer_key(w, "blocks", arena.blocks, ", ");
    writer_key(w, "purged_bytes", arena.purged, ", ");
    writer_key(w, "committed_bytes", arena.committed, "}");
}

static void show_groups_key_limit(struct writer *w, const char *key, uint64_t bytes)
{
    if (bytes == STOOK_UNLIMITED)
        writer_print(w, "\"%s\": null, ", key);
    else
        writer_key(w, key, bytes, ", ");
}

static void show_groups_json(struct writer *w)
{
    const char *start = "\n  {";

    writer_print(w, "[");
    for (struct stook_group g = stook_group_next(STOOK_NO_GROUP); g.id; g = stook_group_next(g)) {
        struct stook_group_stat stat = {.size = sizeof(stat)};
        const char *name = group_name_of(g);
        if (!name || stook_group_stat(g, &stat) != 0)
            continue;
        writer_print(w, "%s\"name\": ", start);
        start = ",\n  {";
        writer_json(w, name);
        writer_print(w, ", ");
        writer_key(w, "number", group_number(g), ", ");
        writer_key(w, "parent", group_number(group_parent_of(g)), ", ");
        show_groups_key_limit(w, "limit_bytes", stat.limit);
        show_groups_key_limit(w, "soft_limit_bytes", stat.soft_limit);
        writer_key(w, "usage_bytes", stat.usage, ", ");
        writer_key(w, "own_bytes", stat.own, ", ");
        writer_key(w, "stocked_bytes", stat.stocked, ", ");
        writer_key(w, "peak_bytes", stat.peak, ", ");
        writer_key(w, "refused", stat.refused, ", ");
        writer_key(w, "reclaims", stat.reclaims, ", ");
        writer_key(w, "soft_events", stat.soft_events, "}");
    }
    writer_print(w, "]");
}

static void show_json(struct writer *w)
{
    struct stats_cache row, sum = {0};
    bool first = true;

    show_json_process(w);
    writer_print(w, " \"caches\": [");
    for (unsigned i = 1, end = stats_caches(); i < end; i++) {
        if (!stats_read_cache(i, &row))
            continue;
        stats_add(&sum, &row);
        writer_print(w, first ? "\n  " : ",\n  ");
        show_json_cache(w, &row);
        first = false;
    }
    show_add_large(&row, &sum);
    writer_print(w, "],\n \"groups\": ");
    show_groups_json(w);
    writer_print(w, ",\n \"large\": {");
    writer_key(w, "objects", row.total, ", ");
    writer_key(w, "resident_bytes", row.resident, "},\n \"totals\": {");
    show_json_counts(w, &sum);
    writer_print(w, ",\n");
    show_json_guard(w);
    show_json_arena(w);
    writer_print(w, "}\n");
}

/* To a writer that is ready. */
static int show_report(struct writer *writer, unsigned format)
{
    bool all = (format & STOOK_REPORT_ALL) != 0;

    format &= ~STOOK_REPORT_ALL;
    if (format != STOOK_REPORT_TABLE && format != STOOK_REPORT_JSON) {
        errno = EINVAL;
        return -1;
    }
    if (!stats_readable()) {
        errno = EDEADLK;
        return -1;
    }
    if (format == STOOK_REPORT_JSON)
        show_json(writer);
    else
        show_table(writer, all);
    return writer_finish(writer);
}

int stook_report(int fd, unsigned format)
{
    struct writer writer;

    writer_init(&writer, fd);
    return show_report(&writer, format);
}

int stook_private_report(int (*put)(void *context, const char *text, size_t size), void *context)
{
    struct writer writer;

    writer_init_put(&writer, put, context);
    return show_report(&writer, STOOK_REPORT_TABLE);
}
