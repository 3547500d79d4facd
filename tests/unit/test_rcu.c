/* SPDX-License-Identifier: MIT */
/*
 * Deferred frees step by step: the RCU is the test's, and a grace period is over when the test says
 * so, or when the library asks for a barrier.  Nothing is written to an object until then.
 */
#include "reserve/rcu.h"

#include "base/context.h"
#include "cache/cache_list.h"
#include "os/topology.h"
#include "page/arena.h"
#include "sheaf/barn.h"
#include "sheaf/slot.h"
#include "slab/node.h"
#include "support/check.h"
#include "support/child.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { CAPACITY = 30, SIZE = 256, MOST = 4000 };

/* ---- an RCU by hand ------------------------------------------------------------------------- */

static struct stook_rcu_head *queue;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned queued, barriers, synchronized;
static int reading;

static void hand_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    assert_int_equal(context_tls.depth, 0); /* outside the library, whoever calls */
    memset(head, 0xa5, sizeof(*head));      /* it is the RCU's */
    pthread_mutex_lock(&queue_lock);
    head->func = func;
    head->next = queue;
    queue = head;
    queued++;
    pthread_mutex_unlock(&queue_lock);
}

/* A grace period is over: of what was called before. */
static void pass(void)
{
    struct stook_rcu_head *head, *next;

    pthread_mutex_lock(&queue_lock);
    head = queue;
    queue = NULL;
    queued = 0;
    pthread_mutex_unlock(&queue_lock);
    for (; head; head = next) {
        next = head->next;
        head->func(head);
    }
}

static void hand_barrier(void)
{
    barriers++;
    pass();
}

static void hand_synchronize(void)
{
    synchronized++;
}

static int hand_reading(void)
{
    return reading;
}

static const struct stook_rcu_ops ops = {sizeof(ops), hand_call, hand_barrier, hand_synchronize,
                                         hand_reading};

/* ---- a cache whose objects say what they are -------------------------------------------------- */

static struct stook_cache *cache;
static unsigned cpu, capacity, limit; /* of a sheaf, and what of it waits for readers */
static void *objects[MOST];
static unsigned held;

static struct stook_cache *make(size_t size, unsigned wanted, unsigned flags)
{
    struct stook_cache_args args = {.size = sizeof(args), .sheaf_capacity = wanted, .flags = flags};
    struct stook_cache *made = stook_cache_create("deferred", size, &args);

    assert_non_null(made);
    return made;
}

static int setup(void **unused)
{
    cpu_set_t one;

    (void)unused;
    cpu = (unsigned)sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0)
        return -1;
    cache = make(SIZE, CAPACITY, 0);
    capacity = limit = CAPACITY; /* 38 fit into such a sheaf: the ride has room */
    held = 0;
    reading = 0;
    return 0;
}

static void take(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        objects[held] = stook_alloc(cache, 0);
        assert_non_null(objects[held]);
        memset(objects[held], 0x5a, stook_cache_object_size(cache));
        held++;
    }
}

static void defer(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        stook_free_rcu(cache, objects[--held]);
}

/* objects[held .. held + n) were deferred: readers see what was there. */
static void unchanged(unsigned n)
{
    for (unsigned i = held; i < held + n; i++)
        for (size_t k = 0; k < stook_cache_object_size(cache); k++)
            assert_int_equal(((unsigned char *)objects[i])[k], 0x5a);
}

static void check(void)
{
    static struct check_object list[MOST];

    for (unsigned i = 0; i < held; i++)
        list[i] = (struct check_object){cache, objects[i]};
    check_all(list, held);
}

static int teardown(void **unused)
{
    (void)unused;
    while (held > 0)
        stook_free(cache, objects[--held]);
    assert_int_equal(stook_cache_destroy(cache), 0);
    assert_int_equal(queued, 0);
    check_all(NULL, 0);
    return 0;
}

static struct slot *slot_here(void)
{
    return percpu_slot(cpu, percpu_offset(cache->index));
}

static struct rcu_events events(void)
{
    struct rcu_events e;

    rcu_events_of(cache, &e);
    return e;
}

/* ---- setting it, first of all ------------------------------------------------------------------ */

