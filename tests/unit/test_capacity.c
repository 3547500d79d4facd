/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Sheaves of another capacity while threads run, budgets, and adaptive caches.  After a call the tests assert what
 * slots and barns hold; the walk of support/check.h finds lost objects.
 */
#include "base/context.h"
#include "cache/adapt.h"
#include "base/settings.h"
#include "percpu/percpu.h"
#include "os/topology.h"
#include "sheaf/barn.h"
#include "sheaf/budget.h"
#include "sheaf/slot_drain.h"
#include "support/slot_look.h"
#include "support/check.h"
#include "support/environment.h"
#include "support/random.h"
#include "support/test.h"

#include <stook/reserve.h>
#include <stook/stat.h>
#include <stook/stook.h>

#include <sched.h>

enum { OBJECTS = 60000, SIZE = 256 };

static struct stook_cache *cache;
static void *object[OBJECTS];

static void make(size_t size, unsigned flags, unsigned capacity, size_t max)
{
    struct stook_cache_args args = {
        .size = sizeof(args), .flags = flags, .sheaf_capacity = capacity, .cached_bytes_max = max};

    cache = stook_cache_create("capacity", size, &args);
    assert_non_null(cache);
}

static void unmake(void)
{
    assert_int_equal(stook_cache_destroy(cache), 0);
    check_all(NULL, 0);
    assert_int_equal(atomic_load(&budget.granted), 0);
    assert_int_equal(atomic_load(&adapt_grown), 0);
}

static void take(struct stook_cache *from, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        object[i] = stook_alloc(from, 0);
        assert_non_null(object[i]);
    }
}

static void give(struct stook_cache *to, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        stook_free(to, object[i]);
}

static void check_held(unsigned n)
{
    static struct check_object held[OBJECTS];

    for (unsigned i = 0; i < n; i++)
        held[i] = (struct check_object){cache, object[i]};
    check_all(held, n);
}

static uint64_t barn_bytes(void)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < topology.nodes; i++)
        bytes += cache->nodes[i].barn.bytes;
    return bytes;
}

/* One CPU, so that what a slot holds is known. */
static void pin(void)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* ---- setting it ------------------------------------------------------------------------------ */

TEST(arguments)
{
    struct stook_cache_args args = {.size = sizeof(args)};
    unsigned most;

    make(SIZE, 0, 0, 0);
    most = cache_capacity(cache);
    assert_true(most > 0);
    errno = 0;
    assert_int_equal(stook_cache_set_capacity(cache, STOOK_SHEAF_CAPACITY_MAX + 1), -1);
    assert_int_equal(errno, E2BIG);
    assert_int_equal(cache_capacity(cache), most);
    assert_int_equal(stook_cache_set_capacity(cache, STOOK_SHEAF_CAPACITY_MAX), 0);
    assert_int_equal(cache_capacity(cache), STOOK_SHEAF_CAPACITY_MAX);
    assert_int_equal(stook_cache_set_capacity(cache, 1), 0);
    assert_int_equal(cache_capacity(cache), 1);
    assert_int_equal(cache_capacity(cache), 1);
    assert_int_equal(stook_cache_set_capacity(cache, 0), 0);
    assert_int_equal(cache_capacity(cache), most); /* the default again */
    unmake();
    make(SIZE, STOOK_CACHE_NOSHEAF, 0, 0);
    assert_int_equal(cache_capacity(cache), 0);
    errno = 0;
    assert_int_equal(stook_cache_set_capacity(cache, 5), -1);
    assert_int_equal(errno, ENOTSUP);
    unmake();
    args.flags = STOOK_CACHE_NOSHEAF | STOOK_CACHE_ADAPTIVE;
    errno = 0;
    assert_null(stook_cache_create("both", SIZE, &args));
    assert_int_equal(errno, EINVAL);
}

/* From every capacity to every other, with sheaves full, half full and empty about. */
TEST(from_each_to_each)
{
    static const unsigned capacities[] = {1, 6, 7, 60, 1022};
    enum { N = sizeof(capacities) / sizeof(capacities[0]), HELD = 2400 };

    for (unsigned from = 0; from < N; from++)
        for (unsigned to = 0; to < N; to++) {
            make(64, 0, capacities[from], 0);
            take(cache, HELD);
            give(cache, HELD / 2);
            assert_int_equal(stook_cache_set_capacity(cache, capacities[to]), 0);
            for (unsigned i = 0; i < HELD / 2; i++)
                object[i] = stook_alloc(cache, 0);
            check_held(HELD);
            stook_free_bulk(cache, HELD, object);
            assert_int_equal(stook_alloc_bulk(cache, 0, HELD, object), 0);
            stook_free_bulk(cache, HELD, object);
            check_all(NULL, 0);
            unmake();
        }
}

