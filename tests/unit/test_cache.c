/* SPDX-License-Identifier: MIT */
#include "base/hooks.h"
#include "cache/cache_list.h"

#include "base/context.h"
#include "page/pagemap.h"
#include "support/check.h"
#include "support/test.h"

#include <stook/stook.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

/* ---- arguments ------------------------------------------------------------------------------ */

static void nothing(void *object, void *arg)
{
}

static void refused(int error, const char *name, size_t size, struct stook_cache_args args)
{
    if (args.size == 0)
        args.size = sizeof(args);
    errno = 0;
    assert_null(stook_cache_create(name, size, &args));
    assert_int_equal(errno, error);
}

TEST(errors_of_create)
{
    struct {
        struct stook_cache_args args;
        unsigned char more[16];
    } grown = {.args = {.size = sizeof(grown)}};
    struct stook_cache *cache;

    refused(EINVAL, "x", 0, (struct stook_cache_args){0});
    refused(EINVAL, NULL, 8, (struct stook_cache_args){0});
    refused(EINVAL, "x", 8, (struct stook_cache_args){.align = 24});
    refused(EINVAL, "x", 8, (struct stook_cache_args){.flags = 0x80000000});
    refused(EINVAL, "x", 8, (struct stook_cache_args){.flags = 1u << 27}); /* no flag's */
    refused(EINVAL, "x", 8, (struct stook_cache_args){.flags = 2}); /* STOOK_CACHE_MERGE, once */
    refused(EINVAL, "x", 8,
            (struct stook_cache_args){.flags = STOOK_CACHE_LINK_INSIDE | STOOK_CACHE_LINK_OUTSIDE});
    refused(EINVAL, "x", 64,
            (struct stook_cache_args){.flags = STOOK_CACHE_LINK_INSIDE, .ctor = nothing});
    refused(EINVAL, "x", 8, (struct stook_cache_args){.size = 7});
    refused(E2BIG, "x", STOOK_OBJECT_SIZE_MAX + 1, (struct stook_cache_args){0});
    refused(E2BIG, "x", SIZE_MAX, (struct stook_cache_args){0});
    refused(E2BIG, "x", 8, (struct stook_cache_args){.align = 2 * STOOK_ALIGN_MAX});
    refused(E2BIG, "x", 8,
            (struct stook_cache_args){.sheaf_capacity = STOOK_SHEAF_CAPACITY_MAX + 1});
    /* A caller from the future: what it knows more of must be zero. */
    cache = stook_cache_create("grown", 8, &grown.args);
    assert_non_null(cache);
    assert_int_equal(stook_cache_destroy(cache), 0);
    grown.more[15] = 1;
    errno = 0;
    assert_null(stook_cache_create("grown", 8, &grown.args));
    assert_int_equal(errno, EINVAL);
    /* One from the past: what it does not know is default. */
    grown.args = (struct stook_cache_args){.size = offsetof(struct stook_cache_args, ctor),
                                           .align = 32,
                                           .ctor = (void (*)(void *, void *))1,
                                           .flags = ~0u};
    cache = stook_cache_create("old", 8, &grown.args);
    assert_non_null(cache);
    assert_int_equal(cache->align, 32);
    assert_null(cache->ctor);
    assert_int_equal(stook_cache_destroy(cache), 0);
    assert_int_equal(stook_cache_destroy(NULL), 0);
    check_all(NULL, 0);
}

