/* SPDX-License-Identifier: MIT */
/*
 * report.c - stook report: a page about the memory of a process, in a file for a browser.
 */
#include "stook/report.h"

#include "stook/command.h"
#include "stook/look_show.h"
#include "stook/option.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { REPORT_SNAPSHOTS = 10000 };

struct report_options {
    const char *pid, *html;
    double every;
    uint64_t snapshots;
};

static void report_keep(struct report *report)
{
    struct heap *heap = report->heap;
    struct report_snapshot *one;

    report->snapshot = target_row(report->snapshot, report->snapshots, sizeof(*one));
    one = &report->snapshot[report->snapshots++];
    *one = (struct report_snapshot){
        .time = heap->target->time,
        .total = heap->total.bytes,
        .process = heap->target->live ? look_resident(heap->target->pid) : 0,
        .cache = target_need(calloc(heap->caches + 2, sizeof(struct report_cache))),
        .caches = heap->caches + 1,
    };
    for (size_t i = 0; i < heap->caches; i++) {
        one->cache[i].index = heap->cache[i].index;
        memcpy(one->cache[i].name, heap->cache[i].name, HEAP_NAME);
        one->cache[i].bytes = heap->cache[i].count.bytes;
    }
    strcpy(one->cache[heap->caches].name, "(large)");
    one->cache[heap->caches].bytes.resident = one->cache[heap->caches].bytes.in_use =
        heap->large_bytes;
}

static int report_parse(int argc, char **argv, struct report_options *options)
{
    const struct option_row rows[] = {
        {"html", OPTION_TEXT, .to = &options->html},
        {"snapshots", OPTION_NUMBER, &options->snapshots, 1, .most = REPORT_SNAPSHOTS},
        {"every", OPTION_SECONDS, &options->every, 0, .most = 86400000},
    };
    int status;

    *options = (struct report_options){.every = 1, .snapshots = 1};
    if ((status = look_take_core(&argc, argv)) != STATUS_OK ||
        (status = option_take("report", rows, argc, argv)) != STATUS_OK)
        return status;
    if (argc - optind != 1 || !options->html)
        return complain(STATUS_USAGE, "report takes a process number, and --html FILE");
    options->pid = argv[optind];
    return STATUS_OK;
}

/* What is there when the process ends early is shown. */
static bool report_gather(struct report *report, const struct report_options *options)
{
    struct target_error error;

    for (unsigned long i = 1; i < options->snapshots && report->heap->target->live; i++) {
        look_sleep(options->every);
        if (!heap_read(report->heap, &error)) {
            (void)complain(STATUS_FAILED, "%s, after %zu of %lu snapshots", error.text,
                           report->snapshots, options->snapshots);
            return false;
        }
        report_keep(report);
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
    report_keep(&report);
    if (!report_gather(&report, &options))
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
