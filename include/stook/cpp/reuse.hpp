// SPDX-License-Identifier: MIT
//
// reuse.hpp - stook::reuse_cache<T>: objects that stay constructed.  Include <stook/stook.hpp>.
//
#ifndef STOOK_CPP_REUSE_HPP
#define STOOK_CPP_REUSE_HPP

#include <stook/cpp/cache.hpp>

namespace stook
{

//
// Objects that stay constructed while they are free, so that they keep their buffers: T's constructor runs when
// the memory of a slab is made, its destructor when that is given back.  take() gets an object as the last user left it.
//
template <class T> class reuse_cache
{
  public:
    // Gives an object back by its address; it is not destroyed.
    struct giver {
        void operator()(T *object) const noexcept
        {
            stook_free_any(object);
        }
    };
    using unique_ptr = std::unique_ptr<T, giver>;

    explicit reuse_cache(const char *name = type_name<T>(), const cache_options &options = {})
        : cache_(detail::make_cache(name, sizeof(T), alignof(T), options, construct, destruct))
    {
        detail::check_type<T>();
        static_assert(std::is_nothrow_default_constructible_v<T>,
                      "a constructor that the library calls cannot throw");
        if (!cache_)
            detail::fail();
    }

    reuse_cache(const reuse_cache &) = delete;
    reuse_cache &operator=(const reuse_cache &) = delete;

    ~reuse_cache()
    {
        static_cast<void>(stook_cache_destroy(cache_));
    }

    [[nodiscard]] STOOK_CPP_INLINE T *try_take() const noexcept
    {
        void *object;

        STOOK_CPP_PIN();
        if (!stook_inline_take(cache_, STOOK_WAIT, &object))
            object = (stook_alloc)(cache_, STOOK_WAIT);
        return std::launder(static_cast<T *>(object));
    }

    [[nodiscard]] STOOK_CPP_INLINE T *take() const
    {
        void *object;

        STOOK_CPP_PIN();
        if (!stook_inline_take(cache_, STOOK_WAIT, &object))
            object = stook_alloc_with(cache_, STOOK_WAIT, &detail::or_fail);
        return std::launder(static_cast<T *>(object));
    }

    [[nodiscard]] unique_ptr take_unique() const
    {
        return unique_ptr(take());
    }

    STOOK_CPP_INLINE void give(T *object) const noexcept
    {
        stook_free_inline(cache_, object);
    }

    [[nodiscard]] struct stook_cache *get() const noexcept
    {
        return cache_;
    }

  private:
    static void construct(void *object, void *) noexcept
    {
        ::new (object) T();
    }
    static void destruct(void *object, void *) noexcept
    {
        static_cast<T *>(object)->~T();
    }

    struct stook_cache *cache_;
};

} // namespace stook

#endif // STOOK_CPP_REUSE_HPP
