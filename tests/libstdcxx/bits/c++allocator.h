// SPDX-License-Identifier: MIT
//
// Puts Stook below std::allocator, as libstdc++ itself lets a build choose what is there
// (--enable-libstdcxx-allocator): found before the library's own file of this name.  For
// scripts/check-libstdcxx.py.  The program has libstook-malloc, since libstdc++.so allocates and frees strings too.
//
#ifndef _GLIBCXX_CXX_ALLOCATOR_H
#define _GLIBCXX_CXX_ALLOCATOR_H 1

#include <bits/new_allocator.h>
#include <stook/cpp/node.hpp>

namespace std
{

template <typename T> class __stook_allocator : public __new_allocator<T>
{
  public:
#if __cplusplus <= 201703L
    template <typename U> struct rebind {
        typedef __stook_allocator<U> other;
    };
#endif

    _GLIBCXX20_CONSTEXPR __stook_allocator() noexcept
    {
    }
    _GLIBCXX20_CONSTEXPR __stook_allocator(const __stook_allocator &other) noexcept
        : __new_allocator<T>(other)
    {
    }
    template <typename U>
    _GLIBCXX20_CONSTEXPR __stook_allocator(const __stook_allocator<U> &) noexcept
    {
    }

    T *allocate(size_t n, const void * = nullptr)
    {
        return stook::detail::allocate_objects<T>(n);
    }
    void deallocate(T *memory, size_t n)
    {
        stook::detail::deallocate_objects(memory, n);
    }
};

template <typename T> using __allocator_base = __stook_allocator<T>;

} // namespace std

#endif
