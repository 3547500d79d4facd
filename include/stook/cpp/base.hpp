// SPDX-License-Identifier: MIT
//
// base.hpp - what the other parts of stook.hpp share: the compiler's settings, names of types, what happens
// without memory, and the checks of debug builds.  Include <stook/stook.hpp>.
//
#ifndef STOOK_CPP_BASE_HPP
#define STOOK_CPP_BASE_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "stook.hpp needs C++17"
#endif

// C's casts, glibc's names, and an output of assembly that Clang does not follow, are no findings of a program's.
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wold-style-cast"
#pragma clang diagnostic ignored "-Wreserved-identifier"
#pragma clang diagnostic ignored "-Wconditional-uninitialized"
#endif
#include <stook/inline.h>
#include <stook/kmalloc.h>
#ifdef __clang__
#pragma clang diagnostic pop
#endif

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

//
// 1: destroy() and deallocate() check that an object has the type and size that the call names, and the
// process aborts with a message if not.  It costs some loads a call.  By default in builds without optimisation and
// NDEBUG, and where libstdc++ or libc++ checks itself.  All files of a program should agree.
//
#ifndef STOOK_CHECK_DELETE
#if defined(_GLIBCXX_ASSERTIONS) || defined(_GLIBCXX_DEBUG) || defined(_LIBCPP_HARDENING_MODE) ||  \
    (!defined(__OPTIMIZE__) && !defined(NDEBUG))
#define STOOK_CHECK_DELETE 1
#else
#define STOOK_CHECK_DELETE 0
#endif
#endif

// The fast path must be inlined whole: the return address of the library's call is the program's call site.
#define STOOK_CPP_INLINE __attribute__((always_inline)) inline
#define STOOK_CPP_COLD __attribute__((cold, noinline))

#if __cplusplus >= 202002L
#define STOOK_CPP_CONSTEXPR20 constexpr
#define STOOK_CPP_CONSTINIT constinit
#else
#define STOOK_CPP_CONSTEXPR20
#define STOOK_CPP_CONSTINIT
#endif

namespace stook
{

namespace detail
{

// inline.h pins each object that its sections are compiled into, by a constructor of the file that includes it.  A file
// that imports the module has no such constructor: the sections' callers instantiate this one there.
#ifdef STOOK_CPP_MODULE
template <class T> struct __attribute__((visibility("hidden"))) pin {
    static const bool done;
};
template <class T>
const bool pin<T>::done = (stook_inline_layout_3(STOOK_INLINE_LAYOUT, &pin<T>::done), true);
#define STOOK_CPP_PIN() static_cast<void>(&::stook::detail::pin<void>::done)
#else
#define STOOK_CPP_PIN() static_cast<void>(0)
#endif

// Without memory: std::bad_alloc, and errno says more (EDQUOT: the group's limit).  A program that is built
// without exceptions ends here, as it does where operator new fails.
[[noreturn]] STOOK_CPP_COLD inline void fail()
{
#ifdef __cpp_exceptions
    throw std::bad_alloc();
#else
    std::fprintf(stderr, "stook: out of memory (errno %d) in a program without exceptions\n",
                 errno);
    std::abort();
#endif
}

[[noreturn]] STOOK_CPP_COLD inline void *failed(struct stook_cache *, unsigned)
{
    fail();
}

// For stook_alloc_with(): the call throws where there is no object.
inline constexpr struct stook_alloc_args or_fail = {
    sizeof(struct stook_alloc_args), nullptr, nullptr, nullptr, failed, 0, 0};

[[noreturn]] STOOK_CPP_COLD inline void wrong_delete(const void *object, const char *what,
                                                     std::size_t bytes)
{
    const struct stook_cache *cache = stook_cache_of(object);

    std::fprintf(stderr, "stook: object %p of cache \"%s\", %zu bytes, deleted as %s, %zu bytes\n",
                 object, cache ? stook_cache_name(cache) : "none", stook_usable_size(object), what,
                 bytes);
    std::abort();
}

// Ends in "T = NAME]" with each compiler.
template <class T> constexpr const char *signature() noexcept
{
    return __PRETTY_FUNCTION__;
}

// The name of a type for a report: without blanks, and as a reader knows it.  Needs no RTTI.
struct name {
    char text[160] = {};
    std::size_t length = 0;

