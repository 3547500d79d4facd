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

#include <stook/cpp/node.hpp>

#include <memory>

#if __has_include(<memory_resource>)
#include <memory_resource>
#endif

namespace stook
{

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
        return detail::allocate_objects<T>(n);
    }

    STOOK_CPP_CONSTEXPR20 STOOK_CPP_INLINE void deallocate(T *memory, std::size_t n) noexcept
    {
#if __cplusplus >= 202002L
        if (std::is_constant_evaluated())
            return std::allocator<T>().deallocate(memory, n);
#endif
        detail::deallocate_objects(memory, n);
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
