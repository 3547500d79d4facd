/* SPDX-License-Identifier: MIT */
/* stook.hpp's allocator and memory resource: nodes come from caches of their type, arrays are aligned, and
 * containers move and swap between equal allocators. */
#define STOOK_CHECK_DELETE 1
#include <stook/stook.hpp>

#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "support/test.h"

namespace
{
template <class T> using alloc = stook::allocator<T>;
using text = std::basic_string<char, std::char_traits<char>, alloc<char>>;

using traits = std::allocator_traits<alloc<int>>;
static_assert(traits::is_always_equal::value &&
                  traits::propagate_on_container_move_assignment::value,
              "as std::allocator");
static_assert(!traits::propagate_on_container_swap::value, "as std::allocator");
static_assert(std::is_same_v<traits::rebind_alloc<long>, alloc<long>>, "rebinds");
static_assert(std::is_empty_v<alloc<int>> && std::is_trivially_copyable_v<alloc<int>>, "no state");
static_assert(std::is_nothrow_move_assignable_v<std::vector<int, alloc<int>>>, "equal allocators");
struct incomplete;
static_assert(sizeof(alloc<incomplete>) > 0, "the type may be incomplete");

// The live objects of caches whose name has a part.
long live(const char *part)
{
    long n = 0;
    std::pair<const char *, long *> arg(part, &n);

    stook_cache_each(
        [](struct stook_cache *cache, void *at) {
            auto *pair = static_cast<std::pair<const char *, long *> *>(at);
            if (std::strstr(stook_cache_name(cache), pair->first))
                stook_cache_walk(
                    cache,
                    [](void *, void *counter) {
                        ++*static_cast<long *>(counter);
                        return 0;
                    },
                    pair->second);
            return 0;
        },
        &arg);
    return n;
}

TEST(test_nodes)
{
    {
        std::map<std::string, int, std::less<>, alloc<std::pair<const std::string, int>>> map;
        std::list<long, alloc<long>> list;
        std::unordered_map<int, int, std::hash<int>, std::equal_to<>,
                           alloc<std::pair<const int, int>>>
            hash;
        for (int i = 0; i < 1000; i++) {
            map[std::to_string(i)] = i;
            list.push_back(i);
            hash[i] = i;
        }
        assert_int_equal(live("_tree_node<std::pair<const_std::string,int>") +
                             live("__tree_node<std::__value_type<std::string,int>"),
                         1000);
        assert_int_equal(live("ist_node<long"), 1000);
        assert_int_equal(live("ash_node<std::pair<const_int,int>"), 1000);
        assert_int_equal(map["500"], 500);
        map.erase("500");
        auto moved = std::move(map);
        decltype(moved) copy(moved), other;
        other["x"] = 1;
        std::swap(copy, other);
        other = std::move(copy);
        assert_int_equal(other.size(), 1);
        assert_int_equal(moved.size(), 999);
        moved.merge(other);
        assert_int_equal(moved.size(), 1000);
        list.splice(list.begin(), std::list<long, alloc<long>>{1, 2, 3});
    }
    assert_int_equal(live("_node<"), 0);
}

TEST(test_arrays)
{
    std::vector<int, alloc<int>> v;
    std::deque<text, alloc<text>> deque;
    for (int i = 0; i < 100000; i++)
        v.push_back(i);
    for (int i = 0; i < 1000; i++)
        deque.emplace_back(static_cast<std::size_t>(i), 'x');
    for (int i = 0; i < 100000; i++)
        assert_int_equal(v[static_cast<std::size_t>(i)], i);
    assert_int_equal(deque[999].size(), 999);
    assert_null(stook_cache_by_name("int")); // a vector's first int makes no cache
    std::vector<bool, alloc<bool>> bits(1000, true);
    assert_true(bits[999]);
}

template <std::size_t A> struct alignas(A) aligned {
    char byte;
};

template <std::size_t A> void check_aligned()
{
    alloc<aligned<A>> a;
    for (std::size_t n : {0, 1, 2, 3, 5, 7, 12, 31, 100}) {
        aligned<A> *p = a.allocate(n);
        assert_int_equal(reinterpret_cast<std::uintptr_t>(p) % A, 0);
        std::memset(static_cast<void *>(p), 1, n * sizeof(*p));
        a.deallocate(p, n);
    }
}

TEST(test_alignment)
{
    check_aligned<1>();
    check_aligned<8>();
    check_aligned<16>();
    check_aligned<32>();
    check_aligned<64>();
    check_aligned<128>();
    check_aligned<512>();
    check_aligned<4096>();
    check_aligned<8192>();
    stook::memory_resource resource;
    for (std::size_t align = 1; align <= 2 << 20; align *= 2)
        for (std::size_t bytes : {0, 1, 7, 24, 65, 96, 150, 192, 5000, 9000}) {
            void *p = resource.allocate(bytes, align);
            assert_int_equal(reinterpret_cast<std::uintptr_t>(p) % align, 0);
            std::memset(p, 1, bytes);
            resource.deallocate(p, bytes, align);
        }
    bool caught = false;
    try {
        static_cast<void>(resource.allocate(1, 4 << 20));
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    assert_true(caught);
}

TEST(test_too_many)
{
    alloc<long> a;
    volatile std::size_t huge = SIZE_MAX / 4;
    int caught = 0;
    try {
        static_cast<void>(a.allocate(huge));
    } catch (const std::bad_array_new_length &) {
        caught++;
    }
    huge = PTRDIFF_MAX / sizeof(long);
    try {
        static_cast<void>(a.allocate(huge));
    } catch (const std::bad_alloc &) {
        caught++;
    }
    assert_int_equal(caught, 2);
}

TEST(test_at_least)
{
    alloc<char> a;
    for (std::size_t n : {1, 17, 100, 1000, 5000, 100000}) {
        auto [p, count] = a.allocate_at_least(n);
        assert_true(count >= n);
        std::memset(p, 1, count);
        a.deallocate(p, n + (count - n) / 2);
    }
    alloc<std::string> strings;
    auto [p, count] = strings.allocate_at_least(1);
    assert_int_equal(count, 1);
    strings.deallocate(p, 1);
}

TEST(test_shared_and_pmr)
{
    {
        auto p = std::allocate_shared<std::pair<long, long>>(alloc<std::pair<long, long>>(), 1, 2);
        assert_int_equal(p->second, 2);
        assert_int_equal(live("_Sp_counted") + live("__shared_ptr"), 1);
    }
    assert_int_equal(live("_Sp_counted") + live("__shared_ptr"), 0);
    std::pmr::vector<std::pmr::string> strings(stook::resource());
    for (int i = 0; i < 100; i++)
        strings.emplace_back(100, 'x');
    assert_ptr_equal(strings[5].get_allocator().resource(), stook::resource());
    assert_non_null(stook_cache_of(strings[5].data()));
    stook::memory_resource other;
    assert_true(other == *stook::resource());
    assert_true(other != *std::pmr::new_delete_resource());
}

// No cache is left for a type: its nodes come from stook_kmalloc().
TEST(test_no_cache_left)
{
    std::vector<struct stook_cache *> caches;
    while (struct stook_cache *cache = stook_cache_create("filler", 64, nullptr))
        caches.push_back(cache);
    assert_int_equal(errno, ENFILE);
    {
        struct unlucky {
            char bytes[40];
        };
        std::list<unlucky, alloc<unlucky>> list(100);
        assert_int_equal(live("unlucky"), 0);
        stook_cache_destroy(caches.back());
        caches.pop_back();
        list.resize(200); // that was decided once and for all
        assert_int_equal(live("unlucky"), 0);
        list.pop_front();
    }
    for (struct stook_cache *cache : caches)
        assert_int_equal(stook_cache_destroy(cache), 0);
}

struct crowded {
    long numbers[3];
};

// Threads that allocate the first node of a type at once, and free each other's.
TEST(test_threads)
{
    std::list<crowded, alloc<crowded>> lists[4];
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (auto &list : lists)
        threads.emplace_back([&] {
            for (ready++; ready < 4;)
                std::this_thread::yield();
            for (int i = 0; i < 2000; i++)
                list.push_back({{i, i, i}});
        });
    for (auto &thread : threads)
        thread.join();
    threads.clear();
    assert_int_equal(live("crowded"), 8000);
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&lists, i] { lists[(i + 1) % 4].clear(); });
    for (auto &thread : threads)
        thread.join();
    assert_int_equal(live("crowded"), 0);
}

#if __cplusplus >= 202002L
constexpr int at_compile_time()
{
    alloc<int> a;
    int *p = std::construct_at(a.allocate(1), 5);
    int n = *p;
    a.deallocate(p, 1);
    return n;
}
static_assert(at_compile_time() == 5);
#endif

} // namespace
