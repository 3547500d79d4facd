/* SPDX-License-Identifier: MIT */
/*
 * Rule 10 of the per-CPU protocol: a membarrier interrupts a CPU, so they are few.  Allocations and frees make none,
 * whatever slow path they take.  Shrinking makes one for each used CPU, for one cache or for many together.  There is
 * none for a CPU that a tunable isolates, and none in locked mode.
 */
#include "support/percpu_fixture.h"
#include "support/test.h"

#include "sheaf/slot_drain.h"

#include <pthread.h>
#include <semaphore.h>
enum { CACHES = 30, OBJECTS = 2000, ROUNDS = 20 };

static struct stook_cache *caches[CACHES];

static uint64_t fences(void)
{
    return atomic_load(&percpu.fences);
}

static void use(struct stook_cache *cache, unsigned n)
{
    static __thread void *objects[OBJECTS];

    for (unsigned i = 0; i < n; i++)
        if (!(objects[i] = stook_alloc(cache, 0)))
            abort();
    for (unsigned i = 0; i < n; i++)
        stook_free(cache, objects[i]);
}

static void use_everywhere(void)
{
    for (unsigned i = 0; i < fixture_cpus; i++) {
        assert_true(fixture_pin(fixture_cpu[i]));
        for (unsigned c = 0; c < CACHES; c++)
            use(caches[c], 50);
    }
    fixture_unpin();
}

static void *churn(void *arg)
{
    for (int i = 0; i < ROUNDS; i++)
        use(arg, OBJECTS);
    return NULL;
}

TEST(test_none_while_objects_move)
{
    pthread_t threads[4];
    uint64_t before = fences();

    for (unsigned t = 0; t < 4; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, churn, caches[t % 2]), 0);
    use_everywhere();
    for (unsigned t = 0; t < 4; t++)
        pthread_join(threads[t], NULL);
    assert_int_equal(fences() - before, 0);
}

TEST(test_one_a_cpu)
{
    uint64_t before, expected = percpu.rseq ? fixture_cpus : 0;

    use_everywhere();
    before = fences();
    stook_cache_shrink(caches[0]);
    assert_int_equal(fences() - before, expected);
    before = fences();
    slot_drain(caches, CACHES, false);
    assert_int_equal(fences() - before, expected);
}

/* And what an isolated CPU holds stays there, usable. */
TEST(test_isolated)
{
    static uint64_t isolated[TOPOLOGY_CPUS_MAX / 64];
    unsigned cpu = fixture_cpu[0];
    uint64_t before, objects, sheaves;

    if (!percpu.rseq || fixture_cpus < 2)
        skip();
    use_everywhere();
    assert_true(
        fixture_pin(fixture_cpu[1])); /* a thread that is on the isolated CPU may drain it */
    isolated[cpu / 64] |= (uint64_t)1 << cpu % 64;
    percpu.isolated = isolated;
    before = fences();
    slot_drain(caches, CACHES, false);
    assert_int_equal(fences() - before, fixture_cpus - 1);
    percpu.isolated = NULL;
    fixture_unpin();
    slot_count(caches[0], &objects, &sheaves);
    assert_true(objects > 0);
    use_everywhere();
    slot_drain(caches, CACHES, false);
    slot_count(caches[0], &objects, &sheaves);
    assert_int_equal(objects, 0);
}

/* No other thread may be in a call on a cache that is destroyed: there is nothing to abort. */
TEST(test_few_for_destroy)
{
    uint64_t before = fences();

    for (unsigned c = 0; c < CACHES; c++)
        assert_int_equal(stook_cache_destroy(caches[c]), 0);
    assert_true(fences() - before <= (uint64_t)fixture_cpus * CACHES);
}

/* May run on every CPU, so the library's scan drains none while the main thread is pinned to one. */
static void *stay(void *over)
{
    while (sem_wait(over) != 0)
        continue;
    return NULL;
}

int main(void)
{
    pthread_t staying;
    sem_t over;
    int failed;

    for (unsigned c = 0; c < CACHES; c++)
        if (!(caches[c] = stook_cache_create("fences", 40 + c * 8, NULL)))
            return 1;
    fixture_start();
    if (sem_init(&over, 0, 0) != 0 || pthread_create(&staying, NULL, stay, &over) != 0)
        return 1;
    failed = tests_run(NULL, NULL);
    sem_post(&over);
    pthread_join(staying, NULL);
    return failed;
}
