/* SPDX-License-Identifier: MIT */
/*
 * What Linux 7.2's library code asks of stook/kmem.h: allocations by type, buckets, calls without locks in handlers,
 * alignments and nodes of krealloc(), pointers that free themselves, objects that groups are charged for.
 */
#include "support/test.h"

#include <stook/group.h>
#include <stook/kmem.h>
#include <stook/stat.h>

#include <signal.h>
#include <sys/time.h>

struct point {
    uint64_t x, y, z;
};

static volatile size_t most = SIZE_MAX; /* compilers warn of sizes like it */

struct row {
    uint32_t used, count;
    struct point points[];
};

/* ---- by type --------------------------------------------------------------------------------- */

static int evaluated;

static size_t counted(size_t n)
{
    evaluated++;
    return n;
}

static bool zeros(const void *object, size_t size)
{
    const char *bytes = object;

    for (size_t i = 0; i < size; i++)
        if (bytes[i])
            return false;
    return true;
}

static void dirty(size_t size)
{
    void *objects[64];

    for (int i = 0; i < 64; i++)
        memset(objects[i] = kmalloc(size, GFP_KERNEL), 0xa5, size);
    kfree_bulk(64, objects);
}

TEST(objects_by_type)
{
    struct point *point, *points;

    dirty(sizeof(struct point));
    point = kzalloc_obj(struct point);
    assert_non_null(point);
    assert_true(zeros(point, sizeof(*point)));
    kfree(point);
    assert_non_null(point = kzalloc_obj(*point, GFP_ATOMIC));
    assert_true(zeros(point, sizeof(*point)));
    assert_true(ksize(point) >= sizeof(*point));
    kfree(point);
    assert_non_null(point = kmalloc_obj(*point));
    kfree(point);
    assert_non_null(point = kvmalloc_obj(*point));
    kvfree(point);
    assert_non_null(point = kvzalloc_obj(*point, GFP_NOFS));
    assert_true(zeros(point, sizeof(*point)));
    kvfree(point);

    dirty(9 * sizeof(struct point));
    evaluated = 0;
    assert_non_null(points = kzalloc_objs(*points, counted(9)));
    assert_int_equal(evaluated, 1);
    assert_true(ksize(points) >= 9 * sizeof(*points) && zeros(points, 9 * sizeof(*points)));
    kfree(points);
    assert_non_null(points = kmalloc_objs(struct point, 9, GFP_NOWAIT));
    kfree(points);
    assert_non_null(points = kvmalloc_objs(*points, 90000));
    kvfree(points);
    assert_non_null(points = kvzalloc_objs(*points, 90000));
    assert_true(zeros(points, 90000 * sizeof(*points)));
    kvfree(points);
    assert_ptr_equal(kmalloc_objs(*points, 0), ZERO_SIZE_PTR);
    /* n * 24 wraps to 8 and to 0. */
    errno = 0;
    assert_null(kmalloc_objs(*points, most / 24 + 1));
    assert_int_equal(errno, ENOMEM);
    assert_null(kvzalloc_objs(*points, most / 8));
}

TEST(objects_with_an_array)
{
    struct row *row;

    dirty(sizeof(struct row) + 5 * sizeof(struct point));
    evaluated = 0;
    assert_non_null(row = kzalloc_flex(*row, points, counted(5)));
    assert_int_equal(evaluated, 1);
    assert_true(ksize(row) >= offsetof(struct row, points[5]));
    assert_true(zeros(row, offsetof(struct row, points[5])));
    kfree(row);
    assert_non_null(row = kmalloc_flex(struct row, points, 5, GFP_ATOMIC));
    kfree(row);
    assert_non_null(row = kvmalloc_flex(*row, points, 5000));
    kvfree(row);
    assert_non_null(row = kvzalloc_flex(*row, points, 5000));
    assert_true(zeros(row, offsetof(struct row, points[5000])));
    kvfree(row);
    assert_non_null(row = kmalloc_flex(*row, points, 0));
    assert_true(ksize(row) >= sizeof(*row));
    kfree(row);
    errno = 0;
    assert_null(kmalloc_flex(*row, points, most / sizeof(struct point)));
    assert_int_equal(errno, ENOMEM);
    assert_null(kzalloc_flex(*row, points, (size_t)-1));
}

