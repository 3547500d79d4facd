/* SPDX-License-Identifier: MIT */
#include "watch/exit.h"

#include "base/raw.h"
#include "base/report.h"
#include "os/os.h"

#include <stook/stook.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXIT_FD_MIN = 200 }; /* out of the way of programs that count on low numbers */

static struct {
    int fd; /* a copy of standard error; valid while `kept` and it still is that file */
    bool kept;
    dev_t device;
    ino_t inode;
} exit_stderr;

static bool exit_asked(void)
{
    const char *value = os_getenv("STOOK_REPORT");

    if (!value)
        return false;
    if (strncmp(value, "pid:", 4) == 0)
        return strtol(value + 4, NULL, 10) == (long)getpid();
    return strcmp(value, "1") == 0;
}

/* The copy, unless the program closed it or took its number for something else. */
static bool exit_holds_stderr(void)
{
    struct stat st;

    return exit_stderr.kept && fstat(exit_stderr.fd, &st) == 0 && st.st_dev == exit_stderr.device &&
           st.st_ino == exit_stderr.inode;
}

/* A forked child that is not asked keeps nobody's pipe open. */
static void exit_child(void)
{
    int saved = errno;

    if (!exit_asked() && exit_holds_stderr())
        (void)raw_close(exit_stderr.fd);
    errno = saved;
}

void exit_prepare(void)
{
    int saved = errno;
    struct stat st;

    if (exit_asked() && fstat(STDERR_FILENO, &st) == 0) {
        int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, EXIT_FD_MIN);
        if (fd < 0)
            fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        exit_stderr.fd = fd;
        exit_stderr.kept = fd >= 0;
        exit_stderr.device = st.st_dev;
        exit_stderr.inode = st.st_ino;
        if (fd >= 0)
            pthread_atfork(NULL, NULL, exit_child);
    }
    errno = saved;
}

/* The path with %p and %% replaced; false: it is too long. */
static bool exit_expand(const char *pattern, char *path, size_t size)
{
    size_t n = 0;

    for (; *pattern; pattern++) {
        int wrote = 1;
        if (n + 16 > size)
            return false;
        if (pattern[0] == '%' && pattern[1] == 'p') {
            wrote = snprintf(path + n, 16, "%d", (int)getpid());
            pattern++;
        } else {
            path[n] = *pattern;
            if (pattern[0] == '%' && pattern[1] == '%')
                pattern++;
        }
        n += (size_t)wrote;
    }
    path[n] = '\0';
    return n > 0;
}

static int exit_open(const char *pattern)
{
    char path[PATH_MAX];
    int fd;

    if (!exit_expand(pattern, path, sizeof(path))) {
        report_warn("STOOK_REPORT_FILE is no usable path; the report goes to stderr");
        return -1;
    }
    fd = raw_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
    if (fd >= 0)
        (void)flock(fd, LOCK_EX); /* processes that share a file write one after the other */
    else
        report_warn("%s cannot be written (%s); the report goes to stderr", path, strerror(errno));
    return fd;
}

void exit_report(void)
{
    const char *file = os_getenv("STOOK_REPORT_FILE"), *format = os_getenv("STOOK_REPORT_FORMAT");
    unsigned as = format && strcmp(format, "json") == 0 ? STOOK_REPORT_JSON : STOOK_REPORT_TABLE;
    int fd = -1, copy;

    if (!exit_asked())
        return;
    copy = exit_holds_stderr() ? exit_stderr.fd : STDERR_FILENO;
    if (file)
        fd = exit_open(file);
    if (stook_report(fd >= 0 ? fd : copy, as) != 0)
        report_warn("the report could not be written (%s)", strerror(errno));
    if (fd >= 0)
        (void)raw_close(fd);
}
