/* SPDX-License-Identifier: MIT */
/*
 * profile.c - stook profile: runs a program with its allocations counted by call site, or reads what
 * one wrote, and says where the memory is.
 */
#include "stook/profile/profile.h"

#include "stook/command.h"
#include "stook/option.h"

#include "text/file.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct profile_options {
    enum profile_by by;
    bool by_given, json;
    unsigned top;
    const char *pprof, *collapsed, *save, *signal, *wrappers;
};

static int profile_parse(int argc, char **argv, struct profile_options *options)
{
    const struct option_row rows[] = {
        {"by", OPTION_WORD, &options->by, .words = profile_keys},
        {"top", OPTION_UNSIGNED, &options->top, 0, .most = 1000000},
        {"json", OPTION_FLAG, .to = &options->json},
        {"pprof", OPTION_TEXT, .to = &options->pprof},
        {"collapsed", OPTION_TEXT, .to = &options->collapsed},
        {"save", OPTION_TEXT, .to = &options->save},
        {"wrappers", OPTION_TEXT, .to = &options->wrappers},
        {"signal", OPTION_SETTING, &options->signal, .least = SETTING_PROFILE},
    };
    bool said[sizeof(rows) / sizeof(rows[0])] = {false};
    const struct option_table table = {
        "profile",       STATUS_USAGE, rows, sizeof(rows) / sizeof(rows[0]),
        .program = true, .said = said};
    int status = option_read(&table, argc, argv);

    options->by_given = said[0];
    return status;
}

/* ---- what is shown -------------------------------------------------------------------------- */

static int profile_to_file(const struct profile *profile, const struct profile_options *options,
                           bool pprof)
{
    const char *path = pprof ? options->pprof : options->collapsed;
    FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
    bool good = file != NULL;

    if (good && pprof)
        good = profile_pprof(profile, options->by, file);
    else if (good)
        profile_collapsed(profile, options->by, file);
    if (file == stdout)
        return good ? STATUS_OK : complain(STATUS_FAILED, "%s cannot be written", path);
    if (file && (ferror(file) | fclose(file)))
        good = false;
    return good ? STATUS_OK
                : complain(STATUS_FAILED, "%s cannot be written: %s", path, strerror(errno));
}

/* The table is of call sites that say something; other forms are of what there is. */
static bool profile_folds(const struct profile_options *options)
{
    return !options->json && !options->pprof && !options->collapsed &&
           strcmp(options->wrappers, "none") != 0;
}

static int profile_load(struct profile *profile, const char *path,
                        const struct profile_options *options)
{
    int status = profile_read(profile, path);

    if (status != STATUS_OK)
        return status;
    profile_resolve(profile);
    if (profile_folds(options))
        profile_fold(profile, options->wrappers);
    profile_merge(profile);
    return STATUS_OK;
}

static int profile_show(const char *path, const char *later, struct profile_options *options,
                        FILE *to)
{
    struct profile profile, before;
    int status = profile_load(&profile, later ? later : path, options);

    if (status == STATUS_OK && later)
        status = profile_load(&before, path, options);
    if (status != STATUS_OK)
        return status; /* the process ends: what was read goes with it */
    if (later)
        profile_compare(&profile, &before);
    if (!options->by_given)
        options->by = later ? BY_GROWTH : BY_LIVE;
    profile_sort(&profile, options->by);
    if (options->pprof)
        status = profile_to_file(&profile, options, true);
    if (status == STATUS_OK && options->collapsed)
        status = profile_to_file(&profile, options, false);
    if (status == STATUS_OK && options->json)
        profile_json(&profile, options->by, options->top, to);
    else if (status == STATUS_OK && !options->pprof && !options->collapsed)
        profile_table(&profile, options->by, options->top, to);
    profile_free(&profile);
    if (later)
        profile_free(&before);
    return status;
}

/* ---- running a program ---------------------------------------------------------------------- */

/* The child: stook run with tags on; its process becomes the program. */
static _Noreturn void profile_become(char **program, const char *pattern,
                                     const struct profile_options *options)
{
    char **argv, *value;
    size_t n = 0;

    while (program[n])
        n++;
    argv = calloc(n + 4, sizeof(*argv));
    if (!argv || run_claim(true) != STATUS_OK ||
        setenv(setting_table[SETTING_TAGS].name, "1", 1) != 0 ||
        asprintf(&value, "%s%s%s", options->signal ? options->signal : "",
                 options->signal ? "," : "", pattern) < 0 ||
        setenv(setting_table[SETTING_PROFILE].name, value, 1) != 0)
        _exit(complain(STATUS_RUN, "no memory"));
    argv[0] = (char *)(uintptr_t) "stook";
    argv[1] = (char *)(uintptr_t) "run";
    argv[2] = (char *)(uintptr_t) "--";
    memcpy(argv + 3, program, n * sizeof(*argv));
    execv("/proc/self/exe", argv);
    _exit(complain(STATUS_RUN, "stook run cannot be started: %s", strerror(errno)));
}

/* The path as the program finds it from any directory, with its percent signs doubled. */
static bool profile_pattern(const char *path, char *pattern, size_t size)
{
    char cwd[PATH_MAX] = "";
    const char *parts[] = {cwd, "/", path};
    size_t n = 0;

    if (*path == '/')
        parts[0] = parts[1] = "";
    else if (!getcwd(cwd, sizeof(cwd)))
        return false;
    for (unsigned i = 0; i < 3; i++)
        for (const char *c = parts[i]; *c; c++) {
            if (n + 3 > size)
                return false;
            pattern[n++] = *c;
            if (*c == '%')
                pattern[n++] = *c;
        }
    pattern[n] = '\0';
    return true;
}

