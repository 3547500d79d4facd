/* SPDX-License-Identifier: MIT */
/*
 * raw.h - system calls without libc's wrappers, some of which are points of cancellation.
 *
 * A thread with a pending cancel that called open() or nanosleep() inside the library would be gone
 * with locks held and slots closed, so nothing in src/ calls those (tests/scripts/cancellation.sh).
 * What these return and how they set errno is as in libc.
 */
#ifndef STOOK_BASE_RAW_H
#define STOOK_BASE_RAW_H

#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static inline int raw_openat(int folder, const char *path, int flags, unsigned mode)
{
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

static inline int raw_open(const char *path, int flags, unsigned mode)
{
    return raw_openat(AT_FDCWD, path, flags, mode);
}

static inline int raw_fstat(int fd, struct stat *st)
{
    return (int)syscall(SYS_fstat, fd, st);
}

static inline int raw_fcntl(int fd, int command, long argument)
{
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

static inline int raw_ftruncate(int fd, off_t size)
{
    return (int)syscall(SYS_ftruncate, fd, size);
}

static inline uid_t raw_geteuid(void)
{
    return (uid_t)syscall(SYS_geteuid);
}

static inline int raw_close(int fd)
{
    return (int)syscall(SYS_close, fd);
}

static inline ssize_t raw_read(int fd, void *to, size_t size)
{
    return (ssize_t)syscall(SYS_read, fd, to, size);
}

static inline ssize_t raw_pread(int fd, void *to, size_t size, off_t at)
{
    return (ssize_t)syscall(SYS_pread64, fd, to, size, at);
}

static inline ssize_t raw_write(int fd, const void *from, size_t size)
{
    return (ssize_t)syscall(SYS_write, fd, from, size);
}

/* As waitpid(), but of any kind of child. */
static inline pid_t raw_waitpid(pid_t child, int *status, int options)
{
    return (pid_t)syscall(SYS_wait4, child, status, options, NULL);
}

/* CLOCK_MONOTONIC in ns.  libc's reads the processor's counter, which a process may be denied (PR_SET_TSC). */
static inline uint64_t raw_clock(void)
{
    struct timespec now = {0};

    (void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Sleeps while the word has that value; nanoseconds 0: without end.  May return early. */
static inline void raw_wait(_Atomic uint32_t *word, uint32_t value, uint64_t nanoseconds)
{
    struct timespec most = {(time_t)(nanoseconds / 1000000000u), (long)(nanoseconds % 1000000000u)};

    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, nanoseconds ? &most : NULL, NULL, 0);
}

static inline void raw_wake(_Atomic uint32_t *word, int n)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

#endif