/* ---- buckets --------------------------------------------------------------------------------- */

static void construct(void *object)
{
    *(uint64_t *)object = 4711;
}

TEST(buckets_are_their_own)
{
    static const struct {
        size_t size;
        const char *name;
    } cases[] = {{1, "msg-8"},     {8, "msg-8"},     {9, "msg-16"},
                 {65, "msg-96"},   {190, "msg-192"}, {193, "msg-256"},
                 {1000, "msg-1k"}, {4000, "msg-4k"}, {8192, "msg-8k"}};
    kmem_buckets *msg = kmem_buckets_create("msg", SLAB_ACCOUNT, 0, 0, NULL);
    void *object, *other;

    assert_non_null(msg);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        object = kmem_buckets_alloc(msg, cases[i].size, GFP_KERNEL | __GFP_ZERO);
        assert_non_null(object);
        assert_true(zeros(object, cases[i].size));
        assert_string_equal(stook_cache_name(stook_cache_of(object)), cases[i].name);
        memset(object, 0xff, cases[i].size);
        kfree(object);
        /* Whatever kmalloc() does with the same size, it never gets that memory. */
        other = kmalloc(cases[i].size, GFP_KERNEL);
        assert_ptr_not_equal(stook_cache_of(other), stook_cache_of(object));
        assert_ptr_not_equal(other, object);
        kfree(other);
    }
    assert_ptr_equal(kmem_buckets_alloc(msg, 0, GFP_KERNEL), ZERO_SIZE_PTR);
    assert_non_null(object = kmem_buckets_valloc(msg, 1 << 20, GFP_KERNEL));
    assert_int_equal(ksize(object), 1 << 20);
    kvfree(object);
    errno = 0;
    assert_null(kmem_buckets_alloc(msg, most, GFP_KERNEL | __GFP_NOFAIL));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(kmem_buckets_alloc_node(msg, 8, GFP_KERNEL | __GFP_THISNODE, 4711));
    assert_int_equal(errno, EINVAL);
    assert_non_null(object = kmem_buckets_alloc_node(msg, 8, GFP_KERNEL, 4711));
    kfree(object);
    assert_non_null(object = kmem_buckets_alloc_node_track_caller(msg, 8, GFP_KERNEL, 0));
    assert_int_equal(stook_node_of(object), 0);
    kfree(object);
    /* No buckets: kmalloc()'s. */
    object = kmem_buckets_alloc_track_caller(NULL, 100, GFP_KERNEL);
    assert_string_equal(stook_cache_name(stook_cache_of(object)), "kmalloc-128");
    assert_int_equal(kmem_stook_buckets_destroy(msg), 0);
    assert_null(stook_cache_by_name("msg-8"));
    kfree(object);
    assert_int_equal(kmem_stook_buckets_destroy(NULL), 0);
}

TEST(buckets_that_cannot_be)
{
    char name[200];
    kmem_buckets *set;
    uint64_t *object;

    errno = 0;
    assert_null(kmem_buckets_create(NULL, 0, 0, 0, NULL));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(kmem_buckets_create("stable", SLAB_TYPESAFE_BY_RCU, 0, 0, NULL));
    assert_int_equal(errno, EINVAL);
    assert_null(stook_cache_by_name("stable-8"));
    /* A long name keeps the sizes apart. */
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    set = kmem_buckets_create(name, SLAB_HWCACHE_ALIGN, 16, 64, construct);
    assert_non_null(set);
    object = kmem_buckets_alloc(set, 8, GFP_KERNEL);
    assert_int_equal((uintptr_t)object % 64, 0);
    assert_int_equal(*object, 4711);
    assert_string_equal(strrchr(stook_cache_name(stook_cache_of(object)), '-'), "-8");
    /* Zeros would undo the construction. */
    errno = 0;
    assert_null(kmem_buckets_alloc(set, 8, GFP_KERNEL | __GFP_ZERO));
    assert_int_equal(errno, EINVAL);
    /* An object is out: the set stays until it has come back. */
    errno = 0;
    assert_int_equal(kmem_stook_buckets_destroy(set), -1);
    assert_int_equal(errno, EBUSY);
    kfree(object);
    assert_int_equal(kmem_stook_buckets_destroy(set), 0);
}

