/* SPDX-License-Identifier: MIT */
/*
 * rseq_registration.h - the rseq registration of the calling thread, undone and redone: a thread without it is like
 * one whose registration was refused.  false where there is nothing to undo.  It is glibc's, or where glibc has none
 * the library's own, which a thread has from its first slow call on; the test says where that lies.
 */
#ifndef TESTS_SUPPORT_RSEQ_REGISTRATION_H
#define TESTS_SUPPORT_RSEQ_REGISTRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__aarch64__)
#define RSEQ_SIGNATURE 0xd428bc00u
#else
#define RSEQ_SIGNATURE 0x53053053u
#endif

extern const ptrdiff_t __rseq_offset __attribute__((weak));

extern const unsigned __rseq_size __attribute__((weak));

static intptr_t rseq_own; /* from the thread pointer to the library's own, or 0 */

#if defined(__x86_64__) || defined(__aarch64__)
static inline char *rseq_area(void)
{
    bool libc = &__rseq_size && __rseq_size > 0;

    return (char *)__builtin_thread_pointer() + (libc ? __rseq_offset : rseq_own);
}
#endif

static inline bool rseq_is_registered(void)
{
#if defined(__x86_64__) || defined(__aarch64__)
    return rseq_area() != __builtin_thread_pointer() &&
           *(volatile int32_t *)(rseq_area() + 4) >= 0;
#else
    return false;
#endif
}

static inline long rseq_call(int flags)
{
#if defined(__x86_64__) || defined(__aarch64__)
    static uint32_t length = 32; /* later C libraries register what the kernel can fill */
    long result;

    while ((result = syscall(SYS_rseq, rseq_area(), length, flags, RSEQ_SIGNATURE)) != 0 &&
           length < 256)
        length += 32;
    return result;
#else
    (void)flags;
    return -1;
#endif
}

static inline bool rseq_unregister(void)
{
    return rseq_call(1) == 0;
}

static inline bool rseq_register(void)
{
    return rseq_call(0) == 0;
}

#endif
