/* SPDX-License-Identifier: MIT */
/*
 * What bulk calls do to slabs, counted: compare-and-swaps of state words, links written, takings
 * of a node's lock.  A time says that something became slow; these say that a mechanism broke.
 * Every bound follows from the design; what it is when the mechanism is gone stands beside it.
 */
#include "slab/detached.h"

#include "os/topology.h"
#include "sheaf/sheaf.h"
#include "slab/node.h"
#include "support/check.h"
#include "support/environment.h"
#include "support/random.h"
#include "support/test.h"

#include <stook/stook.h>

#include <sched.h>

enum { MOST = 40000, DETACH = 16 /* slabs taken off the partial list at a time (node.c) */ };

static struct stook_cache *cache;
static struct node *node;
static unsigned per_slab;
static void *objects[MOST];
static struct slab_counts before;

static void make(size_t size, unsigned flags)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = flags};

    cache = stook_cache_create("events", size, &args);
    assert_non_null(cache);
    cache->flags &= ~STOOK_CACHE_ADAPTIVE; /* sheaves and barns keep their sizes */
    node = &cache->nodes[topology.home_of_node[0]].node;
    per_slab = cache->layout.objects;
}

static void unmake(void)
{
    assert_int_equal(stook_cache_destroy(cache), 0);
    check_all(NULL, 0);
}

static void count(void)
{
    before = slab_counts;
}

static struct slab_counts counted(const char *what, unsigned n)
{
    struct slab_counts now = {.swaps = slab_counts.swaps - before.swaps,
                              .links = slab_counts.links - before.links,
                              .lists = slab_counts.lists - before.lists,
                              .whole = slab_counts.whole - before.whole};

    printf("%-34s %5u objects of %4u: %4u swaps, %5u links, %4u list locks, %3u whole\n", what, n,
           per_slab, (unsigned)now.swaps, (unsigned)now.links, (unsigned)now.lists,
           (unsigned)now.whole);
    return now;
}

static void take(unsigned n)
{
    assert_int_equal(node_take(cache, 0, objects, n, n, false), n);
}

static void shuffle(unsigned n, unsigned window)
{
    uint64_t seed = 3;

    for (unsigned i = 0; i + 1 < n; i++) {
        unsigned ahead = n - i < window ? n - i : window, k = i + random_below(&seed, ahead);
        void *object = objects[i];
        objects[i] = objects[k];
        objects[k] = object;
    }
}

static unsigned chunks(unsigned n)
{
    return (n + DETACHED_CHUNK - 1) / DETACHED_CHUNK;
}

/* Sets of lists that n objects are sorted into, at most: one ends with a chunk, before the slab that the chunk
 * divides, or when it is full. */
static unsigned sets(unsigned n, uint64_t lists)
{
    unsigned most = DETACHED_CHUNK > per_slab ? DETACHED_CHUNK - per_slab : 1;

    return (n + most - 1) / most + (unsigned)(lists / DETACHED_LISTS);
}

/* ---- taking --------------------------------------------------------------------------------- */

/*
 * New slabs that are consumed whole: nothing is linked, nothing is published, no list is looked at.
 * Were they linked first, there would be a link an object.
 */
TEST(new_slabs_whole)
{
    struct slab_counts n;

    for (unsigned flags = 0; flags <= STOOK_CACHE_RANDOM; flags += STOOK_CACHE_RANDOM) {
        make(256, STOOK_CACHE_NOSHEAF | flags);
        count();
        take(20 * per_slab);
        n = counted(flags ? "new slabs in random order" : "new slabs", 20 * per_slab);
        assert_int_equal(n.swaps, 0);
        assert_int_equal(n.links, 0);
        assert_int_equal(n.lists, 0);
        assert_int_equal(n.whole, 20);
        node_put(cache, objects, 20 * per_slab, false);
        unmake();
    }
}

/* The last slab's rest is linked, a link an object left, and put down once. */
TEST(new_slabs_and_a_rest)
{
    struct slab_counts n;

    make(256, STOOK_CACHE_NOSHEAF);
    count();
    take(3 * per_slab + 5);
    n = counted("new slabs and five", 3 * per_slab + 5);
    assert_int_equal(n.swaps, 1);
    assert_int_equal(n.links, per_slab - 5);
    assert_int_equal(n.lists, 1);
    assert_int_equal(n.whole, 3);
    node_put(cache, objects, 3 * per_slab + 5, false);
    unmake();
}

