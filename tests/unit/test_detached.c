/* SPDX-License-Identifier: MIT */
/*
 * Sorting an array into one list a slab: objects that are linked and objects that wait, NULL entries, the chunk, and the
 * reports of wrong pointers.
 */
#include "slab/detached.h"
#include "slab/mark.h"

#include "slab/node.h"
#include "support/check.h"
#include "support/test.h"

#include <stook/stook.h>

enum { MOST = 40000, LISTS = 200 };

static struct stook_cache *cache;
static unsigned per_slab;
static void *objects[MOST]; /* of whole slabs, in order */
static unsigned held;
static struct detached_set set;

static void begin(size_t size, unsigned flags, unsigned slabs)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = flags | STOOK_CACHE_NOSHEAF};

    cache = stook_cache_create("detached", size, &args);
    assert_non_null(cache);
    per_slab = cache->layout.objects;
    held = slabs * per_slab;
    assert_true(held <= MOST);
    assert_int_equal(node_take(cache, 0, objects, held, held, false), held);
}

static void end(void)
{
    node_put(cache, objects, held, false);
    assert_int_equal(stook_cache_destroy(cache), 0);
    check_all(NULL, 0);
}

static uint32_t index_of(const void *object)
{
    uint32_t index;

    slab_of(cache, object, &index);
    return index;
}

static struct slab *slab_of_object(const void *object)
{
    uint32_t index;

    return slab_of(cache, object, &index);
}

/* What was gathered is not published: it is out again. */
static void undo(void *const *given, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (given[i]) {
            uint32_t index = index_of(given[i]);
            assert_true(!STOOK_ENCODED || !mark_is_out(cache, slab_of_object(given[i]), index));
            mark_out(cache, slab_of_object(given[i]), index);
        }
}

/* From its head on the list has these objects, last gathered first. */
static void check_list(struct detached *list, void *const *want, unsigned n)
{
    uint32_t at = list->head;

    if (!list->linked) { /* there was that much to come, so it could have been all of the slab */
        assert_true(slab_inuse(atomic_load(&list->slab->state)) <= DETACHED_CHUNK);
        detached_link(cache, &set, list);
    }
    assert_true(list->linked);
    assert_int_equal(list->count, n);
    assert_int_equal(list->tail, index_of(want[0]));
    for (unsigned i = n; i-- > 0;) {
        assert_int_equal(at, index_of(want[i]));
        if (i > 0)
            at = check_next(cache, list->slab, at, per_slab);
    }
}

TEST(some_of_one_slab)
{
    for (unsigned flags = 0; flags <= STOOK_CACHE_LINK_INSIDE; flags += STOOK_CACHE_LINK_INSIDE) {
        uint64_t links;
        begin(256, flags, 1);
        links = slab_counts.links;
        assert_int_equal(detached_gather(cache, &set, objects + 3, 10, DETACHED_LISTS), 10);
        assert_int_equal(set.lists, 1);
        assert_true(set.list[0].linked); /* it cannot be all that is in use */
        assert_ptr_equal(set.list[0].slab, slab_of_object(objects[0]));
        check_list(&set.list[0], objects + 3, 10);
        assert_int_equal(slab_counts.links - links, 9); /* the tail's waits for the slab's head */
        undo(objects + 3, 10);
        end();
    }
}

/* It may be all that is in use: nothing is linked until it is known not to be. */
TEST(all_of_one_slab)
{
    static char before[1 << 20];
    size_t bytes;

    begin(1024, STOOK_CACHE_LINK_INSIDE, 1);
    bytes = (size_t)PAGE_SIZE << cache->layout.order;
    assert_true(per_slab <= DETACHED_CHUNK && bytes <= sizeof(before));
    memset(slab_base(slab_of_object(objects[0])), 0x6b, bytes);
    memcpy(before, slab_base(slab_of_object(objects[0])), bytes);
    assert_int_equal(detached_gather(cache, &set, objects, per_slab, DETACHED_LISTS), per_slab);
    assert_int_equal(set.lists, 1);
    assert_false(set.list[0].linked);
    assert_int_equal(set.list[0].count, per_slab);
    assert_memory_equal(slab_base(set.list[0].slab), before, bytes);
    detached_link(cache, &set, &set.list[0]); /* another thread took an object meanwhile */
    check_list(&set.list[0], objects, per_slab);
    undo(objects, per_slab);
    end();
}

