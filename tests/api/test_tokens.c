/* SPDX-License-Identifier: MIT */
/* debug: no */
/* link: malloc */
/* needs: malloc preload */
/*
 * STOOK_HARDEN=tokens: malloc's objects of different calls share no slab.
 */
#include "support/environment.h"
#include "support/test.h"

#include <stook/stook.h>

enum { PLACES = 16 };

#define EACH(X)                                                                                    \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

static struct stook_cache *cache_of(const void *object)
{
    struct stook_cache *cache = stook_cache_of(object);

    assert_non_null(cache);
    return cache;
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
TEST(by_place)
{
    struct stook_cache *caches[PLACES], *seen[PLACES];
    unsigned different = 0;

#define AT(n)                                                                                      \
    for (unsigned i = 0; i < 50; i++) {                                                            \
        void *object = place_##n();                                                                \
        if (i > 0)                                                                                 \
            assert_ptr_equal(caches[n], cache_of(object));                                         \
        caches[n] = cache_of(object);                                                              \
        free(object);                                                                              \
    }
    EACH(AT)
    for (unsigned i = 0; i < PLACES; i++) {
        bool is = false;
        for (unsigned k = 0; k < different; k++)
            is = is || seen[k] == caches[i];
        if (!is)
            seen[different++] = caches[i];
    }
    assert_in_range(different, 4, PLACES);
}

TESTS_WITH_SETTING("STOOK_HARDEN", "tokens")
