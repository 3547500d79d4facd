/* SPDX-License-Identifier: MIT */
/*
 * resident.c - reads resident bytes and page faults, and maps memory past the allocator.
 */
#include "resident.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "case.h"

uint64_t resident_bytes(void)
{
    static char text[4096];
    uint64_t kib = 0;
    size_t length = 0;
    ssize_t got;

    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        case_die("cannot read /proc/self/smaps_rollup");
    while (length < sizeof(text) - 1 &&
           (got = read(fd, text + length, sizeof(text) - 1 - length)) > 0)
        length += (size_t)got;
    close(fd);
    text[length] = '\0';
    const char *at = strstr(text, "\nRss:");
    if (!at)
        case_die("no Rss in /proc/self/smaps_rollup");
    for (at += 5; *at == ' '; at++)
        ;
    for (; *at >= '0' && *at <= '9'; at++)
        kib = kib * 10 + (uint64_t)(*at - '0');
    return kib * 1024;
}

uint64_t resident_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_minflt;
}

void *resident_map(size_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        case_die("mmap failed");
    return memory;
}

void *resident_map_huge(size_t bytes)
{
    size_t huge = (size_t)2 << 20;
    size_t size = (bytes + huge - 1) & ~(huge - 1);
    char *memory =
        mmap(NULL, size + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        case_die("mmap failed");
    memory += -(uintptr_t)memory & (huge - 1);
    (void)madvise(memory, size, MADV_HUGEPAGE);
    for (size_t at = 0; at < size; at += 4096)
        *(volatile char *)(memory + at) = 0;
    return memory;
}
