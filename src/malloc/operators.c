/* SPDX-License-Identifier: MIT */
/*
 * operators.c - every C++ operator new and delete, under its mangled name.
 *
 * When memory is short, they call the C++ library's handler, and throw its exception.  The shared library must
 * load into C programs, so its references to these are weak.  A static program that uses operator new has the
 * C++ library, and takes this file from the archive compiled with STOOK_OPERATORS_STATIC, which requires them.
 * There, the C++ library's own nothrow forms of new are used: they call the plain ones and catch the exception.
 */
#include "base/report.h"
#include "kmalloc/private.h"
#include "malloc/class.h"
#include "malloc/fast.h"
#include "malloc/names.h"

#include <dlfcn.h>
#include <stdint.h>

#ifndef STOOK_MALLOC_PREFIX

#ifdef STOOK_OPERATORS_STATIC
#define OPERATORS_WEAK
#else
#define OPERATORS_WEAK __attribute__((weak))
#endif

/* std::get_new_handler() and std::__throw_bad_alloc() */
extern void (*operators_get_handler(void))(void) __asm__("_ZSt15get_new_handlerv") OPERATORS_WEAK;
extern void operators_throw(void) __asm__("_ZSt17__throw_bad_allocv") OPERATORS_WEAK;

#ifdef STOOK_OPERATORS_STATIC
static void *operators_find(const char *name)
{
    (void)name;
    return NULL;
}
#else
/* The C++ library may have come with a dlopen() that kept it local. */
static void *operators_find(const char *name)
{
    void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library ? dlsym(library, name) : NULL;

    if (library)
        (void)dlclose(library); /* its own users hold it */
    return symbol;
}
#endif

typedef void (*operators_handler)(void);

static operators_handler operators_handler_now(void)
{
    operators_handler (*get)(void) = operators_get_handler;

    if (!get)
        get = (operators_handler(*)(void))(uintptr_t)operators_find("_ZSt15get_new_handlerv");
    return get ? get() : NULL;
}

static void operators_out_of_memory(void)
{
    void (*bad_alloc)(void) = operators_throw;

    if (!bad_alloc)
        bad_alloc = (void (*)(void))(uintptr_t)operators_find("_ZSt17__throw_bad_allocv");
    if (bad_alloc)
        bad_alloc();
    report_fatal("operator new: out of memory, and no C++ library to throw from");
}

static void *operators_try(size_t align, size_t size, const void *from)
{
    if ((align & (align - 1)) != 0)
        return NULL;
    return align > SIZES_STEP ? class_alloc_aligned(align, size, from)
                              : class_alloc(size, NULL, from);
}

static __attribute__((noinline, cold)) void *operators_new(size_t align, size_t size,
                                                           const void *from)
{
    void *object;

    while (!(object = operators_try(align, size, from))) {
        operators_handler handler = operators_handler_now();
        if (!handler)
            operators_out_of_memory();
        handler();
    }
    return object;
}

static __attribute__((noinline, cold)) void operators_delete(void *object, size_t size)
{
    class_free_as(object, "operator delete", STOOK_PRIVATE_NEW, size);
}

static __attribute__((noinline, cold)) void operators_delete_array(void *object, size_t size)
{
    class_free_as(object, "operator delete[]", STOOK_PRIVATE_NEW_ARRAY, size);
}

#define OPERATOR(type, name, mangled, ...)                                                         \
    MALLOC_API type name(__VA_ARGS__) __asm__(mangled);                                            \
    type name(__VA_ARGS__)

#define OPERATORS_FROM(call) stook_private_from(CLASS_FROM, STOOK_PRIVATE_##call)
#define OPERATOR_NEW(name, mangled, call)                                                          \
    OPERATOR(void *, name, mangled, size_t size)                                                   \
    {                                                                                              \
        void *object;                                                                              \
        if (fast_alloc(FAST_OPEN, size, &object))                                                  \
            return object;                                                                         \
        return operators_new(1, size, OPERATORS_FROM(call));                                       \
    }
OPERATOR_NEW(operators_new_plain, "_Znwm", NEW)
OPERATOR_NEW(operators_new_array, "_Znam", NEW_ARRAY)

