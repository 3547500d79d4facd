/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* timeout: 120 */
/*
 * Readers, writers, and grace periods that come when they like: shared places hold objects of two
 * types; writers replace them and defer the old ones' frees, handlers too; readers look at them for a
 * while.  An object that comes back before its readers are gone is seen by them: its next user writes
 * to it.  Beside that caches are made, used, and destroyed by another thread right after the last
 * deferred free; one drains, one waits.  Then check_all().
 * STOOK_TEST_ROUNDS=n for n times as long.
 */
#include "support/check.h"
#include "support/delayed_rcu.h"
#include "support/scale.h"
#include "support/test.h"

#include "base/context.h"
#include "reserve/rcu.h"

#include <stook/rcu.h>

#include <sched.h>
#include <signal.h>
#include <time.h>

enum { PLACES = 48, READERS = 3, WRITERS = 3, TYPES = 2, WORDS = 6, TURNS = 15000 };

/* What a thing says of itself: all words of one user are alike; its type never changes. */
struct thing {
    _Atomic uint64_t type;
    _Atomic uint64_t word[WORDS];
};

static struct stook_cache *cache[TYPES], *stable;
static _Atomic(struct thing *) place[TYPES][PLACES], stable_place[PLACES];
static _Atomic uint64_t number, seen, stale, errors, signals, inside;
static atomic_bool done;

static uint64_t type_of(unsigned type)
{
    return 0x7e57ab1e00000000u + type;
}

static void construct(void *object, void *arg)
{
    struct thing *thing = object;

    atomic_init(&thing->type, type_of(TYPES));
    for (unsigned i = 0; i < WORDS; i++)
        atomic_init(&thing->word[i], 0);
}

static void write_words(struct thing *thing, uint64_t value)
{
    for (unsigned i = 0; i < WORDS; i++)
        atomic_store_explicit(&thing->word[i], value, memory_order_relaxed);
}

static struct thing *new_thing(unsigned type, unsigned flags)
{
    struct thing *thing = stook_alloc(cache[type], flags);

    if (thing) {
        atomic_store_explicit(&thing->type, type_of(type), memory_order_relaxed);
        write_words(thing, atomic_fetch_add_explicit(&number, 1, memory_order_relaxed) + 1);
    }
    return thing;
}

/* ---- sheaves that reach the RCU ---------------------------------------------------------------- */

static _Atomic uint64_t full, pushed; /* pushed: by drains, which take sheaves that are not full */

static void counting_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    /* The head of type-stable slabs lies in no sheaf, nor do spare sheaves lie in the arena. */
    if (pagemap_covers(head)) {
        const struct sheaf *sheaf = rcu_batch_sheaf(head);
        atomic_fetch_add(sheaf->size < sheaf->capacity ? &pushed : &full, 1);
    }
    delayed_call(head, func);
}

/* ---- readers --------------------------------------------------------------------------------- */

static void read_one(unsigned type, unsigned at, uint64_t *random)
{
    struct thing *thing;
    uint64_t first;

    delayed_read_lock();
    thing = atomic_load(&place[type][at]);
    if (thing) {
        first = atomic_load_explicit(&thing->word[0], memory_order_relaxed);
        if (random_below(random, 16) == 0)
            sched_yield();
        for (unsigned i = 0; i < WORDS; i++)
            if (atomic_load_explicit(&thing->word[i], memory_order_relaxed) != first)
                atomic_fetch_add(&errors, 1);
        if (atomic_load_explicit(&thing->type, memory_order_relaxed) != type_of(type))
            atomic_fetch_add(&errors, 1);
        atomic_fetch_add_explicit(&seen, 1, memory_order_relaxed);
    }
    delayed_read_unlock();
}

