/* SPDX-License-Identifier: MIT */
/*
 * Slabs move between full, partial and empty as objects are allocated and freed.  A slab whose list work a handler cannot
 * do is pending until the interrupted holder does it.  check_all() after each step.
 */
#include "slab/node.h"

#include "base/context.h"
#include "page/arena.h"
#include "page/zone.h"
#include "support/check.h"
#include "support/random.h"
#include "support/test.h"

#include <stook/stook.h>

#include <signal.h>

enum { MOST = 4000 };

static struct stook_cache *cache;
static struct node *node;
static unsigned per_slab;
static void *objects[MOST];
static unsigned held;

static int setup_links(unsigned links)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_NOSHEAF | links};

    cache = stook_cache_create("node", 256, &args);
    node = &cache->nodes[0].node;
    per_slab = cache->layout.objects;
    held = 0;
    return cache ? 0 : -1;
}

static int setup(void **unused)
{
    return setup_links(0);
}

static int teardown(void **unused)
{
    if (held > 0)
        node_put(cache, objects, held, false);
    assert_int_equal(stook_cache_destroy(cache), 0);
    check_all(NULL, 0);
    return 0;
}

static void check(void)
{
    static struct check_object list[MOST];
    size_t n = 0;

    for (unsigned i = 0; i < held; i++)
        if (objects[i])
            list[n++] = (struct check_object){cache, objects[i]};
    check_all(list, n);
}

static void take(unsigned min, unsigned max)
{
    unsigned got = node_take(cache, 0, objects + held, min, max, false);

    assert_true(got >= min && got <= max);
    held += got;
    check();
}

/* Gives back n objects from `at` on. */
static void put(unsigned at, unsigned n)
{
    void *given[MOST];

    assert_true(at + n <= held);
    memcpy(given, objects + at, n * sizeof(void *));
    memmove(objects + at, objects + at + n, (held - at - n) * sizeof(void *));
    held -= n;
    node_put(cache, given, n, false);
    check();
}

static void lists(unsigned slabs, unsigned partial, unsigned empty)
{
    assert_int_equal(node->made - node->gone, slabs);
    assert_int_equal(node->nr_partial, partial);
    assert_int_equal(node->nr_empty, empty);
}

TEST_WITH(states, setup, teardown)
{
    lists(0, 0, 0);
    take(per_slab, per_slab); /* emitted whole: full */
    lists(1, 0, 0);
    put(0, 1); /* full -> partial */
    lists(1, 1, 0);
    put(0, 2); /* partial stays partial: without the lock */
    lists(1, 1, 0);
    take(3, 3); /* partial -> full */
    lists(1, 0, 0);
    take(1, 1); /* a new slab, the rest linked */
    lists(2, 1, 0);
    put(held - 1, 1); /* partial -> empty */
    lists(2, 0, 1);
    take(2, 2); /* the empty one again, no new slab */
    lists(2, 1, 0);
    put(0, per_slab); /* full -> empty at once */
    lists(2, 1, 1);
    put(0, 2);
    lists(2, 0, 2);
    assert_int_equal(node->made, 2);
}

TEST_WITH(partial_slabs_first, setup, teardown)
{
    uint64_t made;

    take(4 * per_slab, 4 * per_slab);
    for (unsigned i = 0; i < 4; i++)
        put(i * (per_slab - 2), 2); /* two of each slab */
    lists(4, 4, 0);
    made = node->made;
    take(8, 8);
    lists(4, 0, 0);
    assert_int_equal(node->made, made);
    take(1, 5); /* at most what is asked for */
    assert_int_equal(held, 4 * per_slab + 5);
}

TEST_WITH(empty_slabs_are_few, setup, teardown)
{
    struct arena_stat before, after;

    take(20 * per_slab, 20 * per_slab);
    arena_stat(&before);
    put(0, 20 * per_slab);
    lists(cache->min_partial, 0, cache->min_partial);
    assert_int_equal(node->gone, 20 - cache->min_partial);
    arena_stat(&after);
    assert_int_equal(before.used - after.used,
                     (20 - cache->min_partial) * ((size_t)PAGE_SIZE << cache->layout.order));
    assert_int_equal(node_shrink(cache, 0),
                     cache->min_partial * ((size_t)PAGE_SIZE << cache->layout.order));
    lists(0, 0, 0);
    assert_int_equal(node_shrink(cache, 0), 0);
}

TEST_WITH(counts_free_objects, setup, teardown)
{
    assert_int_equal(node_count_free(cache, 0), 0);
    take(per_slab + 1, per_slab + 1);
    assert_int_equal(node_count_free(cache, 0), per_slab - 1);
    put(0, per_slab);
    assert_int_equal(node_count_free(cache, 0), 2 * per_slab - 1);
}

