/* SPDX-License-Identifier: MIT */
/*
 * Typed caches of objects above 256 KiB: all that smaller ones have but sheaves, and nothing stays when all are freed.
 */
#include "support/test.h"

#include <stook/group.h>
#include <stook/stat.h>
#include <stook/stook.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { OBJECTS = 9, BULK = 4 };

static const size_t sizes[] = {(256 << 10) + 1, 300000,        1 << 20, (1 << 20) + 17,
                               2 << 20,         (2 << 20) + 1, 3 << 20, STOOK_OBJECT_SIZE_MAX};

static void fill(char *object, size_t size, unsigned i)
{
    memset(object, (int)i + 1, size);
}

static void check(const char *object, size_t size, unsigned i)
{
    for (size_t at = 0; at < size; at += at < size - 1 && size - 1 - at < 4096 ? 1 : 511)
        assert_int_equal(object[at], i + 1);
}

static int count(void *object, void *arg)
{
    assert_non_null(object);
    ++*(unsigned *)arg;
    return 0;
}

static struct stook_cache_usage usage_of(struct stook_cache *cache)
{
    struct stook_cache_usage usage = {.size = sizeof(usage)};

    assert_int_equal(stook_cache_usage(cache, &usage), 0);
    return usage;
}

TEST(allocated_and_freed)
{
    for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (size_t align = 8; align <= STOOK_ALIGN_MAX; align *= 8) {
            struct stook_cache_args args = {.size = sizeof(args), .align = align};
            struct stook_cache *cache = stook_cache_create("large", sizes[s], &args);
            void *objects[OBJECTS + BULK];
            unsigned walked = 0;
            assert_non_null(cache);
            assert_int_equal(stook_cache_object_size(cache), sizes[s]);
            for (unsigned i = 0; i < OBJECTS; i++) {
                objects[i] = stook_alloc(cache, i % 2 ? STOOK_ZERO : 0);
                assert_non_null(objects[i]);
                assert_int_equal((uintptr_t)objects[i] % align, 0);
                for (size_t at = 0; i % 2 && at < sizes[s]; at += 509)
                    assert_int_equal(((char *)objects[i])[at], 0);
                fill(objects[i], sizes[s], i);
            }
            assert_int_equal(stook_alloc_bulk(cache, 0, BULK, &objects[OBJECTS]), 0);
            for (unsigned i = 0; i < OBJECTS + BULK; i++) {
                if (i >= OBJECTS)
                    fill(objects[i], sizes[s], i);
                assert_ptr_equal(stook_cache_of(objects[i]), cache);
                assert_true(stook_usable_size(objects[i]) >= sizes[s]);
                check(objects[i], sizes[s], i);
            }
            assert_int_equal(stook_cache_walk(cache, count, &walked), 0);
            assert_int_equal(walked, OBJECTS + BULK);
            assert_int_equal(usage_of(cache).in_use, OBJECTS + BULK);
            assert_int_equal(usage_of(cache).capacity, 0);
            assert_int_equal(stook_cache_destroy(cache), -1); /* they are out */
            assert_int_equal(errno, EBUSY);
            stook_free_bulk(cache, 5, objects);
            for (unsigned i = 5; i < OBJECTS + BULK; i++)
                stook_free_any(objects[i]);
            assert_int_equal(usage_of(cache).in_use, 0);
            assert_int_equal(usage_of(cache).cached, 0);
            if (!getenv("STOOK_DEBUG"))
                assert_int_equal(usage_of(cache).bytes, 0); /* nothing is kept */
            assert_int_equal(stook_cache_destroy(cache), 0);
        }
    }
}

static unsigned constructed;

static void construct(void *object, void *arg)
{
    memset(object, 0x5c, *(size_t *)arg);
    constructed++;
}

static void destroy(void *object, void *arg)
{
    assert_int_equal(((char *)object)[*(size_t *)arg - 1], 0x5c);
    constructed--;
}

