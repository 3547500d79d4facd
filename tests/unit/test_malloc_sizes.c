/* SPDX-License-Identifier: MIT */
/* The size classes: every size, no exception. */
#include "malloc/sizes.h"
#include "support/test.h"

TEST(test_classes_grow_in_multiples_of_16)
{
    assert_int_equal(sizes_of(0), 16);
    assert_int_equal(sizes_of(SIZES_CLASSES - 1), SIZES_MAX);
    for (unsigned i = 0; i < SIZES_CLASSES; i++) {
        assert_int_equal(sizes_of(i) % 16, 0);
        if (i > 0)
            assert_true(sizes_of(i) > sizes_of(i - 1));
    }
}

TEST(test_every_size_has_the_smallest_class_that_holds_it)
{
    for (size_t size = 0; size <= SIZES_MAX; size++) {
        unsigned class = sizes_class(size);
        assert_in_range(class, 0, SIZES_CLASSES - 1);
        assert_true(sizes_of(class) >= size);
        if (class > 0)
            assert_true(sizes_of(class - 1) < size);
    }
}

TEST(test_waste_is_bounded)
{
    for (size_t size = 129; size <= SIZES_MAX; size++) {
        size_t got = sizes_of(sizes_class(size));
        assert_true((got - size) * (size <= 4096 ? 8 : 4) <= size); /* 12.5 %, 25 % */
    }
}

TEST(test_powers_of_two_are_classes)
{
    for (size_t size = 16; size <= SIZES_MAX; size *= 2)
        assert_int_equal(sizes_of(sizes_class(size)), size);
}
