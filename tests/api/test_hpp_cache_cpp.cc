/* SPDX-License-Identifier: MIT */
/* stook.hpp's caches: objects are constructed and destroyed, memory of a constructor that throws goes back, memory
 * that cannot be had is std::bad_alloc, and wrong deletes are found. */
#define STOOK_CHECK_DELETE 1
#include <stook/stat.h>
#include <stook/stook.hpp>

#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "support/test.h"

namespace
{
int living; // objects of `counted` and `third`; one of them lives before main

struct counted {
    std::string text;
    int number;

    explicit counted(std::string from = "some text that is longer than a short string", int n = 7)
        : text(std::move(from)), number(n)
    {
        living++;
        if (number < 0) {
            living--;
            throw std::runtime_error("negative");
        }
    }
    counted(const counted &) = delete;
    ~counted()
    {
        living--;
    }
};

struct point {
    double x, y;
};

// Live objects as the library counts them, after all of its own caches are emptied.
long live(struct stook_cache *cache)
{
    long n = 0;

    assert_int_equal(stook_cache_walk(
                         cache,
                         [](void *, void *arg) {
                             ++*static_cast<long *>(arg);
                             return 0;
                         },
                         &n),
                     0);
    return n;
}

TEST(test_make_and_destroy)
{
    stook::cache<counted> cache{"counted"};
    assert_string_equal(stook_cache_name(cache.get()), "counted");
    counted *a = cache.make(), *b = cache.make("b", 2);
    assert_int_equal(living, 3);
    assert_int_equal(a->number, 7);
    assert_string_equal(b->text.c_str(), "b");
    assert_ptr_equal(stook_cache_of(a), cache.get());
    cache.destroy(a);
    cache.destroy(nullptr);
    {
        auto owned = cache.make_unique("c", 3);
        static_assert(sizeof(owned) == sizeof(void *), "the deleter has no state");
        assert_int_equal(living, 3);
        assert_int_equal(owned->number, 3);
    }
    cache.destroy(b);
    assert_int_equal(living, 1);
    assert_int_equal(live(cache.get()), 0);
}

TEST(test_aggregates_and_values)
{
    stook::cache<point> cache;
    assert_string_equal(stook_cache_name(cache.get()), "point");
    point *p = cache.make(1.0, 2.0);
    assert_true(p->x == 1.0 && p->y == 2.0);
    std::memset(static_cast<void *>(p), 0x5a, sizeof(*p));
    cache.destroy(p);
    p = cache.make(); // the same memory, perhaps
    assert_true(p->x == 0 && p->y == 0);
    cache.destroy(p);
    p = cache.make_for_overwrite();
    cache.destroy(p);
    stook::cache_view<point> view(cache);
    p = view.make(3.0, 4.0);
    assert_true(p->y == 4.0);
    view.destroy(p);
}

TEST(test_constructor_throws)
{
    stook::cache<counted> cache{"throws"};
    stook::pool<counted> pool(cache, 2);
    stook::reserve<counted> reserve(cache, 3);
    const unsigned before = reserve.size();
    const long kept = live(cache.get()); // of the pool and the reserve

    for (int i = 0; i < 3; i++) {
        bool caught = false;
        try {
            if (i == 0)
                static_cast<void>(cache.make("x", -1));
            else if (i == 1)
                static_cast<void>(pool.make("x", -1));
            else
                static_cast<void>(reserve.make("x", -1));
        } catch (const std::runtime_error &) {
            caught = true;
        }
        assert_true(caught);
    }
    assert_int_equal(living, 1);
    assert_int_equal(reserve.size(), before - 1);
    assert_int_equal(pool.available(), 2);
    assert_int_equal(live(cache.get()), kept - 1); // what the reserve gave
}

// Throws in the constructor of the object that `throw_at` counts down to.
int throw_at;
struct third {
    int number = 1;

