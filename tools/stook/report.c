/* SPDX-License-Identifier: MIT */
/*
 * report.c - stook report: a page about the memory of a process, in a file for a browser.
 */
#include "stook/report.h"

#include "stook/command.h"
#include "stook/look_show.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPORT_SNAPSHOTS = 10000 };

struct report_options {
    const char *pid, *html;
    double every;
    unsigned long snapshots;
};

static bool report_keep(struct report *report)
{
    struct heap *heap = report->heap;
    struct report_snapshot *all =
        realloc(report->snapshot, (report->snapshots + 1) * sizeof(*report->snapshot));
    struct report_snapshot *one;

    if (!all)
        return false;
    report->snapshot = all;
    one = &all[report->snapshots];
    *one = (struct report_snapshot){
        .time = heap->target->time,
        .total = heap->total.bytes,
        .process = heap->target->live ? look_resident(heap->target->pid) : 0,
        .cache = calloc(heap->caches + 2, sizeof(struct report_cache)),
        .caches = heap->caches + 1,
    };
    if (!one->cache)
        return false;
    for (size_t i = 0; i < heap->caches; i++) {
        one->cache[i].index = heap->cache[i].index;
        memcpy(one->cache[i].name, heap->cache[i].name, HEAP_NAME);
        one->cache[i].bytes = heap->cache[i].count.bytes;
    }
    strcpy(one->cache[heap->caches].name, "(large)");
    one->cache[heap->caches].bytes.resident = one->cache[heap->caches].bytes.in_use =
        heap->large_bytes;
    report->snapshots++;
    return true;
}

static int report_parse(int argc, char **argv, struct report_options *options)
{
    static const struct option known[] = {{"html", required_argument, NULL, 'h'},
                                          {"snapshots", required_argument, NULL, 'n'},
                                          {"every", required_argument, NULL, 'e'},
                                          {NULL, 0, NULL, 0}};
    char *end = "";
    int c, status;

    *options = (struct report_options){.every = 1, .snapshots = 1};
    if ((status = look_take_core(&argc, argv)) != STATUS_OK)
        return status;
    optind = 0;
    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (c == 'h')
            options->html = optarg;
        else if (c == 'n')
            options->snapshots = strtoul(optarg, &end, 10);
        else if (c == 'e')
            options->every = strtod(optarg, &end);
        else
            return complain(STATUS_USAGE, "see stook help report");
        if (c != 'h' && (!*optarg || *end))
            return complain(STATUS_USAGE, "%s is no number", optarg);
    }
    if (options->snapshots < 1 || options->snapshots > REPORT_SNAPSHOTS || !(options->every >= 0) ||
        options->every > 86400)
        return complain(STATUS_USAGE, "--snapshots is from 1 to %d, --every at most 86400 seconds",
                        REPORT_SNAPSHOTS);
    if (argc - optind != 1 || !options->html)
        return complain(STATUS_USAGE, "report takes a process number, and --html FILE");
    options->pid = argv[optind];
    return STATUS_OK;
}

/* What is there when the process ends early is shown. */
static bool report_gather(struct report *report, const struct report_options *options)
{
    struct timespec nap = {(time_t)options->every,
                           (long)((options->every - (double)(time_t)options->every) * 1e9)};
    struct target_error error;

    for (unsigned long i = 1; i < options->snapshots && report->heap->target->live; i++) {
        nanosleep(&nap, NULL);
        if (!heap_read(report->heap, &error)) {
            (void)complain(STATUS_FAILED, "%s, after %zu of %lu snapshots", error.text,
                           report->snapshots, options->snapshots);
            return false;
        }
        if (!report_keep(report))
            return complain(STATUS_FAILED, "no memory") == STATUS_OK;
    }
    return true;
}

static int report_run(int argc, char **argv)
{
    struct report_options options;
    struct report report = {0};
    FILE *file;
    int status = report_parse(argc, argv, &options);

    if (status == STATUS_OK)
        status = look_open(options.pid, &report.heap);
    if (status != STATUS_OK)
        return status;
    if (!report_keep(&report) || !report_gather(&report, &options))
        status = STATUS_FAILED;
    file = status == STATUS_OK ? fopen(options.html, "we") : NULL;
    if (file) {
        report_html(&report, file);
        if (ferror(file) | (fclose(file) != 0))
            status = complain(STATUS_FAILED, "%s cannot be written", options.html);
    } else if (status == STATUS_OK) {
        status = complain(STATUS_FAILED, "%s cannot be written: %s", options.html, strerror(errno));
    }
    for (size_t i = 0; i < report.snapshots; i++)
        free(report.snapshot[i].cache);
    free(report.snapshot);
    heap_close(report.heap);
    return status;
}

static const char report_help[] =
    "usage: stook report --html FILE [--snapshots N] [--every SECONDS] {PID | --core FILE [--exe FILE]}\n"
    "\n"
    "Writes a page for a browser, which is one file without scripts: the caches of a process by bytes, what every page of\n"
    "its memory is, growth over the snapshots, and a flame graph of call sites, where the process counts them\n"
    "(STOOK_TAGS=1).  The process is not stopped.\n"
    "\n"
    "  --html       the page\n"
    "  --snapshots  how many; default 1\n"
    "  --every      seconds between two of them; default 1\n";

const struct command command_report = {"report", "a page about the memory of a process",
                                       report_help, report_run};
