/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/*
 * Prefilled sheaves, call by call, as kernel code uses them: prefill, take until empty, refill,
 * return; oversize ones.  Then calls that fail when the arena (32 MiB here, more with several nodes) is used up.
 */
#include "reserve/prefilled.h"

#include "os/topology.h"
#include "slab/slab.h"
#include "support/check.h"
#include "support/test.h"

#include <stook/reserve.h>
#include <stook/stook.h>

enum { CAPACITY = 28, MOST = 20000 };

static struct check_object held[MOST];
static size_t nheld;

static void hold(struct stook_cache *cache, void *object)
{
    assert_non_null(object);
    assert_true(nheld < MOST);
    held[nheld++] = (struct check_object){cache, object};
}

static void free_held(size_t down_to)
{
    while (nheld > down_to) {
        nheld--;
        stook_free(held[nheld].cache, held[nheld].object);
    }
}

static struct stook_cache *make(const char *name, size_t size, unsigned flags)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = flags};
    struct stook_cache *cache;

    if (!(flags & STOOK_CACHE_NOSHEAF))
        args.sheaf_capacity = CAPACITY;
    cache = stook_cache_create(name, size, &args);
    assert_non_null(cache);
    return cache;
}

/* Everything adds up while the test holds what it holds, and this sheaf (may be NULL). */
static void check_with(struct stook_cache *cache, struct stook_sheaf *given)
{
    size_t before = nheld;

    if (given) {
        struct sheaf *sheaf = prefilled_of(cache, given);
        for (uint32_t i = 0; i < sheaf->size; i++)
            hold(cache, sheaf->object[i]);
        if (sheaf->capacity <= STOOK_SHEAF_CAPACITY_MAX)
            hold(slab_cache_of(sheaf), sheaf);
    }
    check_all(held, nheld);
    nheld = before;
}

/* Takes all there is in the sheaf, each object once. */
static unsigned take_all(struct stook_cache *cache, struct stook_sheaf *sheaf)
{
    unsigned n = 0;

    while (stook_sheaf_size(sheaf) > 0) {
        unsigned size = stook_sheaf_size(sheaf);
        void *object = stook_sheaf_alloc(cache, n % 2 ? 0 : STOOK_SIGNAL_SAFE, sheaf);
        hold(cache, object);
        memset(object, 0x44, stook_cache_object_size(cache));
        assert_int_equal(stook_sheaf_size(sheaf), size - 1);
        n++;
    }
    errno = 0;
    assert_null(stook_sheaf_alloc(cache, 0, sheaf));
    assert_int_equal(errno, ENOMEM);
    return n;
}

static const unsigned sizes[] = {1, CAPACITY / 2, CAPACITY, CAPACITY + 1, 1000, 1022, 1023, 5000};

static void sizes_of(unsigned flags)
{
    struct stook_cache *cache = make("prefilled", 100, flags);

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        unsigned size = sizes[i], n;
        struct stook_sheaf *sheaf;
        errno = 17;
        sheaf = stook_sheaf_prefill(cache, i % 2 ? STOOK_NORECLAIM : STOOK_WAIT, size);
        assert_non_null(sheaf);
        assert_int_equal(errno, 17);
        check_with(cache, sheaf);
        n = stook_sheaf_size(sheaf);
        if (!(flags & STOOK_CACHE_NOSHEAF) && size <= CAPACITY)
            assert_true(n >= CAPACITY); /* to the cache's capacity, whatever was asked for */
        else
            assert_int_equal(n, size);
        assert_int_equal(take_all(cache, sheaf), n);
        check_with(cache, sheaf);
        /* Within its capacity it stays the same sheaf. */
        struct stook_sheaf *same = sheaf;
        assert_int_equal(stook_sheaf_refill(cache, 0, &sheaf, size), 0);
        assert_ptr_equal(sheaf, same);
        assert_true(stook_sheaf_size(sheaf) >= size);
        check_with(cache, sheaf);
        errno = 17;
        stook_sheaf_return(cache, sheaf);
        assert_int_equal(errno, 17);
        check_with(cache, NULL);
        free_held(0);
    }
    check_with(cache, NULL);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