    third()
    {
        if (--throw_at == 0)
            throw std::runtime_error("third");
        living++;
    }
    ~third()
    {
        living--;
    }
};

TEST(test_bulk)
{
    stook::cache<third> cache;
    third *objects[100];

    throw_at = 0;
    cache.make_bulk(objects, 100);
    assert_int_equal(living, 101);
    assert_int_equal(live(cache.get()), 100);
    objects[7]->number = 2;
    cache.destroy(objects[7]);
    objects[7] = nullptr; // is skipped
    cache.destroy_bulk(objects, 100);
    assert_int_equal(living, 1);
    assert_int_equal(live(cache.get()), 0);
    throw_at = 50;
    bool caught = false;
    try {
        cache.make_bulk(objects, 100);
    } catch (const std::runtime_error &) {
        caught = true;
    }
    assert_true(caught);
    assert_int_equal(living, 1);
    assert_int_equal(live(cache.get()), 0);
    cache.make_bulk(objects, 0);
    assert_false(cache.try_make_bulk(objects, static_cast<std::size_t>(-1)));
    cache.destroy_bulk(objects, 0);
}

struct base {
    virtual ~base() = default;
    virtual int number() const = 0;
};
struct other_base {
    virtual ~other_base() = default;
    long more = 5;
};
struct derived final : other_base, base {
    int own = 9;
    std::string text = "some text that is longer than a short string";

    int number() const override
    {
        return own;
    }
};

TEST(test_abstract_and_final)
{
    stook::cache<derived> cache;
    {
        stook::unique_ptr<base> owned = cache.make_unique();
        assert_int_equal(owned->number(), 9);
        assert_ptr_not_equal(owned.get(), dynamic_cast<void *>(owned.get())); // not at its start
    }
    assert_int_equal(live(cache.get()), 0);
}

struct alignas(256) wide {
    char bytes[300];
};
struct alignas(64) line {
    char byte;
};
struct tiny {
    char byte;
};

TEST(test_alignment)
{
    stook::cache<wide> wides;
    stook::cache<line> lines;
    stook::cache<tiny> tinies;
    std::vector<wide *> w;

    for (int i = 0; i < 50; i++) {
        w.push_back(wides.make_for_overwrite());
        assert_int_equal(reinterpret_cast<std::uintptr_t>(w.back()) % 256, 0);
        line *l = lines.make();
        assert_int_equal(reinterpret_cast<std::uintptr_t>(l) % 64, 0);
        lines.destroy(l);
        tinies.destroy(tinies.make());
    }
    for (wide *one : w)
        wides.destroy(one);
#ifndef __SANITIZE_ADDRESS__ // whose caches have red zones
    // The type's alignment, not the library's default: 40 bytes take 40.
    struct forty {
        void *five[5];
    };
    stook::cache<forty> forties;
    std::uintptr_t at[64], stride = 4096;
    for (std::uintptr_t &one : at)
        one = reinterpret_cast<std::uintptr_t>(forties.make());
    for (std::uintptr_t one : at)
        for (std::uintptr_t other : at)
            if (one < other && other - one < stride)
                stride = other - one;
    for (std::uintptr_t one : at)
        forties.destroy(reinterpret_cast<forty *>(one));
    if (!std::getenv("STOOK_DEBUG"))
        assert_int_equal(stride, 40);
#endif
}

// A constructor needs arguments; the type is incomplete where a member names its caches.
struct tree {
    stook::cache<tree> *from = nullptr;
    stook::unique_ptr<tree> left, right;
    std::vector<tree, stook::allocator<tree>> children;
    const int key;

