/* SPDX-License-Identifier: MIT */
/*
 * What Stook keeps warm for the whole process, as its own report says it: free memory that stays
 * resident on purpose, up to a bound, for whoever asks next.
 */
#ifndef STOOK_BENCH_STOOK_RESERVE_H
#define STOOK_BENCH_STOOK_RESERVE_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stook/stook.h>

#define STOOK_RESERVE_KEY "\"warm_bytes\":"

static inline long adapter_reserve(void)
{
    int fd = memfd_create("report", MFD_CLOEXEC);
    if (fd < 0 || stook_report(fd, STOOK_REPORT_JSON))
        case_die("the report cannot be written");
    off_t length = lseek(fd, 0, SEEK_END);
    char *text = mmap(NULL, (size_t)length + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (text == MAP_FAILED)
        case_die("the report cannot be read");
    const char *at = strstr(text, STOOK_RESERVE_KEY);
    if (!at)
        case_die("the report says nothing of warm memory");
    long reserve = strtol(at + strlen(STOOK_RESERVE_KEY), NULL, 10);
    munmap(text, (size_t)length + 1);
    close(fd);
    return reserve;
}

#endif