/* There is room for five caches of thirteen: the five go as well. */
TEST(buckets_without_room)
{
    static struct kmem_cache *caches[STOOK_CACHES_MAX];
    unsigned n = 0;

    while ((caches[n] = kmem_cache_create("filler", 64, NULL, 0)) != NULL)
        n++;
    assert_int_equal(errno, ENFILE);
    for (int i = 0; i < 5; i++)
        kmem_cache_destroy(caches[--n]);
    for (int turn = 0; turn < 2; turn++) {
        errno = 0;
        assert_null(kmem_buckets_create("part", 0, 0, 0, NULL));
        assert_int_equal(errno, ENFILE);
        assert_null(stook_cache_by_name("part-8"));
    }
    for (int i = 0; i < 5; i++)
        assert_non_null(caches[n++] = kmem_cache_create("filler", 64, NULL, 0));
    while (n > 0)
        kmem_cache_destroy(caches[--n]);
}

/* ---- without locks --------------------------------------------------------------------------- */

enum { SHOTS = 300, HELD = 16 };

static volatile sig_atomic_t shots, failed, wrong;
static void *held[HELD];

static void handler(int number)
{
    int saved = errno;
    size_t size = (size_t)(8 << (shots % 10));
    void *object = kmalloc_nolock(size, __GFP_ZERO, NUMA_NO_NODE);

    if (!object)
        failed++;
    else {
        if (!zeros(object, size))
            wrong++;
        memset(object, 0xee, size);
        kfree_nolock(held[shots % HELD]);
        held[shots % HELD] = object;
    }
    if (kmalloc_nolock(KMALLOC_MAX_CACHE_SIZE + 1, 0, NUMA_NO_NODE))
        wrong++;
    if (kmalloc_nolock(0, 0, NUMA_NO_NODE) != ZERO_SIZE_PTR)
        wrong++;
    shots++;
    errno = saved;
}

/* A timer interrupts kmalloc() and kfree() of the same sizes wherever they are. */
TEST(in_handlers)
{
    struct sigaction action = {.sa_handler = handler}, old;
    struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};

    kfree(kmalloc_nolock(8, 0, NUMA_NO_NODE)); /* the first call of all makes the caches */
    sigaction(SIGALRM, &action, &old);
    setitimer(ITIMER_REAL, &every, NULL);
    while (shots < SHOTS) {
        void *objects[40];
        for (int i = 0; i < 40; i++) {
            size_t size = (size_t)(8 << (i % 10));
            objects[i] = kmalloc(size, GFP_KERNEL);
            if (!objects[i])
                wrong++;
            memset(objects[i], 0x11, size);
        }
        for (int i = 0; i < 40; i++)
            for (size_t byte = 0; byte < (size_t)(8 << (i % 10)); byte++)
                wrong += ((char *)objects[i])[byte] != 0x11;
        kfree_bulk(40, objects);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &old, NULL);
    for (int i = 0; i < HELD; i++)
        kfree_nolock(held[i]);
    assert_int_equal(wrong, 0);
    assert_true(failed < SHOTS / 2); /* it may fail where it interrupted a holder, not as a rule */
}

/* ---- alignments and nodes --------------------------------------------------------------------- */

TEST(aligned)
{
    for (size_t align = 1; align <= 2u << 20; align *= 2)
        for (size_t size = 1; size < 3u << 20; size = size * 3 + 1) {
            char *object = krealloc_node_align(NULL, size, align, GFP_KERNEL, NUMA_NO_NODE);
            assert_non_null(object);
            assert_int_equal((uintptr_t)object % align, 0);
            assert_true(ksize(object) >= size);
            object[0] = 'a';
            object[size - 1] = size == 1 ? 'a' : 'z';
            object = krealloc_node_align(object, size * 2, align, GFP_KERNEL, 0);
            assert_int_equal((uintptr_t)object % align, 0);
            assert_int_equal(object[0], 'a');
            assert_int_equal(object[size - 1], size == 1 ? 'a' : 'z');
            object = kvrealloc_node_align(object, (size + 1) / 2, align, GFP_KERNEL, NUMA_NO_NODE);
            assert_int_equal((uintptr_t)object % align, 0);
            assert_int_equal(object[0], 'a');
            kvfree(object);
        }
}

