/* SPDX-License-Identifier: MIT */
/* The starts of objects: every class, every address of a slab. */
#include "malloc/starts.h"

#include "malloc/sizes.h"
#include "page/pagemap.h"
#include "slab/layout.h"
#include "support/test.h"

static const void *at(uintptr_t address)
{
    return (const void *)address;
}

TEST(test_every_address_of_every_class)
{
    static const uintptr_t bases[] = {0, (uintptr_t)1 << 21, (uintptr_t)0x7b1f00000000,
                                      (uintptr_t)0x7fffffe00000};

    for (unsigned i = 0; i < SIZES_CLASSES; i++) {
        struct layout layout;
        size_t bytes;
        uint64_t word;
        assert_true(layout_plan(&layout, sizes_of(i), 16, LAYOUT_WRITABLE | LAYOUT_DENSE));
        bytes = (size_t)PAGE_SIZE << layout.order;
        word = starts_word(bytes, layout.stride, layout.objects);
        assert_true(word != 0); /* all classes have a fast path */
        for (uintptr_t offset = 0; offset < bytes; offset++) {
            bool start = offset % layout.stride == 0 && offset / layout.stride < layout.objects;
            for (unsigned b = 0; b < 4; b++)
                if (starts_at(word, at(bases[b] + bytes + offset)) != start)
                    fail_msg("class %zu, offset %zu of %zu", sizes_of(i), (size_t)offset, bytes);
        }
    }
}

/* A word that would pass more than starts is not given. */
TEST(test_exact_or_nothing)
{
    unsigned exact = 0;

    for (size_t stride = 16; stride <= 300000; stride += stride < 700 ? 16 : 16 * (stride / 64))
        for (size_t bytes = 4096; bytes <= 1 << 20; bytes *= 2) {
            size_t objects = bytes / stride;
            uint64_t word = objects ? starts_word(bytes, stride, objects) : 0;
            for (size_t offset = 0; offset < bytes && word;
                 offset += offset % stride == 0 || offset % 8 ? 1 : 3)
                if (starts_at(word, at(offset)) !=
                    (offset % stride == 0 && offset / stride < objects))
                    fail_msg("stride %zu, offset %zu of %zu", stride, offset, bytes);
            exact += word != 0;
        }
    assert_true(exact > 300);
}

TEST(test_no_class)
{
    for (uintptr_t address = 0; address < 100000; address += 8)
        assert_false(starts_at(0, at(address)));
}
