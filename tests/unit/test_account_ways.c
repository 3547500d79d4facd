/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/*
 * One object at a time, through a cache of each kind.  The columns lie behind the descriptor, in the strides or
 * behind the last object, and have owners, tags or both.  The group is the one that a thread has entered, a named
 * one, or none.  Owners, tags and charges are right at each step, and all charges are returned to the byte.  Also
 * bytes that must not pass for an element.
 */
#include "charge/account.h"
#include "charge/element.h"
#include "support/test.h"
#include "support/with.h"

#include <stook/group.h>
#include <stook/inline.h>
#include <stook/stook.h>
#include <stook/stat.h>

enum { MANY = 700 }; /* some slabs and sheaves of the largest */

static struct stook_group entered, named;
static void *objects[MANY];

static uint64_t usage(struct stook_group of)
{
    struct stook_group_stat stat = {.size = sizeof(stat)};

    assert_int_equal(stook_group_stat(of, &stat), 0);
    return stat.usage;
}

static uint64_t live_of(unsigned tag)
{
    struct stook_tag_stat stat = {.size = sizeof(stat)};

    return tag != 0 && stook_tag_stat(tag, &stat) == 0 ? stat.live_objects : 0;
}

static struct stook_cache *make(size_t size, size_t align, bool owners)
{
    struct stook_cache_args args = {
        .size = sizeof(args), .align = align, .flags = owners ? STOOK_CACHE_ACCOUNT : 0};
    struct stook_cache *cache = stook_cache_create("way", size, &args);

    assert_non_null(cache);
    return cache;
}

/* ---- kinds of caches ------------------------------------------------------------------------ */

