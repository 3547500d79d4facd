// SPDX-License-Identifier: MIT
//
// stook.cppm - the module stook: what stook.hpp has, for `import stook;` (C++20; docs/cpp.md has the commands).
// Macros of the C headers (STOOK_WAIT and others) are none of a module's: include <stook/stook.h> for them.
//
module;

#define STOOK_CPP_MODULE
#include <stook/stook.hpp>

export module stook;

export namespace stook
{
using stook::allocation_result;
using stook::allocator;
using stook::cache;
using stook::cache_for;
using stook::cache_options;
using stook::cache_view;
using stook::deleter;
using stook::deleter_of;
using stook::group;
using stook::group_scope;
using stook::has_cache;
using stook::pool;
using stook::reserve;
using stook::reuse_cache;
using stook::static_cache;
using stook::type_name;
using stook::typed_new;
using stook::unique_ptr;
#ifdef __cpp_lib_memory_resource
using stook::memory_resource;
using stook::resource;
#endif
} // namespace stook
