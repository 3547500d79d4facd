// SPDX-License-Identifier: MIT
//
// cache.hpp - stook::cache<T> and the calls that all kinds of caches have: objects of one type, constructed and destroyed.
// Include <stook/stook.hpp>.
//
//   cache<T>         owns its cache; made by its constructor
//   cache_view<T>    a pointer to a cache that is another's
//   static_cache<T>  for objects of static storage: made by the first call, never destroyed (static.hpp)
//
// All calls may be made by any thread.  Memory that cannot be had is std::bad_alloc; nothing else throws but
// T's own constructors.  Messages and aborts on wrong frees are stook_free()'s (docs/debug.md).
//
#ifndef STOOK_CPP_CACHE_HPP
#define STOOK_CPP_CACHE_HPP

#include <stook/cpp/base.hpp>

#include <memory>

namespace stook
{

//
// Deletes an object of any cache by its address: a std::unique_ptr with it is one word.  T may be
// a base class with a virtual destructor.  It costs one load more than destroy() of a cache that is known.
//
template <class T> struct deleter {
    constexpr deleter() noexcept = default;

    template <class U, class = std::enable_if_t<std::is_convertible_v<U *, T *>>>
    constexpr deleter(const deleter<U> &) noexcept
    {
        static_assert(std::is_same_v<std::remove_cv_t<U>, std::remove_cv_t<T>> ||
                          std::has_virtual_destructor_v<T>,
                      "the base class needs a virtual destructor");
    }

    void operator()(T *object) const noexcept
    {
        static_assert(sizeof(T) > 0, "the type must be complete where it is deleted");
        if (!object)
            return;
        void *start = detail::start_of(object);
        object->~T();
        stook_free_any(start);
    }
};

template <class T> using unique_ptr = std::unique_ptr<T, deleter<T>>;

namespace detail
{

template <class T, class... A> STOOK_CPP_INLINE T *construct_at(void *place, A &&...args)
{
    if constexpr (std::is_constructible_v<T, A &&...>)
        return ::new (place) T(std::forward<A>(args)...);
    else
        return ::new (place) T{std::forward<A>(args)...}; // an aggregate
}

// With concepts, a call that cannot work is an error where the program makes it, by the name of what is missing; without, an
// error within this header.
#if defined(__cpp_concepts) && __cpp_concepts >= 201907L
template <class T>
concept type_is_complete = requires
{
    sizeof(T);
};
template <class T, class... A>
concept constructor_takes = std::is_constructible_v<T, A...> || requires
{
    T{std::declval<A>()...};
};
#define STOOK_CPP_CONSTRUCTS(...)                                                                  \
    requires ::stook::detail::type_is_complete<T> &&                                               \
        ::stook::detail::constructor_takes<T, __VA_ARGS__>
#else
#define STOOK_CPP_CONSTRUCTS(...)
#endif

template <class T, class... A> constexpr bool constructs_without_throwing() noexcept
{
    if constexpr (std::is_constructible_v<T, A...>)
        return std::is_nothrow_constructible_v<T, A...>;
    else
        return noexcept(T{std::declval<A>()...});
}

// Returns memory to its cache unless the constructor has come to its end.
struct put_back {
    struct stook_cache *cache;
    void *object;

