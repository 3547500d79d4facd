/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * A million operations of one thread on one cache, interrupted by a timer anywhere.  The handler does the same on
 * the same cache and the same pool with STOOK_SIGNAL_SAFE: single calls, inlined ones, bulk, prefilled sheaves, the
 * pool, deferred frees.  Every object carries its owner: none is allocated twice, none is lost.  The errno of each
 * refusal is right.
 *
 * It goes on until each kind of call was made in handlers that interrupted the library itself, so a
 * slow timer only makes it longer.  STOOK_TEST_ROUNDS=n for n times as many.
 */
#include "base/context.h"
#include "support/check.h"
#include "support/delayed_rcu.h"
#include "support/libc_names.h"
#include "support/scale.h"
#include "support/test.h"

#include <stook/inline.h>
#include <stook/reserve.h>
#include <stook/rcu.h>

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

enum { OPERATIONS = 1000000, SIZE = 200, HELD = 600, BULK = 70, POOL = 24, EACH = 20 };
enum kind { SINGLE, INLINED, BULKS, SHEAVES, POOLS, DEFERRED, KINDS };
enum { NOBODY, MAIN, HANDLER };

static const char *const names[KINDS] = {"single", "inlined", "bulk", "sheaf", "pool", "deferred"};
static struct stook_cache *cache;
static struct stook_pool *pool;

struct object {
    _Atomic uint32_t owner; /* as the constructor left it while it is free */
};

/* One of the two who call: the thread, and its handler. */
struct caller {
    uint32_t number;
    unsigned flags;
    uint64_t random, operations, refused;
    void *object[HELD], *of_pool[POOL];
    unsigned held, pooled;
    struct stook_sheaf *sheaf;
};
static struct caller callers[3];
static volatile uint64_t signals, inside, wrong, made[KINDS]; /* by handlers inside the library */
static volatile bool ready;

static void *own(struct caller *c, void *object)
{
    if (!object) {
        c->refused++;
        wrong += errno != ENOMEM;
    } else if (atomic_exchange(&((struct object *)object)->owner, c->number) != NOBODY) {
        wrong++;
    }
    return object;
}

static void *disown(struct caller *c, void *object)
{
    wrong += atomic_exchange(&((struct object *)object)->owner, NOBODY) != c->number;
    return object;
}

static void keep(struct caller *c, void *object)
{
    if (object)
        c->object[c->held++] = object;
}

static void call_single(struct caller *c, bool take, bool inlined)
{
    if (take && c->held < HELD)
        keep(c,
             own(c, inlined ? stook_alloc_inline(cache, c->flags) : stook_alloc(cache, c->flags)));
    else if (c->held > 0 && inlined)
        stook_free_inline(cache, disown(c, c->object[--c->held]));
    else if (c->held > 0 && random_below(&c->random, 2))
        stook_free(cache, disown(c, c->object[--c->held]));
    else if (c->held > 0)
        stook_free_any(disown(c, c->object[--c->held]));
}

static void call_bulk(struct caller *c, bool take)
{
    unsigned n = 1 + random_below(&c->random, BULK);
    void *objects[2 * BULK];

    if (take && c->held + n <= HELD) {
        n = stook_alloc_bulk(cache, c->flags, n, objects) == 0 ? n : 0;
        if (n == 0)
            own(c, NULL);
        for (unsigned i = 0; i < n; i++)
            keep(c, own(c, objects[i]));
    } else {
        unsigned given = 0;
        for (n = n < c->held ? n : c->held; n > 0; n--) {
            objects[given++] = disown(c, c->object[--c->held]);
            if (n % 8 == 0)
                objects[given++] = NULL;
        }
        stook_free_bulk(cache, given, objects);
    }
}

static void call_sheaf(struct caller *c, bool take)
{
    unsigned size = 1 + random_below(&c->random, BULK);

    if (!c->sheaf) {
        errno = 0;
        c->sheaf = stook_sheaf_prefill(cache, c->flags, size);
        wrong += c->sheaf ? stook_sheaf_size(c->sheaf) < size : errno != ENOMEM;
        c->refused += !c->sheaf;
    } else if (take) {
        unsigned had = stook_sheaf_size(c->sheaf);
        if (had == 0)
            c->refused += stook_sheaf_refill(cache, c->flags, &c->sheaf, size) != 0;
        else if (c->held < HELD)
            keep(c, own(c, stook_sheaf_alloc(cache, c->flags, c->sheaf)));
    } else {
        stook_sheaf_return(cache, c->sheaf);
        c->sheaf = NULL;
    }
}

static void call_pool(struct caller *c, bool take)
{
    if (take && c->pooled < POOL) {
        void *object = own(c, stook_pool_alloc(pool, c->flags | STOOK_NORECLAIM, NULL));
        if (object)
            c->of_pool[c->pooled++] = object;
    } else if (c->pooled > 0) {
        stook_pool_free(pool, disown(c, c->of_pool[--c->pooled]));
    }
}

