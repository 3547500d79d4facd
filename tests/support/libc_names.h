/* SPDX-License-Identifier: MIT */
/* libc_names.h - what glibc and musl call differently, and tests need. */
#ifndef TESTS_SUPPORT_LIBC_NAMES_H
#define TESTS_SUPPORT_LIBC_NAMES_H

#include <signal.h>
#include <sys/resource.h>

#ifdef __GLIBC__
typedef __rlimit_resource_t rlimit_kind;
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif
#else
typedef int rlimit_kind;
#endif

#endif
