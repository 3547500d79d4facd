/* SPDX-License-Identifier: MIT */
/*
 * lab_trace.c - stook lab trace: its options, and a process for each replay, since a process has one
 * topology.  As many run beside each other as there are CPUs.
 */
#include "stook/lab/lab_parts.h"

#include "lab/trace_play.h"
#include "look/target.h"
#include "stook/command.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAB_TRACE_BESIDE = 4, LAB_TRACE_GAP_MAX = 1000000000 };

/* ---- options -------------------------------------------------------------------------------- */

static const char *lab_trace_topology(const char *text, void *to)
{
    struct trace_options *o = to;

    if (o->topologies == TRACE_TOPOLOGIES)
        return "16 topologies at most are possible";
    o->name[o->topologies] = text;
    o->topology[o->topologies++] = text;
    return NULL;
}

static bool lab_trace_parse(struct trace_options *o, int argc, char **argv, const char **file)
{
    bool timed = false;
    const struct option_row rows[] = {
        {"topology", OPTION_CALL, o, .read = lab_trace_topology},
        {"design", OPTION_CALL, &o->designs, .read = lab_read_designs},
        {"map", OPTION_WORD, &o->map, .words = trace_maps},
        {"capacity", OPTION_UNSIGNED, &o->capacity, 1, .most = STOOK_SHEAF_CAPACITY_MAX},
        {"order", OPTION_CALL, &o->order, .read = lab_read_order},
        {"time", OPTION_FLAG, .to = &timed},
        {"costs", OPTION_CALL, &o->costs, .read = lab_read_costs},
        {"gap", OPTION_NUMBER, &o->gap, 0, .most = LAB_TRACE_GAP_MAX},
        {"json", OPTION_FLAG, .to = &o->json},
    };
    const struct option_table table = {"lab trace", STATUS_USAGE, rows,
                                       sizeof(rows) / sizeof(rows[0]), .units = LAB_UNITS};

    if (option_read(&table, argc, argv) != STATUS_OK)
        return false;
    if (!o->costs && (timed || o->gap != UINT64_MAX))
        o->costs = &timing_frozen;
    if (optind + 1 != argc)
        return refuse(optind == argc ? "trace: a file is needed" : "trace: one trace at a time");
    *file = argv[optind];
    return true;
}

/* ---- a process for each replay -------------------------------------------------------------- */

struct lab_trace_call {
    struct trace *trace;
    const struct trace_options *options;
    struct trace_row *row;
};

static int lab_trace_play(void *arg, FILE *to)
{
    const struct lab_trace_call *call = arg;
    struct trace_row *row = call->row;
    int status;

    status = lab_machine(row->topology);
    if (status != 0)
        return status;
    status = trace_play(call->trace, call->options, row->series, &row->result, row->class);
    fwrite(&row->result, sizeof(row->result), 1, to);
    fwrite(row->class, sizeof(row->class[0]), call->trace->classes, to);
    return status;
}

static int lab_trace_end(const struct trace *trace, struct trace_row *row,
                         struct sweep_child *child)
{
    bool all =
        fread(&row->result, sizeof(row->result), 1, child->from) == 1 &&
        fread(row->class, sizeof(row->class[0]), trace->classes, child->from) == trace->classes;

    return sweep_end(child, all, row->series->name);
}

/* In turn, some at a time; those that have begun are waited for whatever happens. */
static int lab_trace_all(struct trace *trace, const struct trace_options *options,
                         struct trace_row *row, unsigned rows)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned beside = cpus < 1 ? 1 : cpus > LAB_TRACE_BESIDE ? LAB_TRACE_BESIDE : (unsigned)cpus;
    struct sweep_child child[LAB_TRACE_BESIDE];
    unsigned begun = 0, ended = 0;
    int status = 0, one;

    while (ended < begun || (begun < rows && status == 0)) {
        if (begun < rows && status == 0 && begun - ended < beside) {
            struct lab_trace_call call = {trace, options, &row[begun]};
            status = sweep_begin(&child[begun % beside], lab_trace_play, &call);
            begun += status == 0;
            continue;
        }
        one = lab_trace_end(trace, &row[ended], &child[ended % beside]);
        status = status ? status : one;
        ended++;
    }
    return status;
}

/* Linux's designs as they came, then ours. */
static unsigned lab_trace_rows(const struct trace *trace, const struct trace_options *options,
                               struct trace_row *row, struct trace_class_result *class)
{
    unsigned rows = 0;

    for (unsigned t = 0; t < options->topologies; t++)
        for (unsigned i = 1; i <= SWEEP_SERIES; i++) {
            unsigned series = i % SWEEP_SERIES;
            if (!(options->designs >> series & 1))
                continue;
            row[rows].topology = options->topology[t];
            row[rows].name = options->name[t];
            row[rows].series = &sweep_series[series];
            row[rows].class = class + rows * trace->classes;
            rows++;
        }
    return rows;
}

int lab_trace_run(int argc, char **argv, const char *machine)
{
    struct trace_options options = {.order = -1, .gap = UINT64_MAX};
    struct trace_row row[TRACE_TOPOLOGIES * SWEEP_SERIES];
    struct trace_class_result *class;
    struct trace trace;
    const char *file;
    unsigned rows;
    int status;

    if (!lab_trace_parse(&options, argc, argv, &file))
        return STATUS_USAGE;
    if (options.topologies == 0) {
        options.name[0] = "ublk";
        options.topology[options.topologies++] = machine;
    }
    if (options.designs == 0)
        options.designs = ~0u;
    class = NULL;
    if (!trace_open(&trace, file)) {
        status = complain(STATUS_FAILED, "%s: %s", file, trace.error);
    } else {
        class = target_need(calloc((size_t)TRACE_TOPOLOGIES * SWEEP_SERIES * (trace.classes + 1),
                                   sizeof(class[0])));
        rows = lab_trace_rows(&trace, &options, row, class);
        status = lab_trace_all(&trace, &options, row, rows);
        if (status == 0)
            status = trace_show(&trace, file, &options, row, rows);
    }
    free(class);
    trace_close(&trace);
    return status;
}