/* Slabs that were kept empty are on a list: one taking each, and still no link. */
TEST(empty_slabs)
{
    unsigned kept;
    struct slab_counts n;

    make(256, STOOK_CACHE_NOSHEAF);
    kept = cache->min_partial;
    take(kept * per_slab);
    node_put(cache, objects, kept * per_slab, false);
    assert_int_equal(node->nr_empty, kept);
    count();
    take(kept * per_slab);
    n = counted("empty slabs", kept * per_slab);
    assert_int_equal(n.swaps, 0);
    assert_int_equal(n.links, 0);
    assert_int_equal(n.lists, kept);
    assert_int_equal(n.whole, kept);
    node_put(cache, objects, kept * per_slab, false);
    unmake();
}

/* `slabs` partial ones with `free` objects free each; the others are in objects[0 ..). */
static unsigned make_partial(unsigned slabs, unsigned free)
{
    unsigned kept = 0;

    assert_true(slabs * per_slab <= MOST);
    take(slabs * per_slab);
    for (unsigned i = 0; i < slabs; i++) {
        void **slab = objects + i * per_slab;
        node_put(cache, slab, free, false);
        memmove(objects + kept, slab + free, (per_slab - free) * sizeof(void *));
        kept += per_slab - free;
    }
    assert_int_equal(node->nr_partial, slabs);
    return kept;
}

/*
 * Partial slabs are detached up to sixteen under one holding of the lock; one by one it would be a
 * taking a slab.  Each is one swap.  Nothing is linked.
 */
TEST(partial_slabs)
{
    static void *got[40 * 3];
    struct slab_counts n;
    unsigned kept;

    make(1024, STOOK_CACHE_NOSHEAF);
    kept = make_partial(40, 3);
    count();
    assert_int_equal(node_take(cache, 0, got, DETACH * 3, DETACH * 3, false), DETACH * 3);
    n = counted("of 16 partial slabs", DETACH * 3);
    assert_int_equal(n.swaps, DETACH);
    assert_int_equal(n.links, 0);
    assert_int_equal(n.lists, 1);
    count();
    assert_int_equal(node_take(cache, 0, got + DETACH * 3, 24 * 3, 24 * 3, false), 24 * 3);
    n = counted("of 24 partial slabs", 24 * 3);
    assert_int_equal(n.swaps, 24);
    assert_int_equal(n.links, 0);
    assert_int_equal(n.lists, 2);
    assert_int_equal(node->nr_partial, 0);
    node_put(cache, got, 40 * 3, false);
    node_put(cache, objects, kept, false);
    unmake();
}

/*
 * Objects beyond the wanted maximum are returned as they are linked, under one acquisition of the lock.  There are none if
 * the number is between min and max.
 */
TEST(partial_slabs_and_a_rest)
{
    static void *got[100];
    struct slab_counts n;
    unsigned kept;

    make(1024, STOOK_CACHE_NOSHEAF);
    kept = make_partial(12, 7);
    count();
    assert_int_equal(node_take(cache, 0, got, 30, 30, false), 30); /* 4 slabs and 2 of a fifth */
    n = counted("of 5 partial slabs, with a rest", 30);
    assert_int_equal(n.swaps, 5 + 1);
    assert_int_equal(n.links, 0);
    assert_int_equal(n.lists, 1 + 1);
    assert_int_equal(node->nr_partial, 8); /* the fifth is one again */
    count();
    /* The fifth may come first or not: with two slabs of 7 or of 5 and 7 there is enough. */
    assert_in_range(node_take(cache, 0, got + 30, 10, 18, false), 10, 18);
    n = counted("between 10 and 18", 14);
    assert_in_range(n.swaps, 2, 2);
    assert_int_equal(n.links, 0);
    assert_int_equal(n.lists, 1); /* no rest */
    node_put(cache, objects, kept, false);
    for (unsigned i = 0; i < 100; i++)
        if (got[i])
            node_put(cache, got + i, 1, false);
    memset(got, 0, sizeof(got));
    unmake();
}

/* ---- giving back ---------------------------------------------------------------------------- */

/*
 * Whole slabs in order: a list a slab and one more where a chunk ends within one.  A list is one
 * swap, however long.  A list that makes the first gap in a full slab needs the lock, and so does one that
 * empties it: all lists of a chunk have it at once.  Links are written only to slabs that a chunk's end divides.
 */
static void check_whole_slabs(const char *what, unsigned slabs)
{
    unsigned n = slabs * per_slab, divided = n > DETACHED_CHUNK ? chunks(n) - 1 : 0;
    struct slab_counts c;

    if (DETACHED_CHUNK % per_slab == 0)
        divided = 0;
    take(n);
    count();
    node_put(cache, objects, n, false);
    c = counted(what, n);
    assert_in_range(c.swaps, slabs, slabs + divided);
    assert_in_range(c.lists, 1, sets(n, c.swaps));
    assert_true(c.links <= n && c.links <= (divided + 1) * per_slab);
    if (divided == 0) {
        assert_int_equal(c.links, 0);
        assert_int_equal(c.whole, slabs);
    }
}

