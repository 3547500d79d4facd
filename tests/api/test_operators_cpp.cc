/* SPDX-License-Identifier: MIT */
/* link: malloc */
/* needs: preload */
/* Every C++ operator new and delete: who serves it, what it answers, what happens without memory. */
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/test.h"

namespace
{
constexpr std::size_t too_much = std::size_t{1} << 62;
using plain_new = void *(*)(std::size_t);
/* Through volatile pointers: a compiler may leave out a pair of new and delete. */
volatile plain_new new_plain = ::operator new, new_array = ::operator new[];
using aligned_new = void *(*)(std::size_t, std::align_val_t);
volatile aligned_new new_aligned = ::operator new, new_array_aligned = ::operator new[];

/* Only malloc_usable_size() of the same malloc accepts it; another's would be reported. */
bool ours(void *p, std::size_t size, std::size_t align)
{
    if (!p || reinterpret_cast<std::uintptr_t>(p) % align != 0)
        return false;
    std::memset(p, 0x5a, size);
    return malloc_usable_size(p) >= size;
}

TEST(test_plain_and_array)
{
    for (std::size_t size : {0, 1, 16, 100, 5000, 40000, 3 << 20}) {
        void *p = new_plain(size), *q = new_array(size);
        assert_true(ours(p, size, 16) && ours(q, size, 16));
        assert_ptr_not_equal(p, q);
        ::operator delete(p);
        ::operator delete[](q);
        p = new_plain(size), q = new_array(size);
        ::operator delete(p, size);
        ::operator delete[](q, size);
        p = ::operator new(size, std::nothrow), q = ::operator new[](size, std::nothrow);
        assert_true(ours(p, size, 16) && ours(q, size, 16));
        ::operator delete(p, std::nothrow);
        ::operator delete[](q, std::nothrow);
    }
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    ::operator delete (nullptr, std::size_t{5});
}

TEST(test_aligned)
{
    for (std::size_t align = 1; align <= std::size_t{4} << 20; align *= 4) {
        for (std::size_t size : {0, 1, 100, 5000, 100000}) {
            auto a = std::align_val_t{align};
            void *p = ::operator new(size, a), *q = ::operator new[](size, a);
            assert_true(ours(p, size, align) && ours(q, size, align));
            ::operator delete(p, a);
            ::operator delete[](q, a);
            p = ::operator new(size, a), q = ::operator new[](size, a);
            ::operator delete(p, size, a);
            ::operator delete[](q, size, a);
            p = ::operator new(size, a, std::nothrow), q = ::operator new[](size, a, std::nothrow);
            assert_true(ours(p, size, align) && ours(q, size, align));
            ::operator delete(p, a, std::nothrow);
            ::operator delete[](q, a, std::nothrow);
        }
    }
}

template <typename Call> bool throws_bad_alloc(Call call)
{
    try {
        call();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

TEST(test_without_memory_they_throw)
{
    auto a = std::align_val_t{64};

    assert_true(throws_bad_alloc([] { new_plain(too_much); }));
    assert_true(throws_bad_alloc([] { new_array(too_much); }));
    assert_true(throws_bad_alloc([a] { new_aligned(too_much, a); }));
    assert_true(throws_bad_alloc([a] { new_array_aligned(too_much, a); }));
    assert_null(::operator new(too_much, std::nothrow));
    assert_null(::operator new[](too_much, std::nothrow));
    assert_null(::operator new(too_much, a, std::nothrow));
    assert_null(::operator new[](too_much, a, std::nothrow));
}

int handled;

void give_up_after_three()
{
    if (++handled == 3)
        std::set_new_handler(nullptr);
}

void throw_at_once()
{
    handled++;
    throw std::bad_alloc();
}

void throw_something_else()
{
    throw std::runtime_error("from the handler");
}

TEST(test_the_handler_is_called_until_it_gives_up)
{
    handled = 0;
    std::set_new_handler(give_up_after_three);
    assert_true(throws_bad_alloc([] { new_plain(too_much); }));
    assert_int_equal(handled, 3);
    handled = 0;
    std::set_new_handler(give_up_after_three);
    assert_null(::operator new(too_much, std::nothrow));
    assert_int_equal(handled, 3);
}

TEST(test_a_handler_that_throws)
{
    auto a = std::align_val_t{128};

    std::set_new_handler(throw_at_once);
    handled = 0;
    assert_true(throws_bad_alloc([] { new_array(too_much); }));
    assert_null(::operator new(too_much, std::nothrow));
    assert_null(::operator new[](too_much, std::nothrow));
    assert_null(::operator new(too_much, a, std::nothrow));
    assert_null(::operator new[](too_much, a, std::nothrow));
    assert_int_equal(handled, 5);
    std::set_new_handler(throw_something_else);
    bool caught = false;
    try {
        new_plain(too_much);
    } catch (const std::runtime_error &) {
        caught = true;
    }
    assert_true(caught);
    std::set_new_handler(nullptr);
}

struct alignas(256) Wide {
    char bytes[300];
    virtual ~Wide()
    {
        destroyed++;
    }
    static int destroyed;
};
int Wide::destroyed;

TEST(test_expressions_and_containers)
{
    std::vector<std::string> words;
    Wide *one = new Wide, *many = new Wide[7];

    assert_int_equal(reinterpret_cast<std::uintptr_t>(one) % 256, 0);
    assert_int_equal(reinterpret_cast<std::uintptr_t>(&many[3]) % 256, 0);
    delete one;
    delete[] many;
    assert_int_equal(Wide::destroyed, 8);
    for (int i = 0; i < 10000; i++)
        words.push_back(std::string(static_cast<std::size_t>(i % 300), 'x') + std::to_string(i));
    for (int i = 0; i < 10000; i++)
        assert_int_equal(words[static_cast<std::size_t>(i)].find(std::to_string(i)), i % 300);
}

} // namespace
