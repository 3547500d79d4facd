/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Pages move to other addresses, where the kernel moves them.
 */
#include "large/move.h"
#include "os/os.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void moves_pages(void **unused)
{
    const size_t size = 1 << 16;
    char *from = os_map(size), *to = os_map(size);

    (void)unused;
    assert_true(from && to);
    memset(from, 0x33, size);
    errno = 17;
    if (!move_range(from, to, size)) {
        assert_int_equal(errno, 17);
        skip(); /* before Linux 5.7 */
    }
    for (size_t i = 0; i < size; i += 1000)
        assert_int_equal(to[i], 0x33);
    assert_int_equal(from[0], 0); /* stays mapped, and empty */
    from[1] = 1;
}

/* What advice on huge pages leaves: neighbours in mappings of their own, which old kernels do not move. */
static void moves_several_mappings(void **unused)
{
    const size_t step = 2 << 20, size = 3 * step;
    char *area = os_reserve(2 * size, step), *from = area, *to = area + size;

    (void)unused;
    assert_non_null(area);
    assert_true(os_unguard(area, 2 * size));
    os_huge(from, 2 * step, true);
    os_huge(from + 2 * step, step, false);
    for (size_t i = 0; i < size; i += 4096)
        memset(from + i, (int)(i >> 12) + 1, 4096);
    memset(to, 0x77, size);
    errno = 17;
    if (move_range(from, to, size)) {
        for (size_t i = 0; i < size; i += 500)
            assert_int_equal(to[i], (char)((i >> 12) + 1));
        for (size_t i = 0; i < size; i += 500)
            assert_int_equal(from[i], 0);
    } else { /* before Linux 5.7: the caller copies */
        memcpy(to, from, size);
    }
    assert_int_equal(errno, 17);
    memset(from, 1, size); /* both are there */
    memset(to, 2, size);
    os_unmap(area, 2 * size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_pages),
        cmocka_unit_test(moves_several_mappings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
