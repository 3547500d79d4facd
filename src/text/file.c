/* SPDX-License-Identifier: MIT */
/*
 * file.c - which files may be opened by a name from elsewhere: file.h has the rules.  It holds no lock, and keeps nothing.
 */
#include "text/file.h"

#include "base/raw.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/* The descriptor that a path names, or -1. */
static int file_own(const char *path)
{
    static const char *const names[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    int fd = 0;

    for (int i = 0; i < 3; i++)
        if (strcmp(path, names[i]) == 0)
            return i;
    for (int i = 0; i < 2; i++) {
        const char *digit = path + strlen(folders[i]);
        if (strncmp(path, folders[i], strlen(folders[i])) != 0 || !*digit)
            continue;
        for (; *digit >= '0' && *digit <= '9' && fd < INT_MAX / 10 - 1; digit++)
            fd = 10 * fd + (*digit - '0');
        return *digit ? -1 : fd;
    }
    return -1;
}

static int file_fail(int fd, int error)
{
    if (fd >= 0)
        (void)raw_close(fd);
    errno = error;
    return -1;
}

int file_open_read(const char *path)
{
    int fd = file_own(path);
    struct stat st = {0};

    if (fd >= 0)
        return raw_fcntl(fd, F_DUPFD_CLOEXEC, 0);
    fd = raw_openat(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0);
    if (fd < 0)
        return -1;
    if (raw_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return file_fail(fd, S_ISDIR(st.st_mode) ? EISDIR : EINVAL);
    (void)raw_fcntl(fd, F_SETFL, 0);
    return fd;
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* Whether another user may have put there what lies in this folder under its name. */
static bool file_planted(int folder, const struct stat *st)
{
    bool other = (long)st->st_uid != raw_call(SYS_geteuid);
    bool names = S_ISREG(st->st_mode) && st->st_nlink > 1;
    struct stat above;

    if (S_ISCHR(st->st_mode) || (!other && !names))
        return false;
    if (raw_fstat(folder, &above) != 0)
        return true;
    return (above.st_mode & S_ISVTX) && (above.st_mode & S_IWOTH) &&
           (names || st->st_uid != above.st_uid);
}

/* Opens the folder of this name within another one, and closes that one.  A link is followed unless another user may have
 * put it there. */
static int file_step(int above, const char *name)
{
    enum { HOW = O_PATH | O_CLOEXEC };
    int fd = raw_openat(above, name, HOW | O_NOFOLLOW, 0), error;
    struct stat st;

    if (fd >= 0 && raw_fstat(fd, &st) != 0) {
        fd = file_fail(fd, errno);
    } else if (fd >= 0 && S_ISLNK(st.st_mode)) {
        (void)raw_close(fd);
        fd = file_planted(above, &st) ? file_fail(-1, EACCES)
                                      : raw_openat(above, name, HOW | O_DIRECTORY, 0);
    }
    error = errno;
    (void)raw_close(above);
    errno = error;
    return fd;
}

/* The folder of a path, and the last part of it. */
static int file_folder(const char *path, const char **last)
{
    char name[NAME_MAX + 1];
    int fd = raw_openat(AT_FDCWD, *path == '/' ? "/" : ".", O_PATH | O_CLOEXEC, 0);

    for (;; path = *last) {
        size_t n;
        path += strspn(path, "/");
        n = strcspn(path, "/");
        *last = path + n;
        if (fd < 0 || !**last) {
            *last = path;
            return fd;
        }
        if (n > NAME_MAX)
            return file_fail(fd, ENAMETOOLONG);
        memcpy(name, path, n);
        name[n] = '\0';
        fd = file_step(fd, name);
    }
}

/* 0, or what keeps from writing to it. */
static int file_refused(int folder, int fd, int flags)
{
    struct stat st;

    if (raw_fstat(fd, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
        return EINVAL;
    if (file_planted(folder, &st))
        return EACCES;
    if ((flags & O_TRUNC) && S_ISREG(st.st_mode) && raw_call(SYS_ftruncate, fd, 0) != 0)
        return errno;
    return raw_fcntl(fd, F_SETFL, flags & O_APPEND) < 0 ? errno : 0;
}

int file_open_write(const char *path, int flags, unsigned mode)
{
    int fd = flags & O_EXCL || !(flags & (O_APPEND | O_TRUNC)) ? -1 : file_own(path), folder, error;
    const char *name;

    if (fd >= 0)
        return raw_fcntl(fd, F_DUPFD_CLOEXEC, 0);
    folder = file_folder(path, &name);
    if (folder < 0)
        return -1;
    fd = raw_openat(folder, name,
                    (flags & ~O_TRUNC) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, mode);
    error = fd < 0 ? errno : file_refused(folder, fd, flags);
    (void)raw_close(folder);
    return error ? file_fail(fd, error) : fd;
}

const char *file_error(int error)
{
    return error == ELOOP    ? "it is a symbolic link, which is not followed"
           : error == EINVAL ? "it is not a kind of file that is accepted here"
           : error == ENXIO  ? "no process has the FIFO open for reading"
                             : strerror(error);
}
