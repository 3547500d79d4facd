/* SPDX-License-Identifier: MIT */
/*
 * compare.c - stook compare: reads the options and becomes libexec/stook/main.py (tools/compare), which shares its
 * measuring with stook-bench programs.
 */
#include "stook/command.h"
#include "stook/locate.h"
#include "stook/option.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int compare_command(int argc, char **argv)
{
    const char *mallocs = "", *server = "", *load = "", *percentile = "", *json = "", *svg = "";
    unsigned rounds = 0, timeout = 300;
    const struct option_row rows[] = {
        {"mallocs", OPTION_TEXT, .to = &mallocs},
        {"rounds", OPTION_UNSIGNED, .to = &rounds, .least = 1, .most = 1000, .letter = 'n'},
        {"timeout", OPTION_UNSIGNED, .to = &timeout, .least = 1, .most = 1000000},
        {"server", OPTION_TEXT, .to = &server},
        {"load", OPTION_TEXT, .to = &load},
        {"percentile", OPTION_TEXT, .to = &percentile},
        {"json", OPTION_TEXT, .to = &json},
        {"svg", OPTION_TEXT, .to = &svg},
    };
    const struct option_table table = {"compare", STATUS_USAGE, rows,
                                       sizeof(rows) / sizeof(rows[0]), .program = true};
    char script[2 * PATH_MAX], library[2 * PATH_MAX], program[PATH_MAX], count[16], limit[16];
    int status = option_read(&table, argc, argv), error;

    if (status != STATUS_OK)
        return status;
    if (optind >= argc)
        return complain(STATUS_USAGE, "a command is needed; see stook help compare");
    if (!*server != !*load)
        return complain(STATUS_USAGE, "--server and --load go together");
    if (*percentile && !*load)
        return complain(STATUS_USAGE, "--percentile is of the output of --load");
    error = locate_program(argv[optind], program, sizeof(program));
    if (error != 0)
        return complain(error == ENOENT || error == ENOTDIR ? STATUS_NOT_FOUND : STATUS_NO_EXEC,
                        "%s: %s", argv[optind],
                        error == ENOENT ? "there is no such program" : strerror(error));
    if (!locate_script("main.py", script, sizeof(script)))
        return complain(STATUS_FAILED, "%s is missing: it is installed with the tool", script);
    if (!locate_library(library, sizeof(library)))
        *library = '\0';
    snprintf(count, sizeof(count), "%u", rounds);
    snprintf(limit, sizeof(limit), "%u", timeout);

    const char *first[] = {"python3", script, library,    mallocs, count, limit,
                           server,    load,   percentile, json,    svg,   program};
    size_t words = sizeof(first) / sizeof(first[0]), rest = (size_t)(argc - optind);
    const char **all = calloc(words + rest, sizeof(*all)); /* its last one is NULL */

    if (!all)
        return complain(STATUS_FAILED, "no memory");
    memcpy(all, first, sizeof(first));
    memcpy(all + words, argv + optind + 1, (rest - 1) * sizeof(*all));
    execvp(all[0], (char **)all);
    error = errno;
    free(all);
    return complain(STATUS_FAILED, "python3 cannot be executed: %s (Debian: python3)",
                    strerror(error));
}

const struct command command_compare = {
    .name = "compare",
    .summary = "run a command under each malloc of this machine: which one is best for it",
    .run = compare_command,
    .help =
        "usage: stook compare [OPTIONS] [--] COMMAND [ARGUMENTS]...\n"
        "\n"
        "Runs COMMAND under each malloc that this machine has, in turns, after a round that warms\n"
        "up, and says what differs from the first malloc: CPU time, elapsed time, memory.  Each\n"
        "round runs COMMAND twice under each malloc: once for the times, once to read its memory.\n"
        "Its standard input is empty, or the file that stook's is redirected from.\n"
        "\n"
        "  --mallocs LIST       names and NAME=PATH, behind commas; the first one is compared with.\n"
        "                       By default all that are found: the one that COMMAND is linked with,\n"
        "                       if it is not the C library's, glibc, stook, mimalloc, jemalloc and\n"
        "                       others.  \"all\" in LIST stands for these; NAME=-: no preload\n"
        "  -n, --rounds N       rounds; by default as few as can tell so many mallocs apart\n"
        "  --timeout SECONDS    of one run (300)\n"
        "  --server ADDRESS     COMMAND is a server: wait until ADDRESS accepts connections (PORT,\n"
        "                       HOST:PORT or the path of a socket), run the load, send SIGTERM\n"
        "  --load COMMAND       what loads it, for sh -c; runs with the C library's malloc\n"
        "  --percentile REGEX   compare the number that its first group finds in the load's output\n"
        "  --json FILE          write what was found (- for standard output)\n"
        "  --svg FILE           draw it\n"
        "\n"
        "exit status: 0 all mallocs were compared; 1 one was not: COMMAND failed or printed\n"
        "             something else under it, or did not load it; 2 wrong options;\n"
        "             126 COMMAND cannot be executed, 127 there is no such program\n"
        "\n"
        "example:\n"
        "  stook compare -- xz -k9c access.log\n"
        "  stook compare --mallocs all,new=./libnew.so --svg new.svg -- ./simulate 1000\n"
        "  stook compare --server 6400 --load 'redis-benchmark -p 6400 -n 100000 -t set -q' \\\n"
        "      --percentile 'p50=([0-9.]+)' -- redis-server --port 6400 --save ''\n",
};