TEST(limits_are_within)
{
    struct stook_cache_args args = {
        .size = sizeof(args), .align = STOOK_ALIGN_MAX, .sheaf_capacity = STOOK_SHEAF_CAPACITY_MAX};
    size_t size = hooks.span ? STOOK_OBJECT_SIZE_MAX : BLOCK_SIZE;
    struct stook_cache *cache = stook_cache_create("limits", size, &args);
    char *object;

    assert_non_null(cache);
    if (!hooks.span) /* the core alone */
        refused(ENOTSUP, "larger", size + 1, (struct stook_cache_args){0});
    object = stook_alloc(cache, 0);
    assert_non_null(object);
    assert_int_equal((uintptr_t)object % STOOK_ALIGN_MAX, 0);
    object[size - 1] = 1;
    stook_free(cache, object);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

TEST(as_many_as_there_may_be)
{
    static struct stook_cache *caches[STOOK_CACHES_MAX];
    unsigned n = 0, other, there = 0;
    void *object;

    while ((caches[n] = stook_cache_create("many", 8 + n % 500, NULL)))
        n++;
    assert_int_equal(errno, ENFILE);
    assert_true(n > STOOK_CACHES_MAX - 64);
    for (unsigned i = 0; i < STOOK_CACHES_MAX; i++)
        there += cache_table[i] != NULL;
    assert_int_equal(there, STOOK_CACHES_MAX - 1); /* slot 0 belongs to no cache */
    object = stook_alloc(caches[n - 1], 0);        /* the last one works */
    assert_non_null(object);
    stook_free_any(object);
    other = caches[n / 2]->index;
    assert_int_equal(stook_cache_destroy(caches[n / 2]), 0);
    caches[n / 2] = stook_cache_create("again", 3000, NULL); /* the number is used again */
    assert_non_null(caches[n / 2]);
    assert_int_equal(caches[n / 2]->index, other);
    object = stook_alloc(caches[n / 2], 0);
    assert_non_null(object);
    memset(object, 1, 3000);
    stook_free(caches[n / 2], object);
    while (n-- > 0)
        assert_int_equal(stook_cache_destroy(caches[n]), 0);
    check_all(NULL, 0);
}

/* ---- names, sizes, alignment ---------------------------------------------------------------- */

TEST(names_are_copied_and_cut)
{
    char name[100];
    struct stook_cache *cache;

    memset(name, 'n', sizeof(name));
    name[99] = '\0';
    cache = stook_cache_create(name, 8, NULL);
    memset(name, 'x', sizeof(name));
    assert_int_equal(strlen(cache->name), STOOK_NAME_MAX);
    assert_int_equal(strspn(cache->name, "n"), STOOK_NAME_MAX);
    assert_int_equal(stook_cache_destroy(cache), 0);
    cache = stook_cache_create("", 8, NULL);
    assert_string_equal(cache->name, "");
    assert_int_equal(stook_cache_destroy(cache), 0);
}

TEST(alignments)
{
    for (size_t align = 0; align <= STOOK_ALIGN_MAX; align = align ? align * 2 : 1) {
        for (size_t size = 1; size < 9000; size = size * 3 / 2 + 1) {
            struct stook_cache_args args = {
                .size = sizeof(args), .align = align, .flags = size % 2 ? STOOK_CACHE_HWALIGN : 0};
            struct stook_cache *cache = stook_cache_create("align", size, &args);
            size_t want = align ? align : size >= 16 ? 16 : 8;
            void *objects[9];
            assert_non_null(cache);
            if (args.flags && want < 64)
                want = 64;
            assert_int_equal(stook_alloc_bulk(cache, 0, 9, objects), 0);
            for (int i = 0; i < 9; i++) {
                assert_int_equal((uintptr_t)objects[i] % want, 0);
                assert_true(stook_usable_size(objects[i]) >= size);
                memset(objects[i], 0xee, stook_usable_size(objects[i]));
            }
            assert_int_equal(stook_cache_object_size(cache), size);
            stook_free_bulk(cache, 9, objects);
            assert_int_equal(stook_cache_destroy(cache), 0);
        }
    }
    check_all(NULL, 0);
}

/* ---- constructors --------------------------------------------------------------------------- */

enum { BUILT = 0x51 };
static unsigned constructed, destructed;

static void ctor(void *object, void *arg)
{
    memset(object, BUILT, 40);
    constructed++;
}

static void dtor(void *object, void *arg)
{
    for (int i = 0; i < 40; i++)
        assert_int_equal(((unsigned char *)object)[i], BUILT);
    destructed++;
}

static unsigned constructed_once(size_t size, unsigned flags)
{
    struct stook_cache_args args = {
        .size = sizeof(args), .ctor = ctor, .dtor = dtor, .flags = flags};
    struct stook_cache *cache = stook_cache_create("built", size, &args);
    void *objects[500];
    unsigned after;

    assert_non_null(cache);
    constructed = destructed = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 500; i++) {
            objects[i] = stook_alloc(cache, 0);
            assert_non_null(objects[i]);
            for (int b = 0; b < 40; b++) /* comes back constructed */
                assert_int_equal(((unsigned char *)objects[i])[b], BUILT);
            ((unsigned char *)objects[i])[round] = 0;
        }
        for (int i = 0; i < 500; i++) {
            ((unsigned char *)objects[i])[round] = BUILT;
            stook_free(cache, objects[i]);
        }
        if (round == 9) { /* what goes is destructed, what comes constructed again */
            stook_cache_shrink(cache);
            assert_int_equal(constructed, destructed);
        }
    }
    after = constructed;
    assert_int_equal((after - destructed) % cache->layout.objects, 0);
    errno = 0;
    assert_null(stook_alloc(cache, STOOK_ZERO));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(stook_alloc_bulk(cache, STOOK_ZERO, 3, objects), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(constructed, after);
    assert_int_equal(stook_cache_destroy(cache), 0);
    assert_int_equal(constructed, destructed);
    assert_true(constructed >= 1000);
    return constructed;
}