TEST(nulls_anywhere)
{
    void *given[64], *want[64];

    begin(256, 0, 2);
    for (unsigned null = 0; null < 8; null++) {
        unsigned n = 0;
        for (unsigned i = 0; i < 64; i++) {
            given[i] = i % 8 == null || i % 5 == 0 ? NULL : objects[1 + i];
            if (given[i])
                want[n++] = given[i];
        }
        assert_int_equal(detached_gather(cache, &set, given, 64, DETACHED_LISTS), 64);
        assert_int_equal(set.lists, 1);
        check_list(&set.list[0], want, n);
        undo(given, 64);
    }
    memset(given, 0, sizeof(given));
    assert_int_equal(detached_gather(cache, &set, given, 64, DETACHED_LISTS), 64);
    assert_int_equal(set.lists, 0);
    assert_int_equal(detached_gather(cache, &set, given, 0, DETACHED_LISTS), 0);
    assert_int_equal(set.lists, 0);
    end();
}

/* More slabs than a set has lists: one object each, then a second of each. */
TEST(many_slabs)
{
    static void *given[2 * LISTS];
    unsigned slabs = LISTS, n;

    begin(4096, 0, slabs);
    for (unsigned i = 0; i < slabs; i++)
        given[i] = objects[i * per_slab];
    n = detached_gather(cache, &set, given, slabs, DETACHED_LISTS);
    assert_int_equal(n, DETACHED_LISTS); /* and no more */
    assert_int_equal(set.lists, n);
    for (unsigned i = 0; i < n; i++)
        check_list(&set.list[i], &given[i], 1);
    undo(given, n);
    for (unsigned i = 0; i < DETACHED_LISTS; i++) { /* there and back */
        given[i] = objects[i * per_slab];
        given[2 * DETACHED_LISTS - 1 - i] = objects[i * per_slab + 1];
    }
    given[2 * DETACHED_LISTS] = objects[DETACHED_LISTS * per_slab]; /* the one that is too many */
    assert_int_equal(detached_gather(cache, &set, given, 2 * LISTS, DETACHED_LISTS),
                     2 * DETACHED_LISTS);
    assert_int_equal(set.lists, DETACHED_LISTS);
    for (unsigned i = 0; i < set.lists; i++) {
        void *want[2] = {objects[i * per_slab], objects[i * per_slab + 1]};
        assert_ptr_equal(set.list[i].slab, slab_of_object(want[0]));
        check_list(&set.list[i], want, 2);
    }
    undo(given, 2 * DETACHED_LISTS);
    end();
}

/* ---- reports -------------------------------------------------------------------------------- */

struct bad {
    void *array[80];
    unsigned n;
};

static int put_bad(void *arg)
{
    struct bad *bad = arg;

    node_put(cache, bad->array, bad->n, false);
    return 0;
}

static void says(const struct bad *bad, const char *text)
{
    struct bad copy = *bad;
    struct child child;

    child_run(&child, put_bad, &copy);
    assert_true(child_died_saying(&child, text));
    assert_true(child_died_saying(&child, "BUG detached: bad free: pointer 0x"));
}

