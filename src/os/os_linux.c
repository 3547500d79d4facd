/* SPDX-License-Identifier: MIT */
/*
 * os_linux.c - os.h for Linux: mappings and what is asked of them, limits, random bytes and small files.
 */
#include "os/os.h"

#include "base/raw.h"
#include "base/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>

size_t os_page_known;

size_t os_page_size(void)
{
    size_t page = __atomic_load_n(&os_page_known, __ATOMIC_RELAXED);

    /* Asked once: giving pages back is malloc's deepest path. */
    if (__builtin_expect(page == 0, 0)) {
        page = getauxval(AT_PAGESZ);
        __atomic_store_n(&os_page_known, page, __ATOMIC_RELAXED);
    }
    return page;
}

/* Private pages: where they are, or the negative number of an error. */
static long os_pages(void *at, size_t size, int access, int flags)
{
    return raw_result(SYS_mmap, at, size, access,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

__attribute__((cold)) void *os_reserve(size_t size, size_t align)
{
    size_t span = size + align, before;
    long at = span < size ? -1 : os_pages(NULL, span, PROT_NONE, 0);
    char *p = (char *)at; // NOLINT

    if (at < 0)
        return NULL;
    before = -(uintptr_t)p & (align - 1);
    if (before > 0)
        os_unmap(p, before);
    os_unmap(p + before + size, align - before);
    return p + before;
}

void *os_map(size_t size)
{
    long at = raw_errno(os_pages(NULL, size, PROT_READ | PROT_WRITE, 0));

    return at < 0 ? NULL : (void *)at; // NOLINT
}

void *os_map_own(size_t size)
{
    enum { ROOM = 2 << 20 }; /* two of a window's maps of blocks */
    static char *room;       /* behind the first one, for others */
    static _Atomic size_t taken;
    size_t more = room || os_space_limit < SIZE_MAX || os_is_data_limited ? 0 : ROOM;
    size_t at = room ? atomic_fetch_add(&taken, size) : ROOM;
    char *base;

    if (at + size <= ROOM)
        return room + at;
    base = os_map(size + more);
    if (!base)
        return NULL;
    os_huge(base, size + more, false);
    os_dump(base, size + more, false);
    if (more > 0)
        room = base + size;
    return base;
}

void os_unmap(void *address, size_t size)
{
    (void)raw_result(SYS_munmap, address, size);
}

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

int os_take(void *address, size_t size, bool reserved)
{
    long at =
        os_pages(address, size, PROT_READ | PROT_WRITE, reserved ? MAP_FIXED : MAP_FIXED_NOREPLACE);

    if (at < 0)
        return (int)-at;
    if (at == (long)address)
        return 0;
    os_unmap((void *)at, size); // NOLINT: kernels before 4.17 take the address as a hint
    return EEXIST;
}

__attribute__((cold)) bool os_untake(void *address, size_t size, bool reserved)
{
    return reserved ? os_pages(address, size, PROT_NONE, MAP_FIXED) >= 0
                    : raw_result(SYS_munmap, address, size) == 0;
}

bool os_guard(void *address, size_t size)
{
    os_release(address, size);
    return os_forbid(address, size);
}

bool os_forbid(void *address, size_t size)
{
    return raw_result(SYS_mprotect, address, size, PROT_NONE) == 0;
}

bool os_unguard(void *address, size_t size)
{
    return raw_result(SYS_mprotect, address, size, PROT_READ | PROT_WRITE) == 0;
}

size_t os_space_limit = SIZE_MAX;
bool os_is_data_limited;

void os_read_limits(void)
{
    struct rlimit limit;

    os_space_limit = raw_getrlimit(RLIMIT_AS, &limit) == 0 ? limit.rlim_cur : SIZE_MAX;
    os_is_data_limited = raw_getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

void os_release(void *address, size_t size)
{
    uintptr_t page = os_page_size(), begin = (uintptr_t)address, end = begin + size;
    uintptr_t from = (begin + page - 1) & -page, to = end & -page;

    if (from >= to) { /* what else is in the page may be in use */
        memset(address, 0, size);
        return;
    }
    memset(address, 0, from - begin);
    memset((char *)address + (to - begin), 0, end - to);
    address = (char *)address + (from - begin);
    size = to - from;
    /* Locked pages (mlockall) refuse: a fresh mapping in place drops them all the same.  Callers
     * hand the range out as zeros, so where that is refused too it costs what it must. */
    if (raw_result(SYS_madvise, address, size, MADV_DONTNEED) != 0 && !os_renew(address, size))
        memset(address, 0, size);
}

bool os_renew(void *address, size_t size)
{
    return os_pages(address, size, PROT_READ | PROT_WRITE, MAP_FIXED) >= 0;
}

void os_dump(void *address, size_t size, bool wanted)
{
    if (wanted || setting_number(SETTING_CORE_DUMP) != OS_CORE_ALL)
        (void)raw_result(SYS_madvise, address, size, wanted ? MADV_DODUMP : MADV_DONTDUMP);
}

__attribute__((cold)) bool os_bind(void *address, size_t size, unsigned node)
{
    enum { PREFERRED = 1 }; /* MPOL_PREFERRED of linux/mempolicy.h: the others when it is full */
    unsigned long mask[2] = {0};

    mask[node / 64 % 2] = 1ul << node % 64;
    return raw_result(SYS_mbind, address, size, PREFERRED, mask, 8 * sizeof(mask), 0) == 0;
}

__attribute__((cold)) bool os_policy_is_default(void)
{
    int mode = 0;

    return raw_result(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) == 0 &&
           mode == 0; /* MPOL_DEFAULT of linux/mempolicy.h */
}

void os_huge(void *address, size_t size, bool wanted)
{
    (void)raw_result(SYS_madvise, address, size, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

uint64_t os_random(void)
{
    uint64_t value;

    if (raw_result(SYS_getrandom, &value, sizeof(value), GRND_NONBLOCK) != (long)sizeof(value)) {
        static _Atomic uint64_t calls;
        memcpy(&value, (const void *)getauxval(AT_RANDOM), sizeof(value)); // NOLINT
        value ^= (atomic_fetch_add(&calls, 1) + 1) * 0x9e3779b97f4a7c15u ^ (uint64_t)raw_getpid()
                                                                               << 32;
        value = os_mix(value);
    }
    return value;
}

int os_read_file(const char *path, char *buf, size_t size)
{
    int saved = errno, fd = raw_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);

    errno = saved;
    return os_read_close(fd, buf, size);
}

int os_read_close(int fd, char *buf, size_t size)
{
    size_t got = 0;

    if (fd < 0)
        return -1;
    while (got < size - 1) {
        long n = raw_result(SYS_read, fd, buf + got, size - 1 - got);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            break;
        got += (size_t)n;
        if (got % 4096 !=
            0) /* sysfs gives all it has at once; a call less tells that this is the end */
            break;
    }
    (void)raw_result(SYS_close, fd);
    buf[got] = '\0';
    return (int)got;
}