TEST(every_size)
{
    sizes_of(0);
}

TEST(without_sheaves)
{
    sizes_of(STOOK_CACHE_NOSHEAF);
}

TEST(refill)
{
    struct stook_cache *cache = make("refill", 200, 0);
    struct stook_sheaf *sheaf = stook_sheaf_prefill(cache, 0, 5), *small = sheaf;
    unsigned n = stook_sheaf_size(sheaf);
    void *kept[CAPACITY];

    for (unsigned size = 0; size <= n; size++) { /* it has that many: nothing happens */
        assert_int_equal(stook_sheaf_refill(cache, 0, &sheaf, size), 0);
        assert_ptr_equal(sheaf, small);
        assert_int_equal(stook_sheaf_size(sheaf), n);
    }
    while (stook_sheaf_size(sheaf) > 3)
        hold(cache, stook_sheaf_alloc(cache, 0, sheaf));
    memcpy(kept, prefilled_of(cache, sheaf)->object, 3 * sizeof(void *));
    assert_int_equal(stook_sheaf_refill(cache, 0, &sheaf, 4), 0);
    assert_true(stook_sheaf_size(sheaf) >= CAPACITY);
    assert_memory_equal(kept, prefilled_of(cache, sheaf)->object, 3 * sizeof(void *));
    check_with(cache, sheaf);
    /* Larger than its capacity: a larger one, with the same objects first. */
    for (unsigned size = 300; size < 4000; size *= 3) {
        memcpy(kept, prefilled_of(cache, sheaf)->object, sizeof(kept));
        assert_int_equal(stook_sheaf_refill(cache, STOOK_NORECLAIM, &sheaf, size), 0);
        assert_int_equal(stook_sheaf_size(sheaf), size);
        assert_memory_equal(kept, prefilled_of(cache, sheaf)->object, sizeof(kept));
        check_with(cache, sheaf);
    }
    /* And never a smaller one. */
    struct stook_sheaf *large = sheaf;
    take_all(cache, sheaf);
    assert_int_equal(stook_sheaf_refill(cache, 0, &sheaf, 1), 0);
    assert_ptr_equal(sheaf, large);
    check_with(cache, sheaf);
    stook_sheaf_return(cache, sheaf);
    free_held(0);
    check_with(cache, NULL);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* Allocated and freed objects circulate: no slab is touched once the sheaves have their sizes. */
TEST(round_and_round)
{
    struct stook_cache *cache = make("round", 64, 0);
    uint64_t took = 0;

    for (unsigned round = 0; round < 2000; round++) {
        struct stook_sheaf *sheaf = stook_sheaf_prefill(cache, 0, 7);
        assert_non_null(sheaf);
        for (unsigned i = 0; i < 1 + round % 7; i++)
            hold(cache, stook_sheaf_alloc(cache, 0, sheaf));
        stook_sheaf_return(cache, sheaf);
        free_held(0);
        if (round == 200)
            for (unsigned i = 0; i < topology.nodes; i++)
                took += cache->nodes[i].node.took;
    }
    for (unsigned i = 0; i < topology.nodes; i++)
        took -= cache->nodes[i].node.took;
    assert_true(0 - took < 1800 / 20);
    check_with(cache, NULL);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

static void construct(void *object, void *arg)
{
    memset(object, 0x5a, 48);
}

TEST(zeros_and_constructors)
{
    struct stook_cache_args args = {.size = sizeof(args), .ctor = construct};
    struct stook_cache *plain = make("zeros", 80, 0);
    struct stook_cache *made = stook_cache_create("made", 48, &args);
    struct stook_sheaf *sheaf = stook_sheaf_prefill(plain, STOOK_ZERO, 30);
    char bytes[80] = {0};

    assert_true(made && sheaf);
    take_all(plain, sheaf);
    free_held(0); /* soiled */
    assert_int_equal(stook_sheaf_refill(plain, STOOK_ZERO, &sheaf, 30), 0);
    while (stook_sheaf_size(sheaf) > 0) {
        hold(plain, stook_sheaf_alloc(plain, STOOK_ZERO, sheaf));
        assert_memory_equal(held[nheld - 1].object, bytes, sizeof(bytes));
    }
    stook_sheaf_return(plain, sheaf);

    sheaf = stook_sheaf_prefill(made, 0, 500);
    errno = 0;
    assert_null(stook_sheaf_alloc(made, STOOK_ZERO, sheaf));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(stook_sheaf_size(sheaf), 500);
    memset(bytes, 0x5a, sizeof(bytes));
    while (stook_sheaf_size(sheaf) > 0) {
        hold(made, stook_sheaf_alloc(made, 0, sheaf));
        assert_memory_equal(held[nheld - 1].object, bytes, 48);
    }
    stook_sheaf_return(made, sheaf);
    free_held(0);
    assert_int_equal(stook_cache_destroy(made), 0);
    assert_int_equal(stook_cache_destroy(plain), 0);
}

TEST(wrong_arguments)
{
    struct stook_cache *cache = make("wrong", 100, 0);
    struct stook_sheaf *sheaf = stook_sheaf_prefill(cache, 0, 3), *none = NULL;

    errno = 0;
    assert_null(stook_sheaf_prefill(cache, 0, 0));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(stook_sheaf_prefill(cache, 0x100, 3));
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(stook_sheaf_refill(cache, 0, &none, 3), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(stook_sheaf_refill(cache, 0, NULL, 3), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(stook_sheaf_refill(cache, 0x100, &sheaf, 300), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(stook_sheaf_alloc(cache, 0x100, sheaf));
    assert_int_equal(errno, EINVAL);
    stook_sheaf_return(cache, NULL);
    check_with(cache, sheaf);
    stook_sheaf_return(cache, sheaf);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

static struct stook_cache *two[2];

static int return_to_other(void *arg)
{
    stook_sheaf_return(two[1], stook_sheaf_prefill(two[0], 0, 1));
    return 0;
}

static int return_twice(void *arg)
{
    struct stook_sheaf *sheaf = stook_sheaf_prefill(two[0], 0, 1);

    stook_sheaf_return(two[0], sheaf);
    stook_sheaf_return(two[0], sheaf);
    return 0;
}

TEST(wrong_sheaves)
{
    struct child child;

    two[0] = make("one", 100, 0);
    two[1] = make("other", 100, 0);
    child_run(&child, return_to_other, NULL);
    assert_true(child_died_saying(&child, "is not one that was prefilled from cache other"));
    child_run(&child, return_twice, NULL);
    assert_true(child_died_saying(&child, "is not one that was prefilled from cache one"));
    assert_int_equal(stook_cache_destroy(two[0]), 0);
    assert_int_equal(stook_cache_destroy(two[1]), 0);
}

/* Full, oversize or empty, a sheaf that is out keeps its cache; shrinking passes it by. */
TEST(counts_as_the_callers)
{
    struct stook_cache *cache = make("out", 128, 0);

    for (unsigned i = 0; i < 3; i++) {
        struct stook_sheaf *sheaf = stook_sheaf_prefill(cache, 0, i == 1 ? 2000 : 9);
        unsigned n = stook_sheaf_size(sheaf);
        if (i == 2) {
            take_all(cache, sheaf);
            free_held(0);
            n = 0;
        }
        (void)stook_cache_shrink(cache);
        assert_int_equal(stook_sheaf_size(sheaf), n);
        check_with(cache, sheaf);
        errno = 0;
        assert_int_equal(stook_cache_destroy(cache), -1);
        assert_int_equal(errno, EBUSY);
        check_with(cache, sheaf);
        stook_sheaf_return(cache, sheaf);
    }
    assert_int_equal(stook_cache_destroy(cache), 0);
    check_all(NULL, 0);
}

/* A returned sheaf is found again on this CPU, an oversize one is not kept. */
static void where_they_go(void **unused)
{
    struct stook_cache *cache = make("where", 256, 0);
    struct check_counts counts;
    struct stook_sheaf *sheaf = stook_sheaf_prefill(cache, 0, CAPACITY);
    unsigned n = stook_sheaf_size(sheaf);

    stook_sheaf_return(cache, sheaf);
    check_count(cache, NULL, 0, &counts);
    assert_true(counts.cached >= n);
    (void)stook_cache_shrink(cache);
    check_count(cache, NULL, 0, &counts);
    assert_int_equal(counts.cached, 0);
    sheaf = stook_sheaf_prefill(cache, 0, 900);
    check_count(cache, NULL, 0, &counts); /* dies: the sheaf is nowhere */
}

static int nowhere(void *arg)
{
    where_they_go(NULL);
    return 0;
}

TEST(where)
{
    struct stook_cache *cache = make("where", 256, 0);
    struct check_counts counts;
    struct stook_sheaf *sheaf;
    struct child child;

    child_run(&child, nowhere, NULL);
    assert_true(child_died_saying(&child, "is nowhere: lost"));
    sheaf = stook_sheaf_prefill(cache, 0, 900);
    stook_sheaf_return(cache, sheaf);
    check_count(cache, NULL, 0, &counts);
    assert_true(counts.cached < 900);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- without memory ------------------------------------------------------------------------- */

static void exhaust(struct stook_cache *cache)
{
    void *object;

    while ((object = stook_alloc(cache, 0)) != NULL)
        hold(cache, object);
}

TEST(out_of_memory)
{
    struct stook_cache *cache = make("short", 20000, 0);
    struct stook_sheaf *sheaf = stook_sheaf_prefill(cache, 0, 20), *before, *other;
    void *kept[CAPACITY];
    size_t mark;

    while (stook_sheaf_size(sheaf) > 2)
        hold(cache, stook_sheaf_alloc(cache, 0, sheaf));
    mark = nheld;
    exhaust(cache);
    assert_true(nheld > 400);
    before = sheaf;
    memcpy(kept, prefilled_of(cache, sheaf)->object, 2 * sizeof(void *));
    for (unsigned size = 3; size < 3000; size *= 10) {
        errno = 0;
        assert_int_equal(stook_sheaf_refill(cache, size % 2 ? 0 : STOOK_NORECLAIM, &sheaf, size),
                         -1);
        assert_int_equal(errno, ENOMEM);
        assert_ptr_equal(sheaf, before);
        assert_int_equal(stook_sheaf_size(sheaf), 2);
        assert_memory_equal(kept, prefilled_of(cache, sheaf)->object, 2 * sizeof(void *));
        errno = 0;
        other = stook_sheaf_prefill(cache, 0, size);
        assert_null(other);
        assert_int_equal(errno, ENOMEM);
        check_with(cache, sheaf);
    }
    /* What it has it gives, and takes what came free. */
    hold(cache, stook_sheaf_alloc(cache, 0, sheaf));
    stook_free(cache, held[--nheld].object);
    stook_free(cache, held[mark].object);
    held[mark] = held[--nheld];
    assert_int_equal(stook_sheaf_refill(cache, STOOK_NORECLAIM, &sheaf, 3), 0);
    assert_int_equal(stook_sheaf_size(sheaf), 3);
    check_with(cache, sheaf);
    stook_sheaf_return(cache, sheaf);
    free_held(0);
    assert_int_equal(stook_cache_destroy(cache), 0);
    check_all(NULL, 0);
}

int main(void)
{
    if (!getenv("STOOK_ARENA")) { /* read before main(): once more, with little */
        setenv("STOOK_ARENA", "32M", 1);
#ifdef TOPOLOGY
        setenv("STOOK_TOPOLOGY", TOPOLOGY, 1);
#endif
        execl("/proc/self/exe", "test_prefilled", NULL);
        return 1;
    }
    return tests_run(NULL, NULL);
}
