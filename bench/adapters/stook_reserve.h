/* SPDX-License-Identifier: MIT */
/*
 * Numbers out of Stook's own report; of these, what it keeps warm for the whole process: free memory
 * that stays resident on purpose, up to a bound, for the next allocation.
 */
#ifndef STOOK_BENCH_STOOK_RESERVE_H
#define STOOK_BENCH_STOOK_RESERVE_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stook/stook.h>

#define ADAPTER_LIMIT 1
#define ADAPTER_RESERVE 1

/* The first number after `key` that follows `after` (NULL: the report's start). */
static inline long adapter_report_number(const char *after, const char *key)
{
    int fd = memfd_create("report", MFD_CLOEXEC);
    if (fd < 0 || stook_report(fd, STOOK_REPORT_JSON))
        case_die("the report cannot be written");
    off_t length = lseek(fd, 0, SEEK_END);
    char *text = mmap(NULL, (size_t)length + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (text == MAP_FAILED)
        case_die("the report cannot be read");
    const char *at = after ? strstr(text, after) : text;
    at = at ? strstr(at, key) : NULL;
    if (!at)
        case_die("the report lacks a number");
    long number = strtol(at + strlen(key), NULL, 10);
    munmap(text, (size_t)length + 1);
    close(fd);
    return number;
}

static inline long adapter_reserve(void)
{
    return adapter_report_number(NULL, "\"warm_bytes\":");
}

static inline long adapter_limit(void)
{
    return adapter_report_number(NULL, "\"reserve_bytes\":");
}

#endif