/* At any place of the array, also where its neighbours prefetch it or are of its slab. */
TEST(reports)
{
    static const unsigned places[] = {0, 1, 11, 40, 79};
    struct stook_cache *other = stook_cache_create("other", 256, NULL);
    char *of_other = stook_alloc(other, 0);
    struct bad good = {.n = 80}, bad;
    char *waste;

    begin(700, 0, 4);
    memcpy(good.array, objects + 1, sizeof(good.array));
    waste = slab_base(slab_of_object(objects[0])) + (size_t)per_slab * cache->layout.stride;
    assert_true(cache->layout.waste >= 8);
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        unsigned at = places[i];
        bad = good;
        bad.array[at] = &bad;
        says(&bad, "is not of this library");
        bad.array[at] = of_other;
        says(&bad, "is of no slab of this cache; it lies 0 bytes into object");
        bad.array[at] = (char *)good.array[at] + 8;
        says(&bad, "is not the start of an object; it lies 8 bytes into object");
        bad.array[at] = waste; /* where one more object would begin */
        says(&bad, "is not the start of an object");
        bad.array[at] = (void *)(uintptr_t)8; /* hardly a pointer */
        says(&bad, "is not of this library");
        for (unsigned twin = 0; twin < 80 && STOOK_ENCODED;
             twin += 13) { /* near, far, either way */
            if (twin == at)
                continue;
            bad = good;
            bad.array[at] = bad.array[twin];
            says(&bad, "is freed twice");
        }
    }
    stook_free(other, of_other);
    assert_int_equal(stook_cache_destroy(other), 0);
    end();
}

/* More objects than its slab has in use. */
TEST(too_many)
{
    struct bad bad = {.n = 4};

    begin(1024, 0, 1);
    node_put(cache, objects + 2, held - 2, false);
    held = 2;
    bad.array[0] = bad.array[2] = objects[0];
    bad.array[1] = bad.array[3] = objects[1];
    says(&bad, "is freed twice");
    bad.n = 3; /* NULL between twins */
    bad.array[0] = bad.array[2] = objects[0];
    bad.array[1] = NULL;
    says(&bad, "is freed twice");
    end();
}

/*
 * The count of objects in use would fit, so that only marks find it.  One object of a slab that is freed whole is there
 * twice and another one is missing; a third is free in its slab already.
 */
TEST(count_fits)
{
    static const size_t sizes[] = {24, 1024};

    for (unsigned i = 0; i < 2 && STOOK_ENCODED; i++) {
        struct bad bad = {.n = 60};
        begin(sizes[i], 0, 1);
        node_put(cache, objects + 60, held - 60, false);
        held = 60;
        for (unsigned k = 0; k < 60; k++)
            bad.array[k] = objects[k == 41 ? 7 : k];
        says(&bad, "is freed twice; it lies 0 bytes into object 7 of slab");
        bad.n = 1;
        bad.array[0] = (char *)objects[59] + cache->layout.stride;
        says(&bad, "is freed twice; it lies 0 bytes into object 60 of slab");
        end();
    }
}

/*
 * A chunk ends within a slab that may be freed whole: the objects that were gathered are marked as out again, and
 * gathered with the next chunk.
 */
TEST(chunk_divides_a_slab)
{
    static const size_t sizes[] = {40, 1024};

    for (unsigned i = 0; i < 2; i++) {
        unsigned n, keep = 100;
        begin(sizes[i], 0, 2);
        for (unsigned s = 2; s-- > 0 && per_slab > keep;) {
            node_put(cache, objects + s * per_slab + keep, per_slab - keep, false);
            memmove(objects + s * per_slab + keep, objects + (s + 1) * per_slab,
                    (held - (s + 1) * per_slab) * sizeof(objects[0]));
            held -= per_slab - keep;
        }
        n = per_slab < keep ? per_slab : keep;
        if (held > DETACHED_CHUNK)
            assert_int_equal(detached_gather(cache, &set, objects, held, DETACHED_LISTS), n);
        else
            assert_int_equal(detached_gather(cache, &set, objects, held, DETACHED_LISTS), held);
        for (unsigned k = 0; k < held && STOOK_ENCODED; k++)
            assert_true(mark_is_out(cache, slab_of_object(objects[k]), index_of(objects[k])) ==
                        (held > DETACHED_CHUNK && k >= n));
        undo(objects, held > DETACHED_CHUNK ? n : held);
        end();
    }
}
