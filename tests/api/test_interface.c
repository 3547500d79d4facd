/* SPDX-License-Identifier: MIT */
/* Caches by name, by object and one after the other; walks over live objects; deadlines of pools; arrays;
 * messages; the version.  By the public headers alone. */
#include "support/test.h"

#include <stook/debug.h>
#include <stook/group.h>
#include <stook/inline.h>
#include <stook/kmalloc.h>
#include <stook/reserve.h>
#include <stook/rcu.h>
#include <stook/stat.h>
#include <stook/stook.h>

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { MOST = 3000 };

TEST(test_version)
{
    char text[40];

    snprintf(text, sizeof(text), "%u.%u.%u", STOOK_VERSION / 10000, STOOK_VERSION / 100 % 100,
             STOOK_VERSION % 100);
    assert_string_equal(stook_version(), text);
    assert_string_equal(stook_version(), STOOK_VERSION_STRING);
}

/* ---- names ---------------------------------------------------------------------------------- */

TEST(test_names)
{
    struct stook_cache *cache = stook_cache_create("by name", 72, NULL), *found;
    char long_name[200], *object;
    int here;

    assert_string_equal(stook_cache_name(cache), "by name");
    assert_ptr_equal(stook_cache_by_name("by name"), cache);
    errno = 0;
    assert_null(stook_cache_by_name("by"));
    assert_int_equal(errno, ENOENT);
    object = stook_alloc(cache, 0);
    assert_ptr_equal(stook_cache_of(object), cache);
    assert_ptr_equal(stook_cache_of(object + 71), cache);
    assert_null(stook_cache_of(&here));
    assert_null(stook_cache_of(NULL));
    stook_free(cache, object);
    assert_int_equal(stook_cache_destroy(cache), 0);
    assert_null(stook_cache_by_name("by name"));

    memset(long_name, 'x', sizeof(long_name));
    long_name[sizeof(long_name) - 1] = '\0';
    cache = stook_cache_create(long_name, 8, NULL);
    assert_int_equal(strlen(stook_cache_name(cache)), STOOK_NAME_MAX);
    found = stook_cache_by_name(long_name); /* as far as names are kept */
    assert_ptr_equal(found, cache);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- one after the other --------------------------------------------------------------------- */

struct seen {
    unsigned mine, all, enough;
};

static int see(struct stook_cache *cache, void *arg)
{
    struct seen *seen = arg;

    seen->all++;
    seen->mine += strncmp(stook_cache_name(cache), "each ", 5) == 0;
    return seen->enough && seen->all == seen->enough;
}

static atomic_bool stop;

static void *make_and_destroy(void *arg)
{
    while (!atomic_load(&stop)) {
        struct stook_cache *cache = stook_cache_create("passing", 200, NULL);
        void *object = stook_alloc(cache, 0);
        stook_free(cache, object);
        if (stook_cache_destroy(cache) != 0)
            abort();
    }
    return arg;
}

/* What fn has is a cache, whatever is destroyed meanwhile. */
static int use(struct stook_cache *cache, void *arg)
{
    unsigned *used = arg;

    if (strcmp(stook_cache_name(cache), "passing") == 0) {
        *used += 1;
        if (stook_cache_object_size(cache) != 200)
            abort();
        stook_cache_shrink(cache);
    }
    return 0;
}

TEST(test_each)
{
    struct stook_cache *cache[5];
    struct seen seen = {0}, few = {.enough = 2};
    unsigned used = 0;
    pthread_t thread;
    char name[20];

    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof(name), "each %d", i);
        cache[i] = stook_cache_create(name, 24, NULL);
    }
    assert_int_equal(stook_cache_each(see, &seen), 0);
    assert_int_equal(seen.mine, 5);
    assert_true(seen.all >= 5);
    assert_int_equal(stook_cache_each(see, &few), 0);
    assert_int_equal(few.all, 2);
    assert_int_equal(pthread_create(&thread, NULL, make_and_destroy, NULL), 0);
    for (unsigned i = 0; i < 1000000 && used < 30; i++)
        assert_int_equal(stook_cache_each(use, &used), 0);
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(used >= 30);
    for (int i = 0; i < 5; i++)
        assert_int_equal(stook_cache_destroy(cache[i]), 0);
}

/* ---- live objects ---------------------------------------------------------------------------- */

struct walked {
    struct stook_cache *frees; /* every object that is given, to this cache */
    unsigned n, most;
    void *object[MOST];
};

