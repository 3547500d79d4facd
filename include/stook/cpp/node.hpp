// SPDX-License-Identifier: MIT
//
// node.hpp - where stook::allocator<T> has its memory from: nodes from caches of their type, arrays from
// stook_kmalloc().  It includes no header of the standard library that has an allocator (<atomic> is one since C++20), so that a library may have it
// below std::allocator.  Include <stook/stook.hpp>.
//
#ifndef STOOK_CPP_NODE_HPP
#define STOOK_CPP_NODE_HPP

#include <stook/cpp/base.hpp>

namespace stook
{

namespace detail
{

STOOK_CPP_INLINE void *allocate_bytes(std::size_t bytes, std::size_t align)
{
    std::size_t asked = kmalloc_bytes(bytes, align);
    void *memory = asked ? (stook_kmalloc)(asked, STOOK_WAIT) : nullptr;

    if (__builtin_expect(!memory, 0))
        fail();
    return memory;
}

STOOK_CPP_INLINE void deallocate_bytes(void *memory, std::size_t bytes, std::size_t align) noexcept
{
#if STOOK_CHECK_DELETE
    std::size_t usable = stook_usable_size(memory);
    if (memory && (usable < bytes || usable > stook_kmalloc_size(kmalloc_bytes(bytes, align))))
        wrong_delete(memory, "an array", bytes);
#else
    static_cast<void>(bytes);
    static_cast<void>(align);
#endif
    stook_free_any(memory);
}

//
// The cache of a type's nodes.  The first allocation decides once and for all, for all threads, whether there is
// one: `decided` is 0 before, `none` where it could not be made, which is no reason for a container to fail.
//
template <class T> struct __attribute__((visibility("default"))) node_cache {
    static constexpr std::uintptr_t none = 1;
    inline static std::uintptr_t decided = 0;
    inline static struct stook_cache *made = nullptr;

    STOOK_CPP_COLD static struct stook_cache *decide() noexcept
    {
        std::uintptr_t before = __atomic_load_n(&decided, __ATOMIC_ACQUIRE);

        if (before == 0) {
            struct stook_cache *cache = make_cache(type_name<T>(), sizeof(T), alignof(T), {});
            const auto wanted = cache ? reinterpret_cast<std::uintptr_t>(cache) : none;
            if (__atomic_compare_exchange_n(&decided, &before, wanted, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE))
                before = wanted;
            else
                static_cast<void>(stook_cache_destroy(cache));
        }
        if (before == none)
            return nullptr;
        __atomic_store_n(&made, reinterpret_cast<struct stook_cache *>(before), __ATOMIC_RELEASE);
        return reinterpret_cast<struct stook_cache *>(before);
    }

    STOOK_CPP_INLINE static void *allocate()
    {
        struct stook_cache *cache = __atomic_load_n(&made, __ATOMIC_ACQUIRE);
        void *object;

        STOOK_CPP_PIN();
        if (__builtin_expect(!cache, 0))
            return first();
        if (stook_inline_take(cache, STOOK_WAIT, &object))
            return object;
        return stook_alloc_with(cache, STOOK_WAIT, &or_fail);
    }

    STOOK_CPP_COLD static void *first()
    {
        struct stook_cache *cache = decide();

        return cache ? stook_alloc_with(cache, STOOK_WAIT, &or_fail)
                     : allocate_bytes(sizeof(T), alignof(T));
    }

    STOOK_CPP_INLINE static void deallocate(void *object) noexcept
    {
        // The thread that got the object had stored `made` before, if there is a cache.
        struct stook_cache *cache = __atomic_load_n(&made, __ATOMIC_ACQUIRE);

        if (__builtin_expect(!cache, 0))
            return deallocate_bytes(object, sizeof(T), alignof(T));
#if STOOK_CHECK_DELETE
        if (object && stook_cache_of(object) != cache)
            wrong_delete(object, type_name<T>(), sizeof(T));
#endif
        stook_free_inline(cache, object);
    }
};

// Arrays begin with elements as well, and no cache is made for a vector's first int.
template <class T> constexpr bool is_node() noexcept
{
    return (std::is_class_v<T> || std::is_union_v<T>)&&has_cache<T>;
}

[[noreturn]] STOOK_CPP_COLD inline void too_many()
{
#ifdef __cpp_exceptions
    throw std::bad_array_new_length();
#else
    errno = ENOMEM;
    fail();
#endif
}

// Memory for n objects, and back.
template <class T> [[nodiscard]] STOOK_CPP_INLINE T *allocate_objects(std::size_t n)
{
    static_assert(sizeof(T) > 0, "the type must be complete where its memory is allocated");
    if constexpr (is_node<T>())
        if (n == 1)
            return static_cast<T *>(node_cache<T>::allocate());
    if (__builtin_expect(n > static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(T), 0))
        too_many();
    return static_cast<T *>(allocate_bytes(n * sizeof(T), alignof(T)));
}

template <class T> STOOK_CPP_INLINE void deallocate_objects(T *memory, std::size_t n) noexcept
{
    if constexpr (is_node<T>())
        if (n == 1)
            return node_cache<T>::deallocate(memory);
    deallocate_bytes(memory, n * sizeof(T), alignof(T));
}

} // namespace detail

} // namespace stook

#endif // STOOK_CPP_NODE_HPP
