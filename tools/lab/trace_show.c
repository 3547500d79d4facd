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

const char *const trace_maps[] = {"thread", "cpu", NULL};

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
    writer_print(w, ", process %u%s; %lu.%03u s\n", trace->header.pid,
                 trace->header.ended ? "" : ", which had not ended",
                 ((s->end - s->begin) / 1000000000),
                 (unsigned)((s->end - s->begin) / 1000000 % 1000));
    writer_print(w, "threads          %u, on %u of %u CPUs, which changed %lu times\n",
                 trace->threads, s->cpus, trace->header.cpus, r->moves);
    writer_print(w, "events           %lu: %lu allocations, %lu frees,", (s->allocs + s->frees),
                 s->allocs, s->frees);
    show_ratio(w, 0, 100.0 * (double)r->remote, (double)r->frees, 1);
    writer_print(w, " %% of these by another thread\n");
    writer_print(w, "missing          %lu events and %lu chunks;", trace->header.lost,
                 s->chunks_missing);
    writer_print(w, " %lu frees of unknown objects, %lu objects freed unseen\n", r->unknown,
                 r->again);
    writer_print(w, "not replayed     %lu large objects,", s->large);
    show_mib(w, "", r->large_peak, " of them at most\n");
    show_mib(w, "live            ", r->live_peak, " at most,");
    show_mib(w, "", r->live, "");
    writer_print(w, " in %lu objects at the end\n", r->live_objects);
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
    writer_print(w, " %7lu", r->slabs);
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

static void show_json_trace(const struct trace *trace, const char *file,
                            const struct trace_row *row, struct writer *w)
{
    const struct trace_summary *s = &trace->summary;
    const struct trace_result *r = &row->result;

    writer_print(w, "{\"trace\": {");
    output_word(w, "file", file, ", ");
    output_word(w, "program", trace->header.program, ", ");
    writer_key(w, "pid", trace->header.pid, ", ");
    output_flag(w, "ended", trace->header.ended == 1, ",\n ");
    output_counts(w, ",\n ", {"recorded_cpus", trace->header.cpus}, {"cpus", s->cpus},
                  {"threads", trace->threads}, {"nanoseconds", s->end - s->begin},
                  {"bytes", s->bytes});
    output_counts(w, ",\n ", {"allocs", s->allocs}, {"frees", s->frees},
                  {"remote_frees", r->remote}, {"moves", r->moves});
    output_counts(w, ",\n ", {"lost", trace->header.lost}, {"chunks_missing", s->chunks_missing},
                  {"unknown_frees", r->unknown}, {"missing_frees", r->again});
    output_counts(w, ",\n ", {"large", s->large}, {"large_bytes", s->large_bytes},
                  {"large_bytes_peak", r->large_peak}, {"large_bytes_end", r->large_live});
    output_counts(w, "},\n ", {"live_peak", r->live_peak}, {"live_end", r->live},
                  {"live_mean", r->mean_live}, {"live_objects_end", r->live_objects});
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
        output_word(w, "name", c->name, ", ");
        output_counts(w, "}", {"size", c->size}, {"allocs", class[i].allocs},
                      {"live_peak", class[i].live_peak}, {"live_end", class[i].live},
                      {"outside", class[i].outside}, {"slabs_allocated", class[i].slabs},
                      {"slab_bytes_peak", class[i].peak}, {"slab_bytes_end", class[i].held},
                      {"slab_size", class[i].stride}, {"order", class[i].order},
                      {"objs_per_slab", class[i].slab_objects},
                      {"sheaf_capacity", class[i].capacity});
    }
    writer_print(w, "]");
}

static void show_json_run(const struct trace *trace, const struct trace_options *options,
                          const struct trace_row *row, struct writer *w)
{
    static const char *const locks[] = {"barn_locks", "list_locks"};
    const struct trace_result *r = &row->result;

    writer_print(w, "{");
    output_word(w, "topology", row->topology, ", ");
    output_word(w, "design", row->series->name, ",\n ");
    output_counts(w, ",\n ", {"cpus", r->cpus}, {"nodes", r->nodes}, {"allocs", r->allocs},
                  {"frees", r->frees}, {"alloc_outside", r->event[LAB_ALLOC_OUTSIDE]},
                  {"free_outside", r->event[LAB_FREE_OUTSIDE]});
    output_counts(w, ",\n ", {"slabs_allocated", r->slabs}, {"slab_bytes_peak", r->peak},
                  {"slab_bytes_end", r->held}, {"slab_bytes_mean", r->mean_held},
                  {"sheaf_bytes", r->sheaves});
    for (unsigned l = 0; l < 2; l++) {
        writer_print(w, "\"%s\": {", locks[l]);
        output_counts(w, "}, ", {"own", r->lock[l][0]}, {"near", r->lock[l][1]},
                      {"far", r->lock[l][2]});
    }
    if (options->costs) {
        writer_print(w, "\n \"nanoseconds\": {");
        for (unsigned i = TIMING_IN_WORK + 1; i < TIMING_IDLE; i++)
            writer_key(w, timing_spent_names[i], (uint64_t)r->spent[i],
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
        output_word(w, "map", trace_maps[options->map], ",\n ");
        writer_print(w, "\"runs\": [");
    } else {
        show_trace(trace, file, row, w);
        writer_print(w, "replayed         %u times, --map %s\n\n", rows, trace_maps[options->map]);
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
