/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/*
 * A freed object of a cache with a quarantine stays filled when it has left the queue.  A write to it is found when it is
 * allocated again, wherever it was meanwhile, or when its slab is freed.  The program continues after a report, so that
 * reports can be counted.
 */
#include "harden/canary.h"
#include "harden/quarantine.h"
#include "reserve/prefilled.h"

#include "support/environment.h"
#include "support/stay.h"
#include "support/heard.h"
#include "support/test.h"

#include <stook/debug.h>
#include <stook/reserve.h>
#include <stook/stook.h>

enum { MOST = 4000 };

static void construct(void *object, void *arg)
{
    *(unsigned *)object = 0x12345678;
}

static struct stook_cache *make(size_t size, unsigned flags, void (*ctor)(void *, void *))
{
    struct stook_cache_args args = {
        .size = sizeof(args), .flags = STOOK_CACHE_QUARANTINE | flags, .ctor = ctor};
    struct stook_cache *cache = stook_cache_create("filled", size, &args);

    assert_non_null(cache);
    return cache;
}

static unsigned char *take(struct stook_cache *cache)
{
    unsigned char *object = stook_alloc(cache, 0);

    assert_non_null(object);
    return object;
}

static const size_t sizes[] = {8, 16, 40, 200, 1000, 4096, 20000};
#define EACH(i, array) (size_t i = 0; i < sizeof(array) / sizeof((array)[0]); i++)

static bool is_held(const void *object)
{
    for (unsigned cpu = 0; cpu < 4096; cpu++)
        for (uint32_t n = 0; quarantine_held(cpu, n); n++)
            if (quarantine_held(cpu, n) == object)
                return true;
    return false;
}

/* Frees objects of another cache until this one has left the queue.  It lies in a sheaf then, or in its slab. */
static void let_leave(struct stook_cache *others, const void *object)
{
    for (unsigned i = 0; i < 100 && is_held(object); i++)
        stook_free(others, take(others));
    assert_false(is_held(object));
}

/* Takes objects until the cache has made a new slab: the object was among those that it had, and is handed out or
 * lost. */
static bool comes_again(struct stook_cache *cache, const void *object)
{
    static void *taken[MOST];
    uint32_t n = 0, most = cache->layout.objects * 2 + 300;
    bool came = false;

    if (most > MOST)
        most = MOST;
    for (; n < most; n++)
        came |= (taken[n] = take(cache)) == object;
    while (n > 0)
        stook_free(cache, taken[--n]);
    return came;
}

enum where { SHEAF, SLAB, BULK, WHERES };

/* Of objects that are written to at the first, a middle and the last byte one report is made, and they are lost. */
TEST(handed_out)
{
    struct stook_cache *others = make(30000, 0, NULL);
    cpu_set_t had;

    stay_begin(&had);
    for
        EACH(i, sizes)
    for (unsigned where = 0; where < WHERES; where++)
        for (unsigned wrong = 0; wrong < 2; wrong++) {
            struct stook_cache *cache =
                make(sizes[i], where == SLAB ? STOOK_CACHE_ZERO_ON_FREE : 0, NULL);
            unsigned char *object = take(cache), *other = take(cache);
            void *many[200];
            stook_free(cache, object);
            if (where == SLAB)
                (void)stook_cache_shrink(cache);
            else
                let_leave(others, object);
            SAID(0);
            if (wrong)
                object[where == SHEAF ? 0 : where == SLAB ? sizes[i] / 2 : sizes[i] - 1] ^= 0x10;
            if (where == BULK) {
                bool came = false;
                assert_int_equal(stook_alloc_bulk(cache, 0, 200, many), 0);
                for (unsigned k = 0; k < 200; k++)
                    came |= many[k] == object;
                assert_int_equal(came, !wrong);
                stook_free_bulk(cache, 200, many);
            } else {
                assert_int_equal(comes_again(cache, object), !wrong);
            }
            SAID(wrong);
            stook_free(cache, other);
            assert_int_equal(stook_cache_destroy(cache), wrong ? -1 : 0);
            heard = 0;
        }
    stay_end(&had);
    assert_int_equal(stook_cache_destroy(others), 0);
}

