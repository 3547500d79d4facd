/* SPDX-License-Identifier: MIT */
/*
 * run.c - stook run: becomes PROGRAM with libstook-malloc.so preloaded.
 *
 * With --leaks the program is a child (run_leaks.c).  Otherwise it executes the program in its own process, so that signals, job control, the exit status and
 * the parent see the program itself.  The report is written by the library inside it: STOOK_PID is
 * this process's number, which exec keeps, so that of a tree only the first one writes.
 */
#include "stook/command.h"
#include "stook/locate.h"
#include "stook/option.h"
#include "stook/run_leaks.h"

#include "text/file.h"
#include "watch/exit.h"

#include <stook/stook.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The settings that options set, and names that were warned of: STOOK_RUN for the program. */
static char run_names[1024];

struct run_options {
    bool report, all, json;
    const char *leaks, *format, *file, *mode, *reserve, *limit, *trace, *trace_limit, *debug,
        *harden;
};

static int run_setenv(const char *name, const char *value)
{
    if (setenv(name, value, 1) == 0)
        return STATUS_OK;
    return complain(STATUS_RUN, "%s cannot be set: %s", name, strerror(errno));
}

static void run_note(const char *name, size_t length)
{
    size_t n = strlen(run_names);

    if (n + length + 2 <= sizeof(run_names))
        snprintf(run_names + n, sizeof(run_names) - n, "%s%.*s", n ? "," : "", (int)length, name);
}

static int run_set(enum setting_id id, const char *value)
{
    run_note(setting_table[id].name, strlen(setting_table[id].name));
    return run_setenv(setting_table[id].name, value);
}

int run_claim(bool one)
{
    static const enum setting_id of_one[] = {SETTING_REPORT, SETTING_PROFILE, SETTING_TRACE};
    char self[32];

    for (unsigned i = 0; i < sizeof(of_one) / sizeof(of_one[0]) && !exit_writes(); i++) {
        const char *text = setting_text(of_one[i]);
        if (text && !(of_one[i] == SETTING_TRACE && exit_is_numbered(text)))
            unsetenv(setting_table[of_one[i]].name);
    }
    snprintf(self, sizeof(self), "%d", (int)getpid());
    return one ? run_set(SETTING_PID, self) : unsetenv(setting_table[SETTING_PID].name);
}

static int run_parse(int argc, char **argv, struct run_options *options)
{
    const struct option_row rows[] = {
        {"report", OPTION_FLAG, .to = &options->report},
        {"report-all", OPTION_FLAG, .to = &options->all},
        {"report-format", OPTION_TEXT, .to = &options->format},
        {"report-file", OPTION_TEXT, .to = &options->file},
        {"leaks", OPTION_TEXT, &options->leaks, .otherwise = "1"},
        {"mode", OPTION_SETTING, &options->mode, .least = SETTING_MODE},
        {"reserve", OPTION_SETTING, &options->reserve, .least = SETTING_RESERVE},
        {"limit", OPTION_SETTING, &options->limit, .least = SETTING_LIMIT},
        {"debug", OPTION_SETTING, &options->debug, .least = SETTING_DEBUG},
        {"harden", OPTION_SETTING, &options->harden, .least = SETTING_HARDEN},
        {"trace", OPTION_TEXT, .to = &options->trace},
        {"trace-limit", OPTION_SETTING, &options->trace_limit, .least = SETTING_TRACE},
    };
    const struct option_table table = {"run", STATUS_RUN, rows, sizeof(rows) / sizeof(rows[0]),
                                       .program = true};
    int status = option_read(&table, argc, argv);

    if (status != STATUS_OK)
        return status;
    options->report |= options->all || ((options->format || options->file) && !options->leaks);
    if (optind >= argc)
        return complain(STATUS_RUN, "a program is needed; see stook help run");
    options->json = options->format && strcmp(options->format, "json") == 0;
    if (options->format && !options->json && strcmp(options->format, "table") != 0)
        return complain(STATUS_RUN, "--report-format takes table or json, not %s", options->format);
    if (options->leaks && strcmp(options->leaks, "1") != 0 && strcmp(options->leaks, "all") != 0)
        return complain(STATUS_RUN, "--leaks takes all or nothing, not %s", options->leaks);
    if (!options->trace && options->trace_limit)
        return complain(STATUS_RUN, "--trace-limit needs --trace FILE");
    if (options->all && options->trace && !exit_is_numbered(options->trace))
        return complain(STATUS_RUN, "with --report-all the file of --trace needs %%p in its name");
    return STATUS_OK;
}

