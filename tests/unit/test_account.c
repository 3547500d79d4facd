/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/*
 * Owners and tags of objects through every call that allocates or frees one: the group that is charged, the site
 * that has it, and that all charges are returned to the byte.  One thread; the property tests of groups and of tags
 * have several.
 */
#define STOOK_SITES /* file, function and line of every allocation */

#include "charge/account.h"
#include "page/arena.h"
#include "kmalloc/private.h"
#include "slab/column.h"
#include "support/test.h"
#include "support/tagged.h"
#include "support/with.h"

#include <sched.h>
#include <stook/group.h>
#include <stook/inline.h>
#include <stook/kmalloc.h>
#include <stook/reserve.h>
#include <stook/rcu.h>
#include <stook/stat.h>
#include <stook/stook.h>

enum { N = 100, MANY = 3000 };

static struct stook_group group, other;
static void *objects[MANY];

static struct stook_cache *make(const char *name, size_t size, size_t align, unsigned flags)
{
    struct stook_cache_args args = {.size = sizeof(args), .align = align, .flags = flags};
    struct stook_cache *cache = stook_cache_create(name, size, &args);

    assert_non_null(cache);
    return cache;
}

static uint64_t usage(struct stook_group of)
{
    struct stook_group_stat stat = {.size = sizeof(stat)};

    assert_int_equal(stook_group_stat(of, &stat), 0);
    return stat.usage;
}

static struct stook_tag_stat stat_of(unsigned tag)
{
    struct stook_tag_stat stat = {.size = sizeof(stat)};

    assert_true(tag != 0);
    assert_int_equal(stook_tag_stat(tag, &stat), 0);
    return stat;
}

/* The object is of `group`, and of a site in this file (line 0: known by its address). */
static void check_object(const void *object, unsigned line)
{
    struct stook_tag_stat stat = stat_of(stook_tag_of(object));

    assert_int_equal(stook_group_of(object).id, group.id);
    assert_true(stat.live_objects > 0);
    if (line == 0) {
        assert_true(stat.address != 0);
        return;
    }
    assert_non_null(strstr(stat.file, "test_account.c"));
    assert_int_equal(stat.line, line);
}

static int setup(void **unused)
{
    group = stook_group_create("payer", STOOK_NO_GROUP, STOOK_UNLIMITED);
    other = stook_group_create("other", STOOK_NO_GROUP, STOOK_UNLIMITED);
    if (!group.id || !other.id || stook_tags_enable(NULL, 1))
        return -1;
    (void)stook_group_enter(group);
    return 0;
}

static int teardown(void **unused)
{
    stook_group_leave(STOOK_NO_GROUP);
    assert_int_equal(usage(group), 0);
    assert_int_equal(usage(other), 0);
    assert_int_equal(stook_group_destroy(group), 0);
    assert_int_equal(stook_group_destroy(other), 0);
    return stook_tags_enable(NULL, 0);
}

/* ---- every call ----------------------------------------------------------------------------- */

/* One of each call that takes one object; how many. */
static unsigned take_each(struct stook_cache *cache)
{
    unsigned n = 0;

    objects[n++] = stook_alloc(cache, 0), check_object(objects[n - 1], __LINE__);
    objects[n++] = stook_alloc(cache, STOOK_ZERO), check_object(objects[n - 1], __LINE__);
    objects[n++] = stook_alloc(cache, STOOK_SIGNAL_SAFE), check_object(objects[n - 1], __LINE__);
    objects[n++] = stook_alloc_inline(cache, 0), check_object(objects[n - 1], __LINE__);
    objects[n++] = (stook_alloc)(cache, 0), check_object(objects[n - 1], 0);
    objects[n++] = alloc_with_group(cache, 0, group), check_object(objects[n - 1], 0);
    objects[n++] = alloc_with_node(cache, 0, -1), check_object(objects[n - 1], 0);
    objects[n++] = alloc_with_node(cache, 0, 0), check_object(objects[n - 1], 0);
    return n;
}

