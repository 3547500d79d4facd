/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Statistics: the counts add up, exactly.  Every call is counted once, by the CPU that made it, as one that touched slabs
 * or not.  The counts of the layers below agree with their contents.  Counting is switched while threads run, and no
 * object is lost.
 */
#define MUST_FAILS abort()
#include "slab/stat.h"

#include "kmalloc/private.h"
#include "sheaf/slot.h"
#include "sheaf/slot_drain.h"
#include "os/topology.h"
#include "slab/node.h"
#include "support/check.h"
#include "support/must.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/test.h"

#include <stook/inline.h>
#include <stook/reserve.h>
#include <stook/stook.h>
#include <stook/topology.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { MOST = 3000, ROUNDS = 40000 / SCALE_SLOWNESS, BULK = 300 };

#define SUM(event) stat_read_sum(cache, STAT_##event)

static struct stook_cache *cache;
static void *held[MOST];
static unsigned holding;
static uint64_t taken, given; /* objects, by calls that were counted */

static void make(size_t size, unsigned flags, unsigned capacity, int on)
{
    struct stook_cache_args args = {
        .size = sizeof(args), .flags = flags, .sheaf_capacity = capacity};

    cache = stook_cache_create("stat", size, &args);
    MUST(cache && stook_cache_stat_enable(cache, on) == 0);
    taken = given = holding = 0;
}

static struct stook_cache_usage used(void)
{
    struct stook_cache_usage usage = {.size = sizeof(usage)};

    MUST(stook_cache_usage(cache, &usage) == 0);
    return usage;
}

/* One random call. */
static void call(uint64_t *seed)
{
    unsigned what = random_below(seed, 8), n = 1 + random_below(seed, BULK), wanted = n;

    if (what < 3 && holding < MOST) {
        held[holding] = what == 0 ? stook_alloc(cache, 0) : stook_alloc_inline(cache, 0);
        MUST(held[holding++]);
        taken++;
    } else if (what < 6 && holding > 0) {
        unsigned i = random_below(seed, holding);
        void *object = held[i];
        held[i] = held[--holding];
        if (what == 3)
            stook_free(cache, object);
        else
            stook_free_inline(cache, object);
        given++;
    } else if (what == 6 && holding + n <= MOST) {
        MUST(stook_alloc_bulk(cache, 0, n, held + holding) == 0);
        holding += n;
        taken += n;
    } else if (what == 7) {
        if (n > holding)
            n = wanted = holding;
        for (unsigned i = 0; i < n / 7; i++) { /* entries that are NULL do not count */
            void **entry = &held[holding - 1 - random_below(seed, wanted)];
            if (*entry) {
                stook_free(cache, *entry);
                given++;
                *entry = NULL;
                n--;
            }
        }
        stook_free_bulk(cache, wanted, held + holding - wanted);
        holding -= wanted;
        given += n;
    }
}

static void give_all(void)
{
    while (holding > 0) {
        stook_free_inline(cache, held[--holding]);
        given++;
    }
}

/* Sums that always hold while no other thread is in a call, counted from the cache's creation on. */
static void check_sums(void)
{
    uint64_t barn[4] = {0}, lists = 0, slabs = 0, in_slabs = 0, partial = 0, in_barns = 0, in_slots,
             sheaves;

    MUST(SUM(alloc_fastpath) + SUM(alloc_slowpath) == taken);
    MUST(SUM(free_fastpath) + SUM(free_slowpath) == given);
    MUST(SUM(alloc_cpu_sheaf) <= SUM(alloc_fastpath));
    MUST(SUM(free_cpu_sheaf) <= SUM(free_fastpath));
    for (unsigned i = 0; i < topology.nodes; i++) {
        struct node_counts counts;
        barn[0] += cache->nodes[i].barn.get;
        barn[1] += cache->nodes[i].barn.get_fail;
        barn[2] += cache->nodes[i].barn.put;
        barn[3] += cache->nodes[i].barn.put_fail;
        lists += cache->nodes[i].node.took;
        node_count(cache, i, &counts);
        slabs += counts.slabs;
        in_slabs += counts.objects - node_count_free(cache, i);
        partial += cache->nodes[i].node.nr_partial;
        in_barns += cache->nodes[i].barn.nr_full + cache->nodes[i].barn.nr_empty;
    }
    MUST(SUM(barn_get) == barn[0]);
    MUST(SUM(barn_put) == barn[2]);
    MUST(SUM(barn_put_fail) == barn[3]);
    MUST(SUM(barn_get_fail) >= barn[1]);
    MUST(SUM(list_lock_own) + SUM(list_lock_near) + SUM(list_lock_far) == lists);
    MUST(SUM(barn_lock_own) + SUM(barn_lock_near) + SUM(barn_lock_far) >=
         barn[0] + barn[2] + barn[3]);
    MUST(SUM(alloc_slab) - SUM(free_slab) == slabs);
    MUST(SUM(free_add_partial) - SUM(free_remove_partial) - SUM(alloc_from_partial) == partial);
    slot_count(cache, &in_slots, &sheaves);
    MUST(SUM(sheaf_alloc) - SUM(sheaf_free) == sheaves + in_barns);
    MUST(used().slabs == slabs && used().in_use + used().cached == in_slabs);
    MUST(used().in_use == holding && in_slots <= in_slabs - holding);
}

