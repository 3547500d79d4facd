/* SPDX-License-Identifier: MIT */
/* needs: native */
/*
 * A signal handler that allocates and frees, anywhere in the slow paths.  The thread is single-stepped, and every
 * few instructions the handler allocates or frees an object of caches whose slabs change state with it.  Then
 * check_all(): nothing lost, nothing twice, no work left.  Sections never complete meanwhile, so their bounded
 * retries run as well.
 * STOOK_TEST_ROUNDS=n for more than the default.
 */
#include "support/check.h"
#include "support/test.h"

#include "base/context.h"
#include "sheaf/slot_drain.h"
#include "support/random.h"
#include "support/stay.h"

#include <stook/stook.h>

#include <signal.h>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#include "support/single_step.h"

enum {
    MOST = 4000,
    POOL = 12,
#ifdef __SANITIZE_ADDRESS__
    LATEST = 9000, /* checked caches look at each object of a bulk first */
#else
    LATEST = 2000, /* instructions into a call, at which the first visit comes: each is a signal */
#endif
};

static struct stook_cache *cache, *other;
static struct check_object held[MOST];
static size_t nheld;
static struct check_object pool[POOL]; /* the handler's */
static unsigned steps, next_step, visits, handled, inside;
static uint64_t seed = 1;
static volatile bool done; /* the call is over, what follows is the test's */

static void hold(struct stook_cache *of, void *object)
{
    assert_non_null(object);
    assert_true(nheld < MOST);
    held[nheld++] = (struct check_object){of, object};
}

static void *unhold(void)
{
    return held[--nheld].object;
}

static void handler(void)
{
    /* The first is the only object of its cache: with it comes and goes a slab. */
    struct check_object *one = &pool[random_below(&seed, 2) * random_below(&seed, POOL)];

    handled++;
    inside += context_tls.depth > 0;
    if (one->object) {
        if (random_below(&seed, 2))
            stook_free(one->cache, one->object);
        else
            stook_free_any(one->object);
        one->object = NULL;
    } else {
        one->object = stook_alloc(one->cache, STOOK_SIGNAL_SAFE); /* may fail */
    }
}

static void on_step(int signal, siginfo_t *info, void *ucontext)
{
    if (done || ++steps < next_step)
        return;
    next_step = steps + 3 + random_below(&seed, 100);
    handler();
    if (--visits == 0) /* more would keep the holder at its deferred work */
        single_step_end(ucontext);
}

/* ---- the calls that are interrupted ---------------------------------------------------------- */

static void *result[64];
static size_t results;

static void do_alloc(void)
{
    result[0] = stook_alloc(cache, 0);
    results = 1;
}

static void *to_free;

static void do_free(void)
{
    stook_free(cache, to_free);
}

static void do_alloc_bulk(void)
{
    results = stook_alloc_bulk(cache, 0, 40, result) == 0 ? 40 : 0;
}

/* So few that what locked mode checks of each beforehand leaves room for handlers inside. */
enum { BULK_FREED = 8 };
static void *bulk[BULK_FREED];

static void do_free_bulk(void)
{
    stook_free_bulk(cache, BULK_FREED, bulk);
}

static void do_shrink(void)
{
    (void)stook_cache_shrink(cache);
}

static void empty_all(void)
{
    while (nheld > 0) {
        struct check_object last = held[--nheld];
        stook_free(last.cache, last.object);
    }
    stook_cache_shrink(cache);
    stook_cache_shrink(other);
}

struct scenario {
    const char *name;
    void (*call)(void);
    unsigned flags, capacity;
    unsigned before; /* objects taken first */
    unsigned freed;  /* of these freed first */
};

