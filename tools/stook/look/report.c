/* SPDX-License-Identifier: MIT */
/*
 * report.c - stook report: a page about the memory of a process, in a file for a browser.
 */
#include "stook/look/report.h"

#include "stook/command.h"
#include "stook/look/look_show.h"
#include "stook/option.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

static int report_run(int argc, char **argv)
{
    const char *html = NULL;
    const struct option_row rows[] = {{"html", OPTION_TEXT, .to = &html}};
    struct heap *heap;
    FILE *file;
    int status;

    if ((status = look_take_core(&argc, argv)) != STATUS_OK ||
        (status = option_take("report", rows, argc, argv)) != STATUS_OK)
        return status;
    if (argc - optind != 1 || !html)
        return complain(STATUS_USAGE, "report takes a process number, and --html FILE");
    if ((status = look_open(argv[optind], &heap)) != STATUS_OK)
        return status;
    file = fopen(html, "we");
    if (file) {
        report_html(heap, file);
        if (ferror(file) | (fclose(file) != 0))
            status = complain(STATUS_FAILED, "%s cannot be written", html);
    } else {
        status = complain(STATUS_FAILED, "%s cannot be written: %s", html, strerror(errno));
    }
    heap_close(heap);
    return status;
}

static const char report_help[] =
    "usage: stook report --html FILE {PID | --core FILE [--exe FILE]}\n"
    "\n"
    "Writes a page for a browser, which is one file without scripts: the caches of a process by bytes, what every page of\n"
    "its memory is, and a flame graph of call sites, where the process counts them (STOOK_TAGS=1).  The process is\n"
    "not stopped.\n"
    "\n"
    "  --html   the page\n";

const struct command command_report = {"report", "a page about the memory of a process",
                                       report_help, report_run};