    constexpr bool skip(const char *&from, const char *word) const noexcept
    {
        const char *at = from;
        for (; *word != 0 && *at == *word; word++)
            at++;
        if (*word != 0)
            return false;
        from = at;
        return true;
    }

    constexpr void add(const char *word) noexcept
    {
        while (*word != 0 && length < sizeof(text) - 1)
            text[length++] = *word++;
    }

    constexpr explicit name(const char *from) noexcept
    {
        while (*from != 0 && !skip(from, "T = "))
            from++;
        while (*from != 0 && !(from[0] == ']' && from[1] == 0)) {
            const char one[2] = {*from, 0};
            if (skip(from, "std::__cxx11::basic_string<char>") ||
                skip(from, "std::basic_string<char>"))
                add("std::string");
            else if (skip(from, "__cxx11::") || skip(from, "{anonymous}::") ||
                     skip(from, "(anonymous namespace)::") || skip(from, "(anonymous class)::"))
                continue;
            else if (skip(from, ", "))
                add(",");
            else if (skip(from, " >"))
                add(">");
            else if (skip(from, " *"))
                add("*");
            else if (skip(from, " &"))
                add("&");
            else if (skip(from, " "))
                add("_");
            else {
                add(one);
                from++;
            }
        }
    }
};

template <class T> constexpr name name_of{signature<T>()};

} // namespace detail

// The name that caches of T have by default: "std::pair<int,point>".
template <class T> constexpr const char *type_name() noexcept
{
    return detail::name_of<T>.text;
}

// The largest type that has a cache.  Larger ones and arrays come from stook_kmalloc().
template <class T>
constexpr bool has_cache = sizeof(T) <= STOOK_OBJECT_SIZE_MAX && alignof(T) <= STOOK_ALIGN_MAX;

//
// What a cache can be told, as struct stook_cache_args.  The type decides size and alignment.
//
struct cache_options {
    unsigned flags = 0;               // STOOK_CACHE_*
    unsigned sheaf_capacity = 0;      // objects in a sheaf; 0: the library's choice
    std::size_t cached_bytes_max = 0; // its barns hold no more; 0: the library's choice
    std::size_t slab_bytes_max = 0;   // its slabs are no more; 0: no limit
};

namespace detail
{

// NULL with errno, as stook_cache_create().  The alignment is the type's, not the default of the library, which is
// larger than most nodes of containers need: 16 bytes would make 40 bytes 48.
inline struct stook_cache *make_cache(const char *name, std::size_t size, std::size_t align,
                                      const cache_options &options,
                                      void (*ctor)(void *, void *) = nullptr,
                                      void (*dtor)(void *, void *) = nullptr) noexcept
{
    struct stook_cache_args args = {};

    args.size = sizeof(args);
    args.align = align < 8 && size >= 8 ? 8 : align;
    args.flags = options.flags;
    args.sheaf_capacity = options.sheaf_capacity;
    args.cached_bytes_max = options.cached_bytes_max;
    args.slab_bytes_max = options.slab_bytes_max;
    args.ctor = ctor;
    args.dtor = dtor;
    return stook_cache_create(name, size, &args);
}

// The start of the object that p points to: of the whole object where T is a base with a virtual table.
template <class T> STOOK_CPP_INLINE void *start_of(T *p) noexcept
{
    if constexpr (std::is_polymorphic_v<T> && !std::is_final_v<T>)
        return const_cast<void *>(dynamic_cast<const volatile void *>(p));
    else
        return const_cast<std::remove_cv_t<T> *>(p);
}

//
// The bytes to ask stook_kmalloc() for, so that the memory is aligned.  Its classes are aligned to their size but for 96
// bytes, aligned to 32, and 192, to 64; larger memory to pages, and powers of two to themselves up to 2 MiB.
// 0: it cannot.
//
constexpr std::size_t kmalloc_bytes(std::size_t bytes, std::size_t align) noexcept
{
    if (bytes < align || bytes == 0)
        bytes = align; // also of 0 bytes, which are a pointer of their own
    if (align <= 32)
        return bytes;
    if (bytes > static_cast<std::size_t>(PTRDIFF_MAX) || align > (std::size_t{2} << 20))
        return 0;
    if (align <= 4096)
        return (bytes + align - 1) & ~(align - 1);
    while (align < bytes)
        align <<= 1;
    return align <= (std::size_t{2} << 20) ? align : 0;
}

} // namespace detail

} // namespace stook

#endif // STOOK_CPP_BASE_HPP
