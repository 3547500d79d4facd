/* SPDX-License-Identifier: MIT */
/*
 * faults.h - the library's system calls fail when a test wants it: the calls number fault_at to
 * fault_at + fault_length - 1, counted while !fault_off.
 *
 * The functions below stand before libc's for the library's objects, which are linked statically;
 * so include this in the one file of a test, and not under sanitizers, which stand there themselves
 * (FAULTS_POSSIBLE).  Counting begins switched off; STOOK_TEST_FAULT=AT,LENGTH in the environment
 * has it on from the library's own start, which runs before main().
 *
 * FAULTS_OF_LIBRARY: calls fail that come from a file whose path has that in it, and no others.
 */
#ifndef TESTS_SUPPORT_FAULTS_H
#define TESTS_SUPPORT_FAULTS_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FAULTS_POSSIBLE 0
#else
#define FAULTS_POSSIBLE 1

#include "support/libc_names.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static unsigned fault_at, fault_length, fault_calls, fault_hits;
static bool fault_off = true;

#ifdef FAULTS_OF_LIBRARY
#define fault(error) fault_from(error, __builtin_return_address(0))

#define fault_is_other(from)                                                                       \
    ({                                                                                             \
        Dl_info info;                                                                              \
        !dladdr(from, &info) || !info.dli_fname || !strstr(info.dli_fname, FAULTS_OF_LIBRARY);     \
    })

static void fault_tell(void)
{
    const char *path = getenv("STOOK_TEST_FAULT_FILE");

    if (fault_hits == 1 && path)
        close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}
#else
#define fault(error) fault_from(error, NULL)
#define fault_is_other(from) ((void)(from), false)
#define fault_tell() (void)0
#endif

static bool fault_from(int error, const void *from)
{
    static bool asked;

    if (!asked) {
        const char *text = getenv("STOOK_TEST_FAULT");
        asked = true;
        if (text && sscanf(text, "%u,%u", &fault_at, &fault_length) == 2)
            fault_off = false;
    }
    if (fault_off || fault_is_other(from))
        return false;
    fault_calls++;
    if (fault_calls < fault_at || fault_calls - fault_at >= fault_length)
        return false;
    fault_hits++;
    fault_tell();
    errno = error;
    return true;
}

#define REAL(name)                                                                                 \
    static __typeof__(&name) real;                                                                 \
    if (!real)                                                                                     \
    *(void **)(void *)&real = dlsym(RTLD_NEXT, #name)

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    REAL(mmap);
    return fault(ENOMEM) ? MAP_FAILED : real(address, size, protection, flags, fd, offset);
}

int munmap(void *address, size_t size)
{
    REAL(munmap);
    return fault(ENOMEM) ? -1 : real(address, size);
}

int mprotect(void *address, size_t size, int protection)
{
    REAL(mprotect);
    return fault(ENOMEM) ? -1 : real(address, size, protection);
}

int madvise(void *address, size_t size, int advice)
{
    REAL(madvise);
    return fault(EINVAL) ? -1 : real(address, size, advice);
}

void *mremap(void *from, size_t size, size_t wanted, int flags, ...)
{
    va_list args;
    void *to;

    REAL(mremap);
    va_start(args, flags);
    to = va_arg(args, void *);
    va_end(args);
    return fault(ENOMEM) ? MAP_FAILED : real(from, size, wanted, flags, to);
}

ssize_t getrandom(void *buf, size_t size, unsigned flags)
{
    REAL(getrandom);
    return fault(EAGAIN) ? -1 : real(buf, size, flags);
}

int memfd_create(const char *name, unsigned flags)
{
    REAL(memfd_create);
    return fault(ENOSYS) ? -1 : real(name, flags);
}

int ftruncate(int fd, off_t size)
{
    REAL(ftruncate);
    return fault(ENOMEM) ? -1 : real(fd, size);
}

ssize_t pwritev(int fd, const struct iovec *io, int n, off_t offset)
{
    REAL(pwritev);
    return fault(ENOSPC) ? -1 : real(fd, io, n, offset);
}

int getrlimit(rlimit_kind resource, struct rlimit *limit)
{
    REAL(getrlimit);
    return fault(EPERM) ? -1 : real(resource, limit);
}

/* membarrier, sched_getaffinity, futex and what must be no point of cancellation; what close(2)
 * refuses is closed all the same, and what is written is what the test goes by */
static int fault_errno(long number)
{
    return number == SYS_futex    ? EINTR
           : number == SYS_openat ? EMFILE
           : number == SYS_read   ? EIO
                                  : EPERM;
}

long syscall(long number, ...)
{
    va_list args;
    long a[6];

    REAL(syscall);
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    return number != SYS_close && number != SYS_write && fault(fault_errno(number))
               ? -1
               : real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#endif

#endif
