/* SPDX-License-Identifier: MIT */
/*
 * trace_show.c - what replays of a trace have shown: a table with a line for each machine and design, or
 * one JSON object.  The same trace and options print the same bytes.
 */
#include "lab/trace_play.h"
#include "stook/command.h"

#include "text/writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOW_CACHES = 6 };

typedef unsigned long long show_number;

static const char *const show_maps[] = {"thread", "cpu"};

/* n of `of` in units of one to the power of -digits, right in `width` columns; "-" where `of` is 0. */
static void show_ratio(struct writer *w, int width, double n, double of, int digits)
{
    char text[40];

    if (of == 0)
        snprintf(text, sizeof(text), "-");
    else
        snprintf(text, sizeof(text), "%.*f", digits, n / of);
    writer_print(w, " %*s", width, text);
}

static uint64_t show_operations(const struct trace_result *r)
{
    return r->allocs + r->frees;
}

static double show_spent(const struct trace_result *r)
{
    double all = 0;

    for (unsigned i = 0; i < TIMING_SPENT; i++)
        all += i == TIMING_IN_WORK || i == TIMING_IDLE ? 0 : r->spent[i];
    return all;
}

/* ---- for people ----------------------------------------------------------------------------- */

/* "one-node" of topologies/one-node.topo; else the text, cut. */
static void show_topology(struct writer *w, const char *topology)
{
    const char *slash = strrchr(topology, '/'), *name = slash ? slash + 1 : topology;
    size_t n = strlen(name);
    char text[17];

    if (n > strlen(".topo") && strcmp(name + n - strlen(".topo"), ".topo") == 0)
        n -= strlen(".topo");
    else
        name = topology;
    snprintf(text, sizeof(text), "%.*s", (int)n, name);
    writer_cell(w, text, (int)sizeof(text));
}

static void show_mib(struct writer *w, const char *before, uint64_t bytes, const char *behind)
{
    writer_print(w, "%s", before);
    show_ratio(w, 0, (double)bytes, 1 << 20, 2);
    writer_print(w, " MiB%s", behind);
}

/* The caches with the most allocations. */
static void show_caches(const struct trace *trace, const struct trace_class_result *class,
                        struct writer *w)
{
    bool *shown = calloc(trace->classes + 1, sizeof(*shown));
    unsigned used = 0, left;
    uint64_t all = 0;

    for (unsigned i = 0; i < trace->classes; i++) {
        used += class[i].allocs > 0;
        all += class[i].allocs;
    }
    writer_print(w, "caches           %u with objects", used);
    left = used < SHOW_CACHES ? used : SHOW_CACHES;
    for (unsigned n = 0; shown && n < left; n++) {
        unsigned most = trace->classes;
        for (unsigned i = 0; i < trace->classes; i++)
            if (!shown[i] && (most == trace->classes || class[i].allocs > class[most].allocs))
                most = i;
        shown[most] = true;
        writer_print(w, "%s", n ? ", " : "; of all allocations ");
        writer_cell(w, trace->class[most].name, 0);
        show_ratio(w, 0, 100.0 * (double)class[most].allocs, (double)all, 1);
        writer_print(w, " %%");
    }
    writer_print(w, "\n");
    free(shown);
}

static void show_trace(const struct trace *trace, const char *file, const struct trace_row *row,
                       struct writer *w)
{
    const struct trace_summary *s = &trace->summary;
    const struct trace_result *r = &row->result;

    writer_print(w, "stook lab trace ");
    writer_cell(w, file, 0);
    writer_print(w, "\nprogram          ");
    writer_cell(w, trace->header.program, 0);
    writer_print(w, ", process %u%s; %llu.%03u s\n", trace->header.pid,
                 trace->header.ended ? "" : ", which had not ended",
                 (show_number)((s->end - s->begin) / 1000000000),
                 (unsigned)((s->end - s->begin) / 1000000 % 1000));
    writer_print(w, "threads          %u, on %u of %u CPUs, which changed %llu times\n",
                 trace->threads, s->cpus, trace->header.cpus, (show_number)r->moves);
    writer_print(w, "events           %llu: %llu allocations, %llu frees,",
                 (show_number)(s->allocs + s->frees), (show_number)s->allocs,
                 (show_number)s->frees);
    show_ratio(w, 0, 100.0 * (double)r->remote, (double)r->frees, 1);
    writer_print(w, " %% of these by another thread\n");
    writer_print(w, "missing          %llu events and %llu chunks;",
                 (show_number)trace->header.lost, (show_number)s->chunks_missing);
    writer_print(w, " %llu frees of unknown objects, %llu objects freed unseen\n",
                 (show_number)r->unknown, (show_number)r->again);
    writer_print(w, "not replayed     %llu large objects,", (show_number)s->large);
    show_mib(w, "", r->large_peak, " of them at most\n");
    show_mib(w, "live            ", r->live_peak, " at most,");
    show_mib(w, "", r->live, "");
    writer_print(w, " in %llu objects at the end\n", (show_number)r->live_objects);
    show_caches(trace, row->class, w);
}