/* The bytes behind a freed object belong to it: an overrun of the one before is found, too. */
TEST(behind)
{
    struct stook_cache *others = make(30000, 0, NULL), *cache = make(56, 0, NULL);
    unsigned char *object = take(cache), *other = take(cache);
    cpu_set_t had;

    stay_begin(&had);
    stook_free(cache, object);
    let_leave(others, object);
    object[56 + CACHE_CANARY - 1] ^= 1;
    assert_false(comes_again(cache, object));
    SAID(1);
    stook_free(cache, other);
    assert_int_equal(stook_cache_destroy(cache), -1);
    heard = 0;
    stay_end(&had);
    assert_int_equal(stook_cache_destroy(others), 0);
}

/* All are free, and nothing takes them: the slab's going finds it. */
TEST(slab_goes)
{
    struct stook_cache *others = make(30000, 0, NULL);
    cpu_set_t had;

    stay_begin(&had);
    for
        EACH(i, sizes)
    for (unsigned wrong = 0; wrong < 3; wrong++) {
        struct stook_cache *cache = make(sizes[i], 0, NULL);
        unsigned char *first = take(cache), *object = take(cache);
        stook_free(cache, first);
        stook_free(cache, object);
        let_leave(others, object);
        for (unsigned k = 0; k < wrong; k++)
            (k == 0 ? object : first)[sizes[i] / 2] = 0;
        SAID(0);
        (void)stook_cache_shrink(cache);
        SAID(wrong);
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
    stay_end(&had);
    assert_int_equal(stook_cache_destroy(others), 0);
    SAID(0);
}

/* A reserve has no other object: it is reported and handed out, and is like others then. */
TEST(reserved)
{
    static void *all[MOST];
    struct stook_cache *cache = make(200, 0, NULL);
    uint32_t slab = cache->layout.objects;
    unsigned char *object, *stays;
    struct stook_sheaf *sheaf;
    struct stook_pool *pool;
    void *objects[10];

    assert_true(slab <= MOST && stook_alloc_bulk(cache, 0, slab, all) == 0);
    stays = take(cache);
    stook_free_bulk(cache, slab - 10, all + 10);
    (void)stook_cache_shrink(cache); /* objects that were used before: partial slabs come first */
    sheaf = stook_sheaf_prefill(cache, 0, 10);
    assert_non_null(sheaf);
    for (unsigned i = 0; i < 10; i++)
        objects[i] = stook_sheaf_alloc(cache, 0, sheaf);
    SAID(0);
    stook_free_bulk(cache, 10, objects);
    (void)stook_cache_shrink(cache);
    assert_int_equal(stook_sheaf_refill(cache, 0, &sheaf, 10), 0);
    object =
        prefilled_of(cache, sheaf)->object[prefilled_of(cache, sheaf)->size - 1]; /* the next */
    assert_int_equal(object[199], CANARY_FILLING);
    object[7] ^= 1;
    for (unsigned i = 0; i < 10; i++)
        objects[i] = stook_sheaf_alloc(cache, 0, sheaf);
    SAID(1);
    stook_sheaf_return(cache, sheaf);
    stook_free_bulk(cache, 10, objects);
    stook_free_bulk(cache, 10, all);
    stook_free(cache, stays);
    SAID(0);
    pool = stook_pool_create(cache, 4);
    assert_non_null(pool);
    for (unsigned i = 0; i < 1000; i++) {
        object = stook_pool_alloc(pool, 0, NULL);
        memset(object, 0xee, 200);
        stook_pool_free(pool, object);
    }
    stook_pool_destroy(pool);
    assert_int_equal(stook_cache_destroy(cache), 0);
    SAID(0);
}

/* It is the program's what lies in constructed and type-stable objects. */
TEST(kept)
{
    struct stook_cache *others = make(30000, 0, NULL), *cache = make(64, 0, construct);
    cpu_set_t had;

    stay_begin(&had);
    for (unsigned i = 0; i < 3; i++) {
        unsigned char *object = take(cache);
        stook_free(cache, object);
        let_leave(others, object);
        object[20] = (unsigned char)i;
        if (i == 0)
            (void)stook_cache_shrink(cache);
        else
            assert_true(comes_again(cache, object));
    }
    SAID(0);
    stay_end(&had);
    assert_int_equal(stook_cache_destroy(cache), 0);
    assert_int_equal(stook_cache_destroy(others), 0);
}

int main(int argc, char **argv)
{
    environment_need("STOOK_ON_CORRUPTION", "continue", argv);
    stook_message_set(hear, NULL);
    return tests_run(NULL, NULL);
}