static int walked(void *object, void *arg)
{
    struct walked *w = arg;

    if (w->n == MOST)
        abort();
    w->object[w->n++] = object;
    if (w->frees)
        stook_free(w->frees, object);
    return w->most && w->n == w->most;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;

    return x < y ? -1 : x > y;
}

/* Exactly these, each once. */
static void expect_live(struct stook_cache *cache, void **live, unsigned n)
{
    static struct walked w;

    w = (struct walked){0};
    assert_int_equal(stook_cache_walk(cache, walked, &w), 0);
    assert_int_equal(w.n, n);
    qsort(live, n, sizeof(*live), by_address);
    qsort(w.object, n, sizeof(*live), by_address);
    assert_memory_equal(w.object, live, n * sizeof(*live));
}

/* With links behind objects, outside, in free objects and without sheaves; slabs full, part and empty. */
TEST(test_walk)
{
    static const struct {
        size_t size;
        unsigned flags;
    } kinds[] = {{8, 0},   {40, STOOK_CACHE_LINK_INSIDE}, {40, STOOK_CACHE_LINK_OUTSIDE},
                 {64, 0},  {64, STOOK_CACHE_RANDOM},      {200, STOOK_CACHE_NOSHEAF},
                 {3000, 0}};
    static void *live[MOST];
    static struct walked w;

    for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        struct stook_cache_args args = {.size = sizeof(args), .flags = kinds[k].flags};
        struct stook_cache *cache = stook_cache_create("walked", kinds[k].size, &args);
        unsigned n = 0, seed = k;
        assert_non_null(cache);
        expect_live(cache, live, 0);
        for (unsigned step = 0; step < 8000; step++) {
            seed = seed * 1664525 + 1013904223;
            if (n < MOST && (n == 0 || seed >> 16 & 3)) {
                assert_non_null(live[n++] = stook_alloc_inline(cache, 0));
            } else {
                unsigned which = (seed >> 8) % n;
                stook_free_inline(cache, live[which]);
                live[which] = live[--n];
            }
            if (step % 2000 == 1999)
                expect_live(cache, live, n);
        }
        /* Enough is enough. */
        w = (struct walked){.most = 7};
        assert_int_equal(stook_cache_walk(cache, walked, &w), 0);
        assert_int_equal(w.n, 7);
        /* Half of them go in bulk, the rest by the walk itself. */
        stook_free_bulk(cache, n / 2, live);
        memmove(live, live + n / 2, (n - n / 2) * sizeof(*live));
        n -= n / 2;
        expect_live(cache, live, n);
        w = (struct walked){.frees = cache};
        assert_int_equal(stook_cache_walk(cache, walked, &w), 0);
        assert_int_equal(w.n, n);
        expect_live(cache, live, 0);
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
}

/* What others hold in reserve is live; what is live all the time is given once, whatever others do. */
static void *churn(void *arg)
{
    struct stook_cache *cache = arg;
    void *object[100];

    while (!atomic_load(&stop)) {
        if (stook_alloc_bulk(cache, 0, 100, object) != 0)
            abort();
        stook_free_bulk(cache, 100, object);
    }
    return NULL;
}

struct among {
    void **live;
    unsigned n, found;
};

static int among(void *object, void *arg)
{
    struct among *a = arg;

    a->found += bsearch(&object, a->live, a->n, sizeof(*a->live), by_address) != NULL;
    return 0;
}

