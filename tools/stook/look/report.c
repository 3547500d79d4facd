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
    const struct option_row rows[] = {{"html", OPTION_TEXT, .to = &html}, LOOK_CORE_ROWS};
    const char *pid;
    struct heap *heap;
    FILE *file;
    int status;

    if ((status = option_take("report", rows, argc, argv)) != STATUS_OK)
        return status;
    pid = look_whom(argc, argv);
    if (!pid || optind != argc || !html)
        return complain(STATUS_USAGE, "a process, and --html FILE, are needed");
    if ((status = look_open(pid, &heap)) != STATUS_OK)
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
    "Writes one file for a browser, which fetches nothing: the caches of a process by bytes, and the use of every page of\n"
    "its memory.  A flame graph shows call sites if the process counts them (STOOK_TAGS=1), keeps stacks (STOOK_DEBUG=U)\n"
    "or takes samples (STOOK_SAMPLE).  The file has the command line, too.  The process is not stopped.\n"
    "\n"
    "  --html FILE  the page\n" HELP_CORE HELP_END("report --html redis.html redis-server");

const struct command command_report = {"report", "a page about the memory of a process",
                                       report_help, report_run};