static int run_preload(void)
{
    char library[2 * PATH_MAX], *all;
    const char *already = getenv("LD_PRELOAD");
    int status;

    if (!locate_library(library, sizeof(library)))
        return complain(STATUS_RUN, LOCATE_LIBRARY " is missing in %s", library);
    if (strpbrk(library, " :"))
        return complain(STATUS_RUN, "%s cannot be preloaded: its path has a space or a colon",
                        library);
    if (!already || !*already)
        return run_setenv("LD_PRELOAD", library);
    if (strstr(already, library)) /* stook run inside stook run */
        return STATUS_OK;
    if (asprintf(&all, "%s:%s", already, library) < 0)
        return complain(STATUS_RUN, "no memory");
    status = run_setenv("LD_PRELOAD", all);
    free(all);
    return status;
}

/* LD_PRELOAD without the library, which an outer stook run may have added. */
static int run_unload(void)
{
    char library[2 * PATH_MAX], *kept, *at;
    const char *all = getenv("LD_PRELOAD"), *base = LOCATE_LIBRARY;
    int status;

    if (!all || !locate_library(library, sizeof(library)))
        return STATUS_OK;
    kept = at = strdup(all);
    if (!kept)
        return complain(STATUS_RUN, "no memory");
    while (*all) {
        size_t n = strcspn(all, " :"), separators = strspn(all + n, " :");
        const char *slash = memrchr(all, '/', n);
        const char *name = slash ? slash + 1 : all;
        size_t length = (size_t)(all + n - name);
        if (length != strlen(base) || strncmp(name, base, length) != 0) {
            memcpy(at, all, n + separators);
            at += n + separators;
        }
        all += n + separators;
    }
    *at = '\0';
    status = *kept ? run_setenv("LD_PRELOAD", kept) : (unsetenv("LD_PRELOAD"), STATUS_OK);
    free(kept);
    return status;
}

/* STOOK_REPORT_FILE: the path as the program will find it from any directory. */
static char run_pattern[PATH_MAX];

static int run_report_pattern(const char *file)
{
    char cwd[PATH_MAX];
    size_t n = 0;

    if (*file != '/') {
        if (!getcwd(cwd, sizeof(cwd)))
            return complain(STATUS_RUN, "the current directory is unknown: %s", strerror(errno));
        for (const char *c = cwd; *c && n + 3 < sizeof(run_pattern); c++) {
            if (*c == '%') /* a percent sign of the directory's name stands for itself */
                run_pattern[n++] = '%';
            run_pattern[n++] = *c;
        }
        run_pattern[n++] = '/';
    }
    if (n + strlen(file) + 32 > sizeof(run_pattern))
        return complain(STATUS_RUN, "%s: the path is too long", file);
    strcpy(run_pattern + n, file);
    return STATUS_OK;
}

/* Opens the file of a process; a descriptor, or -1 with a complaint. */
static int run_report_open(int pid, int flags)
{
    char path[PATH_MAX + 32];
    int fd = -1;

    if (exit_expand(run_pattern, pid, path, sizeof(path)) == 0)
        complain(0, "%s: the path is too long", run_pattern);
    else if ((fd = file_open_write(path, O_WRONLY | O_CREAT | flags, 0644)) < 0)
        complain(0, "the report cannot be written to %s: %s", path, file_error(errno));
    return fd;
}

static int run_leaks_output(int pid)
{
    return *run_pattern ? run_report_open(pid, O_APPEND) : dup(STDERR_FILENO);
}

/* The file of this process is emptied now, so that one that cannot be written is known before the program runs. */
static int run_report_file(const char *file)
{
    int status = run_report_pattern(file), fd;

    if (status != STATUS_OK)
        return status;
    fd = run_report_open((int)getpid(), O_TRUNC);
    if (fd < 0)
        return STATUS_RUN;
    close(fd);
    return STATUS_OK;
}

static int run_report(const struct run_options *options)
{
    int status = run_set(SETTING_REPORT, options->json ? "1,json" : "1");

    if (status == STATUS_OK && options->file)
        return run_set(SETTING_REPORT_FILE, run_pattern);
    unsetenv(setting_table[SETTING_REPORT_FILE].name); /* an outer run's file is not ours */
    return status;
}

