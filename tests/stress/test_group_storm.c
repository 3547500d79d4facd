/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Groups under threads that charge, pass charges to each other and move between CPUs, under signals whose handlers
 * charge and uncharge, while another thread changes limits, makes groups and destroys them.
 *
 * Each thread records its charges.  When all stand still, each group's usage is the sum of the records.  A limit
 * that was not lowered is never exceeded, at no time.  When all charges are returned, no group is left.
 */
#include "charge/group_table.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/test.h"

#include <stook/stook.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>

enum {
    THREADS = 6,
    GROUPS = 8,      /* that stay: 0 is the parent of all others */
    KEPT = 400,      /* charges of a thread */
    BY_HANDLER = 16, /* charges of its handler */
    HANDED = 64,     /* charges on their way */
    OPERATIONS = 60000,
    SIGNALS = 100,
    LIMIT = 2 << 20,
    LIMIT_OF_ONE = 200 << 10,
};

struct kept {
    uint32_t number, bytes;
};

static struct worker {
    pthread_t thread;
    uint64_t random;
    struct kept kept[KEPT], by_handler[BY_HANDLER];
    unsigned n;
    _Atomic unsigned signals;
    unsigned long charged, refused, busy;
    uint64_t handler_random;
} worker[THREADS];
static __thread struct worker *self;

static struct stook_group group[GROUPS];
static _Atomic uint64_t handed[HANDED]; /* number and bytes; 0: none */
static _Atomic unsigned working, errors;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition) && atomic_fetch_add(&errors, 1) == 0)                                     \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
    } while (0)

static unsigned operations(void)
{
    return (unsigned)scaled(OPERATIONS);
}

/* A group that stays, or one that may be gone by now. */
static uint32_t some_group(uint64_t *random)
{
    static _Atomic uint32_t passing;
    uint32_t number = group_number(group[random_below(random, GROUPS)]);

    if (random_below(random, 200) == 0) {
        struct stook_group fresh =
            stook_group_create("passing", group[random_below(random, GROUPS)], STOOK_UNLIMITED);
        CHECK(fresh.id);
        number = group_number(fresh);
        number = atomic_exchange(&passing, number);
        if (number)
            CHECK(stook_group_destroy((struct stook_group){number}) == 0);
        return number ? number : group_number(fresh);
    }
    return random_below(random, 4) ? number
                                   : (atomic_load(&passing) ? atomic_load(&passing) : number);
}

static void on_signal(int signal)
{
    struct worker *w = self;
    int saved = errno;

    for (unsigned i = 0; i < BY_HANDLER; i++) {
        struct kept *kept = &w->by_handler[i];
        bool nested = context_enter();
        context_leave();
        if (kept->bytes) {
            group_uncharge(kept->number, kept->bytes);
            kept->bytes = 0;
        } else if (random_below(&w->handler_random, 2)) {
            uint32_t bytes = 16 + random_below(&w->handler_random, 3000);
            uint32_t number = group_number(group[random_below(&w->handler_random, GROUPS)]);
            if (group_charge(&number, bytes, STOOK_SIGNAL_SAFE, nested)) {
                CHECK(number != 0);
                *kept = (struct kept){number, bytes};
            } else {
                CHECK(errno == EDQUOT || errno == ENOMEM);
            }
        }
    }
    atomic_fetch_add(&w->signals, 1);
    errno = saved;
}

static void work_once(struct worker *w)
{
    uint32_t bytes = 16 + random_below(&w->random, random_below(&w->random, 50) ? 2000 : 100000);
    unsigned i = random_below(&w->random, HANDED), what = random_below(&w->random, 100);

    if (what < 60 && w->n < KEPT) {
        uint32_t number = some_group(&w->random);
        if (!group_charge(&number, bytes,
                          random_below(&w->random, 2) ? STOOK_WAIT : STOOK_NORECLAIM, false)) {
            CHECK(errno == EDQUOT);
            w->refused++;
        } else if (number) {
            w->kept[w->n++] = (struct kept){number, bytes};
            w->charged++;
        }
    } else if (what < 80 && w->n > 0) {
        w->n--;
        group_uncharge(w->kept[w->n].number, w->kept[w->n].bytes);
    } else if (w->n > 0) { /* another thread returns it */
        struct kept *last = &w->kept[--w->n];
        uint64_t other = atomic_exchange(&handed[i], (uint64_t)last->bytes << 32 | last->number);
        if (other)
            group_uncharge((uint32_t)other, (size_t)(other >> 32));
    }
}

static void *work(void *arg)
{
    struct worker *w = self = arg;
    sigset_t none;
    cpu_set_t all, one;
    unsigned n = operations();

    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    sched_getaffinity(0, sizeof(all), &all);
    for (unsigned i = 0; i < n; i++) {
        work_once(w);
        if (i % 500 == 0) {
            int cpu = (int)random_below(&w->random, CPU_SETSIZE);
            while (!CPU_ISSET(cpu, &all))
                cpu = (cpu + 1) % CPU_SETSIZE;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            (void)sched_setaffinity(0, sizeof(one), &one);
        }
    }
    atomic_fetch_sub(&working, 1);
    while (atomic_load(&w->signals) < SIGNALS) /* until as many have come */
        sched_yield();
    return NULL;
}

