/* SPDX-License-Identifier: MIT */
/* trace_file.c - creates the file of a trace, extends it by a chunk, maps and unmaps chunks; never follows a link. */
#include "trace/trace_file.h"

#include "text/file.h"
#include "base/placed.h"
#include "base/raw.h"
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum {
    TRACE_FILE_FD_MIN = 200, /* out of the way of programs that count on low numbers */
    TRACE_FILE_TRIES = 100,  /* of what signals interrupt, or other processes undo */
};

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static struct {
    int fd;
    dev_t device;
    ino_t inode;
    char path[PATH_MAX]; /* absolute */
} trace_file LARGE_BSS;  /* none yet: no file is this one */

static int trace_file_openat(const char *path, int flags)
{
    return file_open_write(path, flags, 0600);
}

/* ---- making it ------------------------------------------------------------------------------ */

/*
 * Removes the file, if it is a regular one: an older trace.  A process that still writes to it has locked it, and would
 * keep its mapping anyway.
 */
static int trace_file_remove(const char *path)
{
    int fd = trace_file_openat(path, O_RDONLY | O_NONBLOCK), error = 0;
    struct stat st;

    if (fd < 0)
        return errno == ENOENT ? 0 : errno == EINVAL ? EEXIST : errno;
    if (raw_fstat(fd, &st) != 0)
        error = errno;
    else if (!S_ISREG(st.st_mode))
        error = EEXIST;
    else if (raw_call(SYS_flock, fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        error = EBUSY;
    else if (raw_call(SYS_unlinkat, AT_FDCWD, path, 0) != 0 && errno != ENOENT)
        error = errno;
    (void)raw_close(fd);
    return error;
}

/* Creates a new file; never follows or reuses an existing link. */
static int trace_file_make(const char *path, int *fd)
{
    for (int i = 0; i < TRACE_FILE_TRIES; i++) {
        int error;
        *fd = trace_file_openat(path, O_RDWR | O_CREAT | O_EXCL);
        if (*fd >= 0)
            return 0;
        if (errno != EEXIST)
            return errno;
        error = trace_file_remove(path);
        if (error != 0)
            return error;
    }
    return EEXIST;
}

int trace_file_absolute(const char *path, char *absolute, size_t size)
{
    size_t n = 0, length = strlen(path);

    if (path[0] != '/') {
        if (raw_call(SYS_getcwd, absolute, size) < 0)
            return errno;
        n = strlen(absolute);
        if (n + 1 >= size)
            return ENAMETOOLONG;
        absolute[n++] = '/';
    }
    if (length == 0 || length >= size - n)
        return length == 0 ? ENOENT : ENAMETOOLONG;
    memcpy(absolute + n, path, length + 1);
    return 0;
}

/* ---- lengthening it ------------------------------------------------------------------------- */

static bool trace_file_is(int fd)
{
    struct stat st;

    return fd >= 0 && raw_fstat(fd, &st) == 0 && st.st_dev == trace_file.device &&
           st.st_ino == trace_file.inode;
}

/* Daemons close all files that they do not know; the number may be another file's by now. */
static bool trace_file_again(void)
{
    int fd;

    if (trace_file_is(trace_file.fd))
        return true;
    fd = trace_file_openat(trace_file.path, O_RDWR);
    if (!trace_file_is(fd)) {
        if (fd >= 0)
            (void)raw_close(fd);
        return false;
    }
    trace_file.fd = fd;
    return true;
}

/* The file has room up to `end`, really: a full file system must be met here, not by a write. */
static bool trace_file_extend(uint64_t from, uint64_t end)
{
    struct rlimit limit;

    /* Beyond the limit a signal would come. */
    if (raw_getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        end > limit.rlim_cur) {
        errno = EFBIG;
        return false;
    }
    for (int i = 0; i < TRACE_FILE_TRIES; i++) {
        if (raw_call(SYS_fallocate, trace_file.fd, 0, (off_t)from, (off_t)(end - from)) == 0)
            return true;
        if (errno != EINTR)
            break;
    }
    /* File systems that cannot tell. */
    return (errno == EOPNOTSUPP || errno == ENOSYS) &&
           raw_call(SYS_ftruncate, trace_file.fd, end) == 0;
}

static void *trace_file_map(uint64_t from, size_t size)
{
    long at;

    if (!trace_file_extend(from, from + size))
        return NULL;
    at = raw_call(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, trace_file.fd, from);
    if (at == -1)
        return NULL;
    /* All pages at once; kernels before 5.14 know no such advice and bring them one by one. */
    if (raw_call(SYS_madvise, at, size, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
        os_unmap((void *)at, size); // NOLINT
        return NULL;
    }
    return (void *)at; // NOLINT
}

struct trace_chunk *trace_file_claim(uint64_t index)
{
    if (!trace_file_again())
        return NULL;
    return trace_file_map(TRACE_HEADER_BYTES + index * TRACE_CHUNK_BYTES, TRACE_CHUNK_BYTES);
}

void trace_file_unmap(struct trace_chunk *chunk)
{
    os_unmap(chunk, TRACE_CHUNK_BYTES);
}

/* ---- its life ------------------------------------------------------------------------------- */

int trace_file_open(const char *path, struct trace_header **header)
{
    /* Programs change their folder. */
    int error = trace_file_absolute(path, trace_file.path, sizeof(trace_file.path)), fd, high;
    struct stat st;

    if (error == 0)
        error = trace_file_make(trace_file.path, &fd);
    if (error != 0)
        return error;
    high = raw_fcntl(fd, F_DUPFD_CLOEXEC, TRACE_FILE_FD_MIN);
    if (high >= 0) {
        (void)raw_close(fd);
        fd = high;
    }
    trace_file.fd = fd;
    (void)raw_call(SYS_flock, fd,
                   LOCK_EX | LOCK_NB); /* where that can be had: trace_file_remove() */
    if (raw_fstat(fd, &st) == 0) {
        trace_file.device = st.st_dev;
        trace_file.inode = st.st_ino;
        *header = trace_file_map(0, TRACE_HEADER_BYTES);
        if (*header)
            return 0;
    }
    error = errno;
    (void)raw_call(SYS_unlinkat, AT_FDCWD, trace_file.path, 0);
    (void)raw_close(fd);
    trace_file.fd = -1;
    return error;
}

/* What is mapped holds the lock as well, so it is given up first. */
void trace_file_close(struct trace_header *header)
{
    if (trace_file_is(trace_file.fd))
        (void)raw_call(SYS_flock, trace_file.fd, LOCK_UN);
    trace_file_leave(header);
}

void trace_file_leave(struct trace_header *header)
{
    if (header)
        os_unmap(header, TRACE_HEADER_BYTES);
    if (trace_file_is(trace_file.fd))
        (void)raw_close(trace_file.fd);
    trace_file.fd = -1;
    trace_file.path[0] = '\0';
}