/*
 * The library makes the file; whether it can be made is known before the program runs.  A trace that
 * some process is writing stays as it is.
 */
static int run_trace(const struct run_options *options)
{
    char path[PATH_MAX], *value;
    int fd, status;

    if (exit_expand(options->trace, (int)getpid(), path, sizeof(path)) == 0)
        return complain(STATUS_RUN, "%s: the path is too long", options->trace);
    fd = file_open_write(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0)
        return complain(STATUS_RUN, "the trace cannot be written to %s: %s", path,
                        file_error(errno));
    close(fd);
    if (asprintf(&value, "%s,%s", options->trace_limit ? options->trace_limit : "1G",
                 options->trace) < 0)
        return complain(STATUS_RUN, "no memory");
    status = run_set(SETTING_TRACE, value);
    free(value);
    return status;
}

/*
 * Warnings are given once, here, and not by each process of the tree.  The library has warned of values that
 * it refuses, so these need not be there any more; names that it does not know are noted for STOOK_RUN.
 */
static void run_warn(void)
{
    const char *name;
    size_t length;

    settings_warn();
    for (unsigned id = 0; id < SETTINGS; id++)
        if (setting_source((enum setting_id)id) == SETTING_REFUSED)
            unsetenv(setting_table[id].name);
    for (unsigned n = 0; (name = settings_unknown(n, &length)); n++)
        run_note(name, length);
}

/* Behind what an outer stook run has noted. */
static int run_tell(void)
{
    const char *outer = getenv(SETTINGS_RUN);
    char *all;
    int status;

    if (!*run_names)
        return STATUS_OK;
    if (asprintf(&all, "%s%s%s", outer ? outer : "", outer ? "," : "", run_names) < 0)
        return complain(STATUS_RUN, "no memory");
    status = run_setenv(SETTINGS_RUN, all);
    free(all);
    return status;
}

static int run_environment(const struct run_options *options)
{
    const struct {
        enum setting_id id;
        const char *value;
    } plain[] = {{SETTING_RESERVE, options->reserve},
                 {SETTING_LIMIT, options->limit},
                 {SETTING_DEBUG, options->debug},
                 {SETTING_HARDEN, options->harden}};
    bool one =
        (options->report && !options->all) || (options->trace && !exit_is_numbered(options->trace));
    int status = run_preload();
    const char *why;

    run_warn();
    if (status == STATUS_OK && (one || options->all))
        status = run_claim(one);
    if (status == STATUS_OK && options->file)
        status = run_report_file(options->file);
    if (status == STATUS_OK && options->report)
        status = run_report(options);
    if (status == STATUS_OK && options->leaks && !setting_text(SETTING_TAGS))
        status = run_set(SETTING_TAGS, "1"); /* which names call sites */
    if (status == STATUS_OK && options->trace)
        status = run_trace(options);
    for (unsigned i = 0; status == STATUS_OK && i < sizeof(plain) / sizeof(plain[0]); i++)
        if (plain[i].value)
            status = run_set(plain[i].id, plain[i].value);
    if (status == STATUS_OK && options->mode) {
        const char *asked = setting_text(SETTING_MODE);
        bool locked = asked && strcmp(asked, "locked") == 0;
        if (strcmp(options->mode, "rseq") == 0 && !locked && strcmp(stook_mode(&why), "rseq") != 0)
            complain(0, "warning: the rseq mode is not available here: %s", why);
        status = run_set(SETTING_MODE, options->mode);
    }
    return status == STATUS_OK ? run_tell() : status;
}

/* What a program that is not served goes without. */
static const char *run_without(const struct run_options *options)
{
    return options->report && options->trace ? ", writes no report and is not traced"
           : options->report                 ? " and writes no report"
           : options->trace                  ? " and is not traced"
                                             : "";
}

/* The environment that the program can be run in, and what is to be said of that. */
static int run_ready(const struct run_options *options, const char *path)
{
    const char *why;
    enum locate_kind kind = locate_kind(path, &why);

    if (kind == LOCATE_BREAKS) {
        complain(0,
                 "warning: %s %s: stook cannot serve it, nor the programs that it starts; it runs "
                 "with its own malloc%s",
                 path, why, run_without(options));
        return run_unload();
    }
    if (kind == LOCATE_OTHER)
        complain(0, "warning: %s %s; it runs with its own malloc%s", path, why,
                 run_without(options));
    return run_environment(options);
}