/* Turns of allocating and freeing more than what slots hold replace what is about. */
TEST(old_sheaves_are_replaced)
{
    pin();
    make(SIZE, 0, 7, 0);
    take(cache, 100);
    give(cache, 100);
    assert_int_equal(stook_cache_set_capacity(cache, 40), 0);
    for (int turn = 0; turn < 8; turn++) {
        take(cache, 1000);
        give(cache, 1000);
    }
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++) {
        struct slot *slot = percpu_slot(cpu, percpu_offset(cache->index));
        struct sheaf *main;
        if (!slot)
            continue;
        main = slot_look(slot);
        if (main)
            assert_int_equal(main->capacity, 40);
        if (slot->spare)
            assert_int_equal(slot->spare->capacity, 40);
    }
    unmake();
}

/* Less: what is over goes back at once, on CPUs that do nothing as well. */
TEST(less_is_drained)
{
    uint64_t objects, sheaves;

    make(SIZE, 0, 1022, 0);
    take(cache, 1500);
    give(cache, 1500);
    assert_int_equal(stook_cache_set_capacity(cache, 6), 0);
    slot_count(cache, &objects, &sheaves);
    assert_int_equal(objects, 0);
    assert_int_equal(sheaves, 0);
    assert_int_equal(barn_bytes(), 0);
    unmake();
}

/* A sheaf that was prefilled stays as it was asked for. */
TEST(prefilled_stays)
{
    struct stook_sheaf *sheaf;

    make(SIZE, 0, 8, 0);
    take(cache, 64);
    give(cache, 64); /* sheaves of 8 in the slot and in the barn */
    assert_int_equal(stook_cache_set_capacity(cache, 300), 0);
    for (int turn = 0; turn < 4; turn++) {
        sheaf = stook_sheaf_prefill(cache, 0, 200); /* more than what lies ready has room for */
        assert_non_null(sheaf);
        assert_true(stook_sheaf_size(sheaf) >= 200);
        assert_int_equal(stook_cache_set_capacity(cache, turn % 2 ? 300 : 4), 0);
        for (unsigned i = 0; i < 200; i++)
            assert_non_null(object[i] = stook_sheaf_alloc(cache, 0, sheaf));
        assert_int_equal(stook_sheaf_refill(cache, 0, &sheaf, 20), 0);
        stook_sheaf_return(cache, sheaf);
        give(cache, 200);
        check_all(NULL, 0);
        assert_int_equal(stook_cache_set_capacity(cache, 300), 0);
    }
    unmake();
}

/* ---- budgets --------------------------------------------------------------------------------- */

/* Bytes of objects in slots may be as many as slot.h says, and no more. */
static size_t slots_most(void)
{
    return 2 * (size_t)cache_capacity(cache) * cache->layout.stride;
}

TEST(bound_of_a_cache)
{
    static const size_t budgets[] = {1, 4096, 100000, 300000};
    uint64_t random = 7;

    pin();
    for (unsigned b = 0; b < sizeof(budgets) / sizeof(budgets[0]); b++)
        for (unsigned flags = 0; flags <= STOOK_CACHE_ADAPTIVE; flags += STOOK_CACHE_ADAPTIVE) {
            unsigned held = 0;
            make(SIZE, flags, 16, budgets[b]);
            assert_int_equal(cache->policy.cached_max, budgets[b]);
            for (int turn = 0; turn < 12; turn++) {
                unsigned to = random_below(&random, OBJECTS / 4);
                struct stook_stat stat = {.size = sizeof(stat)};
                uint64_t objects, sheaves;
                for (; held < to; held++)
                    assert_non_null(object[held] = stook_alloc(cache, 0));
                while (held > to)
                    stook_free(cache, object[--held]);
                assert_int_equal(stook_cache_stat(cache, &stat), 0);
                assert_int_equal(stat.cached_bytes_max, budgets[b]);
                assert_int_equal(stat.cached_bytes, atomic_load(&budget.granted));
                assert_true(stat.cached_bytes <= budgets[b]);
                assert_true(barn_bytes() <= stat.cached_bytes);
                slot_count(cache, &objects, &sheaves);
                assert_true(objects * cache->layout.stride <= slots_most());
            }
            check_held(held);
            give(cache, held);
            unmake();
        }
}

