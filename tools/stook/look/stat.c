/* SPDX-License-Identifier: MIT */
/*
 * stat.c - stook stat: counters of a running process by CPU and node, once or at intervals as vmstat.
 *
 * The counts of lists and barns are always there.  Those of <stook/stat.h> are there if the process has switched them on.
 */
#include "stook/command.h"
#include "stook/look/look_show.h"
#include "stook/option.h"

#include "text/writer.h"

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STAT_COLUMNS = 16, STAT_HEAD_EVERY = 20, STAT_RATES = 7, STAT_CALLS = 4 };

struct stat_options {
    const char *pid, *cache;
    double interval;     /* 0: once */
    unsigned long count; /* 0: without end */
};

static int stat_number(const char *text, double least, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return *text && !*end && *value >= least && *value <= 86400;
}

static int stat_parse(int argc, char **argv, struct stat_options *options)
{
    const struct option_row rows[] = {LOOK_CORE_ROWS};
    double value;
    int at;

    *options = (struct stat_options){0};
    if (option_take("stat", rows, argc, argv) != STATUS_OK)
        return STATUS_USAGE;
    options->pid = look_whom(argc, argv);
    at = optind;
    if (!options->pid)
        return complain(STATUS_USAGE, "a process is needed");
    if (at < argc && !stat_number(argv[at], 0.01, &value))
        options->cache = argv[at++];
    if (at < argc && !stat_number(argv[at++], 0.01, &options->interval))
        return complain(STATUS_USAGE, "%s is no number of seconds", argv[at - 1]);
    if (at < argc) {
        if (!stat_number(argv[at++], 1, &value))
            return complain(STATUS_USAGE, "%s is no count", argv[at - 1]);
        options->count = (unsigned long)value;
    }
    return at == argc ? STATUS_OK : complain(STATUS_USAGE, "see stook help stat");
}

/* Those of a name, or all: without the library's own. */
static bool stat_takes(const struct stat_options *options, const struct heap *heap,
                       const struct heap_cache *cache)
{
    return options->cache ? cache == heap_cache_named(heap, options->cache) : !cache->internal;
}

static bool stat_counts(const struct stat_options *options, const struct heap *heap)
{
    for (size_t i = 0; i < heap->caches; i++)
        if (heap->cache[i].stat && stat_takes(options, heap, &heap->cache[i]))
            return true;
    return false;
}

/* ---- once: events down, CPUs or nodes across -------------------------------------------------- */

static uint64_t stat_event(const struct stat_options *options, const struct heap *heap, int cpu,
                           unsigned event)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < heap->caches; i++)
        if (stat_takes(options, heap, &heap->cache[i]))
            sum += heap_stat(heap, &heap->cache[i], cpu, event);
    return sum;
}

/* CPUs that have counted anything, -1 among them: at most STAT_COLUMNS, and whether there are more. */
static unsigned stat_cpus(const struct stat_options *options, const struct heap *heap, int *cpus,
                          bool *more)
{
    unsigned n = 0;

    *more = false;
    for (int cpu = -1; cpu < (int)heap->cpus; cpu++) {
        bool any = false;
        for (unsigned event = 0; event < heap->view.stats && !any; event++)
            any = stat_event(options, heap, cpu, event) > 0;
        if (any && n < STAT_COLUMNS)
            cpus[n++] = cpu;
        else
            *more |= any;
    }
    return n;
}

static void stat_by_cpu(struct writer *w, const struct stat_options *options,
                        const struct heap *heap)
{
    int cpus[STAT_COLUMNS];
    bool more;
    unsigned n = stat_cpus(options, heap, cpus, &more);

    writer_print(w, "\n%-24s %12s", "counter", "sum");
    for (unsigned i = 0; i < n; i++)
        if (cpus[i] < 0)
            writer_print(w, " %11s", "no CPU");
        else
            writer_print(w, " %5sCPU %2d", "", cpus[i]);
    writer_print(w, "%s\n", more ? " ..." : "");
    for (unsigned event = 0; event < heap->view.stats; event++) {
        uint64_t sum = 0;
        for (int cpu = -1; cpu < (int)heap->cpus; cpu++)
            sum += stat_event(options, heap, cpu, event);
        if (sum == 0 && !options->cache)
            continue;
        writer_print(w, "%-24s %12lu", heap->view.stat[event], sum);
        for (unsigned i = 0; i < n; i++)
            writer_print(w, " %11lu", stat_event(options, heap, cpus[i], event));
        writer_print(w, "\n");
    }
}