    explicit tree(int k) : key(k)
    {
    }
};

TEST(test_incomplete_and_not_default_constructible)
{
    stook::cache<tree> cache{"tree"};
    {
        auto root = cache.make_unique(1);
        root->left = cache.make_unique(2);
        root->left->right = cache.make_unique(3);
        root->children.emplace_back(4);
        root->children.emplace_back(5);
        assert_int_equal(root->left->right->key, 3);
        assert_int_equal(live(cache.get()), 3);
    }
    assert_int_equal(live(cache.get()), 0);
}

stook::static_cache<counted> lasting{"lasting"};
struct before_main {
    counted *object = lasting.make("early", 1);
    ~before_main()
    {
        lasting.destroy(object); // after main
    }
} early;
using static_ptr = std::unique_ptr<counted, stook::deleter_of<lasting>>;
static_assert(sizeof(static_ptr) == sizeof(void *), "the deleter has no state");

TEST(test_static)
{
    assert_string_equal(early.object->text.c_str(), "early");
    const int before = living;
    {
        static_ptr p{lasting.make("p", 1)};
        assert_ptr_equal(stook_cache_of(p.get()), lasting.get());
    }
    assert_int_equal(living, before);
    // Threads that make the first object at once have one cache.
    struct raced {
        int n;
    };
    static stook::static_cache<raced> races;
    raced *made[8];
    std::vector<std::thread> threads;
    std::atomic<int> ready{0};
    for (raced *&one : made)
        threads.emplace_back([&] {
            for (ready++; ready < 8;)
                std::this_thread::yield();
            one = races.make(1);
        });
    for (auto &thread : threads)
        thread.join();
    for (raced *one : made) {
        assert_ptr_equal(stook_cache_of(one), races.get());
        races.destroy(one);
    }
    // A handler may not make the cache.
    static stook::static_cache<int> none{"none"};
    errno = 0;
    assert_null(none.try_allocate(STOOK_SIGNAL_SAFE));
    assert_int_equal(errno, ENOMEM);
}

struct session : stook::typed_new<session> {
    std::string user = "some text that is longer than a short string";
    virtual ~session() = default;
};
struct long_session : session {
    char more[200] = {};
};

TEST(test_operator_new)
{
    auto *plain = new session;
    auto *place = ::operator new(sizeof(session));
    session *longer = new long_session;
    assert_ptr_equal(stook_cache_of(plain), stook::cache_for<session>.get());
    assert_string_equal(stook_cache_name(stook_cache_of(plain)), "session");
    assert_ptr_not_equal(stook_cache_of(longer), stook_cache_of(plain));
    (new (place) session)->~session();
    ::operator delete(place);
    delete plain;
    delete longer;
    delete static_cast<session *>(nullptr);
    assert_int_equal(live(stook::cache_for<session>.get()), 0);
}

struct alignas(64) row : stook::typed_new<row> {
    char bytes[64];
    explicit row(bool wrong = false)
    {
        if (wrong)
            throw 1;
    }
};
struct alignas(8192) far_row : row {
    char more[20000];
};
// As large as its base would be with its alignment, and more aligned.
struct alignas(32) lowly : stook::typed_new<lowly> {
    char bytes[128];
};
struct alignas(128) lofty : lowly {
};
static_assert(sizeof(lofty) == sizeof(lowly));

bool is_aligned(const void *object, std::uintptr_t to)
{
    return reinterpret_cast<std::uintptr_t>(object) % to == 0;
}

TEST(test_operator_new_alignments)
{
    std::vector<far_row *> far_rows;
    std::vector<lofty *> lofties;
    struct stook_cache *cache = stook::cache_for<row>.get();
    auto *near_row = new row;

    assert_ptr_equal(stook_cache_of(near_row), cache);
    for (int i = 0; i < 50; i++) {
        far_rows.push_back(new far_row);
        lofties.push_back(new lofty);
        assert_true(is_aligned(far_rows.back(), 8192) && is_aligned(lofties.back(), 128));
        assert_ptr_not_equal(stook_cache_of(far_rows.back()), cache);
    }
    for (auto *each : far_rows)
        delete each;
    for (auto *each : lofties)
        delete each;
    delete near_row;
    assert_int_equal(live(cache), 0);
}

TEST(test_operator_new_nothrow)
{
    auto *one = new (std::nothrow) session;
    auto *other = new (std::nothrow) row;
    auto *far = new (std::nothrow) far_row;

    assert_ptr_equal(stook_cache_of(one), stook::cache_for<session>.get());
    assert_ptr_equal(stook_cache_of(other), stook::cache_for<row>.get());
    assert_true(is_aligned(far, 8192));
    delete one;
    delete other;
    delete far;
    // The memory of what was not constructed goes back, by the delete that belongs to the new.
    bool thrown = false;
    try {
        static_cast<void>(new (std::nothrow) row(true));
    } catch (int) {
        thrown = true;
    }
    assert_true(thrown);
    assert_int_equal(live(stook::cache_for<row>.get()), 0);
    assert_int_equal(live(stook::cache_for<session>.get()), 0);
}

struct buffer {
    std::vector<char> bytes;
    static inline int made, ended;

