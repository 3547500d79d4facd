/* SPDX-License-Identifier: MIT */
#include "os/os.h"

#include "support/test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

TEST(reads_files)
{
    char path[] = "/tmp/stook-os-XXXXXX", buf[16];
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    errno = 17;
    assert_int_equal(os_read_file(path, buf, sizeof(buf)), 0);
    assert_string_equal(buf, "");
    assert_int_equal(write(fd, "0123456789abcdefghij", 20), 20);
    assert_int_equal(os_read_file(path, buf, sizeof(buf)), 15); /* cut, and ended */
    assert_string_equal(buf, "0123456789abcde");
    close(fd);
    unlink(path);
    assert_int_equal(os_read_file(path, buf, sizeof(buf)), -1);
    assert_int_equal(os_read_file("/", buf, sizeof(buf)), 0); /* opens, cannot be read */
    assert_int_equal(errno, 17);
}

static bool readable(const char *p)
{
    int pipes[2];
    bool ok;

    assert_int_equal(pipe(pipes), 0);
    ok = write(pipes[1], p, 1) == 1;
    close(pipes[0]);
    close(pipes[1]);
    return ok;
}

TEST(reserve_take_release)
{
    const size_t size = 1 << 20, align = 4 << 20;
    char *p = os_reserve(size, align);

    assert_non_null(p);
    assert_int_equal((uintptr_t)p % align, 0);
    assert_false(readable(p));
    assert_int_equal(os_take(p, size, true), 0);
    assert_true(readable(p + size - 1));
    assert_int_equal(p[size - 1], 0);
    memset(p, 0x77, size);
    errno = 17;
    os_release(p + 4096, 8192);
    assert_int_equal(errno, 17);
    assert_int_equal(p[4095], 0x77);
    assert_int_equal(p[4096], 0);
    assert_int_equal(p[4096 + 8191], 0);
    assert_int_equal(p[4096 + 8192], 0x77);
    p[5000] = 1; /* still usable */
    os_unmap(p, size);
    assert_false(readable(p));
    assert_null(os_reserve(SIZE_MAX - 4096, 8192));
    assert_null(os_reserve((size_t)1 << 62, 4096));
}

/* mlockall() makes MADV_DONTNEED fail. */
static int release_locked(void *unused)
{
    char *p = os_map(1 << 16);

    memset(p, 0x77, 1 << 16);
    if (mlock(p, 1 << 16) != 0)
        return 77;
    os_release(p, 1 << 16);
    for (size_t i = 0; i < 1 << 16; i++)
        if (p[i] != 0)
            return 1;
    p[0] = 1;
    return 0;
}

TEST(releases_locked_pages)
{
    struct child child;

    child_run(&child, release_locked, NULL);
    if (child.status == 77 << 8)
        skip();
    assert_true(child_passed(&child));
}

static int limited(void *unused)
{
    struct rlimit limit = {64 << 20, 64 << 20};
    char *p;

    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return 77;
    errno = 0;
    if (os_map((size_t)1 << 30) != NULL || errno != ENOMEM)
        return 1;
    if (os_reserve((size_t)1 << 30, 4096) != NULL)
        return 2;
    p = os_map(1 << 20);
    return p && p[(1 << 20) - 1] == 0 ? 0 : 3;
}

TEST(refuses_beyond_limits)
{
    if (getenv("STOOK_EMULATED"))
        skip(); /* no limits there */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their shadows need all of the address space */
#endif
    in_child(limited, NULL);
}

/* Nothing beside the range is touched where the kernel's pages are larger than what is given back. */
TEST(larger_pages)
{
    const size_t page = 1 << 16, size = 4 * page, from = page - 4096, to = 3 * page + 8192;
    char *p = os_reserve(size, page);
    unsigned char there[1];

    assert_non_null(p);
    os_page_known = page;
    assert_int_equal(os_take(p, size, true), 0);
    memset(p, 0x77, size);
    os_release(p + page + 4096, 8192); /* all within a page */
    os_release(p + from, to - from);
    os_page_known = 0;
    for (size_t i = 0; i < size; i++)
        assert_int_equal(p[i], i >= from && i < to ? 0 : 0x77);
    os_unmap(p, size);
    p = os_map(size);
    memset(p, 1, size);
    os_page_known = page;
    os_release(p + (-(uintptr_t)p & (page - 1)), page);
    os_page_known = 0;
    if (!getenv("STOOK_EMULATED")) { /* no mincore() there */
        assert_int_equal(mincore(p + (-(uintptr_t)p & (page - 1)), 4096, there), 0);
        assert_int_equal(there[0] & 1, 0);
    }
    os_unmap(p, size);
}

TEST(random_differs)
{
    uint64_t all = 0, any = ~(uint64_t)0;

    for (int i = 0; i < 64; i++) {
        uint64_t value = os_random();
        all |= value;
        any &= value;
    }
    assert_true(all == ~(uint64_t)0 && any == 0);
}
