/* SPDX-License-Identifier: MIT */
/* debug: no */
/* link: malloc */
/* needs: malloc preload */
/*
 * STOOK_HARDEN=tokens: malloc's objects of different types, as clang's AllocToken numbers them, share no slab; calls
 * without a type are told apart by their place.  The functions that the compiler would call are called by name.
 */
#include "support/environment.h"

#include <stook/stook.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TOKENS = 16, OBJECTS = 400, PAGE = 4096 };

extern void *__alloc_token_malloc(size_t size, size_t token);
extern void *__alloc_token_calloc(size_t n, size_t size, size_t token);
extern void *__alloc_token_realloc(void *object, size_t size, size_t token);
extern void *__alloc_token_reallocarray(void *object, size_t n, size_t size, size_t token);
extern void *__alloc_token_aligned_alloc(size_t align, size_t size, size_t token);
extern void *__alloc_token_memalign(size_t align, size_t size, size_t token);
extern int __alloc_token_posix_memalign(void **result, size_t align, size_t size, size_t token);
extern void *__alloc_token_valloc(size_t size, size_t token);
extern void *__alloc_token_pvalloc(size_t size, size_t token);
extern void *__alloc_token__Znwm(size_t size, size_t token);
extern void *__alloc_token__Znam(size_t size, size_t token);
extern void *__alloc_token__ZnwmRKSt9nothrow_t(size_t size, const void *nothrow, size_t token);
extern void *__alloc_token__ZnwmSt11align_val_t(size_t size, size_t align, size_t token);
extern void *__alloc_token__ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t align,
                                                              const void *nothrow, size_t token);
#define FAST(n)                                                                                    \
    extern void *__alloc_token_##n##_malloc(size_t size);                                          \
    extern void *__alloc_token_##n##_calloc(size_t count, size_t size);                            \
    extern void *__alloc_token_##n##_realloc(void *object, size_t size);                           \
    extern void *__alloc_token_##n##__Znwm(size_t size);                                           \
    extern void *__alloc_token_##n##__ZnamRKSt9nothrow_t(size_t size, const void *nothrow);
#define EACH(X)                                                                                    \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
EACH(FAST)

static const size_t sizes[] = {1, 16, 40, 200, 1000, 5000, 30000};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static struct stook_cache *cache_of(const void *object)
{
    struct stook_cache *cache = stook_cache_of(object);

    assert_non_null(cache);
    return cache;
}

/* No cache serves two tokens, and no page has objects of two. */
static void apart(void **state)
{
    static uintptr_t page[TOKENS][OBJECTS];
    static void *objects[TOKENS][OBJECTS];

    (void)state;
    for (size_t s = 0; s < SIZES; s++) {
        for (unsigned i = 0; i < OBJECTS; i++)
            for (unsigned token = 0; token < TOKENS; token++) {
                void *object = __alloc_token_malloc(sizes[s], token + (i % 3) * TOKENS);
                assert_non_null(object);
                memset(object, (int)token, sizes[s]);
                assert_ptr_equal(cache_of(object),
                                 i > 0 ? cache_of(objects[token][0]) : cache_of(object));
                objects[token][i] = object;
                page[token][i] = (uintptr_t)object / PAGE;
            }
        for (unsigned a = 0; a < TOKENS; a++)
            for (unsigned b = 0; b < a; b++) {
                assert_ptr_not_equal(cache_of(objects[a][0]), cache_of(objects[b][0]));
                for (unsigned i = 0; i < OBJECTS; i++)
                    for (unsigned k = 0; k < OBJECTS; k += 7)
                        assert_int_not_equal(page[a][i], page[b][k]);
            }
        for (unsigned token = 0; token < TOKENS; token++)
            for (unsigned i = 0; i < OBJECTS; i++) {
                assert_int_equal(*(unsigned char *)objects[token][i], token);
                free(objects[token][i]);
            }
    }
}