    buffer() noexcept
    {
        made++;
    }
    ~buffer()
    {
        ended++;
    }
};

TEST(test_reuse)
{
    {
        stook::reuse_cache<buffer> cache;
        buffer *one = cache.take();
        one->bytes.reserve(5000);
        const int made = buffer::made;
        std::vector<buffer *> all;
        cache.give(one);
        // It comes again, with its buffer: at the latest when all objects are taken.
        bool again = false;
        while (!again && all.size() < 100000) {
            all.push_back(cache.take());
            again = all.back() == one;
        }
        assert_true(again);
        assert_true(one->bytes.capacity() >= 5000);
        assert_true(buffer::made >= made);
        for (buffer *each : all)
            cache.give(each);
        cache.take_unique()->bytes.clear();
    }
    assert_int_equal(buffer::made, buffer::ended);
}

TEST(test_reserve_and_pool)
{
    stook::cache<counted> cache{"reserved"};
    stook::reserve reserve(cache, 10);
    std::vector<counted *> made;

    assert_true(reserve.size() >= 10);
    while (reserve.size() > 0)
        made.push_back(reserve.make("r", 1));
    assert_null(reserve.try_make("r", 1));
    bool caught = false;
    try {
        static_cast<void>(reserve.make("r", 1));
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    assert_true(caught);
    reserve.refill(5);
    assert_true(reserve.size() >= 5);
    for (counted *one : made)
        cache.destroy(one);
    {
        stook::pool pool(cache, 4);
        assert_int_equal(pool.available(), 4);
        auto p = pool.make_unique("p", 1);
        counted *q = pool.try_make_for(std::chrono::milliseconds(1), "q", 2);
        assert_non_null(q);
        assert_true(pool.resize(6));
        assert_int_equal(pool.available(), 6);
        pool.destroy(q);
        pool.destroy(nullptr);
    }
    const int before = living;
    auto moved = std::move(reserve);
    cache.destroy(moved.make("m", 1));
    assert_int_equal(living, before);
}

TEST(test_groups)
{
    stook::cache_options options;
    options.flags = STOOK_CACHE_ACCOUNT;
    stook::cache<point> cache{"charged", options};
    stook::group all{"all"}, one{"one", all, 64 << 10};
    std::vector<point *> made;
    bool caught = false;

    {
        stook::group_scope inside(one);
        assert_true(stook_group_same(stook_group_current(), one.get()));
        try {
            for (int i = 0; i < 1 << 20; i++)
                made.push_back(cache.make(1.0, 1.0));
        } catch (const std::bad_alloc &) {
            caught = true;
            assert_int_equal(errno, EDQUOT);
        }
        stook::group_scope outside(STOOK_NO_GROUP);
        cache.destroy(cache.make(1.0, 1.0));
    }
    assert_true(stook_group_is_none(stook_group_current()));
    assert_true(caught);
    assert_true(made.size() > 100);
    assert_true(one.usage() >= made.size() * sizeof(point) && all.usage() == one.usage());
    assert_true(one.stat().refused > 0);
    for (point *p : made)
        cache.destroy(p);
    assert_int_equal(one.usage(), 0);
}

// In a child whose address space ends soon.
template <class F> int in_child(F f)
{
    const pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0)
        _exit(f());
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

TEST(test_without_memory)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); // they need the address space
#endif
    if (std::getenv("STOOK_EMULATED"))
        skip();
    const int status = in_child([] {
        struct big {
            char bytes[100000];
        };
        stook::cache<big> cache;
        std::vector<big *> made;
        made.reserve(100000);
        const struct rlimit limit = {1 << 28, 1 << 28};
        if (setrlimit(RLIMIT_AS, &limit) != 0)
            return 2;
        try {
            for (;;)
                made.push_back(cache.make_for_overwrite());
        } catch (const std::bad_alloc &) {
        }
        if (errno != ENOMEM || made.empty() || cache.try_make() != nullptr)
            return 3;
        big *bulk[50];
        if (cache.try_make_bulk(bulk, 50))
            return 4;
        cache.destroy_bulk(made.data(), made.size());
        cache.destroy(cache.make());
        return 0;
    });
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(test_wrong_deletes)
{
    stook::cache<point> points;
    stook::cache<wide> wides;
    point *p = points.make();
    // The object of one cache to another.
    int status = in_child([&] {
        close(2);
        stook::cache_view<point>(wides.get()).destroy(p);
        return 0;
    });
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    // An array of another size.
    status = in_child([] {
        close(2);
        stook::allocator<int> a;
        a.deallocate(a.allocate(1000), 10);
        return 0;
    });
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    status = in_child([&] {
        close(2);
        stook::allocator<point> a;
        a.deallocate(a.allocate(5), 1);
        return 0;
    });
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    points.destroy(p);
}

} // namespace

struct global_type {
};
template <class A, class B> struct two_types {
};

namespace
{
TEST(test_names)
{
    assert_string_equal(stook::type_name<global_type>(), "global_type");
    assert_string_equal((stook::type_name<two_types<std::string, int>>()),
                        "two_types<std::string,int>");
    assert_string_equal(stook::type_name<point>(), "point"); // of a namespace without a name
    assert_string_equal((stook::type_name<two_types<two_types<int, char>, const char *>>()),
                        "two_types<two_types<int,char>,const_char*>");
}

} // namespace
