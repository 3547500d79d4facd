/* SPDX-License-Identifier: MIT */
#include "leak/roots.h"

#include "base/placed.h"
#include "base/raw.h"
#include "text/maps.h"
#include "os/os.h"
#include "page/pagemap.h"

#include <string.h>
#include <sys/uio.h>

enum { ROOTS_PAGES = 512 }; /* words of /proc/self/pagemap, read at a time */

#define ROOTS_PRESENT (UINT64_C(3) << 62) /* in memory, or swapped out */
#define ROOTS_SHARED (UINT64_C(1) << 61)  /* a file's page, not one of the process's own */

static struct maps roots_maps LARGE_BSS; /* of paths, no pointers */

/* By the kernel, since any page may be one that faults: that of a truncated file, of a device, a guard. */
static const void *roots_view(void *context, uint64_t address, size_t size, void *buffer)
{
    struct iovec to = {buffer, size}, from = {(void *)(uintptr_t)address, size};

    (void)context;
    /* A small object of the window cannot be protected by itself. */
    if (size < PAGE_SIZE / 2 && pagemap_is_low((const void *)(uintptr_t)address))
        return (const void *)(uintptr_t)address;
    if (raw_call(SYS_process_vm_readv, raw_getpid(), &to, 1, &from, 1, 0) == (long)size)
        return buffer;
    /* A sandbox may refuse it all, or one page of the range the rest. */
    for (size_t at = 0; at < size; at += PAGE_SIZE) {
        size_t n = size - at < PAGE_SIZE ? size - at : PAGE_SIZE;
        to = (struct iovec){(char *)buffer + at, n};
        from = (struct iovec){(void *)(uintptr_t)(address + at), n};
        if (raw_call(SYS_process_vm_readv, raw_getpid(), &to, 1, &from, 1, 0) != (long)n)
            memset(to.iov_base, 0, n);
    }
    return buffer;
}

struct heap_reader roots_reader(void)
{
    return (struct heap_reader){roots_view, NULL};
}

/* A part that lies outside of everything that is skipped. */
static void roots_part(struct heap *heap, const struct roots *roots, uint64_t start, uint64_t end)
{
    const struct {
        uint64_t start, end;
    } skip[] = {{pagemap.base, pagemap.base + pagemap.size},
                {roots->skip[0], roots->skip_end[0]},
                {roots->skip[1], roots->skip_end[1]},
                {roots->stack - ROOTS_BELOW, roots->stack}};

    for (unsigned i = 0; i < sizeof(skip) / sizeof(skip[0]); i++) {
        if (end <= skip[i].start || start >= skip[i].end)
            continue;
        if (start < skip[i].start)
            roots_part(heap, roots, start, skip[i].start);
        if (end > skip[i].end)
            roots_part(heap, roots, skip[i].end, end);
        return;
    }
    heap_root_memory(heap, start, end - start);
}

/* The pages of [start, end) that are there; of what cannot be written to, those that were before. */
static void roots_pages(struct heap *heap, const struct roots *roots, int fd, uint64_t start,
                        uint64_t end, bool writable)
{
    uint64_t word[ROOTS_PAGES], page = os_page_size(), from = 0;
    bool open = false;

    for (uint64_t at = start - start % page; at < end; at += ROOTS_PAGES * page) {
        uint64_t n = (end - at + page - 1) / page;
        if (n > ROOTS_PAGES)
            n = ROOTS_PAGES;
        if (raw_pread(fd, word, (size_t)n * 8, (off_t)(at / page * 8)) != (ssize_t)(n * 8))
            memset(word, 0xff, sizeof(word));
        for (uint64_t i = 0; i < n; i++) {
            bool wanted = (word[i] & ROOTS_PRESENT) && (writable || !(word[i] & ROOTS_SHARED));
            uint64_t address = at + i * page < start ? start : at + i * page;
            if (wanted && !open)
                from = address;
            else if (!wanted && open)
                roots_part(heap, roots, from, address);
            open = wanted;
        }
    }
    if (open)
        roots_part(heap, roots, from, end);
}

bool roots_read(struct heap *heap, struct roots *roots)
{
    int fd = raw_open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
    struct maps_entry entry;
    bool any = false;

    maps_open(&roots_maps);
    while (maps_next(&roots_maps, &entry)) {
        uint64_t start = entry.start;
        any = true;
        if (!entry.readable || entry.start >> 63)
            continue;
        if (entry.end - entry.start > UINT64_C(1) << ROOTS_MAPPING_MAX_SHIFT &&
            !(entry.start < pagemap.base + pagemap.size && entry.end > pagemap.base)) {
            roots->unread += entry.end - entry.start;
            continue;
        }
        if (strcmp(entry.path, "[stack]") == 0 && roots->stack >= entry.start &&
            roots->stack < entry.end)
            start = roots->stack & ~(uint64_t)7;
        roots_pages(heap, roots, fd, start, entry.end, entry.writable);
    }
    maps_close(&roots_maps);
    if (fd >= 0)
        (void)raw_close(fd);
    return any;
}