TEST(bound_of_all)
{
    enum { CACHES = 6, EACH = 1000 };
    struct stook_cache *caches[CACHES];
    static void *objects[CACHES][EACH];
    size_t most = 0, max = 256 << 10;

    assert_int_equal(stook_cached_bytes_set_max(max), 0);
    for (int c = 0; c < CACHES; c++)
        assert_non_null(caches[c] = stook_cache_create("one", SIZE, NULL));
    for (int turn = 0; turn < 12; turn++) {
        if (turn == 6) { /* a lower one is kept from now on */
            assert_true(most > max / 4);
            max /= 4;
            assert_int_equal(stook_cached_bytes_set_max(max), 0);
            assert_true(atomic_load(&budget.granted) <= max);
        }
        if (turn == 9) {
            max = 0;
            assert_int_equal(stook_cached_bytes_set_max(0), 0);
            assert_int_equal(atomic_load(&budget.granted), 0);
        }
        for (int c = 0; c < CACHES; c++)
            for (int i = 0; i < EACH; i++)
                assert_non_null(objects[c][i] = stook_alloc(caches[c], 0));
        for (int c = 0; c < CACHES; c++)
            for (int i = 0; i < EACH; i++) {
                stook_free(caches[c], objects[c][i]);
                if (atomic_load(&budget.granted) > most)
                    most = atomic_load(&budget.granted);
                assert_true(atomic_load(&budget.granted) <= max);
            }
        check_all(NULL, 0);
    }
    assert_int_equal(stook_cached_bytes_set_max(setting_initial_number(SETTING_CACHED_MAX)), 0);
    for (int c = 0; c < CACHES; c++)
        assert_int_equal(stook_cache_destroy(caches[c]), 0);
    assert_int_equal(atomic_load(&budget.granted), 0);
}

/* ---- adaptive -------------------------------------------------------------------------------- */

/* Full sheaves missed in a turn in which `n` objects go up and down. */
static uint64_t misses(unsigned n)
{
    struct barn *barn = &cache->nodes[0].barn;
    uint64_t before = barn->get_fail;

    take(cache, n);
    give(cache, n);
    return barn->get_fail - before;
}

static void swing(unsigned n, int turns)
{
    for (int turn = 0; turn < turns; turn++)
        (void)misses(n);
}

TEST(grows_and_shrinks)
{
    const unsigned n = 12000; /* 3 MiB: more than a barn of 1 MiB, less than the budget */
    struct stook_stat stat = {.size = sizeof(stat)};
    unsigned base;

    pin();
    make(SIZE, STOOK_CACHE_ADAPTIVE, 0, 0);
    base = cache_capacity(cache);
    assert_int_equal(stook_cache_stat_enable(cache, STOOK_STATS_SLOW), 0);
    swing(n, 8);
    assert_true(cache_level(cache) > 0);
    assert_true(cache_capacity(cache) > base);
    assert_true(atomic_load(&budget.granted) <= cache->policy.cached_max);
    assert_true(misses(n) <= 2); /* it has what it needs */
    assert_int_equal(stook_cache_stat(cache, &stat), 0);
    assert_int_equal(stat.capacity_grow, cache_level(cache));
    assert_int_equal(stat.capacity_shrink, 0);
    check_all(NULL, 0);
    (void)stook_cache_shrink(cache);
    assert_int_equal(cache_level(cache), 0);
    assert_int_equal(cache_capacity(cache), base);
    assert_int_equal(atomic_load(&budget.granted), 0);
    assert_int_equal(stook_cache_stat(cache, &stat), 0);
    assert_int_equal(stat.capacity_shrink, 1);
    unmake();
}

/* Sheaves, slots and barns leave a verdict and change no limit of the cache; a call acts at its end. */
TEST(acts_after_the_call)
{
    const uint32_t n = 12000;

    pin();
    make(SIZE, STOOK_CACHE_ADAPTIVE, 0, 0);
    for (int turn = 0; turn < 12; turn++) {
        (void)context_enter();
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(slot_alloc(cache, &object[i], 1, false), 1);
        for (uint32_t i = 0; i < n; i++)
            slot_free(cache, &object[i], 1, false);
        context_leave();
    }
    assert_int_equal(cache_level(cache), 0);
    assert_int_equal(cache->policy.verdict, BARN_WANTS_MORE);
    adapt_act_on_verdict(cache, true); /* in a handler, or where no lock may be waited for */
    assert_int_equal(cache_level(cache), 0);
    assert_int_equal(cache->policy.verdict, BARN_WANTS_MORE);
    adapt_act_on_verdict(cache, false);
    assert_int_equal(cache_level(cache), 1);
    assert_int_equal(cache->policy.verdict, BARN_CONTENT);
    check_all(NULL, 0);
    (void)stook_cache_shrink(cache);
    unmake();
}

/* One whose capacity was asked for: it stays. */
TEST(others_do_not)
{
    make(SIZE, 0, 32, 0);
    swing(12000, 8);
    assert_int_equal(cache_capacity(cache), 32);
    assert_int_equal(cache_level(cache), 0);
    assert_int_equal(cache->nodes[0].barn.pressed, 0);
    unmake();
}

/* Batches of 32 objects that a CPU's two sheaves cannot hold, or only by changing places: after a while one sheaf does, and no
 * slot is closed any more. */