TEST_WITH(random_order, setup, teardown)
{
    uint64_t seed = 5;

    for (int step = 0; step < 600; step++) {
        unsigned n = 1 + random_below(&seed, 3 * per_slab);
        if (random_below(&seed, 2) && held + n <= MOST)
            take(random_below(&seed, 2) ? n : 1, n);
        else if (n <= held)
            put(random_below(&seed, held - n + 1), n);
        for (unsigned i = 0; i < held; i += 3) { /* so that frees meet many slabs */
            unsigned k = random_below(&seed, held);
            void *object = objects[i];
            objects[i] = objects[k];
            objects[k] = object;
        }
    }
}

TEST_WITH(nulls_are_skipped, setup, teardown)
{
    void *given[6];

    take(3, 3);
    given[0] = given[2] = given[5] = NULL;
    given[1] = objects[0];
    given[3] = objects[1];
    given[4] = objects[2];
    held = 0;
    node_put(cache, given, 6, false);
    check();
}

/* As a handler does it: inside the library already, with the node's lock held below it. */
static void handler_put(unsigned n, bool locked)
{
    void *given[MOST];

    memcpy(given, objects + held - n, n * sizeof(void *));
    held -= n;
    assert_false(context_enter());
    if (locked)
        lock_take(&node->lock, LOCK_NODE);
    assert_true(context_enter());
    node_put(cache, given, n, true);
    context_leave();
    if (locked)
        lock_drop(&node->lock, LOCK_NODE);
    context_leave(); /* does the deferred work */
    assert_null(atomic_load(&context_tls.deferred));
    check();
}

TEST_WITH(handler_defers, setup, teardown)
{
    take(per_slab, per_slab);
    handler_put(1, true); /* full -> partial */
    lists(1, 1, 0);
    handler_put(per_slab - 1, true); /* partial -> empty */
    lists(1, 0, 1);
    take(per_slab, per_slab);
    handler_put(per_slab, true); /* full -> empty */
    lists(1, 0, 1);
    take(per_slab, per_slab);
    handler_put(2, false); /* the lock is free: it is done at once */
    lists(1, 1, 0);
}

/* A handler frees into several slabs, one of them pending already and on the partial list. */
TEST_WITH(handler_defers_many, setup, teardown)
{
    void *given[MOST];

    take(10 * per_slab, 10 * per_slab);
    assert_false(context_enter());
    lock_take(&node->lock, LOCK_NODE);
    for (unsigned round = 0; round < 3; round++) {
        unsigned n = 0;
        for (unsigned s = 0; s < 10; s++) {
            given[n++] = objects[s * per_slab + round];
            objects[s * per_slab + round] = NULL;
        }
        context_enter();
        node_put(cache, given, n, true);
        context_leave();
    }
    assert_int_equal(node->nr_partial, 0); /* the lists wait */
    lock_drop(&node->lock, LOCK_NODE);
    context_leave();
    lists(10, 10, 0);
    check();
    for (unsigned i = 0, k = 0; i < 10 * per_slab; i++) {
        if (objects[i])
            objects[k++] = objects[i];
        held = k;
    }
    assert_int_equal(held, 10 * (per_slab - 3));
}

/*
 * A handler that cannot have the lock frees a slab whole, at once and in pieces, of which the last covers all objects in
 * use.  The slab is pending, and is linked like any other.
 */
TEST_WITH(handler_defers_whole, setup, teardown)
{
    for (unsigned pieces = 1; pieces <= 4; pieces++) {
        void *given[MOST];
        take(per_slab, per_slab);
        memcpy(given, objects, per_slab * sizeof(void *));
        held = 0;
        assert_false(context_enter());
        lock_take(&node->lock, LOCK_NODE);
        for (unsigned i = 0, at = 0; i < pieces; i++) {
            unsigned n = i + 1 < pieces ? per_slab / pieces : per_slab - at;
            assert_true(context_enter());
            node_put(cache, given + at, n, true);
            context_leave();
            at += n;
        }
        assert_int_equal(node->nr_partial + node->nr_empty, 0); /* the lists wait */
        lock_drop(&node->lock, LOCK_NODE);
        context_leave();
        check();
        lists(1, 0, 1);
    }
}