/* Changes limits that no check below depends on, looks at the others, and sends signals. */
static void disturb(void)
{
    uint64_t random = 99;
    struct stook_group_stat stat = {.size = sizeof(stat)};

    while (atomic_load(&working) > 0 || atomic_load(&worker[0].signals) < SIGNALS) {
        for (unsigned i = 0; i < THREADS; i++)
            if (atomic_load(&worker[i].signals) < SIGNALS)
                pthread_kill(worker[i].thread, SIGUSR1);
        CHECK(stook_group_set_limit(group[3],
                                    random_below(&random, 2) ? 100000 : STOOK_UNLIMITED) == 0);
        CHECK(stook_group_stat(group[0], &stat) == 0);
        CHECK(stat.usage + stat.stocked <= LIMIT && stat.peak <= LIMIT);
        CHECK(stook_group_stat(group[1], &stat) == 0);
        CHECK(stat.usage + stat.stocked <= LIMIT_OF_ONE && stat.peak <= LIMIT_OF_ONE);
        sched_yield();
    }
    for (unsigned i = 0; i < THREADS; i++)
        while (atomic_load(&worker[i].signals) < SIGNALS) {
            pthread_kill(worker[i].thread, SIGUSR1);
            sched_yield();
        }
}

/* Of what is kept: that of a group and of all below, by the nearest that lives. */
static void sum(uint64_t sums[GROUPS], uint32_t number, uint64_t bytes)
{
    struct stook_group owner = group_by_number(number);

    for (; owner.id; owner = group_parent_of(owner))
        for (int i = 0; i < GROUPS; i++)
            if (owner.id == group[i].id)
                sums[i] += bytes;
}

static void give_back_all(void)
{
    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned i = 0; i < worker[t].n; i++)
            group_uncharge(worker[t].kept[i].number, worker[t].kept[i].bytes);
        for (unsigned i = 0; i < BY_HANDLER; i++)
            if (worker[t].by_handler[i].bytes)
                group_uncharge(worker[t].by_handler[i].number, worker[t].by_handler[i].bytes);
    }
    for (unsigned i = 0; i < HANDED; i++)
        if (handed[i])
            group_uncharge((uint32_t)handed[i], (size_t)(handed[i] >> 32));
}

static void check_sums(void)
{
    struct stook_group_stat stat = {.size = sizeof(stat)};
    uint64_t sums[GROUPS] = {0};

    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned i = 0; i < worker[t].n; i++)
            sum(sums, worker[t].kept[i].number, worker[t].kept[i].bytes);
        for (unsigned i = 0; i < BY_HANDLER; i++)
            if (worker[t].by_handler[i].bytes)
                sum(sums, worker[t].by_handler[i].number, worker[t].by_handler[i].bytes);
    }
    for (unsigned i = 0; i < HANDED; i++)
        sum(sums, (uint32_t)handed[i], handed[i] >> 32);
    for (int i = 0; i < GROUPS; i++) {
        assert_int_equal(stook_group_stat(group[i], &stat), 0);
        assert_int_equal(stat.usage, sums[i]);
    }
}

TEST(test_storm)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    unsigned long charged = 0, refused = 0;

    group[0] = stook_group_create("all", STOOK_NO_GROUP, LIMIT);
    for (int i = 1; i < GROUPS; i++) {
        group[i] =
            stook_group_create("part", group[(i - 1) / 2], i == 1 ? LIMIT_OF_ONE : STOOK_UNLIMITED);
        assert_int_not_equal(group[i].id, 0);
    }
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    atomic_store(&working, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        sigset_t signals;
        worker[i].random = i;
        worker[i].handler_random = 1000 + i;
        sigemptyset(&signals);
        sigaddset(&signals, SIGUSR1); /* until it knows itself */
        pthread_sigmask(SIG_BLOCK, &signals, NULL);
        assert_int_equal(pthread_create(&worker[i].thread, NULL, work, &worker[i]), 0);
    }
    disturb();
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(worker[i].thread, NULL), 0);
        charged += worker[i].charged;
        refused += worker[i].refused;
    }
    print_message("%lu charged, %lu refused\n", charged, refused);
    assert_int_equal(errors, 0);
    assert_true(charged > operations() && refused > 0);
    check_sums();
    give_back_all();
    for (struct stook_group g = stook_group_next(STOOK_NO_GROUP); g.id; g = stook_group_next(g)) {
        struct stook_group_stat stat = {.size = sizeof(stat)};
        assert_int_equal(stook_group_stat(g, &stat), 0);
        assert_int_equal(stat.usage, 0);
    }
    while (stook_group_next(STOOK_NO_GROUP).id) /* children before their parents */
        for (struct stook_group g = stook_group_next(STOOK_NO_GROUP); g.id; g = stook_group_next(g))
            (void)stook_group_destroy(g);
    assert_int_equal(group_table.unused, atomic_load(&group_table.high));
}

int main(void)
{
    (void)stook_mode(NULL);
    return tests_run(NULL, NULL);
}