/* An object of the type-stable cache: it may be another one by now, but is one of the cache. */
static void read_stable(unsigned at, uint64_t *random)
{
    struct thing *thing;

    delayed_read_lock();
    thing = atomic_load(&stable_place[at]);
    if (thing) {
        if (random_below(random, 4) == 0)
            usleep(random_below(random, 200));
        if (atomic_load_explicit(&thing->type, memory_order_relaxed) != type_of(TYPES))
            atomic_fetch_add(&errors, 1);
        if (atomic_load(&stable_place[at]) != thing)
            atomic_fetch_add_explicit(&stale, 1, memory_order_relaxed);
    }
    delayed_read_unlock();
}

static void *reader(void *arg)
{
    uint64_t random = (uintptr_t)arg;

    delayed_register();
    for (unsigned i = 0; i < 1000 || !atomic_load(&done); i++) {
        read_one(random_below(&random, TYPES), random_below(&random, PLACES), &random);
        read_stable(random_below(&random, PLACES), &random);
    }
    return NULL;
}

/* ---- writers, and their handlers -------------------------------------------------------------- */

static __thread uint64_t handler_random;

static void replace(unsigned flags, uint64_t *random)
{
    unsigned type = random_below(random, TYPES), at = random_below(random, PLACES);
    struct thing *thing = random_below(random, 4) ? new_thing(type, flags) : NULL, *old;

    old = atomic_exchange(&place[type][at], thing);
    if (old)
        stook_free_rcu(cache[type], old);
}

static void on_signal(int signal)
{
    int saved = errno; /* of an allocation that failed */

    if (handler_random == 0)
        return;
    atomic_fetch_add_explicit(&signals, 1, memory_order_relaxed);
    if (context_tls.depth > 0)
        atomic_fetch_add_explicit(&inside, 1, memory_order_relaxed);
    for (unsigned i = 0; i < 5; i++)
        replace(STOOK_SIGNAL_SAFE, &handler_random);
    errno = saved;
}

static void replace_stable(uint64_t *random)
{
    struct thing *batch[40];
    unsigned n = 1 + random_below(random, 40);

    for (unsigned i = 0; i < n; i++)
        if ((batch[i] = stook_alloc(stable, 0)) != NULL)
            write_words(batch[i], 1);
    for (unsigned i = 0; i < n; i++) {
        struct thing *old = batch[i];
        if (old && random_below(random, 3))
            old = atomic_exchange(&stable_place[random_below(random, PLACES)], old);
        if (old && random_below(random, 8) == 0)
            stook_free_rcu(stable, old);
        else
            stook_free(stable, old);
    }
}

static void *writer(void *arg)
{
    uint64_t random = (uintptr_t)arg;

    handler_random = random + 1;
    for (unsigned turn = 0; turn < scaled(TURNS); turn++) {
        for (unsigned i = 0; i < 40; i++)
            replace(0, &random);
        replace_stable(&random);
        if (random_below(&random, 64) == 0)
            stook_cache_shrink(random_below(&random, 2) ? stable : cache[0]);
    }
    return NULL;
}

/* ---- caches that come and go ------------------------------------------------------------------- */

static void *destroyer(void *arg)
{
    return (void *)(intptr_t)stook_cache_destroy(arg);
}

/* The kernel's test of rcu destruction, with the destruction in another thread, after some time. */
static void come_and_go(uint64_t *random)
{
    unsigned flags[] = {0, STOOK_CACHE_TYPESAFE, STOOK_CACHE_NOSHEAF};
    struct stook_cache_args args = {.size = sizeof(args),
                                    .flags = flags[random_below(random, 3)],
                                    .sheaf_capacity = random_below(random, 60)};
    struct stook_cache *other = stook_cache_create("comes and goes", 200, &args);
    unsigned n = random_below(random, 300);
    void *list[300], *result = NULL;
    pthread_t thread;

    if (!other || stook_alloc_bulk(other, 0, n, list) != 0) {
        atomic_fetch_add(&errors, 1);
        return;
    }
    for (unsigned i = 0; i < n; i++)
        if (random_below(random, 4))
            stook_free_rcu(other, list[i]);
        else
            stook_free(other, list[i]);
    if (random_below(random, 2))
        usleep(random_below(random, 1000));
    if (pthread_create(&thread, NULL, destroyer, other) != 0)
        abort();
    pthread_join(thread, &result);
    if (result)
        atomic_fetch_add(&errors, 1);
}