#define ALIKE(n)                                                                                   \
    do {                                                                                           \
        char nothrow = 0;                                                                          \
        void *like = __alloc_token_malloc(200, n),                                                 \
             *objects[] = {__alloc_token_##n##_malloc(200), __alloc_token_##n##_calloc(10, 20),    \
                           __alloc_token_##n##_realloc(NULL, 200), __alloc_token_##n##__Znwm(200), \
                           __alloc_token_##n##__ZnamRKSt9nothrow_t(200, &nothrow)};                \
        for (unsigned i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {                      \
            assert_ptr_equal(cache_of(objects[i]), cache_of(like));                                \
            free(objects[i]);                                                                      \
        }                                                                                          \
        free(like);                                                                                \
    } while (0);

/* The token in the name is the token behind the arguments. */
static void by_name(void **state)
{
    (void)state;
    EACH(ALIKE)
}

/* Every call of the family, with its token. */
static void family(void **state)
{
    (void)state;
    for (size_t token = 0; token < TOKENS; token++) {
        void *like = __alloc_token_malloc(256, token), *moved, *at = NULL;
        char nothrow = 0;
        void *objects[] = {
            __alloc_token_calloc(16, 16, token),
            __alloc_token_realloc(NULL, 256, token),
            __alloc_token_reallocarray(NULL, 4, 64, token),
            __alloc_token_aligned_alloc(16, 256, token),
            __alloc_token_memalign(64, 256, token),
            __alloc_token__Znwm(256, token),
            __alloc_token__Znam(256, token),
            __alloc_token__ZnwmRKSt9nothrow_t(256, &nothrow, token),
            __alloc_token__ZnwmSt11align_val_t(256, 64, token),
            __alloc_token__ZnamSt11align_val_tRKSt9nothrow_t(256, 128, &nothrow, token),
        };
        for (size_t i = 0; i < 256; i++)
            assert_int_equal(((unsigned char *)objects[0])[i], 0);
        for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
            assert_ptr_equal(cache_of(objects[i]), cache_of(like));
            free(objects[i]);
        }
        assert_int_equal(__alloc_token_posix_memalign(&at, 128, 256, token), 0);
        assert_ptr_equal(cache_of(at), cache_of(like));
        memset(at, 7, 256);
        moved = __alloc_token_realloc(at, 3000, token);
        at = __alloc_token_malloc(3000, token);
        assert_ptr_equal(cache_of(moved), cache_of(at));
        assert_int_equal(((unsigned char *)moved)[255], 7);
        assert_null(__alloc_token_realloc(moved, 0, token));
        free(at);
        at = __alloc_token_valloc(100, token);
        assert_int_equal((uintptr_t)at % PAGE, 0);
        free(at);
        at = __alloc_token_pvalloc(100, token);
        assert_int_equal((uintptr_t)at % PAGE, 0);
        free(at);
        errno = 0;
        assert_null(__alloc_token_calloc(SIZE_MAX, 16, token));
        assert_int_equal(errno, ENOMEM);
        assert_null(__alloc_token_reallocarray(like, SIZE_MAX, 16, token));
        assert_null(__alloc_token_aligned_alloc(48, 16, token));
        assert_int_equal(errno, EINVAL);
        free(like);
    }
}

/* One call in each. */
#define PLACE(n)                                                                                   \
    __attribute__((noinline)) static void *place_##n(void)                                         \
    {                                                                                              \
        void *object = malloc(100);                                                                \
        __asm__ volatile("" : "+r"(object) : "i"(n));                                              \
        return object;                                                                             \
    }
EACH(PLACE)

/* malloc itself: each of many calls has objects of one cache, and they are spread over partitions. */
static void by_place(void **state)
{
    struct stook_cache *caches[TOKENS], *seen[TOKENS];
    unsigned different = 0;

    (void)state;
#define AT(n)                                                                                      \
    for (unsigned i = 0; i < 50; i++) {                                                            \
        void *object = place_##n();                                                                \
        if (i > 0)                                                                                 \
            assert_ptr_equal(caches[n], cache_of(object));                                         \
        caches[n] = cache_of(object);                                                              \
        free(object);                                                                              \
    }
    EACH(AT)
    for (unsigned i = 0; i < TOKENS; i++) {
        bool is = false;
        for (unsigned k = 0; k < different; k++)
            is = is || seen[k] == caches[i];
        if (!is)
            seen[different++] = caches[i];
    }
    assert_in_range(different, 4, TOKENS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(apart), cmocka_unit_test(by_name),
                                       cmocka_unit_test(family), cmocka_unit_test(by_place)};

    (void)argc;
    environment_need("STOOK_HARDEN", "tokens", argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