static int run_status(int error)
{
    return error == ENOENT || error == ENOTDIR ? STATUS_NOT_FOUND : STATUS_NO_EXEC;
}

/* False: the program has run, in a child of this process, and *status says how. */
static bool run_traced(const struct run_options *options, int *status)
{
    struct run_leaks leaks = {
        .all = strcmp(options->leaks, "all") == 0,
        .json = options->json,
        .output = run_leaks_output,
    };

    *status = options->file ? run_report_pattern(options->file) : STATUS_OK;
    return *status == STATUS_OK && run_leaks_fork(&leaks, status);
}

static int run_command(int argc, char **argv)
{
    struct run_options options = {0};
    char path[PATH_MAX];
    int status = run_parse(argc, argv, &options), error;

    if (status != STATUS_OK)
        return status;
    argv += optind;
    error = locate_program(argv[0], path, sizeof(path));
    if (error != 0)
        return complain(run_status(error), "%s: %s", argv[0],
                        error == ENOENT ? "there is no such program" : strerror(error));
    if (options.leaks && !run_traced(&options, &status))
        return status;
    status = run_ready(&options, path);
    if (status != STATUS_OK)
        return status;
    execvp(argv[0], argv);
    error = errno;
    return complain(run_status(error), "%s cannot be executed: %s", path, strerror(error));
}

const struct command command_run = {
    .name = "run",
    .summary = "run a program with its malloc served from slab caches",
    .run = run_command,
    .help =
        "usage: stook run [OPTIONS] [--] PROGRAM [ARGUMENTS]...\n"
        "\n"
        "Runs PROGRAM with " LOCATE_LIBRARY " preloaded (added to LD_PRELOAD).  Its malloc and\n"
        "free, and those of the programs it starts, are served from slab caches.  stook executes\n"
        "PROGRAM in its own process, so signals and exit status are PROGRAM's own.  With --leaks\n"
        "PROGRAM is a child that stook traces (ptrace), and signals for stook are passed on.\n"
        "\n"
        "  --report               at exit, write a table of all caches to standard error\n"
        "  --report-format FORM   table (the default) or json; implies --report\n"
        "  --report-file PATH     write the report to PATH; %p becomes the process number; implies\n"
        "                         --report\n"
        "  --report-all           each process of the tree writes a report, not only the first;\n"
        "                         implies --report; with a file, use %p\n"
        "  --leaks[=all]          when a process of the tree ends, list objects that nothing points to,\n"
        "                         by call site; all: what can be reached, too; as --report-format and\n"
        "                         --report-file say.  --debug U gives whole stacks\n"
        "  --mode MODE            rseq (the default where the system supports it) or locked\n"
        "  --reserve SIZE         keep at most SIZE of free memory warm, 32M by default\n"
        "  --limit SIZE           each process may have SIZE allocated at one time; beyond it\n"
        "                         malloc fails with ENOMEM\n"
        "  --harden WORDS         harden every cache: full, or of order, zero, quarantine, guards,\n"
        "                         types, tokens\n"
        "  --debug FLAGS          check caches in full: letters of FZPUTA, and names behind a comma\n"
        "                         where not all are meant (malloc's are malloc-*), as the kernel's\n"
        "                         slab_debug: FZPU; Z,malloc-64\n"
        "  --trace FILE           record all allocations and frees, with time, thread and CPU, for\n"
        "                         stook lab trace.  An older trace in FILE is replaced.  With %p in\n"
        "                         FILE, its number, each process of the tree writes a trace\n"
        "  --trace-limit SIZE     let FILE grow to SIZE, 1G by default; later events are lost\n"
        "\n"
        "A process that ends without exit(), by a signal or _exit(), writes no report.\n"
        "Programs that are linked statically, gain privileges, have a sanitizer or run on another libc keep\n"
        "their own malloc; stook warns of that.  A sanitizer refuses to start in a program's children: leave\n"
        "stook away there.  A program that is linked with libstook-malloc.a has Stook's\n"
        "malloc already, and reports.\n"
        "\n"
        "exit status: PROGRAM's own; 125 stook failed, 126 PROGRAM cannot be executed,\n"
        "             127 there is no such program; with --leaks, where PROGRAM ended with 0:\n"
        "             23 a process lost objects, 125 PROGRAM could not be searched\n"
        "\n"
        "example:\n"
        "  stook run --report -- python3 program.py\n",
};