static void *maker(void *arg)
{
    uint64_t random = (uintptr_t)arg;

    while (!atomic_load(&done))
        come_and_go(&random);
    return NULL;
}

static void *waiter(void *arg)
{
    uint64_t random = (uintptr_t)arg;

    while (!atomic_load(&done)) {
        stook_rcu_barrier();
        usleep(random_below(&random, 3000));
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------- */

TEST(storm)
{
    struct stook_cache_args args = {.size = sizeof(args)}, constructed = args;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    pthread_t readers[READERS], writers[WRITERS], make, wait;
    struct timespec moment = {0, 300000};
    bool alive = true;

    assert_int_equal(delayed_use(), 0);
    rcu_ops.call = counting_call;
    sigaction(SIGUSR1, &action, NULL);
    for (unsigned i = 0; i < TYPES; i++) { /* of one size: pages go from one type to the other */
        args.sheaf_capacity = i ? 14 : 60;
        assert_non_null(cache[i] =
                            stook_cache_create(i ? "one" : "two", sizeof(struct thing), &args));
    }
    constructed.ctor = construct;
    constructed.flags = STOOK_CACHE_TYPESAFE;
    constructed.sheaf_capacity = 10;
    assert_non_null(stable = stook_cache_create("stable", sizeof(struct thing), &constructed));
    for (uintptr_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, reader, (void *)(i + 1)), 0);
    for (uintptr_t i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&writers[i], NULL, writer, (void *)(i + 100)), 0);
    assert_int_equal(pthread_create(&make, NULL, maker, (void *)7), 0);
    assert_int_equal(pthread_create(&wait, NULL, waiter, (void *)8), 0);
    /* Signals until one writer is through: threads are joined, so their ids stay valid. */
    while (alive) {
        for (unsigned i = 0; i < WRITERS && alive; i++) {
            nanosleep(&moment, NULL);
            alive =
                pthread_kill(writers[i], SIGUSR1) == 0 && pthread_tryjoin_np(writers[i], NULL) != 0;
            if (!alive)
                for (unsigned k = 0; k < WRITERS; k++)
                    if (k != i)
                        pthread_join(writers[k], NULL);
        }
    }
    atomic_store(&done, true);
    for (unsigned i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    pthread_join(make, NULL);
    pthread_join(wait, NULL);
    for (unsigned i = 0; i < PLACES; i++) {
        for (unsigned k = 0; k < TYPES; k++)
            stook_free_rcu(cache[k], atomic_exchange(&place[k][i], NULL));
        stook_free(stable, atomic_exchange(&stable_place[i], NULL));
    }
    stook_rcu_barrier();
    printf("%llu sheaves full, %llu pushed by drains\n", (unsigned long long)atomic_load(&full),
           (unsigned long long)atomic_load(&pushed));
    assert_true(atomic_load(&full) > 0 && atomic_load(&pushed) > 0);
    for (unsigned i = 0; i < TYPES; i++)
        assert_int_equal(stook_cache_destroy(cache[i]), 0);
    assert_int_equal(stook_cache_destroy(stable), 0);
    printf("%llu things, %llu seen, %llu stale; %llu calls; %llu signals, %llu inside\n",
           (unsigned long long)atomic_load(&number), (unsigned long long)atomic_load(&seen),
           (unsigned long long)atomic_load(&stale), (unsigned long long)atomic_load(&delayed_calls),
           (unsigned long long)atomic_load(&signals), (unsigned long long)atomic_load(&inside));
    assert_true(seen > 0);
    assert_int_equal(atomic_load(&errors), 0);
    assert_int_equal(atomic_load(&delayed_calls), atomic_load(&delayed_backs));
    delayed_end();
    check_all(NULL, 0);
}