static int defer_without_rcu(void *unused)
{
    struct stook_cache *c = stook_cache_create("early", 64, NULL);

    (void)unused;
    stook_free_rcu(c, NULL); /* that is nothing */
    stook_free_rcu(c, stook_alloc(c, 0));
    return 0;
}

static void before_it_is_set(void **unused)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_TYPESAFE};
    static struct child child;

    (void)unused;
    child_run(&child, defer_without_rcu, NULL);
    assert_true(
        child_died_saying(&child, "cache early: stook_free_rcu() before stook_rcu_set_ops()"));
    stook_rcu_barrier();
    errno = 0;
    assert_null(stook_cache_create("stable", 64, &args));
    assert_int_equal(errno, ENOTSUP);
}

static void set(void **unused)
{
    struct stook_rcu_ops other = ops;
    struct {
        struct stook_rcu_ops ops;
        long later;
    } longer = {ops, 1};

    (void)unused;
    errno = 0;
    assert_int_equal(stook_rcu_set_ops(NULL), -1);
    assert_int_equal(errno, EINVAL);
    other.size = offsetof(struct stook_rcu_ops, synchronize);
    assert_int_equal(stook_rcu_set_ops(&other), -1);
    other = ops;
    other.call = NULL;
    assert_int_equal(stook_rcu_set_ops(&other), -1);
    other = ops;
    other.barrier = NULL;
    assert_int_equal(stook_rcu_set_ops(&other), -1);
    longer.ops.size = sizeof(longer);
    errno = 0;
    assert_int_equal(stook_rcu_set_ops(&longer.ops), -1);
    assert_int_equal(errno, EINVAL);
    longer.later = 0;
    assert_int_equal(stook_rcu_set_ops(&longer.ops), 0);
    assert_int_equal(stook_rcu_set_ops(&ops), 0); /* the same */
    other = ops;
    other.reading = NULL;
    errno = 0;
    assert_int_equal(stook_rcu_set_ops(&other), -1);
    assert_int_equal(errno, EBUSY);
}

/* ---- one CPU's sheaf ----------------------------------------------------------------------------- */

static void gather(void **unused)
{
    (void)unused;
    take(2 * limit);
    defer(limit - 1);
    assert_int_equal(queued, 0);
    assert_int_equal(slot_here()->rcu->size, limit - 1);
    check();
    defer(1); /* full: one callback */
    assert_int_equal(queued, 1);
    assert_null(slot_here()->rcu);
    unchanged(limit);
    assert_int_equal(cache->nodes[0].barn.nr_full, 0);
    pass();
    assert_int_equal(cache->nodes[0].barn.nr_full, 1); /* as a whole */
    assert_int_equal(cache->nodes[0].barn.full->size, limit);
    assert_int_equal(events().sheaves, 1);
    assert_int_equal(events().barn, 1);
    check();
    stook_free_rcu(cache, NULL);
    assert_null(slot_here()->rcu);
}

static void barn_refuses(void **unused)
{
    (void)unused;
    take(20 * limit);
    cache->nodes[0].barn.full_limit = 0;
    defer(limit);
    pass();
    assert_int_equal(cache->nodes[0].barn.nr_full, 0);
    assert_int_equal(events().flushed, 1);
    check();
}

static void barrier_pushes(void **unused)
{
    unsigned before = barriers;

    (void)unused;
    take(limit);
    defer(3);
    unchanged(3);
    stook_rcu_barrier();
    assert_int_equal(barriers, before + 1);
    assert_null(slot_here()->rcu);
    assert_int_equal(events().pushed, 1);
    check(); /* nothing waits any more */
    stook_rcu_barrier();
    assert_int_equal(events().pushed, 1);
}

static void shrink_pushes(void **unused)
{
    (void)unused;
    take(limit);
    defer(5);
    stook_cache_shrink(cache);
    assert_int_equal(queued, 1); /* and waits for nobody */
    unchanged(5);
    pass();
    check();
}

static void destroy_waits(void **unused)
{
    struct stook_cache *other = cache;
    unsigned before = barriers;

    (void)unused;
    take(limit + 7);
    defer(limit + 7);
    assert_int_equal(queued, 1);
    assert_int_equal(stook_cache_destroy(other), 0);
    assert_true(barriers > before);
    assert_int_equal(queued, 0);
    check_all(NULL, 0);
    cache = make(SIZE, CAPACITY, 0);
    before = barriers;
    assert_int_equal(stook_cache_destroy(make(SIZE, 0, 0)), 0); /* nothing deferred, no wait */
    assert_int_equal(barriers, before);
}