TEST(constructors)
{
    assert_true(constructed_once(40, 0) < 4000); /* of 10000 allocations */
    constructed_once(40, STOOK_CACHE_NOSHEAF);
    constructed_once(1000, 0);
    check_all(NULL, 0);
}

static void tiny_ctor(void *object, void *arg)
{
    *(unsigned char *)object = 0xcc;
}

TEST(tiny_constructed_objects)
{
    for (size_t size = 1; size < 24; size++) {
        for (size_t align = 1; align <= 8; align *= 2) {
            struct stook_cache_args args = {
                .size = sizeof(args), .align = align, .ctor = tiny_ctor};
            struct stook_cache *cache = stook_cache_create("tiny", size, &args);
            unsigned char *objects[100];
            for (int round = 0; round < 2; round++) {
                for (int i = 0; i < 100; i++) {
                    objects[i] = stook_alloc(cache, 0);
                    assert_int_equal(objects[i][0], 0xcc);
                    assert_int_equal(stook_usable_size(objects[i]), size);
                    memset(objects[i] + 1, i, size - 1); /* all of it, no byte more */
                }
                for (int i = 0; i < 100; i++) {
                    for (size_t b = 1; b < size; b++)
                        assert_int_equal(objects[i][b], i);
                    stook_free(cache, objects[i]);
                }
                stook_cache_shrink(cache);
            }
            assert_int_equal(stook_cache_destroy(cache), 0);
        }
    }
}

/* A constructor that allocates objects itself waits for locks as any call does, instead of failing. */
static struct stook_cache *parts;
static unsigned parts_made;
static atomic_bool node_lock_held;

static void ctor_with_part(void *object, void *arg)
{
    assert_int_equal(context_tls.depth, 0);
    *(void **)object = stook_alloc(parts, 0);
    assert_non_null(*(void **)object);
    parts_made++;
}

static void dtor_with_part(void *object, void *arg)
{
    assert_int_equal(context_tls.depth, 0);
    stook_free(parts, *(void **)object);
    parts_made--;
}

static void *hold_node_lock(void *lock)
{
    lock_take(lock, LOCK_NODE);
    atomic_store(&node_lock_held, true);
    nanosleep(&(struct timespec){0, 30000000}, NULL);
    lock_drop(lock, LOCK_NODE);
    return NULL;
}

TEST(constructors_may_allocate)
{
    struct stook_cache_args args = {
        .size = sizeof(args), .ctor = ctor_with_part, .dtor = dtor_with_part};
    struct stook_cache *cache = stook_cache_create("whole", 64, &args);
    pthread_t thread;
    void *objects[200];

    parts = stook_cache_create("part", 100, NULL);
    stook_free(parts, stook_alloc(parts, 0)); /* so that there is a node list to wait for */
    pthread_create(&thread, NULL, hold_node_lock, &parts->nodes[0].node.lock);
    while (!atomic_load(&node_lock_held))
        sched_yield();
    assert_int_equal(stook_alloc_bulk(cache, 0, 200, objects), 0);
    pthread_join(thread, NULL);
    stook_free_bulk(cache, 200, objects);
    assert_int_equal(stook_cache_destroy(cache), 0);
    assert_int_equal(parts_made, 0);
    assert_int_equal(stook_cache_destroy(parts), 0);
    check_all(NULL, 0);
}

/* ---- flags of alloc ------------------------------------------------------------------------- */