static void call_deferred(struct caller *c)
{
    for (unsigned n = random_below(&c->random, 8); n > 0 && c->held > 0; n--)
        stook_free_rcu(cache, disown(c, c->object[--c->held]));
}

static void call(struct caller *c, enum kind kind)
{
    bool take = random_below(&c->random, 2);

    switch (kind) {
    case SINGLE:
    case INLINED:
        call_single(c, take, kind == INLINED);
        break;
    case BULKS:
        call_bulk(c, take);
        break;
    case SHEAVES:
        call_sheaf(c, take);
        break;
    case POOLS:
        call_pool(c, take);
        break;
    default:
        call_deferred(c);
    }
    c->operations++;
}

static void handler(int signal)
{
    struct caller *c = &callers[HANDLER];
    bool nested = context_tls.depth > 0;
    int saved = errno;

    if (!ready)
        return;
    signals++;
    inside += nested;
    for (unsigned n = 1 + random_below(&c->random, 4); n > 0; n--) {
        enum kind kind = (enum kind)random_below(&c->random, KINDS);
        call(c, kind);
        made[kind] += nested;
    }
    errno = saved;
}

/* Runs in one direction go down to the slabs; single calls far more often than others. */
static void turn(struct caller *c)
{
    unsigned what = random_below(&c->random, 64), n = 1 + random_below(&c->random, 150);
    bool take = random_below(&c->random, 2);

    if (what < 50) {
        for (; n > 0; n--, c->operations++)
            call_single(c, take, n & 1);
    } else if (what == 50 && random_below(&c->random, 8) == 0) {
        (void)stook_cache_shrink(cache);
        c->operations++;
    } else {
        call(c, (enum kind)(BULKS + random_below(&c->random, KINDS - BULKS)));
    }
}

static bool enough(uint64_t operations)
{
    bool all = signals >= (uint64_t)10 * EACH && inside >= EACH;

    for (unsigned kind = 0; kind < KINDS; kind++)
        all = all && made[kind] >= EACH;
    return all && callers[MAIN].operations >= operations;
}

static void give_back(struct caller *c)
{
    while (c->held > 0)
        stook_free(cache, disown(c, c->object[--c->held]));
    while (c->pooled > 0)
        stook_pool_free(pool, disown(c, c->of_pool[--c->pooled]));
    stook_sheaf_return(cache, c->sheaf);
    c->sheaf = NULL;
}

static void construct(void *object, void *arg)
{
    atomic_init(&((struct object *)object)->owner, NOBODY);
}

static void run(unsigned capacity, uint64_t operations)
{
    struct stook_cache_args args = {
        .size = sizeof(args), .ctor = construct, .sheaf_capacity = capacity};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    struct itimerspec often = {{0, 60000}, {0, 60000}};
    timer_t timer;

    cache = stook_cache_create("interrupted", SIZE, &args);
    pool = stook_pool_create(cache, POOL / 2);
    assert_true(cache && pool);
    signals = inside = 0;
    for (unsigned kind = 0; kind < KINDS; kind++)
        made[kind] = 0;
    callers[MAIN] = (struct caller){.number = MAIN, .random = 1};
    callers[HANDLER] = (struct caller){.number = HANDLER, .flags = STOOK_SIGNAL_SAFE, .random = 2};
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    ready = true;
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    assert_int_equal(timer_settime(timer, 0, &often, NULL), 0);
    while (!enough(operations))
        for (unsigned i = 0; i < 100; i++)
            turn(&callers[MAIN]);
    timer_delete(timer);
    ready = false;
    print_message("%s: %llu operations, %llu refused; %llu signals, %llu inside, %llu operations, "
                  "%llu refused\n",
                  stook_mode(NULL), (unsigned long long)callers[MAIN].operations,
                  (unsigned long long)callers[MAIN].refused, (unsigned long long)signals,
                  (unsigned long long)inside, (unsigned long long)callers[HANDLER].operations,
                  (unsigned long long)callers[HANDLER].refused);
    for (unsigned kind = 0; kind < KINDS; kind++)
        print_message("  inside, %s: %llu\n", names[kind], (unsigned long long)made[kind]);
    assert_int_equal(wrong, 0);
    assert_int_equal(callers[MAIN].refused, 0); /* only handlers may be refused */
    give_back(&callers[MAIN]);
    give_back(&callers[HANDLER]);
    assert_int_equal(stook_pool_available(pool), POOL / 2);
    assert_int_equal(stook_pool_destroy(pool), 0);
    stook_rcu_barrier();
    check_all(NULL, 0);
    assert_int_equal(stook_cache_destroy(cache), 0); /* none was lost */
    check_all(NULL, 0);
}

/* Sheaves of a few objects, so that most calls leave the fast path, and of the usual size. */
TEST(small_sheaves)
{
    run(3, scaled(OPERATIONS / 5));
}

TEST(usual_sheaves)
{
    run(0, scaled(OPERATIONS));
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    int failed;

    if (sigaction(SIGUSR1, &action, NULL) != 0 || delayed_use() != 0)
        return 1;
    failed = tests_run(NULL, NULL);
    delayed_end();
    return failed;
}