/* Between min and max: no more lists are taken than it needs, and at most what is asked for. */
TEST_WITH(between_min_and_max, setup, teardown)
{
    enum { FREE = 5, SLABS = 12 };

    take(SLABS * per_slab, SLABS * per_slab);
    for (unsigned i = 0; i < SLABS; i++)
        put(i * (per_slab - FREE), FREE);
    lists(SLABS, SLABS, 0);
    for (unsigned min = 1; min < 3 * FREE; min++) {
        for (unsigned max = min; max < 4 * FREE; max += 3) {
            unsigned before = held, partial;
            take(min, max);
            partial = SLABS - node->nr_partial; /* slabs that were taken whole */
            assert_true(partial <= (held - before) / FREE);
            put(before, held - before);
            lists(SLABS, SLABS, 0);
        }
    }
}

/* All zones: two locks of one rank, as only fork takes them. */
static void hold_arena(void)
{
    context_tls.fork = FORK_TAKING;
    for (unsigned i = 0; i < pagemap.zones; i++)
        lock_take(&zone_all.zone[i].lock, LOCK_ARENA);
    context_tls.fork = FORK_NONE;
}

static void drop_arena(void)
{
    for (unsigned i = pagemap.zones; i-- > 0;)
        lock_drop(&zone_all.zone[i].lock, LOCK_ARENA);
}

/* The last object of a slab beyond the empty ones: the arena's lock may be held below the handler. */
TEST_WITH(handler_gives_no_slab_back, setup, teardown)
{
    unsigned many = (cache->min_partial + 4) * per_slab;

    take(many, many);
    put(0, cache->min_partial * per_slab);
    lists(cache->min_partial + 4, 0, cache->min_partial);
    assert_false(context_enter());
    hold_arena(); /* the interrupted thread holds it */
    assert_true(context_enter());
    node_put(cache, objects, 4 * per_slab, true); /* would wait for itself */
    context_leave();
    drop_arena();
    context_leave();
    held = 0;
    check();
    lists(cache->min_partial, 0, cache->min_partial); /* given back after all */
}

TEST_WITH(handler_takes, setup, teardown)
{
    void *one;

    take(1, 1);
    context_enter();
    lock_take(&node->lock, LOCK_NODE);
    context_enter();
    /* The partial slab is behind the lock: a new one it is, and the rest of it is deferred. */
    assert_int_equal(node_take(cache, 0, &one, 1, 1, true), 1);
    context_leave();
    lock_drop(&node->lock, LOCK_NODE);
    context_leave();
    objects[held++] = one;
    check();
    lists(2, 2, 0);
    context_enter();
    lock_take(&node->lock, LOCK_NODE);
    hold_arena();
    context_enter();
    errno = 0;
    assert_int_equal(node_take(cache, 0, &one, 1, 1, true), 0);
    assert_int_equal(errno, ENOMEM);
    context_leave();
    drop_arena();
    lock_drop(&node->lock, LOCK_NODE);
    context_leave();
    check();
}

/*
 * A slab has two objects in use.  While one is freed, a handler frees the other, at every instruction once.  If the push
 * has begun, it needs the node's lock after all.  The empty slab's marks say that all objects are free.
 */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#include "support/single_step.h"

static unsigned steps, target;
static bool fired;

static void on_step(int signal, siginfo_t *info, void *ucontext)
{
    if (++steps != target)
        return;
    fired = true;
    assert_true(context_enter());
    node_put(cache, &objects[1], 1, true);
    context_leave();
    single_step_end(ucontext);
}

static void free_at_every_instruction(void)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, old;

    sigaction(SIGTRAP, &action, &old);
    for (target = 1, fired = true; fired; target++) {
        take(per_slab, per_slab);
        put(2, per_slab - 2);
        steps = 0;
        fired = false;
        assert_false(context_enter());
        single_step(true);
        node_put(cache, &objects[0], 1, false);
        single_step(false);
        if (!fired)
            node_put(cache, &objects[1], 1, false);
        context_leave();
        held = 0;
        check();
        lists(1, 0, 1);
    }
    sigaction(SIGTRAP, &old, NULL);
    assert_true(target > 50);
}

static int setup_outside(void **unused)
{
    return setup_links(STOOK_CACHE_LINK_OUTSIDE);
}

TEST_WITH(handler_at_every_instruction_marks_in_links, setup_outside, teardown)
{
    assert_false(cache->layout.marks);
    free_at_every_instruction();
}

static int setup_inside(void **unused)
{
    return setup_links(STOOK_CACHE_LINK_INSIDE);
}

TEST_WITH(handler_at_every_instruction_marks_in_bytes, setup_inside, teardown)
{
    assert_true(cache->layout.marks || !STOOK_ENCODED);
    free_at_every_instruction();
}
#endif
