// SPDX-License-Identifier: MIT
//
// allocator.hpp - stook::allocator<T> for containers, and stook::memory_resource for std::pmr.
// Include <stook/stook.hpp>.
//
// Single objects of class types, which nodes of containers are, come from a cache of their type, whose name
// is the type's.  Arrays, and objects of other types, come from stook_kmalloc().
//
#ifndef STOOK_CPP_ALLOCATOR_HPP
#define STOOK_CPP_ALLOCATOR_HPP

#include <stook/cpp/base.hpp>

#include <atomic>
#include <limits>
#include <memory>

#if __has_include(<memory_resource>)
#include <memory_resource>
#endif

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
    inline static std::atomic<std::uintptr_t> decided{0};
    inline static std::atomic<struct stook_cache *> made{nullptr};

    STOOK_CPP_COLD static struct stook_cache *decide() noexcept
    {
        std::uintptr_t before = decided.load(std::memory_order_acquire);

        if (before == 0) {
            struct stook_cache *cache = make_cache(type_name<T>(), sizeof(T), alignof(T), {});
            const auto wanted = cache ? reinterpret_cast<std::uintptr_t>(cache) : none;
            if (decided.compare_exchange_strong(before, wanted, std::memory_order_acq_rel))
                before = wanted;
            else
                static_cast<void>(stook_cache_destroy(cache));
        }
        if (before == none)
            return nullptr;
        made.store(reinterpret_cast<struct stook_cache *>(before), std::memory_order_release);
        return reinterpret_cast<struct stook_cache *>(before);
    }

    STOOK_CPP_INLINE static void *allocate()
    {
        struct stook_cache *cache = made.load(std::memory_order_acquire);
        void *object;

        STOOK_CPP_PIN();
        if (__builtin_expect(!cache, 0))
            return first();
        if (stook_inline_take(cache, STOOK_WAIT, &object))
            return object;
        return stook_alloc_else(cache, STOOK_WAIT, failed);
    }

    STOOK_CPP_COLD static void *first()
    {
        struct stook_cache *cache = decide();

        return cache ? stook_alloc_else(cache, STOOK_WAIT, failed)
                     : allocate_bytes(sizeof(T), alignof(T));
    }

    STOOK_CPP_INLINE static void deallocate(void *object) noexcept
    {
        // The thread that got the object had stored `made` before, if there is a cache.
        struct stook_cache *cache = made.load(std::memory_order_acquire);

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

} // namespace detail

#ifdef __cpp_lib_allocate_at_least
template <class P> using allocation_result = std::allocation_result<P, std::size_t>;
#else
// std::allocation_result of C++23.
template <class P> struct allocation_result {
    P ptr;
    std::size_t count;
};
#endif

//
// An allocator for standard containers.  All of them are equal, and memory of one is freed by any other.  T may be
// incomplete until memory is asked for.
//
template <class T> class allocator
{
  public:
    using value_type = T;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using propagate_on_container_move_assignment = std::true_type;
    using is_always_equal = std::true_type;

    constexpr allocator() noexcept = default;
    constexpr allocator(const allocator &) noexcept = default;
    template <class U> constexpr allocator(const allocator<U> &) noexcept
    {
    }
    allocator &operator=(const allocator &) = default;

    //
    // Memory for n objects, not constructed: std::bad_alloc if there is none, std::bad_array_new_length if n
    // is too large for any.
    //
    [[nodiscard]] STOOK_CPP_CONSTEXPR20 STOOK_CPP_INLINE T *allocate(std::size_t n)
    {
#if __cplusplus >= 202002L
        if (std::is_constant_evaluated())
            return std::allocator<T>().allocate(n);
#endif
        static_assert(sizeof(T) > 0, "the type must be complete where its memory is allocated");
        if constexpr (detail::is_node<T>())
            if (n == 1)
                return static_cast<T *>(detail::node_cache<T>::allocate());
        if (__builtin_expect(n > static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(T), 0))
            too_many();
        return static_cast<T *>(detail::allocate_bytes(n * sizeof(T), alignof(T)));
    }

    STOOK_CPP_CONSTEXPR20 STOOK_CPP_INLINE void deallocate(T *memory, std::size_t n) noexcept
    {
#if __cplusplus >= 202002L
        if (std::is_constant_evaluated())
            return std::allocator<T>().deallocate(memory, n);
#endif
        if constexpr (detail::is_node<T>())
            if (n == 1)
                return detail::node_cache<T>::deallocate(memory);
        detail::deallocate_bytes(memory, n * sizeof(T), alignof(T));
    }

    //
    // Memory for n objects or more: the count is what the memory has room for.  It is freed with any number from
    // n to that count.
    //
    [[nodiscard]] STOOK_CPP_CONSTEXPR20 allocation_result<T *> allocate_at_least(std::size_t n)
    {
#if __cplusplus >= 202002L
        if (std::is_constant_evaluated())
            return {std::allocator<T>().allocate(n), n};
#endif
        if constexpr (detail::is_node<T>())
            if (n <= 1)
                return {allocate(1), 1};
        T *memory = allocate(n);
        return {memory, stook_usable_size(memory) / sizeof(T)};
    }

    template <class U> constexpr bool operator==(const allocator<U> &) const noexcept
    {
        return true;
    }
    template <class U> constexpr bool operator!=(const allocator<U> &) const noexcept
    {
        return false;
    }

  private:
    [[noreturn]] STOOK_CPP_COLD static void too_many()
    {
#ifdef __cpp_exceptions
        throw std::bad_array_new_length();
#else
        errno = ENOMEM;
        detail::fail();
#endif
    }
};

#ifdef __cpp_lib_memory_resource
//
// A resource of std::pmr, over stook_kmalloc().  All of them are equal.  Alignments go up to 2 MiB.
//
class memory_resource : public std::pmr::memory_resource
{
  public:
    memory_resource() noexcept = default;

  private:
    void *do_allocate(std::size_t bytes, std::size_t align) override
    {
        return detail::allocate_bytes(bytes, align);
    }

    void do_deallocate(void *memory, std::size_t bytes, std::size_t align) noexcept override
    {
        detail::deallocate_bytes(memory, bytes, align);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
#if defined(__GXX_RTTI) || defined(__cpp_rtti)
        return dynamic_cast<const memory_resource *>(&other) != nullptr;
#else
        return this == &other;
#endif
    }
};

// One for all, which is never destroyed: std::pmr::set_default_resource(stook::resource()).
inline memory_resource *resource() noexcept
{
    alignas(memory_resource) static unsigned char room[sizeof(memory_resource)];
    static memory_resource *const one = ::new (room) memory_resource;
    return one;
}
#endif

} // namespace stook

#endif // STOOK_CPP_ALLOCATOR_HPP