TEST(aligned_later)
{
    char *objects[32], *moved;

    /* Of 32 objects of 96 bytes some are not aligned to 64. */
    for (int i = 0; i < 32; i++)
        memset(objects[i] = kmalloc(96, GFP_KERNEL), i, 96);
    for (int i = 0; i < 32; i++) {
        bool was = (uintptr_t)objects[i] % 64 == 0;
        moved = krealloc_node_align(objects[i], 96, 64, GFP_KERNEL, NUMA_NO_NODE);
        assert_int_equal((uintptr_t)moved % 64, 0);
        assert_true(!was || ksize(moved) >= 96);
        for (int k = 0; k < 96; k++)
            assert_int_equal(moved[k], i);
        kfree(moved);
    }
    errno = 0;
    assert_null(krealloc_node_align(NULL, 8, 3, GFP_KERNEL, NUMA_NO_NODE));
    assert_int_equal(errno, EINVAL);
    assert_null(kvmalloc_node_align(8, 0, GFP_KERNEL, 0));
    assert_null(kvmalloc_node_align(8, 4u << 20, GFP_KERNEL, 0));
    errno = 0;
    assert_null(krealloc_node_align(NULL, 8, 8, GFP_KERNEL | __GFP_THISNODE, 4711));
    assert_int_equal(errno, EINVAL);
    moved = kmalloc(20, GFP_KERNEL);
    errno = 0;
    assert_null(krealloc_node_align(moved, most, 8, GFP_KERNEL, 0)); /* and is as it was */
    assert_int_equal(errno, ENOMEM);
    assert_ptr_equal(krealloc_node(moved, 0, GFP_KERNEL, 0), ZERO_SIZE_PTR);
    assert_non_null(moved = kvcalloc_node(10, 1000, GFP_KERNEL, 0));
    assert_true(zeros(moved, 10000));
    kvfree(moved);
    assert_null(kvcalloc_node(most / 2, 3, GFP_KERNEL, 0));
    /* Zeros behind the contents, in place and in a new object, as krealloc() has them. */
    dirty(60000);
    dirty(300);
    moved = kzalloc(50, GFP_KERNEL);
    memset(moved, 1, 50);
    moved = krealloc_node_align(moved, 300, 64, GFP_KERNEL | __GFP_ZERO, 0);
    assert_true(moved[49] == 1 && zeros(moved + 50, ksize(moved) - 50));
    moved = krealloc_node_align(moved, 60000, 4096, GFP_KERNEL | __GFP_ZERO, 0);
    assert_true(moved[49] == 1 && zeros(moved + 50, ksize(moved) - 50));
    kvfree_atomic(moved);
}

/* A node that the machine lacks is no reason to fail, unless it alone will do. */
TEST(nodes_that_are_not_there)
{
    struct kmem_cache *cache = kmem_cache_create("nodes", 64, NULL, 0);
    static const int nodes[] = {0, 1, 7, 63, 64, 1023, 4711, -1, -2};

    for (unsigned i = 0; i < sizeof(nodes) / sizeof(*nodes); i++) {
        int node = nodes[i];
        void *object[] = {kmem_cache_alloc_node(cache, GFP_KERNEL, node),
                          kmem_cache_alloc_node(cache, GFP_KERNEL | __GFP_NOFAIL, node),
                          kmalloc_node(100, GFP_ATOMIC, node),
                          kmalloc_node(100, GFP_KERNEL | __GFP_NOFAIL, node),
                          kmalloc_node(100, GFP_KERNEL_ACCOUNT, node),
                          kvmalloc_node(100000, GFP_KERNEL, node),
                          krealloc_node(NULL, 10, GFP_KERNEL, node),
                          alloc_pages_node(node, GFP_KERNEL, 1),
                          vmalloc_node(10000, node)};
        for (unsigned k = 0; k < sizeof(object) / sizeof(*object); k++) {
            assert_non_null(object[k]);
            kfree(object[k]);
        }
        if (node < 64 && node >= -1)
            continue;
        assert_null(kmem_cache_alloc_node(cache, GFP_KERNEL | __GFP_THISNODE, node));
        assert_null(kmalloc_node(100, GFP_KERNEL | __GFP_THISNODE, node));
    }
    kmem_cache_destroy(cache);
}

/* ---- whole pages, and the rest ---------------------------------------------------------------- */

