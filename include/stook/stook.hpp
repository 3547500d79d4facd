// SPDX-License-Identifier: MIT
//
// stook.hpp - Stook in C++17: header only, over the library's C calls, with the fast path inlined (docs/cpp.md).
//
//   stook::cache<T>                 make, destroy, make_unique, make_bulk: objects of one type
//   stook::static_cache<T>          the same at namespace scope; stook::cache_for<T>, one for each type
//   stook::reuse_cache<T>           objects that stay constructed while they are free
//   stook::typed_new<T>             a base class: `new T` and `delete` use the type's cache
//   stook::allocator<T>             for containers: nodes come from a cache of their type
//   stook::memory_resource          for std::pmr
//   stook::reserve<T>, pool<T>      objects for code that must not fail half-way
//   stook::group, group_scope       memory by owner, and limits
//
// Errors: std::bad_alloc, with errno, where there is no memory; nothing else throws but the program's own
// constructors.  Calls named try_* return NULL or false instead.  Without exceptions (-fno-exceptions) the
// process aborts with a message where others throw.  No part needs RTTI.
//
// Objects, caches and groups are those of the C headers, and the two may be mixed.
//
#ifndef STOOK_STOOK_HPP
#define STOOK_STOOK_HPP

#include <stook/cpp/allocator.hpp>
#include <stook/cpp/base.hpp>
#include <stook/cpp/cache.hpp>
#include <stook/cpp/group.hpp>
#include <stook/cpp/reserve.hpp>
#include <stook/cpp/reuse.hpp>
#include <stook/cpp/static.hpp>

#endif // STOOK_STOOK_HPP