TEST(test_walk_beside)
{
    struct stook_cache *cache = stook_cache_create("beside", 96, NULL);
    struct stook_pool *pool = stook_pool_create(cache, 10);
    struct stook_sheaf *sheaf = stook_sheaf_prefill(cache, 0, 5);
    static void *live[500];
    struct among a = {live, 500, 0};
    unsigned reserve = 10 + stook_sheaf_size(sheaf);
    static struct walked w;
    pthread_t thread;

    w = (struct walked){0};
    assert_int_equal(stook_cache_walk(cache, walked, &w), 0);
    assert_int_equal(w.n, reserve);
    assert_int_equal(stook_alloc_bulk(cache, 0, 500, live), 0);
    qsort(live, 500, sizeof(*live), by_address);
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&thread, NULL, churn, cache), 0);
    for (int i = 0; i < 200; i++) {
        a.found = 0;
        assert_int_equal(stook_cache_walk(cache, among, &a), 0);
        assert_int_equal(a.found, 500);
    }
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    stook_free_bulk(cache, 500, live);
    stook_sheaf_return(cache, sheaf);
    assert_int_equal(stook_pool_destroy(pool), 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- nodes, arrays, deadlines ---------------------------------------------------------------- */

TEST(test_node_of)
{
    void *object = stook_kmalloc(100, 0), *pages = stook_kmalloc(1 << 20, 0);
    int here;

    assert_true(stook_node_of(object) >= 0);
    assert_true(stook_node_of(pages) >= 0);
    errno = 0;
    assert_int_equal(stook_node_of(&here), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(stook_node_of(NULL), -1);
    stook_free_any(object);
    stook_free_any(pages);
}

TEST(test_arrays)
{
    uint64_t *array = stook_kmalloc_array(10, sizeof(*array), STOOK_ZERO), *more;

    assert_non_null(array);
    assert_true(stook_usable_size(array) >= 80);
    for (int i = 0; i < 10; i++)
        assert_int_equal(array[i], 0);
    array[9] = 4711;
    errno = 0;
    assert_null(stook_kmalloc_array(SIZE_MAX / 8 + 1, 16, 0)); /* 8 bytes more than nothing */
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(stook_krealloc_array(array, SIZE_MAX / 4, 8, 0));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(array[9], 4711);
    more = stook_krealloc_array(array, 100000, sizeof(*array), 0);
    assert_non_null(more);
    assert_int_equal(more[9], 4711);
    stook_free_any(more);
    stook_free_any(NULL);
    stook_free_any(stook_kmalloc_array(0, 8, 0));
    assert_int_equal(stook_usable_size(NULL), 0);
}

TEST(test_bulk_of_nothing)
{
    struct stook_cache *cache = stook_cache_create("nothing", 40, NULL);

    assert_int_equal(stook_alloc_bulk(cache, 0, 0, NULL), 0);
    errno = 0;
    assert_int_equal(stook_alloc_bulk(cache, 0x80000000u, 1, (void *[1]){NULL}), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* n as of a negative number, or of bytes: no array has so many pointers, and nothing is stored. */
TEST(test_bulk_of_too_many)
{
    static const size_t many[] = {SIZE_MAX, SIZE_MAX - 65535, SIZE_MAX / sizeof(void *),
                                  (size_t)INT64_MIN, ((size_t)1 << 53) + 1};
    static const struct stook_cache_args account = {.size = sizeof(account),
                                                    .flags = STOOK_CACHE_ACCOUNT};
    struct stook_cache *plain = stook_cache_create("plain", 40, NULL);
    struct stook_cache *counted = stook_cache_create("counted", 40, &account);
    struct stook_alloc_args args = {.size = sizeof(args)};
    void *object[2] = {&object, &plain};

    for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++)
        for (unsigned kind = 0; kind < 4; kind++) {
            struct stook_cache *cache = kind % 2 ? counted : plain;
            errno = 0;
            assert_int_equal(kind < 2
                                 ? stook_alloc_bulk(cache, 0, many[i], object)
                                 : stook_alloc_bulk_with(cache, STOOK_ZERO, many[i], object, &args),
                             -1);
            assert_int_equal(errno, EINVAL);
            assert_true(object[0] == &object && object[1] == &plain);
        }
    assert_int_equal(stook_cache_destroy(plain), 0);
    assert_int_equal(stook_cache_destroy(counted), 0);
}

/* ---- arguments of an allocation --------------------------------------------------------------- */

static void *none(struct stook_cache *cache, unsigned flags)
{
    return flags & STOOK_NORECLAIM ? cache : NULL;
}

static void refuse_args(struct stook_cache *cache, unsigned flags,
                        const struct stook_alloc_args *args)
{
    errno = 0;
    assert_null(stook_alloc_with(cache, flags, args));
    assert_int_equal(errno, EINVAL);
}

TEST(test_with)
{
    struct stook_cache_args account = {.size = sizeof(account), .flags = STOOK_CACHE_ACCOUNT};
    struct stook_cache *cache = stook_cache_create("with", 40, &account);
    struct stook_group group = stook_group_create("with", STOOK_NO_GROUP, STOOK_UNLIMITED);
    struct stook_group nobody = STOOK_NO_GROUP, before = stook_group_enter(group);
    struct stook_alloc_args args = {.size = sizeof(args)};
    struct {
        struct stook_alloc_args args;
        uint64_t later;
    } newer = {.args = {.size = sizeof(newer), .group = &nobody}};
    void *object = stook_alloc_with(cache, 0, &args);

    assert_non_null(object);
    assert_true(stook_group_same(stook_group_of(object), group));
    stook_free(cache, object);
    assert_non_null(object = stook_alloc_with(cache, STOOK_ZERO, &newer.args));
    assert_true(stook_group_is_none(stook_group_of(object)));
    stook_free(cache, object);
    newer.later = 1; /* of a later version: not known here */
    refuse_args(cache, 0, &newer.args);
    args.align = 64; /* the cache says it */
    refuse_args(cache, 0, &args);
    args.align = 0;

    assert_non_null(object = stook_alloc_with(cache, STOOK_NODE, &args));
    stook_free(cache, object);
    args.node = 1 << 20;
    refuse_args(cache, STOOK_NODE, &args);
    refuse_args(cache, STOOK_THISNODE, &args);
    args.node = 0;
    args.fail = none;
    assert_ptr_equal(stook_alloc_with(cache, 0x8u | STOOK_NORECLAIM, &args), cache);
    refuse_args(cache, 0x8u, &args);
    assert_int_equal(stook_alloc_bulk_with(cache, 0, 1, &object, &args), -1);
    assert_null(stook_kmalloc_with(40, 0, &args));
    args.fail = NULL;
    args.group = &group;
    assert_null(stook_kmalloc_with(40, 0, &args));
    assert_int_equal(stook_alloc_bulk_with(cache, STOOK_NODE, 1, &object, &args), -1);
    assert_int_equal(stook_alloc_bulk_with(cache, 0, 1, &object, &args), 0);
    assert_true(stook_group_same(stook_group_of(object), group));
    stook_free(cache, object);

    stook_group_leave(before);
    assert_int_equal(stook_group_destroy(group), 0);
    refuse_args(cache, 0, &args);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* A deadline only matters where a thread would sleep: tests/unit/test_pool.c has those. */
TEST(test_deadline)
{
    struct stook_cache *cache = stook_cache_create("deadline", 40, NULL);
    struct stook_pool *pool = stook_pool_create(cache, 2);
    struct timespec past = {0, 0}, wrong = {0, 1000000000};
    void *object = stook_pool_alloc(pool, 0, &past);

    assert_non_null(object); /* there is one without waiting */
    stook_pool_free(pool, object);
    errno = 0;
    assert_null(stook_pool_alloc(pool, STOOK_ZERO, &wrong));
    assert_int_equal(errno, EINVAL);
    wrong.tv_nsec = -1;
    assert_null(stook_pool_alloc(pool, STOOK_ZERO, &wrong));
    assert_int_equal(stook_pool_destroy(pool), 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

#define REFUSED(call, result)                                                                      \
    do {                                                                                           \
        errno = 0;                                                                                 \
        if ((call) != (result) || errno != EINVAL)                                                 \
            fail_msg("%s is not refused: errno %d", #call, errno);                                 \
    } while (0)

/* Seen as long as no other cache has the descriptor.  Of a cache with debug flags it is reported: tests/death. */
TEST(use_after_destroy)
{
    struct stook_cache *cache = stook_cache_create("gone", 40, NULL);
    struct stook_cache_usage usage = {.size = sizeof(usage)};
    struct stook_alloc_args args = {.size = sizeof(args)};
    struct stook_stat stat = {.size = sizeof(stat)};
    static struct walked none;
    void *objects[2];

    if (getenv("STOOK_DEBUG"))
        skip();
    stook_free(cache, stook_alloc(cache, 0));
    assert_int_equal(stook_cache_destroy(cache), 0);
    refuse_args(cache, 0, &args);
    REFUSED(stook_alloc(cache, 0), NULL);
    REFUSED(stook_alloc_bulk(cache, 0, 2, objects), -1);
    REFUSED(stook_sheaf_prefill(cache, 0, 2), NULL);
    REFUSED(stook_pool_create(cache, 0), NULL);
    REFUSED(stook_pool_create(cache, 2), NULL);
    REFUSED(stook_cache_shrink(cache), 0);
    REFUSED(stook_cache_walk(cache, walked, &none), -1);
    REFUSED(stook_cache_validate(cache), -1);
    REFUSED(stook_cache_set_capacity(cache, 8), -1);
    REFUSED(stook_cache_stat(cache, &stat), -1);
    REFUSED(stook_cache_stat_enable(cache, STOOK_STATS_ALL), -1);
    REFUSED(stook_cache_usage(cache, &usage), -1);
    REFUSED(stook_cache_debug_set(cache, STOOK_CACHE_DEBUG_TRACE, 1), -1);
    REFUSED(stook_tags_enable(cache, 1), -1);
    REFUSED(stook_cache_destroy(cache), -1);
}

/* ---- structures that grow --------------------------------------------------------------------- */

static void never(void *object, void *arg)
{
    abort();
}

static void never_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    func(head);
}

static void never_wait(void)
{
    abort();
}

/* Every call that takes such a structure, with a size that is none. */
static void refuse_size(struct stook_cache *cache, void *object, size_t size)
{
    union {
        size_t size;
        struct stook_cache_args args;
        struct stook_stat stat;
        struct stook_cache_usage usage;
        struct stook_group_stat group;
        struct stook_tag_stat tag;
        struct stook_object_track track;
        struct stook_rcu_ops ops;
        struct stook_alloc_args alloc;
        char bytes[8192];
    } given = {.args = {.ctor = never}};

    given.size = size;
    errno = 0;
    assert_null(stook_cache_create("sized", 40, &given.args));
    assert_int_equal(errno, EINVAL);
    memset(&given, 0x5c, sizeof(given));
    given.size = size;
    errno = 0;
    assert_int_equal(stook_cache_stat(cache, &given.stat), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(stook_cache_usage(cache, &given.usage), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(stook_group_stat(STOOK_NO_GROUP, &given.group), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(stook_tag_stat(1, &given.tag), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(stook_object_track(object, STOOK_TRACK_ALLOC, &given.track), -1);
    assert_int_equal(errno, EINVAL);
    for (size_t i = sizeof(size); i < sizeof(given); i++)
        assert_int_equal(given.bytes[i], 0x5c);
    memset(&given, 0, sizeof(given));
    given.size = size;
    errno = 0;
    assert_null(stook_alloc_with(cache, 0, &given.alloc));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(stook_alloc_bulk_with(cache, 0, 1, (void *[1]){NULL}, &given.alloc), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(stook_kmalloc_with(40, 0, &given.alloc));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(stook_krealloc_with(NULL, 40, 0, &given.alloc));
    assert_int_equal(errno, EINVAL);
    given.ops = (struct stook_rcu_ops){
        .size = size, .call = never_call, .synchronize = never_wait, .barrier = never_wait};
    errno = 0;
    assert_int_equal(stook_rcu_set_ops(&given.ops), -1);
    assert_int_equal(errno, EINVAL);
}

/* Half of a constructor's address would be copied from a structure that ends inside of it. */
TEST(test_sizes)
{
    struct stook_cache *cache = stook_cache_create("sizes", 40, NULL);
    void *object = stook_alloc(cache, 0);
    union {
        struct stook_cache_args args;
        struct stook_stat stat;
        char bytes[8192];
    } given = {.bytes = {0}};

    for (size_t size = 0; size < 256; size++)
        if (size == 0 || size % sizeof(size_t) != 0)
            refuse_size(cache, object, size);
    refuse_size(cache, object, 4096 + 1);
    refuse_size(cache, object, 4096 + sizeof(size_t));
    refuse_size(cache, object, SIZE_MAX);
    refuse_size(cache, object, SIZE_MAX - sizeof(size_t) + 1);
    for (size_t size = sizeof(size_t); size <= 4096; size *= 2) {
        struct stook_cache *sized;
        given.args.size = size;
        sized = stook_cache_create("sized", 40, &given.args);
        assert_non_null(sized);
        assert_int_equal(stook_cache_destroy(sized), 0);
    }
    given.bytes[4096] = 0x5c;
    given.stat.size = 4096;
    assert_int_equal(stook_cache_stat(cache, &given.stat), 0);
    assert_int_equal(given.bytes[4096], 0x5c);
    stook_free(cache, object);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- messages -------------------------------------------------------------------------------- */

static char heard[8000];
static int heard_level = -1;

static void hear(int level, const char *text, size_t length, void *arg)
{
    assert_ptr_equal(arg, heard);
    assert_int_equal(strlen(text), length);
    heard_level = level;
    snprintf(heard, sizeof(heard), "%s", text);
}

TEST(test_messages)
{
    struct stook_cache *cache = stook_cache_create("held on to", 40, NULL);
    void *object = stook_alloc(cache, 0);

    stook_message_set(hear, heard);
    assert_int_equal(stook_cache_destroy(cache), -1);
    assert_int_equal(errno, EBUSY);
    stook_message_set(NULL, NULL);
    assert_int_equal(heard_level, STOOK_MESSAGE_WARNING);
    assert_non_null(strstr(
        heard, "cache \"held on to\" cannot be destroyed: objects of 40 bytes in use: 1; free"));
    assert_null(strstr(heard, "stook: "));
    assert_null(strchr(heard, '\n')); /* one line */
    stook_free(cache, object);
    assert_int_equal(stook_cache_destroy(cache), 0);
}
