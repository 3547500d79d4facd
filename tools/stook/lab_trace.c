/* SPDX-License-Identifier: MIT */
/*
 * lab_trace.c - stook lab trace: its options, and a process for each replay, since a process has one
 * topology.  As many run beside each other as there are CPUs.
 */
#include "stook/lab_trace.h"

#include "lab/trace_play.h"
#include "stook/command.h"

#include "sim/sim.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAB_TRACE_BESIDE = 4, LAB_TRACE_GAP_MAX = 1000000000 };

enum {
    TRACE_OPTION_TOPOLOGY = 1,
    TRACE_OPTION_DESIGN,
    TRACE_OPTION_MAP,
    TRACE_OPTION_CAPACITY,
    TRACE_OPTION_ORDER,
    TRACE_OPTION_TIME,
    TRACE_OPTION_COSTS,
    TRACE_OPTION_GAP,
    TRACE_OPTION_JSON,
};

static const struct option lab_trace_options[] = {
    {"topology", required_argument, NULL, TRACE_OPTION_TOPOLOGY},
    {"design", required_argument, NULL, TRACE_OPTION_DESIGN},
    {"map", required_argument, NULL, TRACE_OPTION_MAP},
    {"capacity", required_argument, NULL, TRACE_OPTION_CAPACITY},
    {"order", required_argument, NULL, TRACE_OPTION_ORDER},
    {"time", no_argument, NULL, TRACE_OPTION_TIME},
    {"costs", required_argument, NULL, TRACE_OPTION_COSTS},
    {"gap", required_argument, NULL, TRACE_OPTION_GAP},
    {"json", no_argument, NULL, TRACE_OPTION_JSON},
    {NULL, 0, NULL, 0},
};

static struct timing_costs lab_trace_costs;

/* ---- options -------------------------------------------------------------------------------- */

static bool lab_trace_number(const char *option, const char *text, unsigned least, unsigned most,
                             unsigned *number)
{
    char *end;
    unsigned long n;

    errno = 0;
    n = strtoul(text, &end, 10);
    *number = (unsigned)n;
    if (end != text && *end == '\0' && *text != '-' && errno == 0 && n >= least && n <= most)
        return true;
    complain(STATUS_USAGE, "lab trace: --%s %s: a number from %u to %u is expected", option, text,
             least, most);
    return false;
}

/* A design, or several between commas, besides those that were named before. */
static bool lab_trace_design(struct trace_options *o, const char *text)
{
    char name[32];
    int n, found;

    for (; *text; text += n + (text[n] == ',')) {
        n = (int)strcspn(text, ",");
        snprintf(name, sizeof(name), "%.*s", n, text);
        found = sweep_find(name);
        if (found < 0 && strcmp(name, "all") != 0)
            return complain(STATUS_USAGE,
                            "lab trace: --design %s: there are cpu-partial, upstream-first, "
                            "upstream-first+refill, upstream, stook, all",
                            name) == 0;
        o->designs |= found < 0 ? ~0u : 1u << found;
    }
    return true;
}

static bool lab_trace_map(struct trace_options *o, const char *text)
{
    o->map = strcmp(text, "cpu") == 0 ? TRACE_BY_CPU : TRACE_BY_THREAD;
    if (o->map == TRACE_BY_CPU || strcmp(text, "thread") == 0)
        return true;
    complain(STATUS_USAGE, "lab trace: --map %s: thread or cpu is expected", text);
    return false;
}

static bool lab_trace_option(struct trace_options *o, int option, const char *text)
{
    unsigned n;

    switch (option) {
    case TRACE_OPTION_TOPOLOGY:
        if (o->topologies == TRACE_TOPOLOGIES) {
            complain(STATUS_USAGE, "lab trace: more than %d topologies", TRACE_TOPOLOGIES);
            return false;
        }
        o->name[o->topologies] = text;
        o->topology[o->topologies++] = text;
        return true;
    case TRACE_OPTION_DESIGN:
        return lab_trace_design(o, text);
    case TRACE_OPTION_MAP:
        return lab_trace_map(o, text);
    case TRACE_OPTION_CAPACITY:
        return lab_trace_number("capacity", text, 1, STOOK_SHEAF_CAPACITY_MAX, &o->capacity);
    case TRACE_OPTION_ORDER:
        if (!lab_trace_number("order", text, 0, 8, &n))
            return false;
        o->order = (int)n;
        return true;
    case TRACE_OPTION_TIME:
        o->costs = o->costs ? o->costs : &timing_frozen;
        return true;
    case TRACE_OPTION_COSTS:
        lab_trace_costs = timing_frozen;
        o->costs = &lab_trace_costs;
        return timing_read(text, &lab_trace_costs) == 0;
    case TRACE_OPTION_GAP:
        if (!lab_trace_number("gap", text, 0, LAB_TRACE_GAP_MAX, &n))
            return false;
        o->gap = n;
        o->costs = o->costs ? o->costs : &timing_frozen;
        return true;
    case TRACE_OPTION_JSON:
        o->json = true;
        return true;
    default:
        return false; /* getopt has said why */
    }
}

