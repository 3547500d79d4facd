// SPDX-License-Identifier: MIT
//
// reserve.hpp - stook::reserve<T> and stook::pool<T>: objects for code that must not fail half-way
// (docs/reserves.md).  Include <stook/stook.hpp>.
//
#ifndef STOOK_CPP_RESERVE_HPP
#define STOOK_CPP_RESERVE_HPP

#include <stook/cpp/cache.hpp>
#include <stook/reserve.h>

#include <chrono>
#include <ctime>

namespace stook
{

//
// Objects that are allocated beforehand, so that make() cannot fail as long as size() is not 0.  One thread uses it at a
// time.  Its objects are freed as all others of the cache.  It must end before its cache.
//
template <class T> class reserve
{
  public:
    // At least n objects; std::bad_alloc.
    reserve(const cache_view<T> &cache, unsigned n)
        : cache_(cache), sheaf_(stook_sheaf_prefill(cache.get(), STOOK_WAIT, n))
    {
        if (!sheaf_)
            detail::fail();
    }

    reserve(reserve &&other) noexcept
        : cache_(other.cache_), sheaf_(std::exchange(other.sheaf_, nullptr))
    {
    }

    reserve &operator=(reserve &&other) noexcept
    {
        std::swap(cache_, other.cache_);
        std::swap(sheaf_, other.sheaf_);
        return *this;
    }

    // Returns what is left to the cache.
    ~reserve()
    {
        stook_sheaf_return(cache_.get(), sheaf_);
    }

    // std::bad_alloc only where size() is 0; else what T's constructor throws, and the memory goes back to the cache.
    template <class... A> STOOK_CPP_CONSTRUCTS(A...) [[nodiscard]] T *make(A &&...args)
    {
        T *object = try_make(std::forward<A>(args)...);

        if (!object)
            detail::fail();
        return object;
    }

    // NULL where size() is 0.
    template <class... A> STOOK_CPP_CONSTRUCTS(A...) [[nodiscard]] T *try_make(A &&...args)
    {
        void *object = (stook_sheaf_alloc)(cache_.get(), STOOK_SIGNAL_SAFE, sheaf_);

        if (!object)
            return nullptr;
        detail::put_back undo(cache_.get(), object);
        T *made = detail::construct_at<T>(object, std::forward<A>(args)...);
        undo.object = nullptr;
        return made;
    }

    // To at least n objects again; std::bad_alloc, and the reserve is as it was.
    void refill(unsigned n)
    {
        if (!try_refill(n))
            detail::fail();
    }

    [[nodiscard]] bool try_refill(unsigned n) noexcept
    {
        return stook_sheaf_refill(cache_.get(), STOOK_WAIT, &sheaf_, n) == 0;
    }

    [[nodiscard]] unsigned size() const noexcept
    {
        return stook_sheaf_size(sheaf_);
    }

  private:
    cache_view<T> cache_;
    struct stook_sheaf *sheaf_;
};

template <class T, class Self>
reserve(const detail::cache_calls<Self, T> &, unsigned) -> reserve<T>;

//
// A reserve that threads share.  Under memory pressure make() waits until another thread destroys an object.  A
// thread that holds an object must be able to end it without another one.  It must end before its cache.
//
template <class T> class pool
{
  public:
    // Destroys an object of the pool that it was made with.
    struct deleter {
        pool *from;

        void operator()(T *object) const noexcept
        {
            from->destroy(object);
        }
    };
    using unique_ptr = std::unique_ptr<T, deleter>;

    // std::bad_alloc
    pool(const cache_view<T> &cache, unsigned min_objects)
        : pool_(stook_pool_create(cache.get(), min_objects))
    {
        if (!pool_)
            detail::fail();
    }

    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;

    // While objects are in use the pool stays, and the library's message says how many there are.
    ~pool()
    {
        static_cast<void>(stook_pool_destroy(pool_));
    }

    // Waits.  std::bad_alloc only where the thread may not sleep, in a reclaim callback, and if its group is at a limit.
    template <class... A> STOOK_CPP_CONSTRUCTS(A...) [[nodiscard]] T *make(A &&...args)
    {
        void *object = stook_pool_alloc(pool_, STOOK_WAIT, nullptr);

        if (!object)
            detail::fail();
        return construct(object, std::forward<A>(args)...);
    }

    template <class... A>
    STOOK_CPP_CONSTRUCTS(A...)
    [[nodiscard]] unique_ptr make_unique(A &&...args)
    {
        return unique_ptr(make(std::forward<A>(args)...), deleter{this});
    }

    // NULL where the cache has no memory and the reserve is empty.  Does not wait.
    template <class... A> STOOK_CPP_CONSTRUCTS(A...) [[nodiscard]] T *try_make(A &&...args)
    {
        void *object = stook_pool_alloc(pool_, STOOK_NORECLAIM, nullptr);

        return object ? construct(object, std::forward<A>(args)...) : nullptr;
    }

    // NULL after the time; reclaim callbacks may make it later.
    template <class... A>
    STOOK_CPP_CONSTRUCTS(A...)
    [[nodiscard]] T *try_make_until(std::chrono::steady_clock::time_point until, A &&...args)
    {
        // The library's clock is CLOCK_MONOTONIC, as that of libstdc++ and libc++ is.
        const auto whole = std::chrono::floor<std::chrono::seconds>(until);
        const std::chrono::nanoseconds rest = until - whole;
        struct timespec deadline = {};

        deadline.tv_sec = whole.time_since_epoch().count();
        deadline.tv_nsec = rest.count();
        void *object = stook_pool_alloc(pool_, STOOK_WAIT, &deadline);
        return object ? construct(object, std::forward<A>(args)...) : nullptr;
    }

    template <class... A>
    STOOK_CPP_CONSTRUCTS(A...)
    [[nodiscard]] T *try_make_for(std::chrono::steady_clock::duration time, A &&...args)
    {
        return try_make_until(std::chrono::steady_clock::now() + time, std::forward<A>(args)...);
    }

    // NULL is accepted.
    void destroy(T *object) noexcept
    {
        if (!object)
            return;
        object->~T();
        stook_pool_free(pool_, object);
    }

    // false, and nothing has changed.
    [[nodiscard]] bool resize(unsigned min_objects) noexcept
    {
        return stook_pool_resize(pool_, min_objects) == 0;
    }

    [[nodiscard]] unsigned available() const noexcept
    {
        return stook_pool_available(pool_);
    }

    [[nodiscard]] struct stook_pool *get() const noexcept
    {
        return pool_;
    }

  private:
    struct undo {
        struct stook_pool *pool;
        void *object;

        ~undo()
        {
            if (object)
                stook_pool_free(pool, object);
        }
    };

    template <class... A> T *construct(void *object, A &&...args)
    {
        undo back{pool_, object};
        T *made = detail::construct_at<T>(object, std::forward<A>(args)...);
        back.object = nullptr;
        return made;
    }

    struct stook_pool *pool_;
};

template <class T, class Self> pool(const detail::cache_calls<Self, T> &, unsigned) -> pool<T>;

} // namespace stook

#endif // STOOK_CPP_RESERVE_HPP
