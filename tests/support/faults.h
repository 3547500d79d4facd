/* SPDX-License-Identifier: MIT */
/*
 * faults.h - the library's system calls fail when a test wants it: the calls number fault_at to
 * fault_at + fault_length - 1, counted while !fault_off.
 *
 * The test says "wrap: raw_call6", so that all of the library's calls come by here (base/raw.h).  It includes this in
 * one file, and refuses nothing under sanitizers, whose own account of mappings is kept (FAULTS_POSSIBLE).  Counting begins
 * switched off; STOOK_TEST_FAULT=AT,LENGTH in the environment has it on from the library's own start, which runs
 * before main().  The first call that is refused then makes the file STOOK_TEST_FAULT_FILE.
 */
#ifndef TESTS_SUPPORT_FAULTS_H
#define TESTS_SUPPORT_FAULTS_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FAULTS_POSSIBLE 0
#else
#define FAULTS_POSSIBLE 1
#endif

#include "support/libc_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned fault_at, fault_length, fault_calls, fault_hits;
static bool fault_off = true;
static void (*fault_clock)(void); /* called where the library asks the kernel for the time */

long __real_raw_call6(long number, long a, long b, long c, long d, long e, long f);
long __wrap_raw_call6(long number, long a, long b, long c, long d, long e, long f);

static bool fault(int error)
{
    static char path[256]; /* copied: a program that ends may have freed its environment */
    static bool asked;

    if (!asked) {
        const char *text = getenv("STOOK_TEST_FAULT"), *file = getenv("STOOK_TEST_FAULT_FILE");
        asked = true;
        (void)snprintf(path, sizeof(path), "%s", file ? file : "");
        if (text && sscanf(text, "%u,%u", &fault_at, &fault_length) == 2)
            fault_off = false;
    }
    if (error == 0 || fault_off)
        return false;
    fault_calls++;
    if (fault_calls < fault_at || fault_calls - fault_at >= fault_length)
        return false;
    if (fault_hits++ == 0 && path[0])
        close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    return true;
}

/* 0: that call is not refused.  A refused close(2) closes the descriptor all the same.  write(2) is never refused, since
 * the test prints. */
static int fault_errno(long number)
{
    switch (number) {
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_mremap:
    case SYS_ftruncate:
        return ENOMEM;
    case SYS_madvise:
        return EINVAL;
    case SYS_getrandom:
        return EAGAIN;
    case SYS_futex:
        return EINTR;
    case SYS_openat:
        return EMFILE;
    case SYS_read:
        return EIO;
    case SYS_close:
    case SYS_write:
    case SYS_unlinkat:
    case SYS_flock:
    case SYS_fcntl:
    case SYS_fstat:
    case SYS_getpid:
    case SYS_getpgid:
    case SYS_gettid:
    case SYS_clock_gettime:
    case SYS_mincore:
    case SYS_sched_yield:
        return 0;
    default:
        return EPERM;
    }
}

long __wrap_raw_call6(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == SYS_clock_gettime && fault_clock)
        fault_clock();
    return fault(fault_errno(number)) ? -fault_errno(number)
                                      : __real_raw_call6(number, a, b, c, d, e, f);
}

#endif