/* Random calls, the sums again and again, and nothing is lost. */
static void run_random(uint64_t seed)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        call(&seed);
        if (i % (ROUNDS / 20) == 0)
            check_sums();
    }
    give_all();
    check_sums();
    MUST(SUM(alloc_fastpath) > 0 && SUM(free_fastpath) > 0 && SUM(alloc_slowpath) > 0);
    MUST(stook_cache_destroy(cache) == 0);
    check_all(NULL, 0);
}

static cpu_set_t everywhere;

/* On one CPU, or where this thread was at the start. */
static void pin(bool one)
{
    cpu_set_t set = everywhere;
    int cpu = sched_getcpu();

    if (one) {
        CPU_ZERO(&set);
        CPU_SET(cpu < 0 ? 0 : (unsigned)cpu, &set);
    }
    (void)sched_setaffinity(0, sizeof(set), &set);
}

/* ---- simulated CPUs ------------------------------------------------------------------------------ */

/* What CPU c allocates, c-1 frees; every count lands on the CPU that made the call. */
static int run_cpus(void *arg)
{
    enum { CPUS = 8, EACH = 5000 };
    uint64_t in[CPUS] = {0}, out[CPUS] = {0}, seed = 77;

    MUST(stook_topology_set("node:4 core:2 memory:1,3=1G distance:0-1=12 distance:2-3=12 "
                            "distance:0-1/2-3=32") == 0);
    make(320, 0, 28, STOOK_STATS_ALL);
    for (unsigned round = 0; round < EACH; round++) {
        unsigned cpu = 1 + random_below(&seed, CPUS - 1), n = 1 + random_below(&seed, 32);
        MUST(stook_topology_cpu((int)cpu) >= 0);
        for (unsigned i = 0; i < n; i++) {
            held[holding++] = stook_alloc(cache, STOOK_NORECLAIM);
            in[cpu]++;
            taken++;
        }
        MUST(stook_topology_cpu((int)cpu - 1) >= 0);
        while (holding > 0) {
            stook_free(cache, held[--holding]);
            out[cpu - 1]++;
            given++;
        }
    }
    check_sums();
    for (int cpu = 0; cpu < CPUS; cpu++) {
        MUST(stat_read(cache, cpu, STAT_alloc_fastpath) +
                 stat_read(cache, cpu, STAT_alloc_slowpath) ==
             in[cpu]);
        MUST(stat_read(cache, cpu, STAT_free_fastpath) +
                 stat_read(cache, cpu, STAT_free_slowpath) ==
             out[cpu]);
    }
    MUST(stat_read(cache, STAT_NO_CPU, STAT_alloc_fastpath) == 0);
    MUST(stat_read(cache, CPUS, STAT_alloc_fastpath) == 0);
    run_random(3);
    return 0;
}

/* The distance of a lock is that from the CPU's own node, memory or not. */
static int run_distances(void *arg)
{
    static const unsigned of_cpu[3] = {1, 0, 2}; /* own, near, far of node 1's memory */

    MUST(stook_topology_set("node:3 core:1 memory:1=1G distance:0/1=12 distance:2/0-1=32") == 0);
    make(64, STOOK_CACHE_NOSHEAF, 0, STOOK_STATS_ALL);
    for (unsigned step = 0; step < 3; step++) {
        MUST(stook_topology_cpu((int)of_cpu[step]) >= 0);
        held[0] = stook_alloc(cache, 0);
        stook_free(cache, held[0]);
        for (unsigned other = 0; other < 3; other++)
            MUST((stat_read(cache, (int)of_cpu[step], STAT_list_lock_own + other) > 0) ==
                 (other == step));
    }
    MUST(stook_cache_destroy(cache) == 0);
    return 0;
}