    put_back(struct stook_cache *c, void *o) noexcept : cache(c), object(o)
    {
    }
    put_back(const put_back &) = delete;
    put_back &operator=(const put_back &) = delete;
    ~put_back()
    {
        if (object)
            stook_free(cache, object);
    }
};

//
// The calls of all kinds of caches.  Self has made(), its cache; where Self::lazy is true that is NULL before open(), which
// makes the cache, or is NULL with errno.
//
template <class Self, class T> class cache_calls
{
  public:
    using value_type = T;

    // Memory for one object, not constructed; NULL with errno if there is none.  `flags` as of stook_alloc(), so
    // STOOK_SIGNAL_SAFE is for handlers.
    [[nodiscard]] STOOK_CPP_INLINE void *try_allocate(unsigned flags = STOOK_WAIT) const
    {
        struct stook_cache *cache = self().made();
        void *object;

        STOOK_CPP_PIN();
        if constexpr (Self::lazy)
            if (__builtin_expect(!cache, 0) && !(cache = self().open(flags)))
                return nullptr;
        return stook_inline_take(cache, flags, &object) ? object : (stook_alloc)(cache, flags);
    }

    // The same; std::bad_alloc if there is none.  All slow cases are jumps, so that the fast path needs no frame.
    [[nodiscard]] STOOK_CPP_INLINE void *allocate(unsigned flags = STOOK_WAIT) const
    {
        struct stook_cache *cache = self().made();
        void *object;

        STOOK_CPP_PIN();
        if constexpr (Self::lazy)
            if (__builtin_expect(!cache, 0))
                return first(flags);
        if (stook_inline_take(cache, flags, &object))
            return object;
        return stook_alloc_with(cache, flags, &or_fail);
    }

    // Frees memory without a destructor's call.
    STOOK_CPP_INLINE void deallocate(void *object) const noexcept
    {
        struct stook_cache *cache = self().made();

        STOOK_CPP_PIN();
#if STOOK_CHECK_DELETE
        if (object && stook_cache_of(object) != cache)
            wrong_delete(object, stook_cache_name(cache), stook_cache_object_size(cache));
#endif
        stook_free_inline(cache, object);
    }

    //
    // One object, constructed from the arguments; T{args...} where T is an aggregate.  make() without arguments
    // sets members without a constructor to 0, as T() does; make_for_overwrite() leaves them.  If the constructor
    // throws, the memory goes back.  The caller ends it with destroy().  try_make() is NULL without memory.
    //
    template <class... A>
    STOOK_CPP_CONSTRUCTS(A...)
    [[nodiscard]] STOOK_CPP_INLINE T *make(A &&...args) const
    {
        return construct(allocate(), std::forward<A>(args)...);
    }

    [[nodiscard]] STOOK_CPP_INLINE T *make_for_overwrite() const
    {
        void *object = allocate();

        if constexpr (std::is_nothrow_default_constructible_v<T>) {
            return ::new (object) T;
        } else {
            put_back undo(self().made(), object);
            T *made = ::new (object) T;
            undo.object = nullptr;
            return made;
        }
    }

    template <class... A>
    STOOK_CPP_CONSTRUCTS(A...)
    [[nodiscard]] STOOK_CPP_INLINE T *try_make(A &&...args) const
    {
        void *object = try_allocate();

        return object ? construct(object, std::forward<A>(args)...) : nullptr;
    }

    // The same in a unique_ptr of one word, which frees by the address.
    template <class... A>
    STOOK_CPP_CONSTRUCTS(A...)
    [[nodiscard]] unique_ptr<T> make_unique(A &&...args) const
    {
        return unique_ptr<T>(make(std::forward<A>(args)...));
    }

    // Ends an object of this cache.  NULL is accepted.
    STOOK_CPP_INLINE void destroy(T *object) const noexcept
    {
        if constexpr (!std::is_trivially_destructible_v<T>) {
            if (!object)
                return;
            object->~T();
        }
        deallocate(const_cast<std::remove_cv_t<T> *>(object));
    }

    //
    // n objects, each constructed from the same arguments: all of them or none.  If a constructor throws, the
    // objects before it are destroyed, and all memory goes back.
    //
    template <class... A>
    STOOK_CPP_CONSTRUCTS(const A &...)
    void make_bulk(T **objects, std::size_t n, const A &...args) const
    {
        if (!try_make_bulk(objects, n, args...))
            fail();
    }

    template <class... A>
    STOOK_CPP_CONSTRUCTS(const A &...)
    [[nodiscard]] bool try_make_bulk(T **objects, std::size_t n, const A &...args) const
    {
        struct stook_cache *cache = self().made();
        void **memory = reinterpret_cast<void **>(objects);

        if constexpr (Self::lazy)
            if (!cache && !(cache = self().open(STOOK_WAIT)))
                return false;
        if ((stook_alloc_bulk)(cache, STOOK_WAIT, n, memory) != 0)
            return false;
        bulk_undo undo{cache, objects, n, 0};
        for (; undo.made < n; undo.made++)
            objects[undo.made] = construct_at<T>(memory[undo.made], args...);
        undo.n = undo.made = 0;
        return true;
    }

    // Ends n objects of this cache, in any order.  NULL entries are skipped; the array is void afterwards.
    void destroy_bulk(T **objects, std::size_t n) const noexcept
    {
        struct stook_cache *cache = self().made();

        if (n == 0)
            return;
        // What no array has is left to stook_free_bulk(), which ends the process.
        for (std::size_t i = 0; i < n && n <= static_cast<std::size_t>(-1) >> 11; i++) {
#if STOOK_CHECK_DELETE
            if (objects[i] && stook_cache_of(objects[i]) != cache)
                wrong_delete(objects[i], stook_cache_name(cache), stook_cache_object_size(cache));
#endif
            if constexpr (!std::is_trivially_destructible_v<T>)
                if (objects[i])
                    objects[i]->~T();
        }
        stook_free_bulk(cache, n, reinterpret_cast<void **>(objects));
    }

    // The library's handle, for its other calls.
    [[nodiscard]] struct stook_cache *get() const
    {
        struct stook_cache *cache = self().made();

        if constexpr (Self::lazy)
            if (!cache && !(cache = self().open(STOOK_WAIT)))
                fail();
        return cache;
    }

  private:
    friend Self;
    constexpr cache_calls() noexcept = default;

    STOOK_CPP_COLD void *first(unsigned flags) const
    {
        struct stook_cache *cache = self().open(flags);

        return cache ? stook_alloc_with(cache, flags, &or_fail) : failed(cache, flags);
    }

    struct bulk_undo {
        struct stook_cache *cache;
        T **objects;
        std::size_t n, made;

        ~bulk_undo()
        {
            while (made > 0)
                objects[--made]->~T();
            if (n > 0)
                stook_free_bulk(cache, n, reinterpret_cast<void **>(objects));
        }
    };

    STOOK_CPP_INLINE const Self &self() const noexcept
    {
        return static_cast<const Self &>(*this);
    }

    template <class... A> STOOK_CPP_INLINE T *construct(void *object, A &&...args) const
    {
        if constexpr (constructs_without_throwing<T, A...>()) {
            return construct_at<T>(object, std::forward<A>(args)...);
        } else {
            put_back undo(self().made(), object);
            T *made = construct_at<T>(object, std::forward<A>(args)...);
            undo.object = nullptr;
            return made;
        }
    }
};

template <class T> constexpr void check_type() noexcept
{
    static_assert(std::is_object_v<T> && !std::is_array_v<T>, "a cache holds objects");
    static_assert(has_cache<T>, "STOOK_OBJECT_SIZE_MAX and STOOK_ALIGN_MAX limit a cache's types");
}

} // namespace detail

//
// A cache of objects of type T, which the constructor makes (std::bad_alloc; errno as of
// stook_cache_create()).  The destructor destroys it.  While objects are in use it leaves the
// cache as it is, and the library's message says how many there are.
//
template <class T> class cache : public detail::cache_calls<cache<T>, T>
{
  public:
    explicit cache(const char *name = type_name<T>(), const cache_options &options = {})
        : cache_(detail::make_cache(name, sizeof(T), alignof(T), options))
    {
        detail::check_type<T>();
        if (!cache_)
            detail::fail();
    }

    // What was moved from accepts no call but its destructor and an assignment.
    cache(cache &&other) noexcept : cache_(std::exchange(other.cache_, nullptr))
    {
    }

    cache &operator=(cache &&other) noexcept
    {
        std::swap(cache_, other.cache_);
        return *this;
    }

    ~cache()
    {
        static_cast<void>(stook_cache_destroy(cache_));
    }

  private:
    friend class detail::cache_calls<cache<T>, T>;
    static constexpr bool lazy = false;

    STOOK_CPP_INLINE struct stook_cache *made() const noexcept
    {
        return cache_;
    }

    struct stook_cache *cache_;
};

//
// A pointer to a cache that another part of the program owns, in C perhaps.  It is one word, and passed by value.  The
// cache's objects are at least as large and as aligned as T.
//
template <class T> class cache_view : public detail::cache_calls<cache_view<T>, T>
{
  public:
    explicit constexpr cache_view(struct stook_cache *cache) noexcept : cache_(cache)
    {
    }

    template <class Self>
    cache_view(const detail::cache_calls<Self, T> &calls) : cache_(calls.get())
    {
    }

  private:
    friend class detail::cache_calls<cache_view<T>, T>;
    static constexpr bool lazy = false;

    STOOK_CPP_INLINE struct stook_cache *made() const noexcept
    {
        return cache_;
    }

    struct stook_cache *cache_;
};

} // namespace stook

#endif // STOOK_CPP_CACHE_HPP