static void show_columns(const struct trace_options *options, struct writer *w)
{
    writer_print(w, "%39s %-13s %7s %-14s %-13s %8s %-20s%s\n", "", "  % outside", "",
                 "    slabs, MiB", "  a byte live", "sheaves", "  locks, 1000 calls",
                 options->costs ? "     a call, ns" : "");
    writer_print(w, "%-17s%-22s %6s %6s %7s %7s %6s %6s %6s %8s %6s %6s %6s", "topology", "design",
                 "alloc", "free", "slabs", "most", "end", "most", "mean", "KiB", "own", "near",
                 "far");
    if (options->costs)
        writer_print(w, " %6s %6s %6s", "all", "lines", "wait");
    writer_print(w, "\n");
}

static void show_row(const struct trace_options *options, const struct trace_row *row,
                     struct writer *w)
{
    const struct trace_result *r = &row->result;
    double operations = (double)show_operations(r), spent = show_spent(r);

    show_topology(w, row->name);
    writer_print(w, "%-22s", row->series->name);
    show_ratio(w, 6, 100.0 * (double)r->event[LAB_ALLOC_OUTSIDE], (double)r->allocs, 2);
    show_ratio(w, 6, 100.0 * (double)r->event[LAB_FREE_OUTSIDE], (double)r->frees, 2);
    writer_print(w, " %7llu", (show_number)r->slabs);
    show_ratio(w, 7, (double)r->peak, 1 << 20, 2);
    show_ratio(w, 6, (double)r->held, 1 << 20, 2);
    show_ratio(w, 6, (double)r->peak, (double)r->live_peak, 2);
    show_ratio(w, 6, (double)r->mean_held, (double)r->mean_live, 2);
    show_ratio(w, 8, (double)r->sheaves, 1 << 10, 0);
    for (unsigned i = 0; i < 3; i++)
        show_ratio(w, 6, 1000.0 * (double)(r->lock[0][i] + r->lock[1][i]), operations, 1);
    if (options->costs) {
        show_ratio(w, 6, spent, operations, 1);
        show_ratio(w, 6, r->spent[TIMING_IN_LINES] + r->spent[TIMING_IN_OBJECTS], operations, 1);
        show_ratio(w, 6, r->spent[TIMING_IN_BARNS] + r->spent[TIMING_IN_LISTS], operations, 1);
    }
    writer_print(w, "\n");
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void show_key(struct writer *w, const char *key, uint64_t n, const char *end)
{
    writer_print(w, "\"%s\": %llu%s", key, (show_number)n, end);
}

static void show_word(struct writer *w, const char *key, const char *text, const char *end)
{
    writer_print(w, "\"%s\": ", key);
    writer_json(w, text);
    writer_print(w, "%s", end);
}

static void show_json_trace(const struct trace *trace, const char *file,
                            const struct trace_row *row, struct writer *w)
{
    const struct trace_summary *s = &trace->summary;
    const struct trace_result *r = &row->result;

    writer_print(w, "{\"trace\": {");
    show_word(w, "file", file, ", ");
    show_word(w, "program", trace->header.program, ", ");
    show_key(w, "pid", trace->header.pid, ", ");
    writer_print(w, "\"ended\": %s,\n ", trace->header.ended == 1 ? "true" : "false");
    show_key(w, "recorded_cpus", trace->header.cpus, ", ");
    show_key(w, "cpus", s->cpus, ", ");
    show_key(w, "threads", trace->threads, ", ");
    show_key(w, "nanoseconds", s->end - s->begin, ", ");
    show_key(w, "bytes", s->bytes, ",\n ");
    show_key(w, "allocs", s->allocs, ", ");
    show_key(w, "frees", s->frees, ", ");
    show_key(w, "remote_frees", r->remote, ", ");
    show_key(w, "moves", r->moves, ",\n ");
    show_key(w, "lost", trace->header.lost, ", ");
    show_key(w, "chunks_missing", s->chunks_missing, ", ");
    show_key(w, "unknown_frees", r->unknown, ", ");
    show_key(w, "missing_frees", r->again, ",\n ");
    show_key(w, "large", s->large, ", ");
    show_key(w, "large_bytes", s->large_bytes, ", ");
    show_key(w, "large_bytes_peak", r->large_peak, ", ");
    show_key(w, "large_bytes_end", r->large_live, ",\n ");
    show_key(w, "live_peak", r->live_peak, ", ");
    show_key(w, "live_end", r->live, ", ");
    show_key(w, "live_mean", r->mean_live, ", ");
    show_key(w, "live_objects_end", r->live_objects, "},\n ");
}

static void show_json_caches(const struct trace *trace, const struct trace_class_result *class,
                             struct writer *w)
{
    bool first = true;