/* First: nothing may be allocated yet. */
TEST(test_cpus)
{
    in_child(run_cpus, NULL);
    in_child(run_distances, NULL);
}

/* ---- this machine ------------------------------------------------------------------------------- */

TEST(test_sums)
{
    static const struct {
        unsigned size, capacity, flags;
    } cases[] = {{64, 0, 0},   {256, 28, 0}, {320, 6, STOOK_CACHE_HWALIGN},
                 {4000, 0, 0}, {16, 1, 0},   {200, 1022, STOOK_CACHE_RANDOM}};

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make(cases[i].size, cases[i].flags, cases[i].capacity, STOOK_STATS_ALL);
        run_random(i + 1);
    }
}

TEST(test_without_sheaves)
{
    uint64_t seed = 5;

    make(100, STOOK_CACHE_NOSHEAF, 0, STOOK_STATS_ALL);
    for (unsigned i = 0; i < 2000; i++)
        call(&seed);
    give_all();
    check_sums();
    assert_int_equal(SUM(alloc_fastpath) + SUM(free_fastpath), 0);
    assert_int_equal(SUM(alloc_slowpath), taken);
    assert_int_equal(SUM(free_slowpath), given);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* Every single step of one CPU, by hand. */
TEST(test_steps)
{
    enum { CAPACITY = 10 };
    unsigned least;

    make(128, 0, CAPACITY, STOOK_STATS_ALL);
    least = CAPACITY < cache->layout.objects ? CAPACITY : cache->layout.objects;
    held[0] = stook_alloc(cache, 0);
    assert_int_equal(SUM(alloc_slowpath), 1);
    assert_int_equal(SUM(alloc_fastpath), 0);
    assert_int_equal(SUM(alloc_slab), 1);
    assert_int_equal(SUM(sheaf_refill), least);
    assert_int_equal(SUM(barn_get_fail) + SUM(barn_get), SUM(barn_get_fail));
    for (unsigned i = 1; i < least; i++)
        held[i] = stook_alloc(cache, 0);
    assert_int_equal(SUM(alloc_fastpath), least - 1);
    assert_int_equal(SUM(alloc_cpu_sheaf), least - 1);
    assert_int_equal(SUM(alloc_slowpath), 1);
    for (unsigned i = 0; i < least; i++)
        stook_free(cache, held[i]);
    assert_int_equal(SUM(free_fastpath), least);
    assert_int_equal(SUM(free_cpu_sheaf), least);
    assert_int_equal(SUM(free_slowpath), 0);
    assert_int_equal(SUM(sheaf_flush), 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
    check_all(NULL, 0);
}

/* SLOW leaves the fast path open and uncounted; OFF stops all and keeps what there is. */
TEST(test_modes)
{
    const void *slots;
    uint64_t slabs;

    make(96, 0, 0, STOOK_STATS_OFF);
    slots = cache->head.slots;
    assert_ptr_equal(slots, percpu.areas + (percpu.rseq ? percpu_offset(cache->index) : 0));
    held[0] = stook_alloc(cache, 0);
    for (int event = 0; event < STAT_EVENTS; event++)
        assert_int_equal(stat_read_sum(cache, (enum stat_event)event), 0);

    assert_int_equal(stook_cache_stat_enable(cache, STOOK_STATS_SLOW), 0);
    assert_ptr_equal(cache->head.slots, slots);
    assert_int_equal(stook_alloc_bulk(cache, 0, MOST - 1, held + 1), 0);
    assert_int_equal(SUM(alloc_fastpath) + SUM(alloc_cpu_sheaf), 0);
    assert_true(SUM(alloc_slowpath) > 0 && SUM(alloc_slab) > 0);

    assert_int_equal(stook_cache_stat_enable(cache, STOOK_STATS_OFF), 0);
    slabs = SUM(alloc_slab);
    assert_int_equal(cache->stat_mode, STOOK_STATS_OFF);
    stook_free_bulk(cache, MOST, held);
    assert_int_equal(SUM(free_slowpath) + SUM(free_fastpath), 0);
    assert_int_equal(SUM(alloc_slab), slabs);

    assert_int_equal(stook_cache_stat_enable(cache, STOOK_STATS_ALL), 0);
    assert_ptr_equal(cache->head.slots, percpu.areas);
    assert_int_equal(SUM(alloc_slab), slabs);
    held[0] = stook_alloc_inline(cache, 0);
    stook_free_inline(cache, held[0]);
    assert_int_equal(SUM(free_fastpath) + SUM(free_slowpath), 1);

    errno = 0;
    assert_int_equal(stook_cache_stat_enable(cache, 3), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* A prefilled sheaf's objects are handed out when it is filled, and taken in when it is returned. */
TEST(test_prefilled)
{
    uint64_t seed = 11, sheaves = 0, larger = 0;

    make(160, 0, 20, STOOK_STATS_ALL);
    for (unsigned i = 0; i < 3000; i++) {
        unsigned size = 1 + random_below(&seed, 40), left;
        struct stook_sheaf *sheaf = stook_sheaf_prefill(cache, 0, size);
        MUST(sheaf && stook_sheaf_size(sheaf) >= size);
        sheaves++;
        larger += size > 20;
        taken = SUM(alloc_fastpath) + SUM(alloc_slowpath);
        given = SUM(free_fastpath) + SUM(free_slowpath);
        left = stook_sheaf_size(sheaf);
        assert_int_equal(taken - given, holding + left);
        for (unsigned k = random_below(&seed, size + 1); k > 0 && holding < MOST; k--, left--)
            held[holding++] = stook_sheaf_alloc(cache, 0, sheaf);
        stook_sheaf_return(cache, sheaf);
        given += left;
        for (unsigned k = random_below(&seed, 40); k > 0; k--)
            call(&seed);
        if (i % 100 == 0)
            check_sums();
    }
    give_all();
    check_sums();
    assert_int_equal(SUM(sheaf_prefill_oversize), larger);
    assert_int_equal(SUM(sheaf_prefill_fast) + SUM(sheaf_prefill_slow), sheaves - larger);
    assert_int_equal(SUM(sheaf_return_fast) + SUM(sheaf_return_slow), sheaves);
    assert_true(SUM(sheaf_prefill_fast) > 0 && SUM(sheaf_return_fast) > 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* ---- switching beside threads ------------------------------------------------------------------ */

static atomic_bool stop;
static _Atomic uint64_t calls;

static void *worker(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg, made = 0;
    void *mine[64] = {0}, *many[40];

    do { /* at least once, however late this thread came to run */
        unsigned i = random_below(&seed, 64);
        if (mine[i]) {
            stook_free_inline(cache, mine[i]);
            mine[i] = NULL;
        } else {
            mine[i] = stook_alloc_inline(cache, 0);
            MUST(mine[i]);
            memset(mine[i], (int)i, 48);
        }
        if (i == 0) {
            MUST(stook_alloc_bulk(cache, 0, 40, many) == 0);
            stook_free_bulk(cache, 40, many);
        }
        made++;
    } while (!atomic_load_explicit(&stop, memory_order_relaxed));
    for (unsigned i = 0; i < 64; i++)
        stook_free(cache, mine[i]);
    atomic_fetch_add(&calls, made);
    return NULL;
}

TEST(test_switching)
{
    enum { THREADS = 3, TURNS = 600 };
    pthread_t thread[THREADS];
    uint64_t in, out, before;

    make(48, 0, 12, STOOK_STATS_OFF);
    pin(false);
    atomic_store(&stop, false);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, worker, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < TURNS; i++) {
        struct stook_stat stat = {.size = sizeof(stat)};
        assert_int_equal(stook_cache_stat_enable(cache, (int)(i % 3)), 0);
        assert_int_equal(stook_cache_stat(cache, &stat), 0);
        sched_yield();
    }
    /* On before and after whole lives of threads: exact again. */
    atomic_store(&stop, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_true(atomic_load(&calls) > 0);
    assert_int_equal(used().in_use, 0);
    assert_int_equal(stook_cache_stat_enable(cache, STOOK_STATS_ALL), 0);
    before = SUM(alloc_fastpath);
    in = before + SUM(alloc_slowpath);
    out = SUM(free_fastpath) + SUM(free_slowpath);
    atomic_store(&stop, false);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, worker, (void *)(i + 9)), 0);
    while (SUM(alloc_fastpath) < before + 100000)
        sched_yield();
    atomic_store(&stop, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    in = SUM(alloc_fastpath) + SUM(alloc_slowpath) - in;
    out = SUM(free_fastpath) + SUM(free_slowpath) - out;
    assert_int_equal(in, out);
    assert_int_equal(used().in_use, 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
    check_all(NULL, 0);
}

/* ---- the interface ------------------------------------------------------------------------------- */

TEST(test_struct)
{
    struct {
        struct stook_stat stat;
        uint64_t later;
    } larger = {.stat.size = sizeof(larger), .later = 7};
    struct stook_stat stat = {.size = sizeof(stat)};

    make(80, 0, 0, STOOK_STATS_ALL);
    held[0] = stook_alloc(cache, 0);
    assert_int_equal(stook_cache_stat(cache, &stat), 0);
    assert_int_equal(stat.alloc_slowpath + stat.alloc_fastpath, 1);
    assert_int_equal(stat.alloc_slab, 1);
    assert_int_equal(stook_cache_stat(cache, &larger.stat), 0);
    assert_int_equal(larger.stat.alloc_slab, 1);
    assert_int_equal(larger.later, 0);
    /* An older caller's struct is shorter. */
    memset(&stat, 0xee, sizeof(stat));
    stat.size = offsetof(struct stook_stat, free_cpu_sheaf);
    assert_int_equal(stook_cache_stat(cache, &stat), 0);
    assert_int_equal(stat.alloc_cpu_sheaf, 0);
    assert_true(stat.free_cpu_sheaf == 0xeeeeeeeeeeeeeeeeu);
    stat.size = 5;
    errno = 0;
    assert_int_equal(stook_cache_stat(cache, &stat), -1);
    assert_int_equal(errno, EINVAL);
    stook_free(cache, held[0]);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* What the cache holds, while no other thread uses it, to the object: as its attributes have it, as text. */
TEST(test_usage)
{
    struct {
        struct stook_cache_usage usage;
        uint64_t later;
    } larger = {.usage.size = sizeof(larger), .later = 7};
    const struct stook_cache_usage *usage = &larger.usage;
    struct node_counts all = {0};

    make(80, 0, 0, STOOK_STATS_OFF);
    MUST(stook_alloc_bulk(cache, 0, MOST, held) == 0);
    stook_free_bulk(cache, MOST - 10, held + 10);
    assert_int_equal(stook_cache_usage(cache, &larger.usage), 0);
    assert_int_equal(larger.later, 0);
    assert_int_equal(usage->in_use, 10);
    assert_true(usage->cached > 0 && usage->free > 0);
    for (unsigned i = 0; i < topology.nodes; i++) {
        struct node_counts counts;
        node_count(cache, i, &counts);
        all.objects += counts.objects;
        all.slabs += counts.slabs;
        all.pages += counts.pages;
    }
    assert_int_equal(usage->in_use + usage->cached + usage->free, all.objects);
    assert_int_equal(usage->slabs, all.slabs);
    assert_int_equal(usage->bytes, all.pages << PAGE_SHIFT);
    assert_int_equal(usage->capacity, cache_capacity(cache));
    assert_true(usage->meta > 0);
    assert_true(usage->bytes_peak >= usage->bytes && usage->bytes >= MOST / 2 * 80);
    stook_free_bulk(cache, 10, held);
    (void)stook_cache_shrink(cache);
    assert_int_equal(stook_cache_usage(cache, &larger.usage), 0);
    assert_int_equal(usage->in_use + usage->cached + usage->free + usage->slabs + usage->bytes, 0);
    assert_true(usage->bytes_peak >= MOST * 80);
    larger.usage.size = 5;
    errno = 0;
    assert_int_equal(stook_cache_usage(cache, &larger.usage), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

/* The classes of malloc keep their fast path, whatever is asked. */
TEST(test_malloc_class)
{
    struct stook_private_slab slab;
    struct stook_cache *class = stook_private_class("stat-class", 64, NULL, &slab);

    assert_non_null(class);
    assert_int_equal(stook_cache_stat_enable(class, STOOK_STATS_ALL), 0);
    assert_int_equal(class->stat_mode, STOOK_STATS_SLOW);
    assert_ptr_equal(class->head.slots, percpu.areas + (percpu.rseq ? slab.slot_offset : 0));
}

int main(void)
{
    (void)sched_getaffinity(0, sizeof(everywhere), &everywhere);
    pin(true); /* each step's CPU is known, but where there are threads */
    return tests_run(NULL, NULL);
}