static volatile pid_t profile_child;

/* A signal that ends this process is meant for the program, and this process waits for the program's end. */
static void profile_pass_on(int signal)
{
    int saved = errno;

    kill(profile_child, signal);
    errno = saved;
}

/* The exit status that a shell would give. */
static int profile_wait(pid_t child)
{
    struct sigaction pass_on = {.sa_handler = profile_pass_on, .sa_flags = SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    int status;

    profile_child = child;
    sigaction(SIGTERM, &pass_on, NULL);
    sigaction(SIGHUP, &pass_on, NULL);
    sigaction(SIGINT, &ignore, NULL); /* the terminal sends these to both */
    sigaction(SIGQUIT, &ignore, NULL);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return complain(STATUS_RUN, "cannot wait for the program's end: %s", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int profile_report(const char *path, int status, struct profile_options *options)
{
    struct stat st;

    if (status == STATUS_RUN || status == STATUS_NO_EXEC || status == STATUS_NOT_FOUND)
        return status; /* stook run has said why */
    if (stat(path, &st) != 0 || st.st_size == 0) {
        complain(0, "the program wrote no profile: it ended %s, or could not be served",
                 status > 128 ? "by a signal" : "by _exit()");
        return status;
    }
    fflush(stdout);
    if (!options->by_given)
        options->by = BY_TOTAL; /* at its end a program has freed most of what it had */
    options->by_given = true;
    if (profile_show(path, NULL, options, stderr) != STATUS_OK && status == STATUS_OK)
        status = STATUS_RUN;
    return status;
}

static int profile_start(char **program, struct profile_options *options)
{
    char file[] = "/tmp/stook-profile.XXXXXX", pattern[2 * PATH_MAX];
    const char *path = options->save ? options->save : file;
    int fd, status;
    pid_t child;

    fd = options->save ? file_open_write(path, O_WRONLY | O_CREAT | O_TRUNC, 0644)
                       : mkostemp(file, O_CLOEXEC);
    if (fd < 0)
        return complain(STATUS_RUN, "%s cannot be written: %s", path, file_error(errno));
    close(fd);
    if (!profile_pattern(path, pattern, sizeof(pattern))) {
        status = complain(STATUS_RUN, "%s: the path is too long", path);
    } else if ((child = fork()) == 0) {
        profile_become(program, pattern, options);
    } else if (child < 0) {
        status = complain(STATUS_RUN, "no process can be made: %s", strerror(errno));
    } else {
        status = profile_report(path, profile_wait(child), options);
    }
    if (!options->save)
        unlink(file);
    return status;
}

static int profile_command(int argc, char **argv)
{
    struct profile_options options = {.top = 10, .wrappers = ""};
    int status = profile_parse(argc, argv, &options);

    if (status != STATUS_OK)
        return status;
    if (optind > 1 && strcmp(argv[optind - 1], "--") == 0)
        return optind < argc
                   ? profile_start(argv + optind, &options)
                   : complain(STATUS_USAGE, "a program is needed; see stook help profile");
    if (argc - optind < 1 || argc - optind > 2)
        return complain(
            STATUS_USAGE,
            "one profile, two profiles or -- PROGRAM is needed; see stook help profile");
    return profile_show(argv[optind], argv[optind + 1], &options, stdout);
}

const struct command command_profile = {
    .name = "profile",
    .summary = "which call sites of a program have its memory",
    .run = profile_command,
    .help =
        "usage: stook profile [OPTIONS] -- PROGRAM [ARGUMENTS]...\n"
        "       stook profile [OPTIONS] FILE [LATER]\n"
        "\n"
        "Runs PROGRAM as stook run does and counts every allocation at its call site.  When PROGRAM\n"
        "ends, prints on standard error which call sites allocated the most.  Or reads a profile\n"
        "that a program wrote, and with LATER, shows what grew between the two.\n"
        "\n"
        "  --top N           show N sites, 10 by default, 0 for all\n"
        "  --by KEY          order by live (bytes that are not freed), total (bytes ever allocated),\n"
        "                    calls, or growth; the default is total with PROGRAM, live with FILE,\n"
        "                    and growth with LATER\n"
        "  --json            print the sites as JSON\n"
        "  --pprof PATH      write a profile for go tool pprof and others instead; - for stdout\n"
        "  --collapsed PATH  write collapsed stacks for flame graphs instead, by the key of --by\n"
        "  --save PATH       keep PROGRAM's profile, to read it again\n"
        "  --wrappers LIST   functions that only call malloc for others, such as \"my_alloc*,pool_get\": the\n"
        "                    table counts their allocations as their callers'.  It knows operator new,\n"
        "                    std::, zmalloc, g_malloc, xmalloc and others.  none: they stay\n"
        "  --signal NAME     with --save: a snapshot PATH.1, PATH.2, ... at each such signal,\n"
        "                    USR2 for instance\n"
        "\n"
        "A program that runs without this command writes FILE with STOOK_TAGS=1 and\n"
        "STOOK_PROFILE=FILE in its environment, or by stook_profile_write() (stook/stat.h).\n"
        "\n"
        "exit status: PROGRAM's own, 128 + N for signal N, and those of stook run; with FILE, 0,\n"
        "             1 a file cannot be read or written, 2 usage\n"
        "\n"
        "example:\n"
        "  stook profile --by live -- python3 program.py\n",
};
