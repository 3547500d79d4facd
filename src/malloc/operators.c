/* SPDX-License-Identifier: MIT */
/*
 * operators.c - every C++ operator new and delete, under its mangled name.
 *
 * When memory is short, they call the C++ library's handler, and throw its exception.  The shared library must
 * load into C programs, so its references to these are weak.  A static program that uses operator new has the
 * C++ library, and takes this file from the archive compiled with STOOK_OPERATORS_STATIC, which requires them.
 * There, the C++ library's own nothrow forms of new are used: they call the plain ones and catch the exception.
 */
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
    stook_private_fatal("operator new: out of memory, and no C++ library to throw from");
}

static void *operators_try(size_t align, size_t size, const void *from)
{
    if ((align & (align - 1)) != 0)
        return NULL;
    return align > SIZES_STEP ? class_alloc_aligned(align, size, from) : class_alloc(size, from);
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

static __attribute__((noinline, cold)) void operators_delete(void *object)
{
    class_free(object, "operator delete");
}

#define OPERATOR(type, name, mangled, ...)                                                         \
    MALLOC_API type name(__VA_ARGS__) __asm__(mangled);                                            \
    type name(__VA_ARGS__)

#define OPERATOR_NEW(name, mangled)                                                                \
    OPERATOR(void *, name, mangled, size_t size)                                                   \
    {                                                                                              \
        void *object;                                                                              \
        if (fast_alloc(size, &object))                                                             \
            return object;                                                                         \
        return operators_new(1, size, CLASS_FROM);                                                 \
    }
OPERATOR_NEW(operators_new_plain, "_Znwm")
OPERATOR_NEW(operators_new_array, "_Znam")

OPERATOR(void *, operators_new_aligned, "_ZnwmSt11align_val_t", size_t size, size_t align)
{
    return operators_new(align, size, CLASS_FROM);
}

OPERATOR(void *, operators_new_array_aligned, "_ZnamSt11align_val_t", size_t size, size_t align)
{
    return operators_new(align, size, CLASS_FROM);
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

#define OPERATOR_NEW_NOTHROW(name, mangled)                                                        \
    OPERATOR(void *, name, mangled, size_t size, const void *nothrow)                              \
    {                                                                                              \
        void *object;                                                                              \
        if (fast_alloc(size, &object))                                                             \
            return object;                                                                         \
        return operators_new_nothrow(1, size, nothrow, mangled, CLASS_FROM);                       \
    }
OPERATOR_NEW_NOTHROW(operators_nothrow_plain, "_ZnwmRKSt9nothrow_t")
OPERATOR_NEW_NOTHROW(operators_nothrow_array, "_ZnamRKSt9nothrow_t")

#define OPERATOR_NEW_ALIGNED_NOTHROW(name, mangled)                                                \
    OPERATOR(void *, name, mangled, size_t size, size_t align, const void *nothrow)                \
    {                                                                                              \
        return operators_new_nothrow(align, size, nothrow, mangled, CLASS_FROM);                   \
    }
OPERATOR_NEW_ALIGNED_NOTHROW(operators_nothrow_aligned, "_ZnwmSt11align_val_tRKSt9nothrow_t")
OPERATOR_NEW_ALIGNED_NOTHROW(operators_nothrow_array_aligned, "_ZnamSt11align_val_tRKSt9nothrow_t")
#endif

/* The other parameters of a form of delete are not needed: the page map has the cache. */
#define OPERATOR_DELETE(name, mangled, ...)                                                        \
    OPERATOR(void, name, mangled, void *object, ##__VA_ARGS__)                                     \
    {                                                                                              \
        if (!fast_free(object))                                                                    \
            operators_delete(object);                                                              \
    }
#define OPERATOR_UNUSED(n) size_t unused##n __attribute__((unused))
OPERATOR_DELETE(operators_delete_plain, "_ZdlPv")
OPERATOR_DELETE(operators_delete_array, "_ZdaPv")
OPERATOR_DELETE(operators_delete_sized, "_ZdlPvm", OPERATOR_UNUSED(1))
OPERATOR_DELETE(operators_delete_array_sized, "_ZdaPvm", OPERATOR_UNUSED(1))
OPERATOR_DELETE(operators_delete_nothrow, "_ZdlPvRKSt9nothrow_t", OPERATOR_UNUSED(1))
OPERATOR_DELETE(operators_delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", OPERATOR_UNUSED(1))
OPERATOR_DELETE(operators_delete_aligned, "_ZdlPvSt11align_val_t", OPERATOR_UNUSED(1))
OPERATOR_DELETE(operators_delete_array_aligned, "_ZdaPvSt11align_val_t", OPERATOR_UNUSED(1))
OPERATOR_DELETE(operators_delete_sized_aligned, "_ZdlPvmSt11align_val_t", OPERATOR_UNUSED(1),
                OPERATOR_UNUSED(2))
OPERATOR_DELETE(operators_delete_array_sized_aligned, "_ZdaPvmSt11align_val_t", OPERATOR_UNUSED(1),
                OPERATOR_UNUSED(2))
OPERATOR_DELETE(operators_delete_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t",
                OPERATOR_UNUSED(1), OPERATOR_UNUSED(2))
OPERATOR_DELETE(operators_delete_array_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t",
                OPERATOR_UNUSED(1), OPERATOR_UNUSED(2))

#else
typedef int operators_none; /* a file may not be empty */
#endif