static const struct {
    size_t size, align;
    uint8_t owner, tag; /* places; with tags from the start */
} kinds[] = {
    {8, 8, LAYOUT_DEDICATED, LAYOUT_DEDICATED}, {24, 16, LAYOUT_PADDING, LAYOUT_DEDICATED},
    {256, 16, LAYOUT_OUTSIDE, LAYOUT_OUTSIDE},  {992, 64, LAYOUT_PADDING, LAYOUT_PADDING},
    {1240, 8, LAYOUT_LEFTOVER, LAYOUT_OUTSIDE}, {1600, 64, LAYOUT_LEFTOVER, LAYOUT_LEFTOVER},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* Object i is taken and charged to this group. */
static struct stook_group payer(unsigned i)
{
    return i % 5 == 3 ? STOOK_NO_GROUP : i % 5 == 4 ? named : entered;
}

/* One place of each call, and what it returns to is here: some sites are known by that. */
static __attribute__((noinline)) void *take(struct stook_cache *cache, unsigned i)
{
    void *object;

    switch (i % 5) {
    case 0:
        object = stook_alloc(cache, 0);
        break;
    case 1:
        object = stook_alloc_inline(cache, STOOK_NORECLAIM);
        break;
    case 2:
        object = (stook_alloc)(cache, 0);
        break;
    case 3:
        object = alloc_with_group(cache, 0, STOOK_NO_GROUP);
        break;
    default:
        object = alloc_with_group(cache, 0, named);
        break;
    }
    __asm__ __volatile__("" ::: "memory");
    return object;
}

static void check_charges(const struct stook_cache *cache, bool owners, unsigned from, unsigned to)
{
    uint64_t expect[2] = {0, 0};

    for (unsigned i = from; owners && i < to; i++)
        if (payer(i).id)
            expect[payer(i).id == named.id] += cache->account.charge;
    assert_int_equal(usage(entered), expect[0]);
    assert_int_equal(usage(named), expect[1]);
}

/* Takes and frees MANY, and twice some of them more often; how many tags say is looked at, too. */
static void go(struct stook_cache *cache, bool owners, bool tags)
{
    unsigned tag[5] = {0};

    for (unsigned i = 0; i < MANY; i++) {
        objects[i] = take(cache, i);
        assert_non_null(objects[i]);
        if (i % 7 == 0) { /* from the top of the sheaf, and there again */
            stook_free(cache, objects[i]);
            objects[i] = take(cache, i);
        }
        memset(objects[i], (int)i, cache->object_size);
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(stook_group_of(objects[i]).id, owners ? payer(i).id : 0);
        assert_int_equal(stook_tag_of(objects[i]) != 0, tags);
        if (i < 5)
            tag[i] = stook_tag_of(objects[i]);
        assert_int_equal(stook_tag_of(objects[i]), tag[i % 5]);
    }
    for (unsigned i = 0; i < 5; i++) {
        unsigned same = 0; /* a compiler may make one place of two calls */
        for (unsigned k = 0; k < 5; k++)
            same += tag[k] == tag[i];
        assert_int_equal(live_of(tag[i]), tags ? same * (MANY / 5) : 0);
    }
    check_charges(cache, owners, 0, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        if (i % 2)
            stook_free_inline(cache, objects[i]);
        else
            stook_free(cache, objects[i]);
        if (i % 100 == 0)
            check_charges(cache, owners, i + 1, MANY);
    }
    check_charges(cache, owners, MANY, MANY);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(live_of(tag[i]), 0);
}

TEST(test_ways)
{
    for (unsigned tags = 0; tags < 2; tags++) {
        assert_int_equal(stook_tags_enable(NULL, (int)tags), 0);
        for (unsigned i = 0; i < 2 * KINDS; i++) {
            bool owners = i & 1;
            struct stook_cache *cache = make(kinds[i / 2].size, kinds[i / 2].align, owners);
            if (owners && tags) {
                assert_int_equal(cache->layout.column[0][LAYOUT_GROUP].place, kinds[i / 2].owner);
                assert_int_equal(cache->layout.column[0][LAYOUT_TAG].place, kinds[i / 2].tag);
            }
            for (unsigned round = 0; round < 2; round++)
                go(cache, owners, tags);
            assert_int_equal(stook_cache_destroy(cache), 0);
        }
    }
    assert_int_equal(stook_tags_enable(NULL, 0), 0);
}

/* Objects of slabs without tags and with some, freed while tags are counted and while they are not. */
TEST(test_switched)
{
    for (unsigned i = 0; i < 2 * KINDS; i++) {
        struct stook_cache *cache = make(kinds[i / 2].size, kinds[i / 2].align, i & 1);
        unsigned tag = 0;
        for (unsigned k = 0; k < MANY; k++) {
            if (k % 50 == 0)
                assert_int_equal(stook_tags_enable(cache, k / 50 % 2 == 0 && k >= MANY / 2), 0);
            objects[k] = stook_alloc(cache, 0);
            assert_non_null(objects[k]);
            if (stook_tag_of(objects[k]) != 0)
                tag = stook_tag_of(objects[k]);
        }
        for (unsigned k = 0; k < MANY; k++) {
            if (k % 30 == 0) {
                assert_int_equal(stook_tags_enable(cache, k / 30 % 2 == 0), 0);
                stook_free(cache, stook_alloc(cache, 0));
            }
            stook_free(cache, objects[k]);
        }
        assert_int_equal(usage(entered), 0);
        assert_int_equal(stook_tags_enable(cache, 0), 0);
        assert_int_equal(stook_cache_destroy(cache), 0);
        assert_int_equal(live_of(tag), 0); /* the last with the last slab */
    }
}

/* To the last byte of a limit, from stocks that are opened, emptied and closed on the way. */
TEST(test_limit)
{
    struct stook_cache *cache = make(256, 16, true);
    unsigned n = 0;

    assert_int_equal(stook_group_set_limit(entered, MANY / 2 * (size_t)cache->account.charge), 0);
    for (unsigned round = 0; round < 3; round++) {
        while (n < MANY && (objects[n] = stook_alloc(cache, STOOK_NORECLAIM)) != NULL)
            n++;
        assert_int_equal(n, MANY / 2);
        assert_int_equal(usage(entered), (uint64_t)n * cache->account.charge);
        for (unsigned i = round; i > 0; i--) /* room for as many as these */
            stook_free(cache, objects[--n]);
        assert_int_equal(usage(entered), (uint64_t)n * cache->account.charge);
    }
    while (n > 0)
        stook_free(cache, objects[--n]);
    assert_int_equal(usage(entered), 0);
    assert_int_equal(stook_group_set_limit(entered, STOOK_UNLIMITED), 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- what is no element of an object's -------------------------------------------------------- */

static uint64_t *element(struct stook_cache *cache, const void *object, enum layout_which which)
{
    uint32_t index;
    const struct slab *slab = slab_find(cache, object, &index);

    return column_at(cache, slab, which, index);
}

/* What an object's neighbour has, copied over its own as by a copy that was too long. */
static int neighbours(void *arg)
{
    enum layout_which which = arg ? LAYOUT_TAG : LAYOUT_GROUP;
    struct stook_cache *cache;

    if (stook_tags_enable(NULL, 1))
        return 1;
    cache = make(992, 64, true);
    for (unsigned i = 0; i < 2; i++)
        if (!(objects[i] = stook_alloc(cache, 0)))
            return 1;
    *element(cache, objects[0], which) = *element(cache, objects[1], which);
    stook_free(cache, objects[0]);
    return 0;
}

/* A pointer to what lies behind the last object of a slab. */
static int behind(void *arg)
{
    struct stook_cache *cache = make(1240, 8, true);
    char *object = stook_alloc(cache, 0);
    uint32_t index;

    if (!object)
        return 1;
    stook_free(cache, slab_base(slab_find(cache, object, &index)) +
                          (size_t)cache->layout.objects * cache->layout.stride);
    return 0;
}

static int in_the_middle(void *arg)
{
    struct stook_cache *cache = make(256, 16, true);
    char *object = stook_alloc(cache, 0);

    if (!object)
        return 1;
    stook_free(cache, object + 16);
    return 0;
}

TEST(test_reports)
{
    static const struct {
        int (*body)(void *arg);
        int arg;
        const char *says;
    } cases[] = {
        {neighbours, 0, "BUG way: corrupt owner"},
        {neighbours, 1, "BUG way: corrupt tag"},
        {behind, 0, "is not the start of an object"},
        {in_the_middle, 0, "is not the start of an object"},
    };
    static struct child child;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int arg = cases[i].arg;
        child_run(&child, cases[i].body, arg ? &arg : NULL);
        assert_true(child_died_saying(&child, cases[i].says));
    }
}

/* No number is stored as nothing, and what is stored is read back at its own object only. */
TEST(test_elements)
{
    struct stook_cache *cache = make(8, 8, true);

    for (uint64_t step = 0; step < 100000; step++) {
        const void *object = (const void *)(uintptr_t)(0x7f0000000000 + step * 40),
                   *next = (const void *)((uintptr_t)object + 8);
        uint32_t number = (uint32_t)(step * 2654435761u) | 1, read;
        uint64_t stored = column_encode(cache, object, number);
        assert_true(stored != 0);
        assert_true(column_decode(cache, object, stored, &read) && read == number);
        assert_false(column_decode(cache, next, stored, &read));
        assert_false(column_decode(cache, object, 0, &read));
        assert_int_equal(column_encode(cache, object, 0), 0);
    }
    assert_int_equal(stook_cache_destroy(cache), 0);
}

static int setup(void **unused)
{
    entered = stook_group_create("entered", STOOK_NO_GROUP, STOOK_UNLIMITED);
    named = stook_group_create("named", STOOK_NO_GROUP, STOOK_UNLIMITED);
    if (!entered.id || !named.id)
        return -1;
    (void)stook_group_enter(entered);
    return 0;
}

static int teardown(void **unused)
{
    stook_group_leave(STOOK_NO_GROUP);
    return stook_group_destroy(entered) || stook_group_destroy(named) ? -1 : 0;
}

int main(void)
{
    return tests_run(setup, teardown);
}
