/* SPDX-License-Identifier: MIT */
/*
 * file.h - opening files whose names come from elsewhere: the environment, arguments, a process that is looked at.
 *
 * Opening never waits, as that of a FIFO would, and no terminal becomes the process's own.  Each returns a descriptor, or
 * -1 with errno.  /dev/stdin, /dev/stdout, /dev/stderr, /dev/fd/N and /proc/self/fd/N are the process's own descriptors,
 * whatever these are.  No lock, any context.
 */
#ifndef STOOK_TEXT_FILE_H
#define STOOK_TEXT_FILE_H

#include <stdio.h>

/* A regular file, to be read; EINVAL: it is something else. */
int file_open_read(const char *path);

/* The same for stdio, which the library does without; NULL with errno. */
static inline FILE *file_stream(const char *path)
{
    int fd = file_open_read(path);

    return fd < 0 ? NULL : fdopen(fd, "r");
}

/*
 * A file to be written: a regular one, a FIFO that a reader has open (else ENXIO), or a character device; EINVAL: something
 * else.  O_TRUNC empties it once it is known which file it is.  With O_EXCL, and without O_APPEND and O_TRUNC, own
 * descriptors are names as others.
 *
 * The name may not be a symbolic link (ELOOP).  In folders where all users may create names (/tmp), another user
 * may have created it: files and links of theirs, and files with several names, are refused (EACCES), also on the way to the file.
 */
int file_open_write(const char *path, int flags, unsigned mode);

/* What an errno of these means. */
const char *file_error(int error);

#endif