static const struct scenario scenarios[] = {
    {"refill from a new slab", do_alloc, 0, 6, 0, 0},
    {"refill from the barn", do_alloc, 0, 6, 60, 60},
    {"alloc without sheaves", do_alloc, STOOK_CACHE_NOSHEAF, 0, 0, 0},
    {"free to a full sheaf", do_free, 0, 6, 60, 13},
    {"free without sheaves", do_free, STOOK_CACHE_NOSHEAF, 0, 1, 0},
    {"bulk alloc", do_alloc_bulk, 0, 6, 60, 50},
    {"bulk free", do_free_bulk, 0, 6, 60, 10},
    {"shrink", do_shrink, 0, 6, 80, 70},
};

/*
 * The next object is of a new slab.  The thread stays on its CPU meanwhile, or it would not find the objects again
 * that it left in the slot.
 */
static void exhaust(void)
{
    struct node *node = &cache->nodes[0].node;
    uint64_t cached, sheaves;

    stook_cache_shrink(cache); /* from all CPUs, and from the barn, into the slabs */
    for (slot_count(cache, &cached, &sheaves); cached > 0 || node->nr_partial || node->nr_empty;
         slot_count(cache, &cached, &sheaves)) {
        hold(cache, stook_alloc(cache, 0));
    }
}

/* The first visit comes within so many instructions of the call; with 0, if the call is long. */
static void run_once(const struct scenario *s, unsigned within)
{
    cpu_set_t before;
    size_t kept;

    stay_begin(&before);
    for (unsigned i = 0; i < POOL; i++) {
        pool[i].cache = i > 0 ? cache : other;
        pool[i].object = i % 2 == 0 ? stook_alloc(pool[i].cache, 0) : NULL;
    }
    kept = nheld;
    for (unsigned i = 0; i < s->before; i++)
        hold(cache, stook_alloc(cache, 0));
    if (s->before == 0)
        exhaust();
    for (unsigned i = 0; i < s->freed; i++)
        stook_free(cache, unhold());
    if (s->call == do_free)
        to_free = unhold();
    for (unsigned i = 0; i < BULK_FREED && s->call == do_free_bulk; i++)
        bulk[i] = unhold();
    assert_true(nheld >= kept);
    results = 0;
    steps = 0;
    next_step = within > 0 ? (unsigned)random_below(&seed, within) : LATEST;
    visits = within > 0 ? 1 + (unsigned)random_below(&seed, 6) : 1;
    done = false;
    single_step(true);
    s->call();
    done = true;
    single_step(false);
    for (size_t i = 0; i < results; i++)
        hold(cache, result[i]);
    for (unsigned i = 0; i < POOL; i++)
        if (pool[i].object)
            hold(pool[i].cache, pool[i].object);
    stay_end(&before);
    check_all(held, nheld);
    empty_all();
}

TEST(handler_anywhere)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, old;
    const char *text = getenv("STOOK_TEST_ROUNDS");
    unsigned rounds = text ? (unsigned)atoi(text) : 30;

    sigaction(SIGTRAP, &action, &old);
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        const struct scenario *s = &scenarios[i];
        struct stook_cache_args args = {
            .size = sizeof(args), .flags = s->flags, .sheaf_capacity = s->capacity};
        struct stook_cache_args plain = {.size = sizeof(plain), .flags = STOOK_CACHE_NOSHEAF};
        unsigned length;
        cache = stook_cache_create("interrupted", 250, &args);
        other = stook_cache_create("other", 2000, &plain);
        assert_true(cache && other);
        other->min_partial = 0; /* an empty slab goes back to the arena at once */
        handled = inside = 0;
        run_once(s, 0);
        length = steps < LATEST ? steps : LATEST; /* the compiler's and the sanitizers' choice */
        for (unsigned round = 0; round < rounds; round++)
            run_once(s, length);
        printf("%s: %u instructions, %u handlers, %u inside\n", s->name, length, handled, inside);
        assert_true(inside > 5 || getenv("STOOK_DEBUG")); /* its calls are longer */
        assert_int_equal(stook_cache_destroy(cache), 0);
        assert_int_equal(stook_cache_destroy(other), 0);
    }
    check_all(NULL, 0);
    sigaction(SIGTRAP, &old, NULL);
}

#endif
