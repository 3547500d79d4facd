/* SPDX-License-Identifier: MIT */
/* needs: native */
/* wrap: raw_call6 */
/*
 * Accounted objects where memory is short.  The n-th system call fails while accounted objects are allocated, for every n, and then all from it on.
 * The charge is that of the allocated objects, to the byte, and a call that fails charges nothing.
 * And where only small runs of pages are left, slabs of the least order have owners and tags too.
 */
#define STOOK_SITES /* file, function and line of every allocation */

#define MUST_FAILS abort()
#include "page/pagemap.h"
#include "slab/cache.h"
#include "support/faults.h"
#include "support/must.h"
#include "support/test.h"

#include <stook/group.h>
#include <stook/kmalloc.h>
#include <stook/stat.h>
#include <stook/stook.h>

#if FAULTS_POSSIBLE

enum { SIZE = 30000, BULK = 40, ROUNDS = 30, CALLS_MAX = 2000 };

static void *objects[BULK * ROUNDS + ROUNDS];
static struct stook_cache *cache;
static struct stook_group group;
static uint64_t charge;

static uint64_t usage(void)
{
    struct stook_group_stat stat = {.size = sizeof(stat)};

    MUST(stook_group_stat(group, &stat) == 0);
    return stat.usage;
}

/* Takes many, while calls from `at` on fail; whether one did. */
static bool take(unsigned at, unsigned length)
{
    struct stook_tag_stat stat = {.size = sizeof(stat)};
    unsigned n = 0, tag = 0, single = 0, failed = 0;

    fault_at = at;
    fault_length = length;
    fault_calls = fault_hits = 0;
    fault_off = false;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct stook_group previous = stook_group_enter(group);
        /* Without a site: told from the single calls by its file. */
        size_t got = (stook_alloc_bulk)(cache, 0, BULK, objects + n) == 0 ? BULK : 0;
        stook_group_leave(previous);
        MUST(got == BULK || (got == 0 && errno == ENOMEM));
        n += (unsigned)got;
        objects[n] = stook_alloc(cache, STOOK_NORECLAIM);
        MUST(objects[n] || errno == ENOMEM);
        failed += (got != BULK) + !objects[n];
        single += objects[n] != NULL;
        n += objects[n] != NULL;
    }
    fault_off = true;
    MUST(failed == 0 || fault_hits > 0);
    MUST(usage() == n * charge);
    for (unsigned i = 0; i < n; i++) {
        MUST(stook_group_of(objects[i]).id == group.id);
        MUST(stook_tag_of(objects[i]) != 0);
        tag = stook_tag_of(objects[i]);
        MUST(stook_tag_stat(tag, &stat) == 0);
        MUST(stat.live_objects == (stat.file ? single : n - single));
    }
    stook_free_bulk(cache, n, objects);
    MUST(usage() == 0);
    if (tag) {
        MUST(stook_tag_stat(tag, &stat) == 0);
        MUST(stat.live_objects == 0);
    }
    return fault_hits > 0;
}

enum { TINY = 16, TINIES = 1 << 21, LEAST = 1024 };

static void *tinies[TINIES];