TEST(vmalloc_begins_on_a_page)
{
    char *p[] = {vmalloc(1),           vzalloc(5000),
                 vmalloc_user(9000),   vcalloc(10, 1000),
                 vmalloc_array(3, 50), __vmalloc(20000, GFP_NOFS | __GFP_ZERO),
                 vzalloc_node(100, 0), vmalloc_huge(3 << 20, GFP_KERNEL)};

    for (unsigned i = 0; i < sizeof(p) / sizeof(*p); i++) {
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 4096, 0);
    }
    assert_true(zeros(p[1], 5000) && zeros(p[2], 9000) && zeros(p[3], 10000) && zeros(p[5], 20000));
    memset(p[0], 0x5a, 1);
    p[0] = vrealloc(p[0], 12000, GFP_KERNEL | __GFP_ZERO);
    assert_int_equal((uintptr_t)p[0] % 4096, 0);
    assert_int_equal(p[0][0], 0x5a);
    for (unsigned i = 0; i < sizeof(p) / sizeof(*p); i++)
        vfree(p[i]);
    vfree(NULL);
    assert_null(vmalloc_array(most, 2));
}

TEST(pages_by_address)
{
    unsigned long address = __get_free_pages(GFP_KERNEL, 3), zeroed = get_zeroed_page(GFP_KERNEL);
    struct page *pages[8] = {NULL};
    void *exact = alloc_pages_exact(3 * 4096 - 5, GFP_KERNEL | __GFP_ZERO);

    assert_true(address && address % (8 * 4096) == 0);
    memset((void *)address, 0xa5, 8 * 4096);
    assert_true(zeroed && zeroed % 4096 == 0 && zeros((void *)zeroed, 4096));
    assert_true((uintptr_t)exact % 4096 == 0 && zeros(exact, 3 * 4096 - 5));
    free_pages(address, 3);
    free_page(zeroed);
    free_page(0);
    free_pages_exact(exact, 3 * 4096 - 5);
    assert_int_equal(__get_free_pages(GFP_KERNEL, 11), 0);
    pages[2] = alloc_page(GFP_KERNEL);
    exact = pages[2];
    assert_int_equal(alloc_pages_bulk(GFP_KERNEL, 8, pages), 8);
    assert_ptr_equal(pages[2], exact); /* what was there stays */
    for (int i = 0; i < 8; i++) {
        assert_int_equal((uintptr_t)page_address(pages[i]) % 4096, 0);
        __free_page(pages[i]);
    }
}

static __attribute__((format(printf, 1, 2))) const char *constant(const char *format, ...)
{
    va_list list;
    const char *text;

    va_start(list, format);
    text = kvasprintf_const(GFP_KERNEL, format, list);
    va_end(list);
    return text;
}

TEST(the_rest)
{
    struct kmem_cache *cache = kmem_cache_create("rest", 64, NULL, SLAB_NO_SHEAVES | SLAB_KMALLOC);
    struct stook_cache_usage usage = {.size = sizeof(usage)};
    const char *text = constant("%s-%d", "eth", 7);
    void *object = alloc_hooks(kmem_cache_alloc(cache, GFP_KERNEL)),
         *tracked = kmalloc_track_caller_noprof(8, GFP_KERNEL);

    assert_string_equal(text, "eth-7");
    kfree_const(text);
    assert_int_equal(stook_cache_usage(kmem_stook_cache(cache), &usage), 0);
    assert_int_equal(usage.capacity, 0);
    assert_true(kmem_cache_charge(object, GFP_KERNEL_ACCOUNT));
    assert_true(kmem_dump_obj(object));
    assert_false(kmem_dump_obj(&object));
    kfree(tracked);
    kmem_cache_free(cache, object);
    kmem_cache_destroy(cache);
}

/* ---- the end of a scope ----------------------------------------------------------------------- */

static struct kmem_cache *scoped;

static struct point *made(bool keep)
{
    struct point *point __free(kfree) = kmem_cache_alloc(scoped, GFP_KERNEL);
    struct point *none __free(kvfree) = NULL;
    void *error __free(kfree) = (void *)(uintptr_t)-ENOMEM; /* ERR_PTR() */

    assert_null(none);
    assert_non_null(error);
    if (keep)
        return_ptr(point);
    return NULL;
}

