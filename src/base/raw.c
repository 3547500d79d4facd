/* SPDX-License-Identifier: MIT */
/*
 * raw.c - the processor's instruction for a system call.
 */
#include "base/raw.h"

#include <errno.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RAW_SANITIZED 1 /* the one place: sanitizers keep account of mappings in libc's functions */
#else
#define RAW_SANITIZED 0
#endif

#if defined(__x86_64__)
static inline long raw_enter(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;

    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return number;
}
#elif defined(__aarch64__)
static inline long raw_enter(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;

    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#else
#include <unistd.h>

static inline long raw_enter(long number, long a, long b, long c, long d, long e, long f)
{
    int saved = errno;
    long result = syscall(number, a, b, c, d, e, f);

    if (result == -1)
        result = -errno;
    errno = saved;
    return result;
}
#endif

static inline long raw_enter_libc(long number, long a, long b, long c, long d, long e, long f)
{
    int saved = errno;
    long result = number == SYS_mmap
                      ? (long)mmap((void *)a, (size_t)b, (int)c, (int)d, (int)e, f) // NOLINT
                      : munmap((void *)a, (size_t)b);                               // NOLINT

    if (result == -1)
        result = -errno;
    errno = saved;
    return result;
}

long raw_call6(long number, long a, long b, long c, long d, long e, long f)
{
    if (RAW_SANITIZED && (number == SYS_mmap || number == SYS_munmap))
        return raw_enter_libc(number, a, b, c, d, e, f);
    return raw_enter(number, a, b, c, d, e, f);
}

long raw_errno(long result)
{
    if (result >= 0 || result < -4095)
        return result;
    errno = (int)-result;
    return -1;
}