TEST(batches_fit)
{
    static const size_t sizes[] = {1024, 2048, 4096};
    struct stook_stat before = {.size = sizeof(before)}, after = {.size = sizeof(after)};

    pin();
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        make(sizes[i], STOOK_CACHE_ADAPTIVE, 0, 0);
        assert_int_equal(stook_cache_set_capacity(cache, 14), 0);
        assert_int_equal(stook_cache_stat_enable(cache, STOOK_STATS_SLOW), 0);
        for (unsigned turn = 0; turn < 2000; turn++) {
            if (turn == 1990)
                assert_int_equal(stook_cache_stat(cache, &before), 0);
            take(cache, 32);
            give(cache, 32);
        }
        assert_int_equal(stook_cache_stat(cache, &after), 0);
        assert_true(cache_capacity(cache) >= 32);
        assert_int_equal(after.sheaf_swap, before.sheaf_swap);
        assert_int_equal(after.barn_get + after.barn_put, before.barn_get + before.barn_put);
        check_all(NULL, 0);
        unmake();
    }
}

/* What only comes is not kept: the barn ends with nothing, at level 0. */
TEST(only_freeing)
{
    make(SIZE, STOOK_CACHE_ADAPTIVE, 0, 2 << 20);
    swing(8000, 8);
    assert_true(cache_level(cache) > 0);
    take(cache, OBJECTS);
    give(cache, OBJECTS);
    assert_int_equal(cache_level(cache), 0);
    assert_true(barn_bytes() <= 128 << 10);
    unmake();
}

/* An idle cache, while another one is used: it is shrunk by calls on the other one. */
TEST(shrunk_by_others)
{
    struct stook_cache *idle, *busy;
    unsigned base;
    size_t held;

    make(SIZE, STOOK_CACHE_ADAPTIVE, 0, 0);
    idle = cache;
    base = cache_capacity(idle);
    swing(12000, 8);
    assert_true(cache_level(idle) > 0);
    held = atomic_load(&cache->policy.cached);
    assert_true(held > 1 << 20);
    busy = stook_cache_create("busy", 512, NULL);
    assert_non_null(busy);
    for (int turn = 0; turn < 4000 && cache_level(idle) > 0; turn++) {
        take(busy, 2000);
        give(busy, 2000);
    }
    assert_int_equal(cache_level(idle), 0);
    assert_int_equal(cache_capacity(idle), base);
    assert_true(atomic_load(&cache->policy.cached) <= 128 << 10);
    assert_int_equal(stook_cache_destroy(busy), 0);
    cache = idle;
    unmake();
}

/* A cache in use is not shrunk. */
TEST(looked_at_while_busy)
{
    uint32_t level;

    make(SIZE, STOOK_CACHE_ADAPTIVE, 0, 0);
    swing(12000, 8);
    level = cache_level(cache);
    assert_true(level > 0);
    for (int i = 0; i < 6; i++) {
        adapt_scan(NULL, false);
        swing(12000, 1);
        adapt_scan(cache, false); /* a cache does not look at itself */
    }
    assert_true(cache_level(cache) >= level);
    adapt_scan(NULL, false);
    adapt_scan(NULL, false);
    adapt_scan(NULL, false);
    assert_int_equal(cache_level(cache), 0);
    unmake();
}

/* A budget for less than what would be of use; and none at all. */
TEST(grows_within_the_budget)
{
    make(SIZE, STOOK_CACHE_ADAPTIVE, 0, 3 << 20);
    swing(30000, 8);
    assert_true(cache->policy.cached <= 3 << 20);
    unmake();
    assert_int_equal(stook_cached_bytes_set_max(0), 0);
    make(SIZE, STOOK_CACHE_ADAPTIVE, 0, 0);
    swing(12000, 8);
    assert_int_equal(cache_level(cache), 0);
    assert_int_equal(atomic_load(&budget.granted), 0);
    assert_int_equal(stook_cached_bytes_set_max(setting_initial_number(SETTING_CACHED_MAX)), 0);
    unmake();
}

/* Set by hand it starts from there. */
TEST(set_while_grown)
{
    make(SIZE, STOOK_CACHE_ADAPTIVE, 0, 0);
    swing(12000, 8);
    assert_true(cache_level(cache) > 0);
    assert_int_equal(stook_cache_set_capacity(cache, 11), 0);
    assert_int_equal(cache_capacity(cache), 11);
    assert_int_equal(cache_level(cache), 0);
    assert_int_equal(cache->policy.grown, 0);
    check_all(NULL, 0);
    swing(12000, 8);
    assert_true(cache_level(cache) > 0);
    assert_int_equal(cache_capacity(cache) % 11, 0);
    unmake();
}