TEST(whole_slabs_in_order)
{
    make(1024, STOOK_CACHE_NOSHEAF); /* three slabs of 64 are a chunk: none is divided */
    assert_int_equal(DETACHED_CHUNK % per_slab, 0);
    check_whole_slabs("whole slabs in order", 30);
    unmake();
    make(4096, STOOK_CACHE_NOSHEAF);
    check_whole_slabs("whole slabs in order", 60);
    unmake();
    make(600, STOOK_CACHE_NOSHEAF);
    assert_true(DETACHED_CHUNK % per_slab != 0);
    check_whole_slabs("whole slabs in order", 30);
    unmake();
    make(1024, STOOK_CACHE_NOSHEAF | STOOK_CACHE_RANDOM); /* any order within a slab is as good */
    check_whole_slabs("whole slabs, random within each", 30);
    unmake();
}

/*
 * All of some slabs in any order: a swap a slab and chunk at most, where a chunk has room for all of
 * them, and no more than there are objects.  With a window instead of a table it would be nearly a swap an object: 192 objects
 * of 16 slabs stand one slab apart 15 times of 16.  The lock is taken once a chunk, not once a slab.
 */
static void check_shuffled(const char *what, unsigned slabs, unsigned window)
{
    unsigned n = slabs * per_slab;
    struct slab_counts c;

    take(n);
    shuffle(n, window);
    count();
    node_put(cache, objects, n, false);
    c = counted(what, n);
    assert_true((slabs > DETACHED_LISTS || c.swaps <= slabs * chunks(n)) && c.swaps <= n &&
                c.swaps >= slabs);
    assert_in_range(c.lists, 1, sets(n, c.swaps));
    /* A link an object at most: all but a list's last are counted. */
    assert_true(c.links <= n - c.swaps);
}

TEST(shuffled)
{
    make(256, STOOK_CACHE_NOSHEAF);
    check_shuffled("shuffled over 16 slabs", 16, MOST); /* 0.08 swaps, 0.008 locks an object */
    check_shuffled("shuffled within 64", 16, 64);
    check_shuffled("shuffled over 100 slabs", 100, MOST);
    unmake();
    make(64, STOOK_CACHE_NOSHEAF | STOOK_CACHE_LINK_INSIDE);
    check_shuffled("shuffled over 8 slabs", 8, MOST);
    unmake();
}

/* A window of 64 reaches over two slabs or three: what a chunk has of lists shows it. */
TEST(shuffled_within_64)
{
    unsigned n;
    struct slab_counts c;

    make(256, STOOK_CACHE_NOSHEAF);
    n = 100 * per_slab;
    take(n);
    for (unsigned at = 0; at + 64 <= n; at += 64) { /* each 64 among themselves */
        uint64_t seed = at;
        for (unsigned i = 0; i < 63; i++) {
            unsigned k = i + random_below(&seed, 64 - i);
            void *object = objects[at + i];
            objects[at + i] = objects[at + k];
            objects[at + k] = object;
        }
    }
    count();
    node_put(cache, objects, n, false);
    c = counted("64 by 64 shuffled", n);
    /* A slab spans per_slab / 192 chunks, and one more for each end that lies within one. */
    assert_true(c.swaps <= 100 * (per_slab / DETACHED_CHUNK + 3));
    assert_true(c.lists <= 2 * 100);
    unmake();
}

/* Single objects are a list each: a swap an object, and the lock at the ends only. */
TEST(one_by_one)
{
    struct slab_counts c;

    make(1024, STOOK_CACHE_NOSHEAF);
    take(10 * per_slab);
    count();
    for (unsigned i = 0; i < 10 * per_slab; i++)
        node_put(cache, objects + i, 1, false);
    c = counted("one by one", 10 * per_slab);
    assert_int_equal(c.swaps, 10 * per_slab);
    assert_int_equal(c.lists, 2 * 10);
    unmake();
}

/* ---- the public calls ----------------------------------------------------------------------- */

static void pin(void)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* What fits this CPU's sheaves meets no slab at all. */
TEST(cached)
{
    struct slab_counts c;
    unsigned most;

    pin();
    make(256, 0);
    most = cache_capacity(cache);
    assert_int_equal(stook_alloc_bulk(cache, 0, most, objects), 0);
    stook_free_bulk(cache, most, objects);
    count();
    for (unsigned round = 0; round < 100; round++) {
        assert_int_equal(stook_alloc_bulk(cache, 0, most, objects), 0);
        stook_free_bulk(cache, most, objects);
    }
    c = counted("100 times a sheaf's worth", 100 * most);
    assert_int_equal(c.swaps + c.links + c.lists, 0);
    unmake();
}