TEST(freed_at_the_end)
{
    struct point *point;
    int out;

    for (int keep = 0; keep < 2; keep++) {
        assert_non_null(scoped = KMEM_CACHE(point, 0));
        point = made(keep);
        assert_int_equal(point != NULL, keep);
        {
            char *text __free(kvfree) = kvmalloc(100000, GFP_KERNEL);
            char *key __free(kfree_sensitive) = kzalloc(10, GFP_KERNEL);
            assert_non_null(text);
            assert_non_null(key);
        }
        /* What was kept, and nothing else, is still out. */
        out = stook_cache_destroy(kmem_stook_cache(scoped)) != 0;
        assert_int_equal(out, keep);
        kfree(point);
        if (out)
            assert_int_equal(stook_cache_destroy(kmem_stook_cache(scoped)), 0);
    }
}

/* ---- groups ---------------------------------------------------------------------------------- */

static uint64_t usage(struct stook_group group)
{
    struct stook_group_stat stat = {.size = sizeof(stat)};

    assert_int_equal(stook_group_stat(group, &stat), 0);
    return stat.usage;
}

TEST(groups_are_charged)
{
    struct stook_group group = stook_group_create("tenant", STOOK_NO_GROUP, STOOK_UNLIMITED), was;
    struct kmem_cache *counted_cache = kmem_cache_create("counted", 200, 0, SLAB_ACCOUNT, NULL);
    struct kmem_cache *free_cache = kmem_cache_create("uncounted", 200, 0, 0, NULL);
    void *in, *out, *small, *page, *grown;
    uint64_t before;

    was = stook_group_enter(group);
    in = kmem_cache_alloc(counted_cache, GFP_KERNEL);
    assert_true(stook_group_same(stook_group_of(in), group));
    assert_true(usage(group) >= 200);
    before = usage(group);
    out = kmem_cache_alloc(free_cache, GFP_KERNEL_ACCOUNT); /* the cache charges none */
    assert_true(stook_group_is_none(stook_group_of(out)));
    kmem_cache_free(free_cache, out);
    out = kmalloc(300, GFP_KERNEL);
    assert_int_equal(usage(group), before);
    small = kmalloc(300, GFP_KERNEL_ACCOUNT);
    assert_string_equal(stook_cache_name(stook_cache_of(small)), "kmalloc-cg-512");
    assert_true(usage(group) >= before + 512);
    assert_true(stook_group_same(stook_group_of(small), group));
    before = usage(group);
    page = kvmalloc(100000, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
    assert_true(zeros(page, 100000));
    assert_true(stook_group_same(stook_group_of(page), group));
    assert_true(usage(group) >= before + ksize(page));
    /* It grows, moves between pages and classes, and stays charged. */
    grown = krealloc(small, 700, GFP_KERNEL_ACCOUNT);
    assert_true(stook_group_same(stook_group_of(grown), group));
    grown = krealloc_array(grown, 3, 5000, GFP_KERNEL_ACCOUNT);
    assert_true(stook_group_same(stook_group_of(grown), group));
    grown = krealloc(grown, 90000, GFP_KERNEL_ACCOUNT);
    assert_true(stook_group_same(stook_group_of(grown), group));
    grown = krealloc_node(grown, 90, GFP_KERNEL_ACCOUNT, 0);
    assert_true(stook_group_same(stook_group_of(grown), group));
    kfree(kmalloc_nolock(100, __GFP_ACCOUNT, NUMA_NO_NODE));
    stook_group_leave(was);
    /* Outside of it another thread, or this one, gives the charge back. */
    kfree(grown);
    kvfree(page);
    kfree(out);
    kmem_cache_free(counted_cache, in);
    assert_int_equal(usage(group), 0);
    /* Outside of groups nothing is charged. */
    in = kmem_cache_alloc(counted_cache, GFP_KERNEL);
    small = kmalloc(10, GFP_ATOMIC | __GFP_ACCOUNT);
    assert_true(stook_group_is_none(stook_group_of(in)));
    assert_true(stook_group_is_none(stook_group_of(small)));
    kfree(in);
    kfree(small);
    kmem_cache_destroy(counted_cache);
    kmem_cache_destroy(free_cache);
    assert_int_equal(stook_group_destroy(group), 0);
}

TEST(at_a_limit)
{
    struct stook_group group = stook_group_create("tight", STOOK_NO_GROUP, 64 << 10), was;
    struct kmem_cache *cache = kmem_cache_create("tight", 1000, 0, SLAB_ACCOUNT, NULL);
    const gfp_t must = GFP_KERNEL | __GFP_NOFAIL;
    void *objects[200], *page, *bulk[8];
    int n = 0;

    was = stook_group_enter(group);
    while (n < 200 && (objects[n] = kmem_cache_alloc(cache, GFP_KERNEL)) != NULL)
        n++;
    assert_int_equal(errno, EDQUOT);
    assert_in_range(n, 20, 64);
    errno = 0;
    assert_null(kmalloc(5000, GFP_KERNEL_ACCOUNT));
    assert_int_equal(errno, EDQUOT);
    errno = 0;
    assert_null(kmalloc(100000, GFP_KERNEL_ACCOUNT));
    assert_int_equal(errno, EDQUOT);
    assert_false(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 8, bulk));
    /* A caller that must have memory gets it, charged to no group; and stays in its group. */
    errno = 0;
    objects[n] = kmem_cache_alloc(cache, must);
    page = kmalloc(100000, must | __GFP_ACCOUNT);
    assert_true(kmem_cache_alloc_bulk(cache, must, 8, bulk));
    assert_non_null(objects[n]);
    assert_non_null(page);
    assert_true(stook_group_is_none(stook_group_of(objects[n])));
    assert_true(stook_group_is_none(stook_group_of(page)));
    assert_true(stook_group_is_none(stook_group_of(bulk[7])));
    assert_true(stook_group_same(stook_group_current(), group));
    assert_true(usage(group) <= 64 << 10);
    kmem_cache_free_bulk(cache, 8, bulk);
    kfree(page);
    kmem_cache_free_bulk(cache, (size_t)n + 1, objects);
    assert_non_null(page = kmalloc(5000, GFP_KERNEL_ACCOUNT));
    kfree(page);
    stook_group_leave(was);
    kmem_cache_destroy(cache);
    assert_int_equal(stook_group_destroy(group), 0);
}