/* What every node counts, whatever is switched on: the first STAT_RATES of them ever. */
static const struct stat_of_node {
    const char *name;
    size_t offset;
} stat_of_nodes[] = {
    {"slabs made", offsetof(struct heap_node, made)},
    {"slabs given back", offsetof(struct heap_node, gone)},
    {"takings of the list lock", offsetof(struct heap_node, took)},
    {"full sheaves from the barn", offsetof(struct heap_node, barn_get)},
    {"  that were not there", offsetof(struct heap_node, barn_get_fail)},
    {"full sheaves to the barn", offsetof(struct heap_node, barn_put)},
    {"  that it refused", offsetof(struct heap_node, barn_put_fail)},
    {"slabs now", offsetof(struct heap_node, slabs)},
    {"  partial ones", offsetof(struct heap_node, partial)},
    {"  empty ones", offsetof(struct heap_node, empty)},
    {"objects that slabs hold", offsetof(struct heap_node, objects)},
    {"  those out of them", offsetof(struct heap_node, out)},
    {"objects in the barn", offsetof(struct heap_node, barn_objects)},
};

static uint64_t stat_node(const struct stat_options *options, const struct heap *heap,
                          unsigned node, size_t offset)
{
    uint64_t sum = 0, value;

    for (size_t i = 0; i < heap->caches; i++)
        if (stat_takes(options, heap, &heap->cache[i])) {
            memcpy(&value, (const char *)&heap->cache[i].node[node] + offset, sizeof(value));
            sum += value;
        }
    return sum;
}

static bool stat_node_used(const struct stat_options *options, const struct heap *heap,
                           unsigned node)
{
    for (size_t i = 0; i < sizeof(stat_of_nodes) / sizeof(stat_of_nodes[0]); i++)
        if (stat_node(options, heap, node, stat_of_nodes[i].offset) > 0)
            return true;
    return false;
}

static void stat_by_node(struct writer *w, const struct stat_options *options,
                         const struct heap *heap)
{
    writer_print(w, "\n%-27s %12s", "always counted", "sum");
    for (unsigned node = 0; node < heap->nodes; node++)
        if (stat_node_used(options, heap, node))
            writer_print(w, "  %5sNode %2u", "", node);
    writer_print(w, "\n");
    for (size_t i = 0; i < sizeof(stat_of_nodes) / sizeof(stat_of_nodes[0]); i++) {
        uint64_t sum = 0;
        for (unsigned node = 0; node < heap->nodes; node++)
            sum += stat_node(options, heap, node, stat_of_nodes[i].offset);
        writer_print(w, "%-27s %12lu", stat_of_nodes[i].name, sum);
        for (unsigned node = 0; node < heap->nodes; node++)
            if (stat_node_used(options, heap, node))
                writer_print(w, "  %12lu", stat_node(options, heap, node, stat_of_nodes[i].offset));
        writer_print(w, "\n");
    }
}

static void stat_once(struct writer *w, const struct stat_options *options, const struct heap *heap)
{
    look_show_process(w, heap);
    if (options->cache)
        writer_print(w, "cache %s\n", heap_cache_named(heap, options->cache)->name);
    else
        writer_print(w, "all caches but the library's own\n");
    stat_by_node(w, options, heap);
    if (stat_counts(options, heap))
        stat_by_cpu(w, options, heap);
    else
        writer_print(w, "\nThe other counters are off: STOOK_STATS=1 at the process's start, or "
                        "stook_cache_stat_enable(), switches them on.\n");
    look_next(w, heap, "stat", options->cache ? " CACHE 1" : " 1");
}

/* ---- at intervals ----------------------------------------------------------------------------- */

/* Counters that a line has where the process counts them. */
static const char *const stat_calls[STAT_CALLS] = {"alloc_fastpath", "alloc_slowpath",
                                                   "free_fastpath", "free_slowpath"};

struct stat_line {
    uint64_t active, in_use, cached, resident, slabs;
    uint64_t rate[STAT_RATES], call[STAT_CALLS]; /* of stat_of_nodes, of stat_calls */
    uint64_t time;
    bool known; /* the calls */
};

static uint64_t stat_named(const struct stat_options *options, const struct heap *heap,
                           const char *name)
{
    uint64_t sum = 0;

    for (unsigned event = 0; event < heap->view.stats; event++)
        if (strcmp(heap->view.stat[event], name) == 0)
            for (int cpu = -1; cpu < (int)heap->cpus; cpu++)
                sum += stat_event(options, heap, cpu, event);
    return sum;
}

static struct stat_line stat_read(const struct stat_options *options, const struct heap *heap)
{
    struct stat_line line = {.time = heap->target->time, .known = stat_counts(options, heap)};

    for (size_t i = 0; i < heap->caches; i++) {
        const struct heap_count *n = &heap->cache[i].count;
        if (!stat_takes(options, heap, &heap->cache[i]))
            continue;
        line.active += n->active;
        line.in_use += n->bytes.in_use;
        line.cached += n->bytes.cached;
        line.resident += n->bytes.resident;
        line.slabs += n->slabs;
    }
    for (unsigned i = 0; i < STAT_RATES; i++)
        for (unsigned node = 0; node < heap->nodes; node++)
            line.rate[i] += stat_node(options, heap, node, stat_of_nodes[i].offset);
    for (unsigned i = 0; i < STAT_CALLS && line.known; i++)
        line.call[i] = stat_named(options, heap, stat_calls[i]);
    return line;
}