/*
 * Many at once.  Allocating takes whole slabs into the array, so at most the surplus of two slabs is linked (the
 * sheaf's and the array's).  When they are freed in order, two sheaves and the barn take some, sheaves that find no
 * place are flushed, and the others go to slabs as above.  A sheaf may begin and end within a slab, and there are a
 * few of them a call, so there are at most two swaps a slab.  Single frees through full sheaves would make at least
 * one a slab and sheaf.
 */
TEST(many)
{
    struct slab_counts c;
    unsigned slabs = 100, n;

    make(1024, 0);
    n = slabs * per_slab;
    for (unsigned round = 0; round < 6; round++) {
        uint64_t made = node->made;
        count();
        assert_int_equal(stook_alloc_bulk(cache, 0, n, objects), 0);
        c = counted("alloc_bulk", n);
        assert_true(c.links <= 2 * per_slab);
        assert_true(c.swaps <= slabs + 4);
        assert_true(c.whole + 8 >= node->made - made); /* new slabs were emitted whole */
        count();
        stook_free_bulk(cache, n, objects);
        c = counted("free_bulk", n);
        assert_true(c.swaps <= 2 * slabs);
        assert_true(c.lists <= 2 * slabs);
        /* Links only to what lies before a chunk's end in the slab that it divides. */
        assert_true(c.links <= (chunks(n) + 4) * per_slab);
        assert_true(c.whole + 8 >= slabs - 3 * cache_capacity(cache) / per_slab);
    }
    unmake();
}

TEST(many_shuffled)
{
    struct slab_counts c;
    unsigned slabs = 16, n;

    make(256, 0);
    n = slabs * per_slab;
    assert_int_equal(stook_alloc_bulk(cache, 0, n, objects), 0);
    shuffle(n, MOST);
    count();
    stook_free_bulk(cache, n, objects);
    c = counted("free_bulk, shuffled", n);
    /* As node_put(), and a few sheaves of their own chunk each: a tenth of a swap an object. */
    assert_true(c.swaps * 8 <= n);
    assert_true(c.lists <= 2 * slabs + 4);
    unmake();
}

/* What one call did at most. */
static void most_of(struct slab_counts *most, const struct slab_counts *since)
{
    uint64_t swaps = slab_counts.swaps - since->swaps, locks = slab_counts.lists - since->lists;

    most->swaps = swaps > most->swaps ? swaps : most->swaps;
    most->lists = locks > most->lists ? locks : most->lists;
}

/*
 * A single call goes down to few slabs, however many objects its CPU has: a step of a flush, of its own sheaf and
 * of the barn's surplus; or a batch of partial slabs.  Were sheaves flushed whole, a free would swap the words
 * of all slabs that a sheaf has objects of, and of those of half a barn now and then.  An allocation took
 * up to 510 objects, of as many slabs.
 */
TEST(one_call_is_bounded)
{
    enum {
        STEPS = 3, /* of a flush: what is left of the spare sheaf, main, and the barn's surplus */
        OWN = 8,   /* swaps and locks for the library's own sheaves, that come and go */
    };
    static const unsigned sizes[] = {16, 64, 512};

    for (unsigned size = 0; size < sizeof(sizes) / sizeof(sizes[0]); size++) {
        struct slab_counts taken = {0}, freed = {0}, now;
        unsigned slabs;
        make(sizes[size], 0);
        memset(objects, 0, sizeof(objects));
        for (unsigned round = 0; round < 5; round++) {
            for (unsigned i = 0; i < MOST; i++) {
                if (objects[i])
                    continue;
                now = slab_counts;
                objects[i] = stook_alloc(cache, 0);
                assert_non_null(objects[i]);
                most_of(&taken, &now);
            }
            shuffle(MOST, MOST);
            for (unsigned i = 0; i < MOST; i++) {
                if (i % 4 == 0 && round < 4)
                    continue;
                now = slab_counts;
                stook_free(cache, objects[i]);
                objects[i] = NULL;
                most_of(&freed, &now);
            }
        }
        slabs = MOST / per_slab;
        printf("one of %u bytes over %u slabs: alloc %u swaps and %u locks, free %u and %u\n",
               sizes[size], slabs, (unsigned)taken.swaps, (unsigned)taken.lists,
               (unsigned)freed.swaps, (unsigned)freed.lists);
        assert_in_range(freed.swaps, 1, STEPS * SHEAF_FLUSH_SLABS + OWN);
        assert_in_range(taken.swaps, 1, DETACH + 1 + OWN);
        assert_in_range(freed.lists, 1, STEPS + OWN);
        assert_in_range(taken.lists, 1, 2 + OWN);
        unmake();
    }
}

int main(void)
{
    pin();
    return tests_run(NULL, NULL);
}
