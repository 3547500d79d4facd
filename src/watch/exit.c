/* SPDX-License-Identifier: MIT */
/*
 * exit.c - finds out what the environment asks for, keeps a copy of standard error, and writes the report at the end.
 */
#include "watch/exit.h"

#include "text/file.h"
#include "base/placed.h"
#include "base/raw.h"
#include "base/report.h"
#include "kmalloc/private.h"
#include "watch/settings_show.h"

#include <stook/stook.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    EXIT_FD_MIN = 200,        /* out of the way of programs that count on low numbers */
    EXIT_LIMIT_MAX = 1 << 16, /* the kernel's table of descriptors grows with the number */
    EXIT_SEARCH = 64,         /* descriptors that are looked at for standard error's file */
};

static struct {
    int fd; /* a copy of standard error; valid while `kept` and it still is that file */
    bool kept;
    dev_t device;
    ino_t inode;
} exit_stderr;

/* STOOK_REPORT_FILE, which the program may overwrite in its environment before it ends. */
static char exit_file[PATH_MAX] LARGE_BSS;

enum { EXIT_WISH = 1, EXIT_JSON = 2 }; /* bits of STOOK_REPORT's number */
enum exit_asked { EXIT_NO, EXIT_BY_NUMBER, EXIT_WITH_ALL };

FIRST_TEXT bool exit_writes(void)
{
    size_t only = setting_number(SETTING_PID);

    return only == 0 || only == (size_t)raw_getpid();
}

static FIRST_TEXT enum exit_asked exit_asked(void)
{
    if (!(setting_number(SETTING_REPORT) & EXIT_WISH) || !exit_writes())
        return EXIT_NO;
    return setting_number(SETTING_PID) != 0 ? EXIT_BY_NUMBER : EXIT_WITH_ALL;
}

static bool exit_is_stderr(int fd)
{
    struct stat st;

    return raw_fstat(fd, &st) == 0 && st.st_dev == exit_stderr.device &&
           st.st_ino == exit_stderr.inode;
}

/* The copy, unless the program closed it or took its number for something else. */
static bool exit_holds_stderr(void)
{
    return exit_stderr.kept && exit_is_stderr(exit_stderr.fd);
}

/*
 * A number beyond the program's limit: a program that looks at each descriptor it may have does not
 * find it.  -1 where the limit cannot be raised for a moment.
 */
static int exit_copy_beyond(void)
{
    struct rlimit limit, raised;
    int fd;

    if (raw_getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max ||
        limit.rlim_cur > EXIT_LIMIT_MAX)
        return -1;
    raised = limit;
    raised.rlim_cur++;
    if (raw_call(SYS_prlimit64, 0, RLIMIT_NOFILE, &raised) != 0)
        return -1;
    fd = raw_fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, (long)limit.rlim_cur);
    (void)raw_call(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit);
    return fd;
}

/*
 * The process that the user named keeps a copy at any price.  Of those that report besides, each
 * program of a tree, tests that count their descriptors included, only where that does not show;
 * and none where there is a file to write to.
 */
static int exit_copy(enum exit_asked asked)
{
    int fd = -1;

    if (asked == EXIT_BY_NUMBER || !*exit_file)
        fd = exit_copy_beyond();
    if (fd < 0 && asked == EXIT_BY_NUMBER)
        fd = raw_fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, EXIT_FD_MIN);
    if (fd < 0 && asked == EXIT_BY_NUMBER)
        fd = raw_fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return fd;
}

/* The copy; else standard error, if it is open, or another descriptor of the same file. */
static int exit_find_stderr(void)
{
    if (exit_holds_stderr())
        return exit_stderr.fd;
    if (raw_fcntl(STDERR_FILENO, F_GETFD, 0) >= 0 || exit_stderr.inode == 0)
        return STDERR_FILENO;
    for (int fd = 0; fd < EXIT_SEARCH; fd++)
        if (exit_is_stderr(fd) && (raw_fcntl(fd, F_GETFL, 0) & O_ACCMODE) != O_RDONLY)
            return fd;
    return STDERR_FILENO;
}

/* A forked child that writes no report closes its copy: a reader of that pipe may wait for its end. */
static void exit_child(void)
{
    int saved = errno;

    if (exit_asked() == EXIT_NO && exit_holds_stderr())
        (void)raw_close(exit_stderr.fd);
    errno = saved;
}

FIRST_TEXT void exit_prepare(void)
{
    enum exit_asked asked = exit_asked();
    const char *file = setting_text(SETTING_REPORT_FILE);
    static bool prepared;
    int saved = errno;
    struct stat st;

    if (prepared)
        return;
    prepared = true;
    private_limit();
    if (file && strlen(file) >= sizeof(exit_file))
        setting_refuse(SETTING_REPORT_FILE, "the path is too long");
    else if (file)
        strcpy(exit_file, file);
    if (asked != EXIT_NO && raw_fstat(STDERR_FILENO, &st) == 0) {
        int fd = exit_copy(asked);
        exit_stderr.fd = fd;
        exit_stderr.kept = fd >= 0;
        exit_stderr.device = st.st_dev;
        exit_stderr.inode = st.st_ino;
        if (fd >= 0)
            pthread_atfork(NULL, NULL, exit_child);
    }
    errno = saved;
}

FIRST_TEXT bool exit_is_numbered(const char *pattern)
{
    while ((pattern = strchr(pattern, '%')) != NULL && pattern[1] != 'p')
        pattern += pattern[1] ? 2 : 1;
    return pattern;
}

size_t exit_expand(const char *pattern, int pid, char *path, size_t size)
{
    size_t n = 0;

    for (; *pattern; pattern++) {
        int wrote = 1;
        if (n + 16 > size)
            return 0;
        if (pattern[0] == '%' && pattern[1] == 'p') {
            wrote = snprintf(path + n, 16, "%d", pid);
            pattern++;
        } else {
            path[n] = *pattern;
            if (pattern[0] == '%' && pattern[1] == '%')
                pattern++;
        }
        n += (size_t)wrote;
    }
    path[n] = '\0';
    return n;
}

static int exit_open(const char *pattern)
{
    char path[PATH_MAX];
    int fd;

    if (exit_expand(pattern, (int)raw_getpid(), path, sizeof(path)) == 0) {
        report_warn("STOOK_REPORT_FILE is no usable path; the report goes to stderr");
        return -1;
    }
    fd = file_open_write(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd >= 0)
        (void)raw_call(SYS_flock, fd,
                       LOCK_EX); /* processes that share a file write one after the other */
    else
        report_warn("%s cannot be written (%s); the report goes to stderr", path,
                    file_error(errno));
    return fd;
}

FIRST_TEXT void exit_report(void)
{
    bool json = setting_number(SETTING_REPORT) & EXIT_JSON;
    int fd = -1, copy;

    if (exit_asked() == EXIT_NO)
        return;
    copy = exit_find_stderr();
    if (*exit_file)
        fd = exit_open(exit_file);
    if (stook_report(fd >= 0 ? fd : copy, json ? STOOK_REPORT_JSON : STOOK_REPORT_TABLE) != 0)
        report_warn("the report could not be written (%s)", strerror(errno));
    if (fd >= 0)
        (void)raw_close(fd);
}
