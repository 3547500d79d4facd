/* SPDX-License-Identifier: MIT */
/*
 * raw.h - system calls without libc's functions.
 *
 * A preloaded library or the program may define any function of libc, and allocate or take a lock in it.  Some
 * are points of cancellation: a thread that ended there would leave locks held and slots closed.  So src/ calls
 * those alone that tests/support/libc_calls.def lists, each with the reason.
 *
 * raw_call() returns and sets errno as libc does.  raw_result() leaves errno, and returns the negative
 * number of an error.
 */
#ifndef STOOK_BASE_RAW_H
#define STOOK_BASE_RAW_H

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>

/* Tests put their own before it, to refuse calls (tests/support/faults.h). */
long raw_call6(long number, long a, long b, long c, long d, long e, long f)
    __attribute__((visibility("hidden")));
/* What a function of libc's returns for that, with errno. */
long raw_errno(long result);

/* raw_call(SYS_name, up to six numbers or addresses), raw_result() likewise */
#define RAW_CALL(number, a, b, c, d, e, f, ...)                                                    \
    raw_call6((number), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define raw_result(...) RAW_CALL(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)
#define raw_call(...) raw_errno(raw_result(__VA_ARGS__))

static inline int raw_openat(int folder, const char *path, int flags, unsigned mode)
{
    return (int)raw_call(SYS_openat, folder, path, flags, mode);
}

static inline int raw_close(int fd)
{
    return (int)raw_call(SYS_close, fd);
}

/* On 64 bits the kernel's struct stat is libc's. */
static inline int raw_fstat(int fd, struct stat *st)
{
    return (int)raw_call(SYS_fstat, fd, st);
}

static inline int raw_fcntl(int fd, int command, long argument)
{
    return (int)raw_call(SYS_fcntl, fd, command, argument);
}

static inline int raw_getrlimit(int resource, struct rlimit *limit)
{
    return (int)raw_call(SYS_prlimit64, 0, resource, NULL, limit);
}

static inline pid_t raw_getpid(void)
{
    return (pid_t)raw_call(SYS_getpid);
}

static inline pid_t raw_gettid(void)
{
    return (pid_t)raw_call(SYS_gettid);
}

/* CLOCK_MONOTONIC in ns.  libc's reads the processor's counter, which a process may be denied (PR_SET_TSC). */
static inline uint64_t raw_clock(void)
{
    struct timespec now = {0};

    (void)raw_call(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Sleeps while the word has that value; nanoseconds 0: without end.  May return early. */
static inline void raw_wait(_Atomic uint32_t *word, uint32_t value, uint64_t nanoseconds)
{
    struct timespec most = {(time_t)(nanoseconds / 1000000000u), (long)(nanoseconds % 1000000000u)};

    (void)raw_result(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, nanoseconds ? &most : NULL);
}

static inline void raw_wake(_Atomic uint32_t *word, int n)
{
    (void)raw_result(SYS_futex, word, FUTEX_WAKE_PRIVATE, n);
}

#endif