TEST_WITH(test_single, setup, teardown)
{
    struct stook_cache *cache = make("single", 992, 64, STOOK_CACHE_ACCOUNT);
    unsigned n, tag;
    uint64_t calls;

    for (int round = 0; round < 3; round++) { /* empty sheaves first, then what came back */
        n = take_each(cache);
        for (unsigned i = 0; i < 992; i++)
            assert_int_equal(((char *)objects[1])[i], 0);
        assert_int_equal(usage(group), (uint64_t)n * cache->account.charge);
        for (unsigned i = 0; i < n; i++) {
            memset(objects[i], 0xff, 992); /* its columns are not in its way */
            assert_int_equal(stook_group_of(objects[i]).id, group.id);
        }
        tag = stook_tag_of(objects[0]);
        calls = stat_of(tag).total_objects;
        assert_int_equal(calls, (uint64_t)round + 1);
        stook_free(cache, objects[0]);
        assert_int_equal(stat_of(tag).live_objects, 0);
        assert_int_equal(stat_of(tag).total_objects, calls);
        stook_free_any(objects[1]);
        stook_free_inline(cache, objects[2]);
        tag = stook_tag_of(objects[4]);
        stook_free(cache, objects[4]);
        objects[4] = NULL;
        stook_free_bulk(cache, n - 3, objects + 3);
        assert_int_equal(stat_of(tag).live_objects, 0);
        assert_int_equal(usage(group), 0);
        stook_free(cache, NULL);
    }
    assert_int_equal(stook_cache_destroy(cache), 0);
}