static void *destroy(void *arg)
{
    return (void *)(intptr_t)stook_cache_destroy(arg);
}

static void destroy_waits_elsewhere(void **unused)
{
    pthread_t thread;
    void *result;

    (void)unused;
    take(limit + 7);
    defer(limit + 7);
    assert_int_equal(pthread_create(&thread, NULL, destroy, cache), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
    check_all(NULL, 0);
    cache = make(SIZE, CAPACITY, 0);
}

/* What is out is out; what was deferred comes back all the same, and the cache works on. */
static void destroy_refuses(void **unused)
{
    (void)unused;
    take(limit + 7);
    defer(limit);
    errno = 0;
    assert_int_equal(stook_cache_destroy(cache), -1);
    assert_int_equal(errno, EBUSY);
    check();
    defer(3);
    stook_rcu_barrier();
    check();
}

static void capacities(void **unused)
{
    static const unsigned wanted[] = {1, 2, 6, 14, 15, 28, 38, 70, 134, 254, 1000, 1020, 1022, 0};

    (void)unused;
    assert_int_equal(stook_cache_destroy(cache), 0);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        for (unsigned flags = 0; flags <= STOOK_CACHE_NOSHEAF; flags += STOOK_CACHE_NOSHEAF) {
            cache = make(64, wanted[i], flags);
            take(MOST / 2);
            while (held > 0) {
                unsigned n = held < 100 ? held : 100;
                defer(n);
                unchanged(n);
                if (slot_here()->rcu) {
                    struct sheaf *sheaf = slot_here()->rcu;
                    assert_true(sheaf->capacity + RCU_RIDE_WORDS <= sheaf_room(sheaf));
                    /* A sheaf loses no more than a fifth of its capacity to the ride. */
                    assert_true(cache->capacity <= sheaf->capacity * 5 / 4);
                }
                pass();
            }
            assert_int_equal(events().loose, 0);
            stook_rcu_barrier();
            check();
            assert_int_equal(stook_cache_destroy(cache), 0);
        }
    cache = make(SIZE, CAPACITY, 0);
    check();
}

/* ---- no slot, no sheaf --------------------------------------------------------------------------- */

static void closed_slot(void **unused)
{
    struct slot *slot;
    struct sheaf *main;

    (void)unused;
    take(limit);
    defer(2);
    main = percpu_close(percpu_offset(cache->index), &slot, false);
    assert_non_null(main);
    defer(3);
    assert_int_equal(slot->rcu->size, 2);
    percpu_open(slot, main);
    assert_int_equal(events().loose, 3);
    unchanged(5);
    assert_int_equal(queued, 0);
    stook_rcu_barrier();
    check();
}

/* As many as a sheaf holds do not wait for a barrier; of two caches, side by side. */
static void loose_fill_a_sheaf(void **unused)
{
    struct stook_cache *other = make(64, 0, 0);
    void *others[RCU_MIXED];
    struct slot *slot, *slot2;
    struct sheaf *main, *main2;

    (void)unused;
    take(RCU_MIXED);
    for (unsigned i = 0; i < RCU_MIXED; i++)
        assert_non_null(others[i] = stook_alloc(other, 0));
    main = percpu_close(percpu_offset(cache->index), &slot, false);
    main2 = percpu_close(percpu_offset(other->index), &slot2, false);
    for (unsigned i = 0; i < RCU_MIXED - 1; i++)
        if (i % 3)
            defer(1);
        else
            stook_free_rcu(other, others[i]);
    assert_int_equal(queued, 0);
    defer(1);
    assert_int_equal(queued, 1);
    percpu_open(slot, main);
    percpu_open(slot2, main2);
    unchanged(1 + (RCU_MIXED - 1) * 2 / 3);
    pass();
    for (unsigned i = 0; i < RCU_MIXED; i++)
        if (i % 3 || i == RCU_MIXED - 1)
            stook_free(other, others[i]);
    assert_int_equal(stook_cache_destroy(other), 0);
    check();
}

/* An interrupted owner: slot closed, locks held; the sheaf that fills is handed over when it leaves. */
static void handler(void **unused)
{
    struct slot *slot;
    struct sheaf *main;

    (void)unused;
    take(3 * limit);
    defer(limit - 1);
    context_enter();
    lock_take(&cache->nodes[0].barn.lock, LOCK_BARN);
    lock_take(&cache->nodes[0].node.lock, LOCK_NODE);
    defer(1); /* full */
    assert_int_equal(queued, 0);
    defer(1); /* a sheaf of the library's own, by trying */
    main = percpu_close(percpu_offset(cache->index), &slot, false);
    defer(4);
    percpu_open(slot, main);
    lock_drop(&cache->nodes[0].node.lock, LOCK_NODE);
    lock_drop(&cache->nodes[0].barn.lock, LOCK_BARN);
    assert_int_equal(queued, 0);
    context_leave();
    assert_int_equal(queued, 1);
    unchanged(limit + 5);
    stook_rcu_barrier();
    check();
}

/* The call of the RCU is interrupted by a handler that fills a sheaf: the call is not entered again. */
static unsigned inside, entered_again;

static void calling(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    entered_again += inside++ > 0;
    hand_call(head, func);
    if (held >= limit) {
        unsigned before = queued;
        defer(limit);
        assert_int_equal(queued, before);
    }
    inside--;
}

static void call_is_interrupted(void **unused)
{
    (void)unused;
    take(3 * limit);
    rcu_ops.call = calling;
    defer(limit);
    rcu_ops.call = hand_call;
    assert_int_equal(held, 0);
    assert_int_equal(entered_again, 0);
    assert_int_equal(queued, 3);
    pass();
    check();
}

/* Every lock that a sheaf could need is held by somebody. */
static void hold_memory(void)
{
    for (unsigned i = 0; i < SHEAF_CLASSES; i++)
        for (unsigned k = 0; k < topology.nodes; k++)
            atomic_store(&sheaf_cache[i]->nodes[k].node.lock.word, 1);
    context_tls.fork = FORK_TAKING;
    arena_lock_all();
    context_tls.fork = FORK_NONE;
}

static void drop_memory(void)
{
    for (unsigned i = 0; i < SHEAF_CLASSES; i++)
        for (unsigned k = 0; k < topology.nodes; k++)
            atomic_store(&sheaf_cache[i]->nodes[k].node.lock.word, 0);
    arena_unlock_all();
}

/* A full sheaf of the barn is emptied into the slabs, and serves. */
static void a_full_sheaf_serves(void **unused)
{
    (void)unused;
    take(4 * CAPACITY);
    while (held > 0)
        stook_free(cache, objects[--held]);
    assert_true(cache->nodes[0].barn.nr_full > 0);
    while (cache->nodes[0].barn.nr_empty > 0)
        sheaf_free(barn_get_empty(cache, 0, false), false);
    take(1);
    context_enter();
    hold_memory();
    defer(1);
    drop_memory();
    context_leave();
    assert_non_null(slot_here()->rcu);
    assert_int_equal(events().loose, 0);
    unchanged(1);
    stook_rcu_barrier();
    check();
}

/* Nothing at all to be had: cells, and what they hold once more in sheaves that are always there. */
static int exhaust(void *arg)
{
    bool all = arg != NULL;
    unsigned most = 2 * RCU_CELLS, n = 0;

    setup(NULL);
    stook_cache_destroy(cache);
    cache = make(SIZE, 0, STOOK_CACHE_NOSHEAF);
    take(most + 1);
    context_enter();
    hold_memory();
    for (; n < most; n++)
        defer(1);
    if (all)
        defer(1); /* aborts */
    drop_memory();
    context_leave();
    if (queued != RCU_SPARES || events().loose != most)
        return 1;
    unchanged(n);
    stook_rcu_barrier();
    check();
    for (unsigned i = 0; i < 3 * RCU_CELLS; i++) { /* the spare sheaves are there again */
        take(1);
        defer(1);
    }
    return teardown(NULL);
}

static void exhausted(void **unused)
{
    static struct child child;

    (void)unused;
    child_run(&child, exhaust, NULL);
    assert_true(child_passed(&child));
    child_run(&child, exhaust, &child);
    assert_true(child_died_saying(&child, "no memory to defer the free of"));
}

/* Out of memory where one may wait: cells, then the spare sheaves, then a grace period each. */
static int exhaust_memory(void *arg)
{
    struct rlimit none = {1 << 20, 1 << 20};
    unsigned n = 0, most = RCU_CELLS + RCU_SPARES * RCU_MIXED + 100;

    setup(NULL);
    reading = arg != NULL;
    stook_cache_destroy(cache);
    cache = make(SIZE, 0, STOOK_CACHE_NOSHEAF);
    take(most);
    if (setrlimit(RLIMIT_DATA, &none) != 0)
        return 1;
    /* Sheaves of all sizes until there is none. */
    for (unsigned room = 1022; room > 0; room = room / 2)
        while (sheaf_alloc(room, 0, false))
            n++;
    for (unsigned i = 0; i < most; i++)
        defer(1);
    printf("%u sheaves before memory ran out, %u waits\n", n, synchronized);
    if (queued != RCU_SPARES || synchronized != 100 || events().loose != most)
        return 2;
    pass();
    stook_rcu_barrier();
    return stook_cache_destroy(cache);
}

static void exhausted_memory(void **unused)
{
    static struct child child;

    (void)unused;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (getenv("STOOK_EMULATED"))
        skip();
    child_run(&child, exhaust_memory, NULL);
    assert_true(child_passed(&child));
    child_run(&child, exhaust_memory, &child); /* inside a read-side section nobody may wait */
    assert_true(child_died_saying(&child, "no memory to defer the free of"));
#else
    skip(); /* the sanitizer cannot do without memory */
#endif
}

/* ---- type-stable caches --------------------------------------------------------------------------- */

static unsigned constructed, destructed;

static void construct(void *object)
{
    *(uint64_t *)object = 0x7e57ab1e;
    constructed++;
}

static void destruct(void *object)
{
    assert_int_equal(*(uint64_t *)object, 0x7e57ab1e);
    destructed++;
}

static void type_stable(void **unused)
{
    struct stook_cache_args args = {.size = sizeof(args),
                                    .ctor = construct,
                                    .dtor = destruct,
                                    .flags = STOOK_CACHE_TYPESAFE | STOOK_CACHE_MERGE};
    struct cache_counts counts;
    struct stook_cache *stable;
    static uint64_t *list[2000];
    unsigned n = sizeof(list) / sizeof(list[0]), before = barriers;

    (void)unused;
    constructed = destructed = 0;
    args.flags |= STOOK_CACHE_LINK_INSIDE;
    assert_null(stook_cache_create("stable", 1000, &args));
    args.flags &= ~STOOK_CACHE_LINK_INSIDE;
    stable = stook_cache_create("stable", 1000, &args);
    assert_non_null(stable);
    assert_int_equal(stable->flags & STOOK_CACHE_MERGE, 0);
    stable->min_partial = 0;
    for (unsigned i = 0; i < n; i++)
        assert_non_null(list[i] = stook_alloc(stable, 0));
    for (unsigned i = 0; i < n; i++)
        stook_free(stable, list[i]);
    stook_cache_shrink(stable);
    cache_count(stable, &counts);
    assert_int_equal(counts.slabs, 0); /* given up, all of them … */
    assert_int_equal(queued, 1);
    assert_int_equal(destructed, 0);
    for (unsigned i = 0; i < n; i++) /* … and there for who looks still */
        assert_int_equal(*list[i], 0x7e57ab1e);
    assert_true(rcu_slabs_waiting(stable) > 0);
    list[0] = stook_alloc(stable, 0);
    pass();
    /* What came while others waited follows them. */
    assert_true(destructed > 0);
    while (queued > 0)
        pass();
    assert_int_equal(rcu_slabs_waiting(stable), 0);
    assert_int_equal(barriers, before);
    stook_free_rcu(stable, list[0]);
    assert_int_equal(stook_cache_destroy(stable), 0);
    assert_true(barriers >= before + 2); /* the object, then its slab */
    assert_int_equal(constructed, destructed);
    check();
}

/* Free objects of a type-stable cache are never written to, whatever their size. */
static void type_stable_is_left_alone(void **unused)
{
    static const size_t sizes[] = {8, 16, 24, 40, 48, 100, 3000};

    (void)unused;
    assert_int_equal(stook_cache_destroy(cache), 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        cache = make(sizes[i], 0, STOOK_CACHE_TYPESAFE);
        take(500);
        while (held > 250) {
            unsigned k = held * 7 % 250;
            void *object = objects[k];
            objects[k] = objects[--held];
            objects[held] = object;
            stook_free(cache, object);
        }
        stook_cache_shrink(cache);
        for (unsigned k = 0; k < 500; k++)
            for (size_t b = 0; b < sizes[i]; b++)
                assert_int_equal(((unsigned char *)objects[k])[b], 0x5a);
        while (queued > 0)
            pass();
        check();
        while (held > 0)
            stook_free(cache, objects[--held]);
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
    cache = make(SIZE, CAPACITY, 0);
}

/* ---- fork ---------------------------------------------------------------------------------------- */

static atomic_bool in_call, may_return;

static void slow_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    atomic_store(&in_call, true);
    while (!atomic_load(&may_return))
        sched_yield();
    hand_call(head, func);
}

static void *defer_a_sheaf(void *unused)
{
    (void)unused;
    defer(limit);
    return NULL;
}

/* A barrier waits for a thread that has something in hand; the child of a fork does not. */
static void *wait_for_barrier(void *done)
{
    stook_rcu_barrier();
    atomic_store((atomic_bool *)done, true);
    return NULL;
}

static void hands(void **unused)
{
    static atomic_bool done;
    pthread_t thread, waiter;
    int status;
    pid_t child;

    (void)unused;
    take(limit + 2);
    rcu_ops.call = slow_call;
    assert_int_equal(pthread_create(&thread, NULL, defer_a_sheaf, NULL), 0);
    while (!atomic_load(&in_call))
        sched_yield();
    rcu_ops.call = hand_call;
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        stook_free_rcu(cache, objects[0]);
        stook_rcu_barrier(); /* nobody is in hand here */
        _exit(slot_here()->rcu != NULL || queued > 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(pthread_create(&waiter, NULL, wait_for_barrier, &done), 0);
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        assert_false(atomic_load(&done));
    }
    atomic_store(&may_return, true);
    pthread_join(waiter, NULL);
    pthread_join(thread, NULL);
    assert_true(atomic_load(&done));
    assert_int_equal(queued, 0);
    check();
}

/* The child inherits what waits: in the slot, in cells, and in the RCU, which is the test's. */
static void forked(void **unused)
{
    struct slot *slot;
    struct sheaf *main;
    int status;
    pid_t child;

    (void)unused;
    take(2 * limit);
    defer(limit + 3);
    main = percpu_close(percpu_offset(cache->index), &slot, false);
    defer(2);
    percpu_open(slot, main);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        unchanged(limit + 5);
        while (held > 0)
            stook_free(cache, objects[--held]);
        _exit(stook_cache_destroy(cache) != 0 || queued > 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    stook_rcu_barrier();
    check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_it_is_set),
        cmocka_unit_test(set),
        cmocka_unit_test_setup_teardown(gather, setup, teardown),
        cmocka_unit_test_setup_teardown(barn_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(barrier_pushes, setup, teardown),
        cmocka_unit_test_setup_teardown(shrink_pushes, setup, teardown),
        cmocka_unit_test_setup_teardown(destroy_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(destroy_waits_elsewhere, setup, teardown),
        cmocka_unit_test_setup_teardown(destroy_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(capacities, setup, teardown),
        cmocka_unit_test_setup_teardown(closed_slot, setup, teardown),
        cmocka_unit_test_setup_teardown(loose_fill_a_sheaf, setup, teardown),
        cmocka_unit_test_setup_teardown(handler, setup, teardown),
        cmocka_unit_test_setup_teardown(call_is_interrupted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_sheaf_serves, setup, teardown),
        cmocka_unit_test(exhausted),
        cmocka_unit_test(exhausted_memory),
        cmocka_unit_test_setup_teardown(type_stable, setup, teardown),
        cmocka_unit_test_setup_teardown(type_stable_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(hands, setup, teardown),
        cmocka_unit_test_setup_teardown(forked, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
