/* SPDX-License-Identifier: MIT */
/* link: malloc-static */
/* needs: malloc */
#include "malloc/boot.h"
#include "malloc/names.h"
#include "support/test.h"

/* The compiler knows nothing of these. */
static void (*volatile release)(void *) = MALLOC_NAME(free);
static void *(*volatile resize)(void *, size_t) = MALLOC_NAME(realloc);

/* What the start handed out lives on: free does nothing, realloc copies, and the size is known. */
TEST(test_lives_on)
{
    char *a = boot_alloc(1, 100), *b = boot_alloc(4096, 1), *c = boot_alloc(1, 0), *moved;

    assert_true(a && b && c && a != b && b != c && a != c);
    assert_int_equal((uintptr_t)a % 16, 0);
    assert_int_equal((uintptr_t)b % 4096, 0);
    assert_in_range(MALLOC_NAME(malloc_usable_size)(a), 100, 112);
    for (int i = 0; i < 100; i++)
        assert_int_equal(a[i], 0);
    memset(a, 7, 100);
    release(a);
    release(a);
    moved = resize(a, 60000);
    assert_non_null(moved);
    assert_int_equal(boot_size(moved), 0);
    assert_int_equal(moved[99], 7);
    release(moved);
    moved = resize(a, 10);
    assert_true(moved && moved != a && moved[9] == 7);
    release(moved);
}

TEST(test_bounds)
{
    int local = 0;
    size_t n = 0;

    assert_int_equal(boot_size(&local), 0);
    assert_int_equal(boot_size(NULL), 0);
    errno = 0;
    assert_null(boot_alloc(1, SIZE_MAX));
    assert_null(boot_alloc((size_t)1 << 40, 8));
    assert_int_equal(errno, ENOMEM);
    for (char *p; (p = boot_alloc(1, 1000)) != NULL; n++)
        memset(p, 1, 1000);
    assert_in_range(n, 200, 300);
    assert_null(boot_alloc(1, 1000));
}