    writer_print(w, "\"caches\": [");
    for (unsigned i = 0; i < trace->classes; i++) {
        const struct trace_class *c = &trace->class[i];
        if (class[i].allocs == 0)
            continue;
        writer_print(w, "%s\n  {", first ? "" : ",");
        first = false;
        show_word(w, "name", c->name, ", ");
        show_key(w, "size", c->size, ", ");
        show_key(w, "allocs", class[i].allocs, ", ");
        show_key(w, "live_peak", class[i].live_peak, ", ");
        show_key(w, "live_end", class[i].live, ", ");
        show_key(w, "outside", class[i].outside, ", ");
        show_key(w, "slabs_allocated", class[i].slabs, ", ");
        show_key(w, "slab_bytes_peak", class[i].peak, ", ");
        show_key(w, "slab_bytes_end", class[i].held, ", ");
        show_key(w, "slab_size", class[i].stride, ", ");
        show_key(w, "order", class[i].order, ", ");
        show_key(w, "objs_per_slab", class[i].slab_objects, ", ");
        show_key(w, "sheaf_capacity", class[i].capacity, "}");
    }
    writer_print(w, "]");
}

static void show_json_run(const struct trace *trace, const struct trace_options *options,
                          const struct trace_row *row, struct writer *w)
{
    static const char *const locks[] = {"barn_locks", "list_locks"};
    const struct trace_result *r = &row->result;

    writer_print(w, "{");
    show_word(w, "topology", row->topology, ", ");
    show_word(w, "design", row->series->name, ",\n ");
    show_key(w, "cpus", r->cpus, ", ");
    show_key(w, "nodes", r->nodes, ", ");
    show_key(w, "allocs", r->allocs, ", ");
    show_key(w, "frees", r->frees, ", ");
    show_key(w, "alloc_outside", r->event[LAB_ALLOC_OUTSIDE], ", ");
    show_key(w, "free_outside", r->event[LAB_FREE_OUTSIDE], ",\n ");
    show_key(w, "slabs_allocated", r->slabs, ", ");
    show_key(w, "slab_bytes_peak", r->peak, ", ");
    show_key(w, "slab_bytes_end", r->held, ", ");
    show_key(w, "slab_bytes_mean", r->mean_held, ", ");
    show_key(w, "sheaf_bytes", r->sheaves, ",\n ");
    for (unsigned l = 0; l < 2; l++) {
        writer_print(w, "\"%s\": {", locks[l]);
        show_key(w, "own", r->lock[l][0], ", ");
        show_key(w, "near", r->lock[l][1], ", ");
        show_key(w, "far", r->lock[l][2], "}, ");
    }
    if (options->costs) {
        writer_print(w, "\n \"nanoseconds\": {");
        for (unsigned i = TIMING_IN_WORK + 1; i < TIMING_IDLE; i++)
            show_key(w, timing_spent_names[i], (uint64_t)r->spent[i],
                     i + 1 < TIMING_IDLE ? ", " : "},");
    }
    writer_print(w, "\n ");
    show_json_caches(trace, row->class, w);
    writer_print(w, "}");
}

int trace_show(const struct trace *trace, const char *file, const struct trace_options *options,
               const struct trace_row *row, unsigned rows)
{
    struct writer writer, *w = &writer;

    output_writer(w);
    if (options->json) {
        show_json_trace(trace, file, row, w);
        show_word(w, "map", show_maps[options->map], ",\n ");
        writer_print(w, "\"runs\": [");
    } else {
        show_trace(trace, file, row, w);
        writer_print(w, "replayed         %u times, --map %s\n\n", rows, show_maps[options->map]);
        show_columns(options, w);
    }
    for (unsigned i = 0; i < rows; i++) {
        if (options->json)
            writer_print(w, "%s", i ? ",\n " : "");
        if (options->json)
            show_json_run(trace, options, &row[i], w);
        else
            show_row(options, &row[i], w);
    }
    if (options->json)
        writer_print(w, "]}\n");
    (void)writer_finish(w);
    return 0;
}
