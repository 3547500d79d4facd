/* SPDX-License-Identifier: MIT */
/*
 * profile.c - writes the profile as one JSON document, on a call, a signal or at the end.  profile_samples.c
 * and profile_maps.c write its parts.
 */
#include "watch/profile.h"

#include "large/large.h"
#include <stook/stat.h>
#include "watch/exit.h"
#include "text/file.h"
#include "base/placed.h"
#include "base/raw.h"
#include "base/report.h"
#include "watch/settings_show.h"
#include "os/os.h"
#include "watch/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROFILE_FORMAT = 2 }; /* grows when a key changes its meaning or goes */

/* ---- the document --------------------------------------------------------------------------- */

static void profile_process(struct writer *w)
{
    char exe[PATH_MAX], comm[64];
    struct timespec now = {0};
    ssize_t n = raw_call(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", exe, sizeof(exe) - 1);

    exe[n > 0 ? n : 0] = '\0';
    if (os_read_file("/proc/self/comm", comm, sizeof(comm)) < 0)
        comm[0] = '\0';
    comm[strcspn(comm, "\n")] = '\0';
    writer_print(w, "{\"stook_profile\": %d, \"stook\": \"%d.%d.%d\", \"pid\": %d,\n \"program\": ",
                 PROFILE_FORMAT, STOOK_VERSION_MAJOR, STOOK_VERSION_MINOR, STOOK_VERSION_PATCH,
                 (int)raw_getpid());
    writer_json(w, comm);
    writer_print(w, ", \"exe\": ");
    writer_json(w, exe);
    writer_print(w, ",\n ");
    (void)raw_call(SYS_clock_gettime, CLOCK_REALTIME, &now);
    writer_key(w, "time_ns", (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, ", ");
    writer_print(w, "\"mode\": \"%s\",\n ", stook_mode(NULL));
}

/* What all sites' live bytes are compared with. */
static void profile_sums(struct writer *w)
{
    struct stats_cache row, sum = {0};
    uint64_t objects, large;

    if (!stats_readable()) {
        writer_print(w, "\"in_use_bytes\": null,\n ");
        return;
    }
    for (unsigned i = 1, end = stats_caches(); i < end; i++)
        if (stats_read_cache(i, &row) && !row.internal)
            sum.in_use += row.active * row.stride;
    large_count(&objects, &large);
    writer_key(w, "in_use_bytes", sum.in_use + large, ",\n ");
}

int stook_profile_write(int fd)
{
    struct writer writer;

    writer_init(&writer, fd);
    profile_process(&writer);
    profile_sums(&writer);
    writer_print(&writer, "\"sites\": [");
    profile_samples_sites(&writer, true, "");
    writer_print(&writer, "]");
    writer_print(&writer, ",\n ");
    profile_samples_write(&writer);
    writer_print(&writer, ",\n \"mappings\": ");
    profile_maps_write(&writer);
    writer_print(&writer, "}\n");
    return writer_finish(&writer);
}

/* ---- what the environment asks for ------------------------------------------------------------ */

/*
 *   STOOK_PROFILE  where to, at the end; %p becomes the process number, %% a percent sign.  Behind USR2 or a
 *                  number, and a comma: a snapshot to FILE.1, FILE.2, … at each such signal, too
 *   STOOK_PID      only this process writes (stook profile gives its own number, which exec keeps), not
 *                  those that it starts
 *
 * Read at start, so that what a program does to its environment changes nothing, and a handler reads
 * none.  The library's destructors run behind those of the program and of libstook-malloc.so.
 */
static struct {
    char pattern[PATH_MAX]; /* "": nothing is asked for */
    _Atomic unsigned snapshots;
} profile_file LARGE_BSS;

/* The pattern's path, with .NUMBER behind it unless that is 0; false: it is too long. */
static bool profile_file_path(unsigned number, char *path, size_t size)
{
    size_t n = exit_expand(profile_file.pattern, (int)raw_getpid(), path, size - 16);

    if (n > 0 && number != 0)
        (void)snprintf(path + n, 16, ".%u", number);
    return n > 0;
}

static void profile_file_write(unsigned number)
{
    char path[PATH_MAX];
    int saved = errno, fd, failed;

    if (!exit_writes())
        return;
    if (!profile_file_path(number, path, sizeof(path))) {
        report_warn("STOOK_PROFILE: the path is too long; no profile is written");
    } else if ((fd = file_open_write(path, O_WRONLY | O_CREAT | O_TRUNC, 0644)) < 0) {
        report_warn("the profile cannot be written to %s (%s)", path, file_error(errno));
    } else {
        failed = stook_profile_write(fd) != 0 ? errno : 0;
        if (raw_close(fd) != 0 && failed == 0)
            failed = errno;
        if (failed != 0)
            report_warn("the profile could not be written to %s (%s)", path, strerror(failed));
    }
    errno = saved;
}

static void profile_snapshot(int signal)
{
    (void)signal;
    profile_file_write(1 +
                       atomic_fetch_add_explicit(&profile_file.snapshots, 1, memory_order_relaxed));
}

static FIRST_TEXT __attribute__((constructor(103), used)) void profile_prepare(void)
{
    const char *file = setting_file(SETTING_PROFILE);
    struct sigaction action = {.sa_handler = profile_snapshot, .sa_flags = SA_RESTART};
    int signal = (int)setting_number(SETTING_PROFILE);

    if (!file)
        return;
    if (strlen(file) >= sizeof(profile_file.pattern)) {
        setting_refuse(SETTING_PROFILE, "the path is too long");
        return;
    }
    strcpy(profile_file.pattern, file);
    if (signal == 0 || !exit_writes())
        return;
    if (sigaction(signal, &action, NULL) != 0)
        report_warn("STOOK_PROFILE: no profile is written at signal %d: %s", signal,
                    strerror(errno));
}

static FIRST_TEXT __attribute__((destructor(101), used)) void profile_end(void)
{
    if (setting_text(SETTING_PROFILE) && profile_file.pattern[0])
        profile_file_write(0);
}