OPERATOR(void *, operators_new_aligned, "_ZnwmSt11align_val_t", size_t size, size_t align)
{
    return operators_new(align, size, OPERATORS_FROM(NEW));
}

OPERATOR(void *, operators_new_array_aligned, "_ZnamSt11align_val_t", size_t size, size_t align)
{
    return operators_new(align, size, OPERATORS_FROM(NEW_ARRAY));
}

#ifndef STOOK_OPERATORS_STATIC
/*
 * Without a handler: NULL.  If the handler throws, the C++ library's own form catches that; it calls the plain
 * operator, which is ours.
 */
static __attribute__((noinline, cold)) void *operators_new_nothrow(size_t align, size_t size,
                                                                   const void *nothrow,
                                                                   const char *mangled,
                                                                   const void *from)
{
    void *object = operators_try(align, size, from);

    if (object || !operators_handler_now())
        return object;
    void *form = operators_find(mangled);
    if (!form)
        return NULL;
    if (align == 1)
        return ((void *(*)(size_t, const void *))(uintptr_t)form)(size, nothrow);
    return ((void *(*)(size_t, size_t, const void *))(uintptr_t)form)(size, align, nothrow);
}

#define OPERATOR_NEW_NOTHROW(name, mangled, call)                                                  \
    OPERATOR(void *, name, mangled, size_t size, const void *nothrow)                              \
    {                                                                                              \
        void *object;                                                                              \
        if (fast_alloc(FAST_OPEN, size, &object))                                                  \
            return object;                                                                         \
        return operators_new_nothrow(1, size, nothrow, mangled, OPERATORS_FROM(call));             \
    }
OPERATOR_NEW_NOTHROW(operators_nothrow_plain, "_ZnwmRKSt9nothrow_t", NEW)
OPERATOR_NEW_NOTHROW(operators_nothrow_array, "_ZnamRKSt9nothrow_t", NEW_ARRAY)

#define OPERATOR_NEW_ALIGNED_NOTHROW(name, mangled, call)                                          \
    OPERATOR(void *, name, mangled, size_t size, size_t align, const void *nothrow)                \
    {                                                                                              \
        return operators_new_nothrow(align, size, nothrow, mangled, OPERATORS_FROM(call));         \
    }
OPERATOR_NEW_ALIGNED_NOTHROW(operators_nothrow_aligned, "_ZnwmSt11align_val_tRKSt9nothrow_t", NEW)
OPERATOR_NEW_ALIGNED_NOTHROW(operators_nothrow_array_aligned, "_ZnamSt11align_val_tRKSt9nothrow_t",
                             NEW_ARRAY)
#endif

/* For the fast path the page map has what the other parameters of a form of delete say. */
#define OPERATOR_DELETE(name, mangled, slow, said, ...)                                            \
    OPERATOR(void, name, mangled, void *object, ##__VA_ARGS__)                                     \
    {                                                                                              \
        if (!fast_free(object))                                                                    \
            slow(object, said);                                                                    \
    }
#define OPERATOR_UNUSED size_t unused __attribute__((unused))
#define OPERATORS_DELETE(name, letter, slow)                                                       \
    OPERATOR_DELETE(name##_plain, "_Zd" letter "Pv", slow, 0)                                      \
    OPERATOR_DELETE(name##_sized, "_Zd" letter "Pvm", slow, size, size_t size)                     \
    OPERATOR_DELETE(name##_nothrow, "_Zd" letter "PvRKSt9nothrow_t", slow, 0, OPERATOR_UNUSED)     \
    OPERATOR_DELETE(name##_aligned, "_Zd" letter "PvSt11align_val_t", slow, 0, OPERATOR_UNUSED)    \
    OPERATOR_DELETE(name##_sized_aligned, "_Zd" letter "PvmSt11align_val_t", slow, size,           \
                    size_t size, OPERATOR_UNUSED)                                                  \
    OPERATOR_DELETE(name##_aligned_nothrow, "_Zd" letter "PvSt11align_val_tRKSt9nothrow_t", slow,  \
                    0, OPERATOR_UNUSED, size_t unused2 __attribute__((unused)))
OPERATORS_DELETE(operators_delete_one, "l", operators_delete)
OPERATORS_DELETE(operators_delete_many, "a", operators_delete_array)

#else
typedef int operators_none; /* a file may not be empty */
#endif