static bool lab_trace_parse(struct trace_options *o, int argc, char **argv, const char **file)
{
    int option;

    while ((option = getopt_long(argc, argv, "", lab_trace_options, NULL)) != -1)
        if (!lab_trace_option(o, option, optarg))
            return false;
    if (optind + 1 != argc) {
        complain(STATUS_USAGE,
                 optind == argc ? "lab trace: a file is needed" : "lab trace: one trace at a time");
        return false;
    }
    *file = argv[optind];
    return true;
}

/* ---- a process for each replay -------------------------------------------------------------- */

struct lab_trace_child {
    pid_t pid;
    int pipe;
};

static bool lab_trace_write(int fd, const void *bytes, size_t n)
{
    for (const char *at = bytes; n > 0;) {
        ssize_t written = write(fd, at, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        at += written;
        n -= (size_t)written;
    }
    return true;
}

static bool lab_trace_read(int fd, void *bytes, size_t n)
{
    for (char *at = bytes; n > 0;) {
        ssize_t got = read(fd, at, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

static int lab_trace_play(struct trace *trace, const struct trace_options *options,
                          struct trace_row *row, int fd)
{
    int status;

    sim_forget_settings();
    if (stook_topology_set(row->topology) != 0)
        return errno == EINVAL ? STATUS_USAGE /* it has said what is wrong */
                               : complain(STATUS_FAILED, "the library is in use already");
    status = trace_play(trace, options, row->series, &row->result, row->class);
    if (status == 0 && (!lab_trace_write(fd, &row->result, sizeof(row->result)) ||
                        !lab_trace_write(fd, row->class, trace->classes * sizeof(row->class[0]))))
        status = STATUS_FAILED;
    return status;
}

static int lab_trace_begin(struct trace *trace, const struct trace_options *options,
                           struct trace_row *row, struct lab_trace_child *child)
{
    int pipes[2];

    if (pipe(pipes) != 0)
        return complain(STATUS_FAILED, "no pipe can be made: %s", strerror(errno));
    fflush(stdout); /* or the child has it, too */
    child->pid = fork();
    if (child->pid == 0) {
        close(pipes[0]);
        _exit(lab_trace_play(trace, options, row, pipes[1]));
    }
    close(pipes[1]);
    child->pipe = pipes[0];
    return child->pid > 0 ? 0
                          : complain(STATUS_FAILED, "no process can be made: %s", strerror(errno));
}

static int lab_trace_end(const struct trace *trace, struct trace_row *row,
                         struct lab_trace_child *child)
{
    bool all = lab_trace_read(child->pipe, &row->result, sizeof(row->result)) &&
               lab_trace_read(child->pipe, row->class, trace->classes * sizeof(row->class[0]));
    int status = 0;

    close(child->pipe);
    if (child->pid <= 0)
        return STATUS_FAILED;
    while (waitpid(child->pid, &status, 0) < 0)
        if (errno != EINTR)
            return complain(STATUS_FAILED, "no process can be made: %s", strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && all)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        return WEXITSTATUS(status); /* it has said why */
    return complain(STATUS_FAILED, "the replay of %s ended by a signal", row->series->name);
}

/* In turn, some at a time; those that have begun are waited for whatever happens. */
static int lab_trace_all(struct trace *trace, const struct trace_options *options,
                         struct trace_row *row, unsigned rows)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned beside = cpus < 1 ? 1 : cpus > LAB_TRACE_BESIDE ? LAB_TRACE_BESIDE : (unsigned)cpus;
    struct lab_trace_child child[LAB_TRACE_BESIDE];
    unsigned begun = 0, ended = 0;
    int status = 0, one;

    while (ended < begun || (begun < rows && status == 0)) {
        if (begun < rows && status == 0 && begun - ended < beside) {
            status = lab_trace_begin(trace, options, &row[begun], &child[begun % beside]);
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
        class =
            calloc((size_t)TRACE_TOPOLOGIES * SWEEP_SERIES * (trace.classes + 1), sizeof(class[0]));
        rows = lab_trace_rows(&trace, &options, row, class);
        status = class ? lab_trace_all(&trace, &options, row, rows)
                       : complain(STATUS_FAILED, "no memory for what will be counted");
        if (status == 0)
            status = trace_show(&trace, file, &options, row, rows);
    }
    free(class);
    trace_close(&trace);
    return status;
}
