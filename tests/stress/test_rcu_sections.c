/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* timeout: 120 */
/*
 * The section that defers an object, with delays between its steps, while other threads take rcu sheaves from every
 * CPU, and threads move from CPU to CPU.  There are no readers, so grace periods take no time: a section that commits
 * late does so to a sheaf that is in use again.  Once with the kernel's fence, once with a fence that is refused, so
 * that the taker moves to the CPU itself.  No object has two users, none is lost.
 */
#include "support/sections_widened.h"
#include "support/test.h"

#include "sheaf/slot.h"

/* What the code under test calls in its stead. */
static bool test_fence(unsigned cpu);

#define percpu_fence test_fence
#include "reserve/rcu.c"
#include "reserve/rcu_fence.c"
#undef percpu_fence

#include "support/check.h"
#include "support/random.h"

#include <stook/rcu.h>

#include <pthread.h>
#include <sched.h>

enum { THREADS = 3, TAKERS = 2, TURNS = 8000, BATCH = 12, LOOKS = 4000 };

__thread int storm_step_skip, storm_step_spin;

struct thing {
    _Atomic uint32_t users;
    uint32_t filler[15];
};

static struct stook_cache *cache;
static atomic_bool refused;
static atomic_uint running;
static _Atomic uint64_t errors, fences, full, pushed;

static bool test_fence(unsigned cpu)
{
    atomic_fetch_add(&fences, 1);
    return !atomic_load(&refused) && percpu_fence(cpu);
}

/* A section that commits to a sheaf that was taken does it now. */
static void call_at_once(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    struct sheaf *sheaf = rcu_batch_sheaf(head);
    uint32_t size = sheaf->size;

    atomic_fetch_add(size < sheaf->capacity ? &pushed : &full,
                     1); /* only a drain takes one that is not full */
    for (unsigned i = 0; i < LOOKS; i++)
        if (__atomic_load_n(&sheaf->size, __ATOMIC_RELAXED) != size)
            atomic_fetch_add(&errors, 1);
    func(head);
}

static void nothing(void)
{
}

static void construct(void *object, void *arg)
{
    atomic_init(&((struct thing *)object)->users, 0);
}

/* A delay at one of the next section's steps, or none. */
static void widen(uint64_t *random)
{
    bool delay = random_below(random, 4) == 0;

    storm_step_skip = delay ? (int)random_below(random, 6) : -1;
    storm_step_spin = delay ? (int)random_below(random, 4000) : 0;
}

/* Somewhere else, if there is another CPU. */
static void move(const cpu_set_t *all, uint64_t *random)
{
    unsigned cpu = random_below(random, CPU_SETSIZE);
    cpu_set_t one;

    CPU_ZERO(&one);
    while (!CPU_ISSET(cpu, all))
        cpu = (cpu + 1) % CPU_SETSIZE;
    CPU_SET(cpu, &one);
    (void)sched_setaffinity(0, sizeof(one), &one);
}

static void *defers(void *arg)
{
    uint64_t random = (uintptr_t)arg;
    struct thing *things[BATCH];
    cpu_set_t all;

    (void)sched_getaffinity(0, sizeof(all), &all);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        unsigned n = 1 + random_below(&random, BATCH);
        if (random_below(&random, 8) == 0)
            move(&all, &random);
        for (unsigned i = 0; i < n; i++) {
            things[i] = stook_alloc(cache, 0);
            if (!things[i] || atomic_fetch_add(&things[i]->users, 1) != 0)
                atomic_fetch_add(&errors, 1);
        }
        for (unsigned i = 0; i < n; i++) {
            if (!things[i])
                continue;
            if (atomic_fetch_sub(&things[i]->users, 1) != 1)
                atomic_fetch_add(&errors, 1);
            widen(&random);
            stook_free_rcu(cache, things[i]);
        }
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void *takes(void *arg)
{
    uint64_t random = (uintptr_t)arg;

    while (atomic_load(&running) > 0) {
        usleep(random_below(&random, 100));
        if (random_below(&random, 8))
            stook_rcu_barrier();
        else
            stook_cache_shrink(cache);
    }
    return NULL;
}

static void storm(bool refuse)
{
    struct stook_cache_args args = {.size = sizeof(args), .sheaf_capacity = 30, .ctor = construct};
    pthread_t threads[THREADS], takers[TAKERS];

    atomic_store(&refused, refuse);
    atomic_store(&fences, 0);
    atomic_store(&full, 0);
    atomic_store(&pushed, 0);
    atomic_store(&running, THREADS);
    assert_non_null(cache = stook_cache_create("widened", sizeof(struct thing), &args));
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, defers, (void *)(i + 1)), 0);
    for (uintptr_t i = 0; i < TAKERS; i++)
        assert_int_equal(pthread_create(&takers[i], NULL, takes, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < TAKERS; i++)
        pthread_join(takers[i], NULL);
    stook_rcu_barrier();
    printf("%llu sheaves full, %llu taken by %llu fences\n", (unsigned long long)atomic_load(&full),
           (unsigned long long)atomic_load(&pushed), (unsigned long long)atomic_load(&fences));
    assert_int_equal(atomic_load(&errors), 0);
    /* One fence a CPU at most, for what was taken there; none without sections. */
    assert_true(rcu_sections ? atomic_load(&fences) <= atomic_load(&pushed)
                             : atomic_load(&fences) == 0);
    assert_int_equal(stook_cache_destroy(cache), 0); /* none is lost */
}

TEST(fenced)
{
    storm(false);
}

TEST(visited)
{
    cpu_set_t before, after;

    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    storm(true);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

static int begin(void **unused)
{
    static const struct stook_rcu_ops ops = {sizeof(ops), call_at_once, nothing, nothing, NULL};

    return stook_rcu_set_ops(&ops);
}

static int end(void **unused)
{
    check_all(NULL, 0);
    return 0;
}

int main(void)
{
    return tests_run(begin, end);
}