/* Every second slab of single pages or so is free, and there are no larger runs. */
static void take_least(struct stook_cache *tiny, struct stook_cache *least)
{
    struct stook_tag_stat tag = {.size = sizeof(tag)};
    struct stook_stat stat = {.size = sizeof(stat)};
    unsigned site;
    size_t slab = (size_t)PAGE_SIZE << tiny->layout.order, n = 0, k = 0, had,
           most = sizeof(objects) / sizeof(objects[0]);

    fault_at = 1;
    fault_length = UINT32_MAX / 2;
    fault_calls = 0;
    fault_off = false;
    while (stook_kmalloc(1 << 21, STOOK_NORECLAIM)) /* whole blocks; the rest is in parts */
        ;
    while (n < TINIES && (tinies[n] = stook_alloc(tiny, STOOK_NORECLAIM)) != NULL)
        n++;
    MUST(n > 0 && n < TINIES);
    for (size_t i = 0; i < n; i++)
        if ((uintptr_t)tinies[i] / slab & 1)
            stook_free(tiny, tinies[i]);
    stook_cache_shrink(tiny);
    while (k < most && (objects[k] = stook_alloc(least, STOOK_NORECLAIM)) != NULL)
        memset(objects[k++], 0xff, LEAST);
    MUST(stook_cache_stat(least, &stat) == 0);
    MUST(k > 0 && stat.order_fallback > 0);
    had = usage() / k;
    MUST(usage() == k * had && had >= LEAST);
    for (size_t i = 0; i < k; i++)
        MUST(stook_group_of(objects[i]).id == group.id && stook_tag_of(objects[i]) != 0);
    site = stook_tag_of(objects[0]);
    MUST(stook_tag_stat(site, &tag) == 0);
    MUST(tag.live_objects == k && tag.live_bytes == usage());
    for (size_t i = 1; i < k; i++)
        stook_free(least, objects[i]);
    MUST(usage() == had);
    for (size_t i = 1; i < k && i < 20; i++) { /* once more, now from sheaves */
        MUST((objects[i] = stook_alloc(least, STOOK_NORECLAIM)) != NULL);
        MUST(stook_group_of(objects[i]).id == group.id && stook_tag_of(objects[i]) != 0);
    }
    for (size_t i = 1; i < k && i < 20; i++)
        stook_free(least, objects[i]);
    MUST(usage() == had);
    stook_free_bulk(least, 1, objects);
    MUST(usage() == 0);
    MUST(stook_tag_stat(site, &tag) == 0);
    MUST(tag.live_objects == 0 && tag.live_bytes == 0);
}

/* In a child of its own: what is mapped stays. */
static bool attempt(unsigned at, unsigned length)
{
    int status;
    pid_t child = fork();

    if (child == 0)
        _exit(take(at, length) ? 0 : 1);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
    return WEXITSTATUS(status) == 0;
}

TEST(test_every_call_fails)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    unsigned hits = 0, at;
    void *one;

    assert_int_equal(stook_tags_enable(NULL, 1), 0);
    group = stook_group_create("payer", STOOK_NO_GROUP, STOOK_UNLIMITED);
    assert_int_not_equal(group.id, 0);
    (void)stook_group_enter(group);
    cache = stook_cache_create("accounted", SIZE, &args);
    assert_non_null(cache);
    one = stook_alloc(cache, 0); /* what is mapped once, for tags and stocks, is there */
    assert_non_null(one);
    charge = usage();
    stook_free(cache, one);
    for (at = 1; at < CALLS_MAX && attempt(at, 1); at++)
        hits++;
    assert_in_range(hits, 3, CALLS_MAX - 2);
    for (unsigned from = 1; from <= hits; from += hits / 10 + 1)
        /* Fewer calls are made by a child that stays on CPUs that were used before. */
        assert_true(attempt(from, UINT32_MAX / 2) || from > 1);
    stook_group_leave(STOOK_NO_GROUP);
    assert_int_equal(stook_group_destroy(group), 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

TEST(test_least_order)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_NOSHEAF};
    struct stook_cache *tiny = stook_cache_create("tiny", TINY, &args), *least;
    int status;
    pid_t child;

    args.flags = STOOK_CACHE_ACCOUNT;
    least = stook_cache_create("least", LEAST, &args);
    group = stook_group_create("payer", STOOK_NO_GROUP, STOOK_UNLIMITED);
    assert_true(tiny && least && group.id);
    (void)stook_group_enter(group);
    assert_int_equal(stook_cache_stat_enable(least, STOOK_STATS_SLOW), 0);
    stook_free(least, stook_alloc(least, 0));
    child = fork();
    if (child == 0) {
        take_least(tiny, least);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    stook_group_leave(STOOK_NO_GROUP);
    assert_int_equal(stook_group_destroy(group), 0);
    assert_int_equal(stook_cache_destroy(tiny), 0);
    assert_int_equal(stook_cache_destroy(least), 0);
}
#endif
