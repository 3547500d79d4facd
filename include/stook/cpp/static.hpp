// SPDX-License-Identifier: MIT
//
// static.hpp - stook::static_cache<T>, stook::cache_for<T> and what they make possible: deleters without state
// and classes with an operator new of their own.  Include <stook/stook.hpp>.
//
#ifndef STOOK_CPP_STATIC_HPP
#define STOOK_CPP_STATIC_HPP

#include <stook/cpp/cache.hpp>

#include <atomic>

namespace stook
{

//
// A cache for objects of static storage.  It is constant-initialized, so that constructors of other files may
// use it, and it throws nothing at the program's start: the first allocation makes it.  It is never destroyed, so that
// destructors at the end may free to it.  An allocation takes two instructions more than one of cache<T>.
//
template <class T> class static_cache : public detail::cache_calls<static_cache<T>, T>
{
  public:
    constexpr explicit static_cache(const char *name = type_name<T>(),
                                    const cache_options &options = {}) noexcept
        : name_(name), options_(options)
    {
    }

    static_cache(const static_cache &) = delete;
    static_cache &operator=(const static_cache &) = delete;

  private:
    friend class detail::cache_calls<static_cache<T>, T>;
    static constexpr bool lazy = true;

    STOOK_CPP_INLINE struct stook_cache *made() const noexcept
    {
        return cache_.load(std::memory_order_acquire);
    }

    // Two threads may make one each: the second one's is destroyed.
    STOOK_CPP_COLD struct stook_cache *open(unsigned flags) const noexcept
    {
        detail::check_type<T>();
        if (flags & STOOK_SIGNAL_SAFE) {
            errno = ENOMEM;
            return nullptr;
        }
        struct stook_cache *other = nullptr;
        struct stook_cache *made = detail::make_cache(name_, sizeof(T), alignof(T), options_);
        if (!made || cache_.compare_exchange_strong(other, made, std::memory_order_acq_rel))
            return made;
        static_cast<void>(stook_cache_destroy(made));
        return other;
    }

    mutable std::atomic<struct stook_cache *> cache_{nullptr};
    const char *name_;
    cache_options options_;
};

// The cache of a type where a program wants one for each: stook::cache_for<point>.make(1, 2).
template <class T> inline STOOK_CPP_CONSTINIT static_cache<T> cache_for{};

//
// Deletes an object of a cache that has a name at compile time, by its inlined fast path:
//
//   inline stook::static_cache<point> points{"point"};
//   std::unique_ptr<point, stook::deleter_of<points>> p{points.make(1, 2)};
//
template <auto &Cache> struct deleter_of {
    STOOK_CPP_INLINE void operator()(
        typename std::remove_reference_t<decltype(Cache)>::value_type *object) const noexcept
    {
        Cache.destroy(object);
    }
};

//
// A base class whose derived class T has operator new and delete of its own: `new T` is an object of
// cache_for<T>.
//
//   struct session : stook::typed_new<session> { ... };
//
// Classes derived from T in turn, which are larger or more aligned, are served by stook_kmalloc(); arrays by the
// program's operator new[].  `new (std::nothrow) T` is NULL without memory.  In debug builds the size that the compiler deletes is compared with the object's.
//
template <class T> class typed_new
{
  public:
    STOOK_CPP_INLINE static void *operator new(std::size_t size)
    {
        return size == sizeof(T) ? cache_for<T>.allocate() : must(other(size, alignof(T)));
    }

    STOOK_CPP_INLINE static void operator delete(void *object, std::size_t size) noexcept
    {
        if (size == sizeof(T))
            cache_for<T>.deallocate(object);
        else
            end(object, size);
    }

    // The compiler calls these for types that are aligned to more than __STDCPP_DEFAULT_NEW_ALIGNMENT__.
    STOOK_CPP_INLINE static void *operator new(std::size_t size, std::align_val_t align)
    {
        return is_own(size, align) ? cache_for<T>.allocate()
                                   : must(other(size, static_cast<std::size_t>(align)));
    }

    STOOK_CPP_INLINE static void operator delete(void *object, std::size_t size,
                                                 std::align_val_t align) noexcept
    {
        if (is_own(size, align))
            cache_for<T>.deallocate(object);
        else
            end(object, size);
    }

    static void *operator new(std::size_t size, const std::nothrow_t &) noexcept
    {
        return size == sizeof(T) ? cache_for<T>.try_allocate() : other(size, alignof(T));
    }
    static void *operator new(std::size_t size, std::align_val_t align,
                              const std::nothrow_t &) noexcept
    {
        return is_own(size, align) ? cache_for<T>.try_allocate()
                                   : other(size, static_cast<std::size_t>(align));
    }
    // Of constructors that throw.
    static void operator delete(void *object, const std::nothrow_t &) noexcept
    {
        stook_free_any(object);
    }
    static void operator delete(void *object, std::align_val_t, const std::nothrow_t &) noexcept
    {
        stook_free_any(object);
    }

    // What a class with an operator new of its own would hide.
    static void *operator new(std::size_t, void *place) noexcept
    {
        return place;
    }
    static void operator delete(void *, void *) noexcept
    {
    }

  protected:
    typed_new() = default;

  private:
    static constexpr bool is_own(std::size_t size, std::align_val_t align) noexcept
    {
        return size == sizeof(T) && static_cast<std::size_t>(align) == alignof(T);
    }

    // NULL without memory.
    static void *other(std::size_t size, std::size_t align) noexcept
    {
        const std::size_t bytes = detail::kmalloc_bytes(size, align);

        return bytes ? (stook_kmalloc)(bytes, STOOK_WAIT) : nullptr;
    }

    static void *must(void *object)
    {
        if (!object)
            detail::fail();
        return object;
    }

    static void end(void *object, std::size_t size) noexcept
    {
#if STOOK_CHECK_DELETE
        if (object && stook_usable_size(object) < size)
            detail::wrong_delete(object, type_name<T>(), size);
#else
        static_cast<void>(size);
#endif
        stook_free_any(object);
    }
};

} // namespace stook

#endif // STOOK_CPP_STATIC_HPP