/* ---- the bits -------------------------------------------------------------------------------- */

/* What the kernel's trees keep in a gfp_t of theirs: marks above the bits, kinds of locks in the zones. */
TEST(bits_of_others)
{
    const gfp_t all[] = {
        __GFP_DMA,         __GFP_HIGHMEM,        __GFP_DMA32,      __GFP_MOVABLE,
        __GFP_RECLAIMABLE, __GFP_HIGH,           __GFP_IO,         __GFP_FS,
        __GFP_ZERO,        __GFP_DIRECT_RECLAIM, __GFP_WRITE,      __GFP_KSWAPD_RECLAIM,
        __GFP_NOWARN,      __GFP_RETRY_MAYFAIL,  __GFP_NOFAIL,     __GFP_NORETRY,
        __GFP_MEMALLOC,    __GFP_COMP,           __GFP_NOMEMALLOC, __GFP_HARDWALL,
        __GFP_THISNODE,    __GFP_ACCOUNT,        __GFP_ZEROTAGS,   __GFP_NO_OBJ_EXT};
    gfp_t sum = 0, flags;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_true(all[i] && !(all[i] & (all[i] - 1)) && !(sum & all[i]));
        sum |= all[i];
    }
    assert_int_equal(sum & ~__GFP_BITS_MASK, 0);
    assert_int_equal(__GFP_BITS_MASK - sum, 0x200); /* the kernel's unused one */
    assert_int_equal(GFP_ZONEMASK, 0xf);
    assert_int_equal(GFP_KERNEL, 0xcc0);
    assert_int_equal(GFP_TRANSHUGE & GFP_KERNEL, __GFP_DIRECT_RECLAIM | __GFP_IO | __GFP_FS);
    flags = GFP_ZONEMASK | (gfp_t)~__GFP_BITS_MASK;
    assert_int_equal(kmem_stook_flags(flags), kmem_stook_flags(0));
    assert_int_equal(kmem_stook_flags(flags | GFP_KERNEL), STOOK_WAIT);
    for (int i = 0; i < 7; i++) {
        void *object = kmalloc(40, GFP_NOWAIT | flags | (gfp_t)1 << (__GFP_BITS_SHIFT + i));
        assert_string_equal(stook_cache_name(stook_cache_of(object)), "kmalloc-64");
        kfree(object);
    }
}
