/* SPDX-License-Identifier: MIT */
/*
 * inline.h - stook_alloc() and stook_free() with the fast path inlined into the caller.
 *
 * The inlined code reads the first line of the cache and one slot of this CPU.  In every other case than the
 * common one it finds an empty or a full sheaf, and calls the library.  That includes a closed slot, a process
 * in locked mode, a cache with hooks or debugging, and an aborted section.
 *
 * The layout is versioned: the reference to stook_inline_layout_3 fails to link or load against a library
 * with another layout.  The constructor below pins the object that this header is compiled into, because a
 * thread may still carry a pointer to one of its critical sections when that object is unloaded.
 */
#ifndef STOOK_INLINE_H
#define STOOK_INLINE_H

#include <stook/stook.h>

#include <stdint.h>

STOOK_C_BEGIN

#define STOOK_INLINE_LAYOUT 3
#define STOOK_AREA_SHIFT 18 /* CPU n's area lies n << 18 behind CPU 0's */

/* The head of struct stook_cache: constant from the cache's creation to its end, except `slots`. */
struct stook_cache_head {
    const void *slots; /* in CPU 0's area; slot 0: its calls are counted, or checked */
    uintptr_t reserved;
    intptr_t rseq_offset; /* from the thread pointer to the thread's struct rseq */
};

/* Pins the object that holds `address`: dlclose() does not unload it.  Aborts with a report if `layout` is not this
 * library's.  Where the loader refuses, a library that has not started runs in locked mode, and one that has warns. */
STOOK_API void stook_inline_layout_3(int layout, const void *address);

/* Sections have outputs and labels, which compilers know since GCC 11 and clang 11. */
#if (defined(__x86_64__) || defined(__AARCH64EL__) || defined(__riscv)) && defined(__LP64__) &&    \
    defined(__linux__) && !defined(STOOK_NO_INLINE)
#if defined(__clang__) ? __clang_major__ >= 11 : __GNUC__ >= 11
#define STOOK_INLINE_SECTIONS 1
#endif
#endif

#ifdef STOOK_INLINE_SECTIONS
#include <stook/sections.h>

/*
 * From the thread pointer to the thread's struct rseq.  glibc's (sys/rseq.h) is a constant, so loops keep it in a
 * register.  Where glibc has registration switched off, its CPU number is -1 or -2, and the inlined code calls the
 * library, which then has a struct rseq of its own.  Code that is compiled for another C library takes the library's.
 */
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 35)
extern const ptrdiff_t __rseq_offset;
#define STOOK_INLINE_RSEQ(head) __rseq_offset
#else
#define STOOK_INLINE_RSEQ(head) ((head)->rseq_offset)
#endif

#ifndef STOOK_INLINE_NO_PIN
static __attribute__((constructor, used)) void stook_inline_pin(void)
{
    stook_inline_layout_3(STOOK_INLINE_LAYOUT, (const void *)(uintptr_t)&stook_inline_pin);
}
#endif

/*
 * Another thread may switch statistics meanwhile.  Either slot works, so an old one in a register does too.
 * The load is atomic only where ThreadSanitizer would report it.
 */
STOOK_INLINE __attribute__((always_inline)) const void *stook_inline_slots(
    const struct stook_cache_head *head)
{
#ifdef __SANITIZE_THREAD__
    return __atomic_load_n(&head->slots, __ATOMIC_RELAXED);
#else
    return head->slots;
#endif
}

/* 1 and an object, if the fast path has one; else 0. */
STOOK_INLINE __attribute__((always_inline)) int stook_inline_take(struct stook_cache *cache,
                                                                  unsigned flags, void **object)
{
    const struct stook_cache_head *h = (const struct stook_cache_head *)cache;

    return __builtin_expect((flags & ~(STOOK_NORECLAIM | STOOK_SIGNAL_SAFE)) == 0, 1) &&
           __builtin_expect(stook_rseq_pop(stook_inline_slots(h), STOOK_INLINE_RSEQ(h), object), 1);
}

STOOK_INLINE __attribute__((always_inline)) void stook_free_inline(struct stook_cache *cache,
                                                                   void *object)
{
    const struct stook_cache_head *h = (const struct stook_cache_head *)cache;

    if (__builtin_expect(
            object && stook_rseq_push(stook_inline_slots(h), STOOK_INLINE_RSEQ(h), object), 1))
        return;
    stook_free(cache, object);
}
#else
/* Machines and builds without sections: nothing is ever popped or pushed. */
STOOK_INLINE int stook_rseq_pop(const void *slots, intptr_t rseq, void **taken)
{
    (void)slots;
    (void)rseq;
    (void)taken;
    return 0;
}

STOOK_INLINE int stook_rseq_push(const void *slots, intptr_t rseq, void *object)
{
    (void)slots;
    (void)rseq;
    (void)object;
    return 0;
}

STOOK_INLINE int stook_inline_take(struct stook_cache *cache, unsigned flags, void **object)
{
    (void)cache;
    (void)flags;
    (void)object;
    return 0;
}

STOOK_INLINE void stook_free_inline(struct stook_cache *cache, void *object)
{
    stook_free(cache, object);
}
#endif

STOOK_INLINE __attribute__((always_inline)) void *stook_alloc_inline(struct stook_cache *cache,
                                                                     unsigned flags)
{
    void *object;

    return stook_inline_take(cache, flags, &object) ? object : (stook_alloc)(cache, flags);
}

STOOK_INLINE __attribute__((always_inline)) void *stook_alloc_inline_with(
    struct stook_cache *cache, unsigned flags, const struct stook_alloc_args *args)
{
    void *object;

    return stook_inline_take(cache, flags, &object) ? object : stook_alloc_with(cache, flags, args);
}

STOOK_C_END

#ifdef STOOK_SITE
#define stook_alloc_inline(...) stook_alloc_inline_with(__VA_ARGS__, STOOK_SITE)
#endif

#endif /* STOOK_INLINE_H */