TEST_WITH(test_bulk, setup, teardown)
{
    struct stook_cache *cache = make("bulk", 200, 0, STOOK_CACHE_ACCOUNT);
    struct stook_group previous;
    unsigned tag;

    assert_int_equal(stook_alloc_bulk(cache, 0, N, objects), 0);
    for (unsigned i = 0; i < N; i++)
        check_object(objects[i], __LINE__ - 2);
    tag = stook_tag_of(objects[0]);
    assert_int_equal(stat_of(tag).live_objects, N);
    assert_int_equal(stat_of(tag).live_bytes, (uint64_t)N * cache->account.charge);
    previous = stook_group_enter(other);
    assert_int_equal(stook_alloc_bulk(cache, STOOK_ZERO, N, objects + N), 0);
    stook_group_leave(previous);
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(stook_group_of(objects[N + i]).id, other.id);
    assert_int_equal(usage(group), (uint64_t)N * cache->account.charge);
    assert_int_equal(usage(other), (uint64_t)N * cache->account.charge);
    /* Neighbours of different groups and slabs, in one call. */
    for (unsigned i = 0; i < N; i += 2) {
        void *swap = objects[i];
        objects[i] = objects[N + i];
        objects[N + i] = swap;
    }
    stook_free_bulk(cache, N, objects);
    assert_int_equal(usage(group), (uint64_t)N / 2 * cache->account.charge);
    assert_int_equal(usage(other), (uint64_t)N / 2 * cache->account.charge);
    assert_int_equal(stat_of(tag).live_objects, N / 2);
    stook_free_bulk(cache, N, objects + N);
    assert_int_equal(stat_of(tag).live_objects, 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* A call that fails charges nothing, and NULL in place of a group charges no group. */
TEST_WITH(test_refused, setup, teardown)
{
    struct stook_cache *cache = make("refused", 256, 0, STOOK_CACHE_ACCOUNT);
    void *object;

    errno = 0;
    assert_null(stook_alloc(cache, 1u << 20));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(stook_alloc_bulk(cache, 1u << 20, 3, objects), -1);
    object = alloc_with_group(cache, 0, STOOK_NO_GROUP);
    assert_non_null(object);
    assert_int_equal(stook_group_of(object).id, 0);
    assert_int_equal(usage(group), 0);
    stook_free(cache, object);

    assert_int_equal(stook_group_set_limit(group, 3 * (size_t)cache->account.charge), 0);
    for (int i = 0; i < 3; i++)
        assert_non_null(objects[i] = stook_alloc(cache, 0));
    errno = 0;
    assert_null(stook_alloc(cache, 0));
    assert_int_equal(errno, EDQUOT);
    errno = 0;
    assert_int_equal(stook_alloc_bulk(cache, 0, 2, objects + 3), -1);
    assert_int_equal(errno, EDQUOT);
    assert_int_equal(usage(group), 3 * (uint64_t)cache->account.charge);
    stook_free(cache, objects[2]);
    assert_non_null(objects[2] = stook_alloc(cache, 0)); /* there is room again, to the byte */
    stook_free_bulk(cache, 3, objects);
    assert_int_equal(stook_group_set_limit(group, STOOK_UNLIMITED), 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* While all calls are counted, they are charged as well. */
TEST_WITH(test_counted, setup, teardown)
{
    struct stook_cache *cache = make("counted", 256, 0, STOOK_CACHE_ACCOUNT);
    struct stook_stat stat = {.size = sizeof(stat)};
    unsigned n;

    assert_int_equal(stook_cache_stat_enable(cache, STOOK_STATS_ALL), 0);
    n = take_each(cache);
    assert_int_equal(usage(group), (uint64_t)n * cache->account.charge);
    stook_free_bulk(cache, n, objects);
    assert_int_equal(usage(group), 0);
    assert_int_equal(stook_cache_stat(cache, &stat), 0);
    assert_int_equal(stat.alloc_fastpath + stat.alloc_slowpath, n);
    assert_int_equal(stat.free_fastpath + stat.free_slowpath, n);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- reserves ------------------------------------------------------------------------------- */

/* The group of the thread that fills a sheaf is charged.  Allocating from it cannot fail, whatever the limit is by then. */
TEST_WITH(test_prefilled, setup, teardown)
{
    struct stook_cache *cache = make("prefilled", 256, 0, STOOK_CACHE_ACCOUNT);
    struct stook_sheaf *sheaf;
    unsigned size;
    void *object;

    assert_non_null(sheaf = stook_sheaf_prefill(cache, 0, 5));
    size = stook_sheaf_size(sheaf);
    assert_true(size >= 5);
    assert_int_equal(usage(group), (uint64_t)size * cache->account.charge);
    assert_int_equal(stook_group_set_limit(group, 1), 0);
    (void)stook_group_enter(other);
    object = stook_sheaf_alloc(cache, 0, sheaf);
    check_object(object, 0); /* of the filling thread, and of the allocating site */
    stook_group_leave(group);
    for (unsigned i = 1; i < 5; i++)
        assert_non_null(objects[i] = stook_sheaf_alloc(cache, 0, sheaf));
    assert_int_equal(usage(group), (uint64_t)size * cache->account.charge);
    assert_int_equal(usage(other), 0);
    errno = 0;
    assert_null(stook_sheaf_prefill(cache, 0, 5));
    assert_int_equal(errno, EDQUOT);
    assert_int_equal(stook_sheaf_refill(cache, 0, &sheaf, size + 10), -1);
    assert_int_equal(usage(group), (uint64_t)size * cache->account.charge);
    stook_sheaf_return(cache, sheaf);
    assert_int_equal(usage(group), 5 * (uint64_t)cache->account.charge);
    stook_free_bulk(cache, 4, objects + 1);
    stook_free(cache, object);
    assert_int_equal(usage(group), 0);

    /* At a limit it is filled no further than asked for. */
    assert_int_equal(stook_group_set_limit(group, 7 * (size_t)cache->account.charge), 0);
    assert_non_null(sheaf = stook_sheaf_prefill(cache, 0, 5));
    assert_true(stook_sheaf_size(sheaf) >= 5 && stook_sheaf_size(sheaf) <= 7);
    assert_int_equal(usage(group), (uint64_t)stook_sheaf_size(sheaf) * cache->account.charge);
    stook_sheaf_return(cache, sheaf);
    assert_int_equal(stook_group_set_limit(group, STOOK_UNLIMITED), 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* A reserve is charged to no group; the thread that allocates from it is. */
TEST_WITH(test_pool, setup, teardown)
{
    struct stook_cache *cache = make("pool", 256, 0, STOOK_CACHE_ACCOUNT);
    struct stook_pool *pool = stook_pool_create(cache, 8);
    unsigned tag;

    assert_non_null(pool);
    assert_int_equal(usage(group), 0);
    for (unsigned i = 0; i < 20; i++) {
        objects[i] = stook_pool_alloc(pool, 0, NULL);
        check_object(objects[i], 0);
    }
    tag = stook_tag_of(objects[0]);
    assert_int_equal(usage(group), 20 * (uint64_t)cache->account.charge);
    assert_int_equal(stat_of(tag).live_objects, 20);
    assert_int_equal(stook_group_set_limit(group, 20 * (size_t)cache->account.charge), 0);
    errno = 0;
    assert_null(stook_pool_alloc(pool, STOOK_NORECLAIM, NULL));
    assert_int_equal(errno, EDQUOT);
    for (unsigned i = 0; i < 20; i++)
        stook_pool_free(pool, objects[i]);
    assert_int_equal(usage(group), 0);
    assert_int_equal(stat_of(tag).live_objects, 0);
    assert_int_equal(stook_pool_available(pool), 8);
    assert_int_equal(stook_pool_destroy(pool), 0);
    assert_int_equal(usage(group), 0);
    assert_int_equal(stook_group_set_limit(group, STOOK_UNLIMITED), 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- deferred frees: an RCU whose grace periods end when the test says so -------------------- */

static struct stook_rcu_head *heads;

static void rcu_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    head->func = func;
    head->next = heads;
    heads = head;
}

static void rcu_pass(void)
{
    struct stook_rcu_head *head = heads, *next;

    for (heads = NULL; head; head = next) {
        next = head->next;
        head->func(head);
    }
}

static void rcu_nothing(void)
{
}

static const struct stook_rcu_ops rcu_ops = {sizeof(rcu_ops), rcu_call, rcu_pass, rcu_nothing,
                                             NULL};

/* An object that waits for readers is charged to no group. */
TEST_WITH(test_deferred, setup, teardown)
{
    struct stook_cache *cache = make("deferred", 256, 0, STOOK_CACHE_ACCOUNT);
    unsigned tag;

    assert_int_equal(stook_rcu_set_ops(&rcu_ops), 0);
    assert_int_equal(stook_alloc_bulk(cache, 0, N, objects), 0);
    tag = stook_tag_of(objects[0]);
    for (unsigned i = 0; i < N; i++) {
        stook_free_rcu(cache, objects[i]);
        assert_int_equal(usage(group), (uint64_t)(N - 1 - i) * cache->account.charge);
        assert_int_equal(stat_of(tag).live_objects, N - 1 - i);
    }
    stook_rcu_barrier();
    assert_int_equal(usage(group), 0);
    assert_int_equal(stook_alloc_bulk(cache, 0, N, objects), 0);
    assert_int_equal(usage(group), (uint64_t)N * cache->account.charge);
    stook_free_bulk(cache, N, objects);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- of any size ---------------------------------------------------------------------------- */

TEST_WITH(test_kmalloc, setup, teardown)
{
    static const size_t sizes[] = {1, 100, 4096, 100000, 3 << 20};
    unsigned tag = 0;

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct stook_tag_stat stat;
        void *object = stook_kmalloc(sizes[i], 0); /* one site for all */
        assert_non_null(object);
        assert_int_equal(stook_group_of(object).id, 0);
        stat = stat_of(stook_tag_of(object));
        assert_int_equal(stat.line, __LINE__ - 4);
        assert_true(stat.live_objects == 1 && stat.live_bytes >= sizes[i]);
        assert_true(tag == 0 || stook_tag_of(object) == tag);
        tag = stook_tag_of(object);
        object = stook_krealloc(object, sizes[i] * 3, 0);
        assert_non_null(object);
        stat = stat_of(stook_tag_of(object));
        assert_true(stat.live_bytes >= sizes[i] * 3);
        stook_free_any(object);
        assert_int_equal(stat_of(tag).live_objects, 0);
        assert_int_equal(stat_of(tag).live_bytes, 0);
    }
    for (int node = -1; node <= 0; node++) {
        void *object = kmalloc_with_node(3 << 20, 0, node);
        uint64_t here =
            (uint64_t)(uintptr_t)&test_kmalloc; /* the caller is the site, not the call */
        assert_non_null(object);
        assert_in_range(stat_of(stook_tag_of(object)).address, here, here + 8192);
        tag = stook_tag_of(object);
        assert_true(stat_of(tag).live_bytes >= 3 << 20);
        stook_free_any(object);
        assert_int_equal(stat_of(tag).live_objects, 0);
    }
}

/* ---- switching while objects live ------------------------------------------------------------ */

/* On one CPU: which objects come next depends on whose sheaves they are in. */
static void stay_here(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

/* Slabs from before have no room for tags; what went uncounted is put right when its place is used. */
TEST_WITH(test_switching, setup, teardown)
{
    struct stook_cache *cache;
    uint64_t tagged, total;
    unsigned first, had, tag;

    stay_here();
    assert_int_equal(stook_tags_enable(NULL, 0), 0);
    cache = make("switching", 256, 0, 0);
    assert_non_null(objects[0] = stook_alloc(cache, 0));
    tagged_bytes(cache, &tagged, &total);
    assert_true(tagged == 0 && total > 0);

    assert_int_equal(stook_tags_enable(cache, 1), 0);
    had = 1; /* the slab that there is already is used up first: its objects have no tags */
    do {
        assert_true(had < MANY);
        assert_non_null(objects[had++] = stook_alloc(cache, 0));
    } while (stook_tag_of(objects[had - 1]) == 0);
    tag = stook_tag_of(objects[had - 1]);
    assert_int_equal(stat_of(tag).live_objects, 1); /* only what will be counted off is counted */
    tagged_bytes(cache, &tagged, &total);
    assert_true(tagged > 0 && tagged < total);
    first = had - 1;
    for (unsigned i = 0; i < N; i++)
        assert_non_null(objects[had++] = stook_alloc(cache, 0));
    assert_true(stook_tag_of(objects[had - 1]) != 0 && stook_tag_of(objects[0]) == 0);

    tag = stook_tag_of(objects[had - 1]);
    assert_int_equal(stat_of(tag).live_objects, N);
    assert_int_equal(stook_tags_enable(cache, 0), 0);
    for (unsigned i = 0; i < N / 2; i++)
        stook_free(cache, objects[--had]); /* past the hooks: they stay counted */
    assert_int_equal(stat_of(tag).live_objects, N);
    assert_int_equal(stook_tags_enable(cache, 1), 0);
    while (stat_of(tag).live_objects > N - N / 2) {
        assert_true(had < MANY);
        assert_non_null(objects[had++] = stook_alloc(cache, 0));
    }
    assert_int_equal(stat_of(tag).live_objects, N - N / 2);
    stook_free_bulk(cache, had, objects);
    assert_int_equal(stat_of(tag).live_objects, 0);
    assert_int_equal(stat_of(tag).live_bytes, 0);
    assert_true(first > 0);

    for (had = 0; had < N; had++)
        assert_non_null(objects[had] = stook_alloc(cache, 0));
    tag = stook_tag_of(objects[0]);
    assert_int_equal(stat_of(tag).live_objects, N);
    assert_int_equal(stook_tags_enable(cache, 0), 0);
    while (had > 0)
        stook_free(cache, objects[--had]);
    assert_int_equal(stat_of(tag).live_objects, N);
    assert_int_equal(stook_cache_destroy(cache), 0); /* or when their slabs go */
    assert_int_equal(stat_of(tag).live_objects, 0);
    assert_int_equal(stook_tags_enable(NULL, 1), 0);
}

/* ---- caches --------------------------------------------------------------------------------- */

enum { CTOR_SIZE = 40 };

static unsigned constructed;

static void construct(void *object, void *arg)
{
    memset(object, 0x5a, CTOR_SIZE);
    constructed++;
}

/* What a constructor wrote stays, wherever owner and tag lie. */
TEST_WITH(test_constructed, setup, teardown)
{
    static const size_t aligns[] = {8, 16, 64};

    for (unsigned k = 0; k < 3; k++) {
        struct stook_cache_args args = {.size = sizeof(args),
                                        .align = aligns[k],
                                        .flags = STOOK_CACHE_ACCOUNT,
                                        .ctor = construct};
        struct stook_cache *cache = stook_cache_create("constructed", CTOR_SIZE, &args);
        assert_non_null(cache);
        for (int round = 0; round < 2; round++) {
            assert_int_equal(stook_alloc_bulk(cache, 0, MANY, objects), 0);
            for (unsigned i = 0; i < MANY; i++)
                for (unsigned b = 0; b < CTOR_SIZE; b++)
                    assert_int_equal(((unsigned char *)objects[i])[b], 0x5a);
            assert_int_equal(usage(group), (uint64_t)MANY * cache->account.charge);
            stook_free_bulk(cache, MANY, objects);
        }
        errno = 0;
        assert_null(stook_alloc(cache, STOOK_ZERO));
        assert_int_equal(errno, EINVAL);
        assert_int_equal(usage(group), 0);
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
}

/* An accounted cache of 992 bytes at 64 is laid out as one that is not. */
TEST_WITH(test_bytes, setup, teardown)
{
    struct stook_cache *off, *group_only, *both;

    assert_int_equal(stook_tags_enable(NULL, 0), 0);
    off = make("off", 992, 64, 0);
    group_only = make("group", 992, 64, STOOK_CACHE_ACCOUNT);
    assert_int_equal(stook_tags_enable(NULL, 1), 0);
    both = make("both", 992, 64, STOOK_CACHE_ACCOUNT);
    for (unsigned i = 0; i < 2; i++) {
        struct stook_cache *cache = i ? both : group_only;
        assert_int_equal(cache->layout.stride, off->layout.stride);
        assert_int_equal(cache->layout.order, off->layout.order);
        assert_int_equal(cache->layout.objects, off->layout.objects);
        assert_int_equal(column_meta(cache, SLAB_TAGGED), column_meta(off, 0));
        assert_int_equal(cache->account.charge, off->account.charge);
    }
    assert_int_equal(stook_cache_destroy(off), 0);
    assert_int_equal(stook_cache_destroy(group_only), 0);
    assert_int_equal(stook_cache_destroy(both), 0);
}

/* Slabs of the minimum order have their columns where these are there. */
TEST_WITH(test_least_order, setup, teardown)
{
    static const size_t sizes[] = {24, 200, 992, 5000};

    for (unsigned k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        struct stook_cache *cache = make("least", sizes[k], 8, STOOK_CACHE_ACCOUNT);
        struct layout layout = cache->layout;
        unsigned n = 2u * layout.min_objects < N ? 2u * layout.min_objects : N;
        assert_true(layout.min_order < layout.order && layout.min_objects > 0);
        /* As if there were no larger run of pages: the first choice is as small as the last. */
        for (uint32_t flags = SLAB_MIN; flags <= (SLAB_MIN | SLAB_TAGGED); flags += SLAB_TAGGED) {
            struct slab slab = {.state = slab_word(SLAB_NONE, 0, 0, flags), .page = 0};
            size_t meta = column_meta(cache, flags);
            size_t bytes = (size_t)PAGE_SIZE << layout.min_order;
            for (uint32_t i = 0; i < layout.min_objects; i++)
                for (int which = LAYOUT_GROUP; which <= LAYOUT_TAG; which++) {
                    char *at = (char *)column_at(cache, &slab, (enum layout_which)which, i);
                    if (!at) {
                        assert_true(which == LAYOUT_TAG && !(flags & SLAB_TAGGED));
                        continue;
                    }
                    if (layout.column[1][which].outside)
                        assert_true(at >= (char *)&slab + LAYOUT_DESCRIPTOR &&
                                    at + 8 <= (char *)&slab + meta);
                    else
                        assert_true(at >= slab_base(&slab) && at + 8 <= slab_base(&slab) + bytes);
                }
        }
        assert_int_equal(stook_alloc_bulk(cache, 0, n, objects), 0);
        stook_free_bulk(cache, n, objects);
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
}

/* ---- what is written over ------------------------------------------------------------------- */

static int overrun(void *arg)
{
    unsigned flags = arg ? STOOK_CACHE_ACCOUNT : 0;
    struct stook_cache *cache = make("overrun", 992, 64, flags);
    char *object = stook_alloc(cache, 0);

    memset(object + 992, 0x41, 32);
    stook_free(cache, object);
    return 0;
}

static int overrun_in_bulk(void *arg)
{
    struct stook_cache *cache = make("overrun", 992, 64, STOOK_CACHE_ACCOUNT);

    if (stook_alloc_bulk(cache, 0, 10, objects) != 0)
        return 1;
    memset((char *)objects[7] + 992, 0x41, 32);
    stook_free_bulk(cache, 10, objects);
    return 0;
}

static int interior(void *arg)
{
    struct stook_cache *cache = make("interior", 992, 64, STOOK_CACHE_ACCOUNT);

    if (stook_alloc_bulk(cache, 0, 10, objects) != 0)
        return 1;
    objects[7] = (char *)objects[7] + 64;
    if (arg)
        stook_free_bulk(cache, 10, objects);
    else
        stook_free(cache, objects[7]);
    return 0;
}

static int foreign(void *arg)
{
    struct stook_cache *cache = make("one", 992, 64, STOOK_CACHE_ACCOUNT);
    struct stook_cache *wrong = make("another", 992, 64, STOOK_CACHE_ACCOUNT);

    stook_free(wrong, stook_alloc(cache, 0));
    return 0;
}

TEST_WITH(test_reports, setup, teardown)
{
    static const struct {
        int (*body)(void *arg);
        int arg;
        const char *says;
    } cases[] = {
        {overrun, 1, "BUG overrun: corrupt owner"},
        {overrun, 0, "BUG overrun: corrupt tag"},
        {overrun_in_bulk, 0, "BUG overrun: corrupt owner"},
        {interior, 0, "is not the start of an object"},
        {interior, 1, "is not the start of an object"},
        {foreign, 0, "is of no slab of this cache"},
    };
    static struct child child;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int arg = cases[i].arg;
        child_run(&child, cases[i].body, arg ? &arg : NULL);
        assert_true(child_died_saying(&child, cases[i].says));
    }
}
