/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/*
 * A process under STOOK_HARDEN=quarantine: errors with kmalloc's objects, whole pages, sized deletes and destroyed caches.
 * The program continues after a report, so that reports can be counted.
 */
#include "kmalloc/private.h"

#include "support/environment.h"
#include "support/heard.h"
#include "support/test.h"

#include <stook/debug.h>
#include <stook/kmalloc.h>
#include <stook/stook.h>

static unsigned char *get(size_t size)
{
    unsigned char *object = stook_kmalloc(size, 0);

    assert_non_null(object);
    memset(object, 1, size);
    return object;
}

/* Not seen by the compiler, which knows the object's size. */
static void flip(volatile unsigned char *at)
{
    *at ^= 1;
}

static const size_t sizes[] = {5, 20, 100, 250, 1000, 5000, 8000};
static const size_t large[] = {9000, 40000, 65536, 3000000, 4 << 20};
#define EACH(i, array) (size_t i = 0; i < sizeof(array) / sizeof((array)[0]); i++)

/* What was not asked for of a class belongs to the library. */
TEST(slack)
{
    for
        EACH(i, sizes)
        {
            unsigned char *object = get(sizes[i]);
            assert_int_equal(stook_usable_size(object), sizes[i]);
            stook_free_any(object);
            SAID(0);
            object = get(sizes[i]);
            flip(object + sizes[i]);
            stook_free_any(object);
            SAID(1);
            /* With the size that it has now. */
            object = get(sizes[i]);
            object = stook_krealloc(object, sizes[i] + 1, 0);
            assert_int_equal(stook_usable_size(object), sizes[i] + 1);
            flip(object + sizes[i]);
            object = stook_krealloc(object, sizes[i] - 1, 0);
            SAID(0);
            flip(object + sizes[i]);
            stook_free_any(object);
            SAID(1);
        }
}

TEST(aligned)
{
    for (size_t size = 8; size <= 8192; size *= 2) {
        unsigned char *object = get(size);
        assert_int_equal((uintptr_t)object % size, 0);
        assert_int_equal(stook_usable_size(object), size);
        stook_free_any(object);
    }
    SAID(0);
}

/* Whole pages: a byte behind what was asked for, and the mark at the pages' end. */
TEST(pages)
{
    for
        EACH(i, large)
        {
            unsigned char *object = get(large[i]);
            assert_int_equal(stook_usable_size(object), large[i]);
            stook_free_any(object);
            SAID(0);
            object = get(large[i]);
            flip(object + large[i]);
            stook_free_any(object);
            SAID(1);
            object = get(large[i]);
            object = stook_krealloc(object, large[i] * 2, 0);
            assert_non_null(object);
            flip(object + large[i]);
            flip(object + large[i] * 2 - 1);
            stook_free_any(object);
            SAID(0);
        }
}

/* A size that is not the one that was asked for; 0 says nothing. */
TEST(sized)
{
    for
        EACH(i, sizes)
    for (size_t said = 0; said < 3; said++) {
        unsigned char *object = get(sizes[i]);
        stook_private_free(stook_cache_of(object), object, STOOK_PRIVATE_NEW,
                           said == 0   ? 0
                           : said == 1 ? sizes[i]
                                       : sizes[i] - 1,
                           0);
        SAID(said == 2);
    }
}

TEST(destroyed)
{
    struct stook_cache *cache = stook_cache_create("gone", 64, NULL);
    void *object = stook_alloc(cache, 0);

    assert_non_null(object);
    stook_free(cache, object);
    assert_int_equal(stook_cache_destroy(cache), 0);
    SAID(0);
    assert_null(stook_alloc(cache, 0));
    SAID(1);
    assert_int_equal(stook_cache_destroy(cache), -1);
    assert_int_equal(errno, EINVAL);
    SAID(1);
    stook_free(cache, object);
    SAID(1);
    for (unsigned i = 0; i < 200; i++) { /* only the last descriptors are kept */
        cache = stook_cache_create("goes", 64, NULL);
        assert_non_null(cache);
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
    SAID(0);
}

int main(int argc, char **argv)
{
    environment_need("STOOK_ON_CORRUPTION", "continue", argv);
    environment_need("STOOK_HARDEN", "quarantine", argv);
    stook_message_set(hear, NULL);
    return tests_run(NULL, NULL);
}