/* The title of some columns, between dashes. */
static void stat_title(struct writer *w, const char *title, int width)
{
    static const char dashes[] = "------------------------------";
    int left = (width - (int)strlen(title) - 2) / 2, right = width - (int)strlen(title) - 2 - left;

    writer_print(w, "%.*s %s %.*s", left, dashes, title, right, dashes);
}

static void stat_head(struct writer *w, const struct stat_line *line)
{
    stat_title(w, "now", 45);
    writer_print(w, " ");
    stat_title(w, "slabs/s", 15);
    writer_print(w, " ");
    stat_title(w, "lists and barns, a second", 39);
    if (line->known) {
        writer_print(w, " ");
        stat_title(w, "objects a second, by sheaves and by slabs", 51);
    }
    writer_print(w, "\n");
    writer_print(w, "%10s %8s %8s %8s %7s %7s %7s %7s %7s %7s %7s", "objects", "in use", "cached",
                 "resident", "slabs", "made", "gone", "locks", "get", "miss", "put");
    writer_print(w, " %7s", "refuse");
    if (line->known)
        writer_print(w, " %12s %12s %12s %12s", "alloc sheaf", "alloc slab", "free sheaf",
                     "free slab");
    writer_print(w, "\n");
}

static void stat_rate(struct writer *w, uint64_t now, uint64_t before, double seconds, int width)
{
    double rate = now > before && seconds > 0 ? (double)(now - before) / seconds : 0;

    writer_print(w, " %*lu", width, (uint64_t)(rate + 0.5));
}

static void stat_show_line(struct writer *w, const struct stat_line *now,
                           const struct stat_line *before)
{
    double seconds = (double)(now->time - before->time) / 1e9;

    writer_print(w, "%10lu", now->active);
    writer_size(w, now->in_use);
    writer_size(w, now->cached);
    writer_size(w, now->resident);
    writer_print(w, " %7lu", now->slabs);
    for (unsigned i = 0; i < STAT_RATES; i++)
        stat_rate(w, now->rate[i], before->rate[i], seconds, 7);
    for (unsigned i = 0; i < STAT_CALLS && now->known; i++)
        stat_rate(w, now->call[i], before->call[i], seconds, 12);
    writer_print(w, "\n");
}

/* The first line has no interval before it: it counts from zero in a time that is unknown, so it has no rates. */
static int stat_repeat(const struct stat_options *options, struct heap *heap)
{
    struct stat_line before = stat_read(options, heap);
    struct target_error error;
    struct writer w;

    for (unsigned long n = 0; options->count == 0 || n < options->count; n++) {
        struct stat_line now;
        if (n > 0) {
            look_sleep(options->interval);
            if (!heap_read(heap, &error))
                return complain(STATUS_FAILED, "%s", error.text);
            if (options->cache && !heap_cache_named(heap, options->cache))
                return complain(STATUS_FAILED, "cache %s was destroyed", options->cache);
        }
        now = stat_read(options, heap);
        output_writer(&w);
        if (n % STAT_HEAD_EVERY == 0)
            stat_head(&w, &now);
        stat_show_line(&w, &now, &before);
        (void)writer_finish(&w);
        if (fflush(stdout) != 0)
            break; /* main() says so */
        before = now;
    }
    return STATUS_OK;
}

static int stat_run(int argc, char **argv)
{
    const struct heap_cache *cache;
    struct stat_options options;
    struct heap *heap;
    struct writer w;
    int status = stat_parse(argc, argv, &options);

    if (status != STATUS_OK ||
        (status = look_open_cache(options.pid, options.cache, &heap, &cache)) != STATUS_OK)
        return status;
    if (options.interval > 0) {
        status = stat_repeat(&options, heap);
    } else {
        output_writer(&w);
        stat_once(&w, &options, heap);
        (void)writer_finish(&w);
    }
    heap_close(heap);
    return status;
}

static const char stat_help[] =
    "usage: stook stat {PID | --core FILE [--exe FILE]} [CACHE] [INTERVAL [COUNT]]\n"
    "\n"
    "Shows the counters of a running process, of one cache or of all: by node those that lists and barns always have, by\n"
    "CPU those of docs/statistics.md if the process has them switched on.  With an interval in seconds it shows a line\n"
    "each, COUNT of them or without end: the present objects and bytes, and events a second since the line before.\n"
    "A number behind PID is an interval: a cache whose name is a number is named in `stook caches`.\n"
    "\n" HELP_CORE HELP_END("stat redis-server malloc-64 1");

const struct command command_stat = {"stat", "counters of a running process, at intervals",
                                     stat_help, stat_run};