TEST(zero_and_unknown_flags)
{
    struct stook_cache *cache = stook_cache_create("zero", 200, NULL);
    unsigned char *object;
    void *objects[30];

    for (int round = 0; round < 100; round++) {
        object = stook_alloc(cache, STOOK_ZERO | (round % 2 ? STOOK_NORECLAIM : STOOK_SIGNAL_SAFE));
        for (int i = 0; i < 200; i++)
            assert_int_equal(object[i], 0);
        memset(object, 0xff, 200);
        stook_free(cache, object);
    }
    assert_int_equal(stook_alloc_bulk(cache, STOOK_ZERO, 30, objects), 0);
    for (int i = 0; i < 30; i++)
        for (int b = 0; b < 200; b++)
            assert_int_equal(((unsigned char *)objects[i])[b], 0);
    stook_free_bulk(cache, 30, objects);
    errno = 0;
    assert_null(stook_alloc(cache, 0x8));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(stook_alloc_bulk(cache, 0x80000000, 1, objects), -1);
    assert_int_equal(errno, EINVAL);
    stook_free(cache, NULL);
    stook_free_any(NULL);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- destroy and shrink --------------------------------------------------------------------- */

static int destroy_busy(void *arg)
{
    errno = 0;
    return stook_cache_destroy(arg) == -1 && errno == EBUSY ? 0 : 1;
}

static inline int free_to_gone(void *caches)
{
    struct stook_cache **kept_and_gone = caches;

    stook_free(kept_and_gone[1], stook_alloc(kept_and_gone[0], 0));
    return 0;
}

/* By a plug-in that stays loaded, say.  Debug caches report it (death). */
TEST(destroy_twice)
{
    struct stook_cache *kept = stook_cache_create("kept", 64, NULL),
                       *gone = stook_cache_create("gone", 64, NULL), *next;

    assert_true(kept && gone);
    assert_int_equal(stook_cache_destroy(gone), 0);
#ifndef __SANITIZE_ADDRESS__ /* its caches have debug flags */
    struct child child;

    errno = 0;
    assert_int_equal(stook_cache_destroy(gone), -1);
    assert_int_equal(errno, EINVAL);
    child_run(&child, free_to_gone, (struct stook_cache *[]){kept, gone});
    assert_true(child_died_saying(&child, "gone"));
#endif
    next = stook_cache_create("next", 64, NULL);
    assert_true(next && next != kept);
    assert_int_equal(stook_cache_destroy(next), 0);
    assert_int_equal(stook_cache_destroy(kept), 0);
}

TEST(destroy_with_objects_out)
{
    struct stook_cache *cache = stook_cache_create("lent out", 500, NULL);
    void *objects[7];
    struct child child;

    assert_int_equal(stook_alloc_bulk(cache, 0, 7, objects), 0);
    child_run(&child, destroy_busy, cache);
    assert_true(child_passed(&child));
    assert_non_null(
        strstr(child.error,
               "stook: cache \"lent out\" cannot be destroyed: objects of 500 bytes in use: 7; "
               "free them first"));
    assert_ptr_equal(strchr(child.error, '\n'),
                     child.error + strlen(child.error) - 1); /* one line */
    for (int i = 0; i < 6; i++)
        stook_free(cache, objects[i]);
    /* Here, in the parent: the cache stays usable. */
    assert_int_equal(stook_cache_destroy(cache), -1);
    objects[0] = stook_alloc(cache, 0);
    assert_non_null(objects[0]);
    stook_free(cache, objects[0]);
    stook_free(cache, objects[6]);
    assert_int_equal(stook_cache_destroy(cache), 0);
    check_all(NULL, 0);
}

TEST(shrink_says_what_went)
{
    struct stook_cache *cache = stook_cache_create("shrink", 1000, NULL);
    struct check_counts counts;
    static void *objects[2000];
    size_t bytes;

    assert_int_equal(stook_cache_shrink(cache), 0);
    assert_int_equal(stook_alloc_bulk(cache, 0, 2000, objects), 0);
    for (int i = 0; i < 2000; i++)
        stook_free(cache, objects[i]);
    check_count(cache, NULL, 0, &counts);
    assert_true(counts.cached > 0 && counts.slabs > 0);
    bytes = counts.slabs * ((size_t)PAGE_SIZE << cache->layout.order);
    assert_int_equal(stook_cache_shrink(cache), bytes);
    check_count(cache, NULL, 0, &counts);
    assert_int_equal(counts.slabs, 0);
    assert_int_equal(stook_cache_shrink(cache), 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

TEST(free_keeps_errno)
{
    struct stook_cache *cache = stook_cache_create("errno", 4000, NULL);
    static void *objects[3000];

    assert_int_equal(stook_alloc_bulk(cache, 0, 3000, objects), 0);
    errno = 4711;
    for (int i = 0; i < 2000; i++) {
        stook_free(cache, objects[i]);
        assert_int_equal(errno, 4711);
    }
    stook_free_bulk(cache, 1000, objects + 2000);
    assert_int_equal(errno, 4711);
    assert_int_equal(stook_cache_destroy(cache), 0);
}