TEST(constructed_and_charged)
{
    size_t size = 600000;
    struct stook_cache_args args = {
        .size = sizeof(args), .ctor = construct, .dtor = destroy, .arg = &size};
    struct stook_group group = stook_group_create("limited", STOOK_NO_GROUP, 2 << 20);
    struct stook_alloc_args charge = {.size = sizeof(charge), .group = &group};
    struct stook_cache *cache = stook_cache_create("constructed", size, &args), *charged;
    void *objects[3];

    assert_non_null(cache);
    for (unsigned i = 0; i < 3; i++) {
        objects[i] = stook_alloc(cache, 0);
        assert_non_null(objects[i]);
        assert_int_equal(((char *)objects[i])[size - 1], 0x5c);
    }
    assert_true(constructed >= 3);
    stook_free_bulk(cache, 3, objects);
    assert_int_equal(stook_cache_destroy(cache), 0);
    assert_int_equal(constructed, 0);

    args = (struct stook_cache_args){.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    charged = stook_cache_create("charged", size, &args);
    assert_true(charged && !stook_group_is_none(group));
    for (unsigned i = 0; i < 3; i++)
        assert_non_null(objects[i] = stook_alloc_with(charged, 0, &charge));
    assert_null(stook_alloc_with(charged, 0, &charge)); /* a fourth is beyond 2 MiB */
    assert_int_equal(errno, EDQUOT);
    for (unsigned i = 0; i < 3; i++)
        stook_free(charged, objects[i]);
    assert_int_equal(stook_cache_destroy(charged), 0);
    assert_int_equal(stook_group_destroy(group), 0);
}

TEST(limits)
{
    struct stook_cache_args args = {.size = sizeof(args), .slab_bytes_max = 4 << 20};
    struct stook_cache *cache = stook_cache_create("limited", 1 << 20, &args);
    void *objects[5];

    for (unsigned i = 0; i < 5; i++)
        objects[i] = stook_alloc(cache, 0);
    if (!getenv("STOOK_DEBUG")) { /* with which a slab has fewer objects */
        assert_non_null(objects[3]);
        assert_null(objects[4]);
    }
    for (unsigned i = 0; i < 5; i++)
        if (objects[i])
            stook_free(cache, objects[i]);
    assert_int_equal(stook_cache_destroy(cache), 0);
    assert_null(stook_cache_create("larger", (size_t)STOOK_OBJECT_SIZE_MAX + 1, NULL));
    assert_int_equal(errno, E2BIG);
}

/* Tags and counters of a cache as of any other: what is allocated, by which call, and what is freed. */
TEST(counted)
{
    struct stook_cache *cache = stook_cache_create("counted", 3 << 20, NULL);
    struct stook_stat stat = {.size = sizeof(stat)};
    struct stook_tag_stat site = {.size = sizeof(site)};
    void *objects[4];
    unsigned tag;

    assert_non_null(cache);
    assert_int_equal(stook_tags_enable(cache, 1), 0);
    assert_int_equal(stook_cache_stat_enable(cache, STOOK_STATS_ALL), 0);
    for (unsigned i = 0; i < 4; i++)
        assert_non_null(objects[i] = stook_alloc(cache, 0));
    tag = stook_tag_of(objects[0]);
    assert_true(tag != 0 && stook_tag_of(objects[3]) == tag);
    assert_int_equal(stook_tag_stat(tag, &site), 0);
    assert_int_equal(site.live_objects, 4);
    assert_true(site.live_bytes >= (size_t)4 * (3 << 20));
    stook_free_bulk(cache, 4, objects);
    assert_int_equal(stook_tag_stat(tag, &site), 0);
    assert_int_equal(site.live_objects, 0);
    assert_int_equal(site.total_objects, 4);
    assert_int_equal(stook_cache_stat(cache, &stat), 0);
    if (!getenv("STOOK_DEBUG"))
        assert_true(stat.alloc_slab == 4 && stat.free_slab == 4);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

static atomic_bool stop;
static atomic_uint done, failed;

static void *allocate(void *arg)
{
    while (!atomic_load(&stop)) {
        char *object = stook_alloc(arg, 0);
        atomic_fetch_add(object ? &done : &failed, 1);
        if (object)
            object[STOOK_OBJECT_SIZE_MAX - 1] = 1;
        stook_free(arg, object);
    }
    return NULL;
}

/* A thread allocates while others fork: it waits for the fork, and the child has what it needs. */
TEST(beside_forks)
{
    struct stook_cache *cache = stook_cache_create("forked", STOOK_OBJECT_SIZE_MAX, NULL);
    char *mine = stook_alloc(cache, 0);
    pthread_t thread;

    assert_non_null(mine);
    fill(mine, STOOK_OBJECT_SIZE_MAX, 1);
    assert_int_equal(pthread_create(&thread, NULL, allocate, cache), 0);
    for (unsigned i = 0; i < 50; i++) {
        unsigned before = atomic_load(&done);
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            char *object = stook_alloc(cache, STOOK_ZERO);
            bool whole = object && object[STOOK_OBJECT_SIZE_MAX - 1] == 0 && object != mine &&
                         mine[STOOK_OBJECT_SIZE_MAX - 1] == 2;
            stook_free(cache, object);
            stook_free(cache, mine);
            _exit(whole ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        while (atomic_load(&done) == before && atomic_load(&failed) == 0)
            ;
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&failed), 0);
    check(mine, STOOK_OBJECT_SIZE_MAX, 1);
    stook_free(cache, mine);
    assert_int_equal(stook_cache_destroy(cache), 0);
}
