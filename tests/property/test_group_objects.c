/* SPDX-License-Identifier: MIT */
/*
 * Accounted objects against a model, one random step after the other: taken one by one, in bulk,
 * ahead in a sheaf, for the group that the thread is in or one that is named, from any CPU, in handlers;
 * freed in any way by whoever is in any group; groups made and destroyed with objects left; limits
 * changed; forked children that go on by themselves.
 *
 * After each step a group's usage is the sum of what its live objects cost, to the byte; an object is
 * handed out exactly when there is room for it in sum; and each object names its group.
 *
 * STOOK_TEST_SEED and STOOK_TEST_ROUNDS repeat or prolong it.
 */
#include "account/group_table.h"
#include "os/topology.h"
#include "slab/cache.h"
#include "support/check.h"
#include "support/random.h"
#include "support/scale.h"

#include <stook/group.h>
#include <stook/stook.h>

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { GROUPS = 12, CACHES = 4, OBJECTS = 4000, BULK = 60, STEPS = 25000, CHILD_STEPS = 200 };

static struct {
    struct stook_group *handle; /* NULL: does not live */
    int parent, children;       /* -1: none */
    uint64_t limit, usage, refused;
} group[GROUPS];

static struct stook_cache *cache[CACHES]; /* the last is not accounted */
static struct live {
    void *object;
    int cache, owner; /* the group, or the nearest that lives; -1: none */
} live[OBJECTS];
static unsigned lives;

static uint64_t seed, state;
static unsigned steps, taken, refusals, by_handlers, forks;
static int inside = -1;

static void wrong(const char *what)
{
    fail_msg("%s (STOOK_TEST_SEED=%llu, step %u)", what, (unsigned long long)seed, steps);
}

static uint32_t below(uint32_t end)
{
    return random_below(&state, end);
}

static uint64_t cost(int c)
{
    return c == CACHES - 1 ? 0 : cache[c]->charge;
}

static void add(int g, int64_t bytes)
{
    for (; g >= 0; g = group[g].parent)
        group[g].usage += (uint64_t)bytes;
}

/* The first on the way up that has no room, or -1. */
static int full(int g, uint64_t bytes)
{
    for (; g >= 0 && bytes > 0; g = group[g].parent)
        if (group[g].limit && group[g].usage + bytes > group[g].limit)
            return g;
    return -1;
}

static int any_group(void)
{
    int g = (int)below(GROUPS);

    for (int i = 0; i < GROUPS; i++, g = (g + 1) % GROUPS)
        if (group[g].handle)
            return g;
    return -1;
}

static void move(void)
{
    static cpu_set_t allowed;
    cpu_set_t one;
    int cpu = -1, n;

    if (topology.simulated) {
        assert_true(stook_topology_cpu((int)below(topology.cpus)) >= 0);
        return;
    }
    if (CPU_COUNT(&allowed) == 0)
        sched_getaffinity(0, sizeof(allowed), &allowed);
    for (n = (int)below((uint32_t)CPU_COUNT(&allowed)) + 1; n > 0;)
        n -= CPU_ISSET(++cpu, &allowed) != 0;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)sched_setaffinity(0, sizeof(one), &one);
}

/* ---- taking and freeing --------------------------------------------------------------------- */

static void keep(void *object, int c, int g)
{
    struct stook_group *owner = c == CACHES - 1 || g < 0 ? NULL : group[g].handle;

    if (stook_group_of(object) != owner)
        wrong("an object names another group");
    memset(object, 0x5a, stook_cache_object_size(cache[c])); /* its columns are not in its way */
    if (stook_group_of(object) != owner)
        wrong("an object that is written to names another group");
    live[lives++] = (struct live){object, c, c == CACHES - 1 ? -1 : g};
    add(live[lives - 1].owner, (int64_t)cost(c));
    taken++;
}

static void free_one(unsigned i)
{
    struct live gone = live[i];

    add(gone.owner, -(int64_t)cost(gone.cache));
    live[i] = live[--lives];
    if (below(3) == 0)
        stook_free_any(gone.object);
    else
        stook_free(cache[gone.cache], gone.object);
}

static void free_many(void)
{
    void *objects[BULK];
    unsigned n = 0;
    int c = (int)below(CACHES);

    for (unsigned i = 0; i < lives && n < BULK;)
        if (live[i].cache == c && below(4)) {
            add(live[i].owner, -(int64_t)cost(c));
            objects[n++] = live[i].object;
            live[i] = live[--lives];
        } else {
            i++;
        }
    stook_free_bulk(cache[c], n, objects);
}

/* What must come of a call that asks for n: whether it got them. */
static bool expect(size_t got, size_t n, int c, int g)
{
    int in_the_way = full(c == CACHES - 1 ? -1 : g, n * cost(c));

    if (got != 0 && got != n)
        wrong("a part of a bulk");
    if ((got == n) != (in_the_way < 0))
        wrong(got ? "handed out beyond a limit" : "refused while there was room in sum");
    if (got == n)
        return true;
    if (errno != EDQUOT)
        wrong("another error than EDQUOT");
    group[in_the_way].refused++;
    refusals++;
    return false;
}

static unsigned some_flags(void)
{
    static const unsigned flags[] = {STOOK_WAIT, STOOK_NOWAIT, STOOK_ZERO, STOOK_NOSPIN};

    return flags[below(3)]; /* NOSPIN may fail for other reasons: on_signal() */
}

static void take_one(void)
{
    int c = (int)below(CACHES), g = inside;
    void *object;

    errno = 0;
    if (below(3)) {
        object = stook_alloc(cache[c], some_flags());
    } else {
        g = below(5) ? any_group() : -1;
        object = stook_alloc_group(cache[c], some_flags(), g < 0 ? NULL : group[g].handle);
    }
    if (expect(object != NULL, 1, c, g))
        keep(object, c, g);
}

static void take_many(void)
{
    void *objects[BULK];
    int c = (int)below(CACHES), g = inside;
    size_t n = 1 + below(BULK), got;

    if (lives + n > OBJECTS)
        return;
    errno = 0;
    if (below(2)) {
        got = stook_alloc_bulk(cache[c], some_flags(), n, objects);
    } else {
        g = any_group();
        got = stook_alloc_bulk_group(cache[c], some_flags(), n, objects,
                                     g < 0 ? NULL : group[g].handle);
    }
    if (expect(got, n, c, g))
        for (size_t i = 0; i < n; i++)
            keep(objects[i], c, g);
}

/* Who fills a sheaf pays for what is in it; what is not taken goes back. */
static void take_ahead(void)
{
    int c = (int)below(CACHES - 1);
    unsigned wanted = 1 + below(20), had;
    struct stook_sheaf *sheaf = stook_sheaf_prefill(cache[c], STOOK_WAIT, wanted);
    int in_the_way = full(inside, wanted * cost(c));

    if ((sheaf != NULL) != (in_the_way < 0))
        wrong(sheaf ? "filled beyond a limit" : "not filled, although there was room");
    for (int g = 0; g < GROUPS; g++) { /* it asks for more first */
        struct stook_group_stat stat = {.size = sizeof(stat)};
        if (group[g].handle && stook_group_stat(group[g].handle, &stat) == 0)
            group[g].refused = stat.refused;
    }
    if (!sheaf)
        return;
    had = stook_sheaf_size(sheaf);
    if (had < wanted || full(inside, had * cost(c)) >= 0)
        wrong("filled with too few, or beyond a limit");
    for (unsigned i = below(wanted + 1); i > 0 && lives < OBJECTS; i--) {
        void *object = stook_sheaf_alloc(cache[c], 0, sheaf);
        if (!object)
            wrong("a sheaf has fewer than it says");
        keep(object, c, inside);
    }
    stook_sheaf_return(cache[c], sheaf);
}

/* A handler takes and frees; what it could not get may have been for want of the lock. */
static void on_signal(int signal)
{
    int c = (int)below(CACHES), g = inside, saved = errno;

    (void)signal;
    for (unsigned i = below(6); i > 0 && lives < OBJECTS; i--) {
        void *object = stook_alloc(cache[c], STOOK_NOSPIN);
        if (object && full(c == CACHES - 1 ? -1 : g, cost(c)) >= 0)
            wrong("a handler was given an object beyond a limit");
        if (object)
            keep(object, c, g);
        else if (errno == EDQUOT)
            group[full(g, cost(c))].refused++;
        else if (errno != ENOMEM)
            wrong("another error in a handler");
    }
    for (unsigned i = below(6); i > 0 && lives > 0; i--)
        free_one(below(lives));
    by_handlers++;
    errno = saved;
}

static void interrupt(void)
{
    bool held = below(2);

    if (held) { /* who holds the lock is interrupted */
        context_enter();
        group_lock(false);
    }
    raise(SIGUSR1);
    if (held) {
        group_unlock();
        context_leave();
    }
}

/* ---- groups --------------------------------------------------------------------------------- */

static uint64_t some_limit(void)
{
    return below(3) ? 1 + below(1u << (12 + below(11))) : 0;
}

static void make_group(void)
{
    int g = (int)below(GROUPS), parent = below(3) ? any_group() : -1;
    unsigned depth = 1;

    for (int p = parent; p >= 0; p = group[p].parent)
        depth++;
    if (group[g].handle || depth > STOOK_GROUP_DEPTH_MAX)
        return;
    memset(&group[g], 0, sizeof(group[g]));
    group[g].parent = parent;
    group[g].limit = some_limit();
    group[g].handle = stook_group_create("random", parent < 0 ? NULL : group[parent].handle,
                                         (size_t)group[g].limit);
    if (!group[g].handle)
        wrong("a group cannot be made");
    if (parent >= 0)
        group[parent].children++;
}

static void destroy_group(int g)
{
    int parent = group[g].parent;

    if (group[g].children > 0)
        return;
    if (stook_group_destroy(group[g].handle) != 0)
        wrong("a group cannot be destroyed");
    for (unsigned i = 0; i < lives; i++)
        if (live[i].owner == g)
            live[i].owner = parent;
    if (inside == g)
        inside = parent;
    if (parent >= 0)
        group[parent].children--;
    group[g].handle = NULL;
}

static void check_groups(void)
{
    for (int g = 0; g < GROUPS; g++) {
        struct stook_group_stat stat = {.size = sizeof(stat)};
        if (!group[g].handle)
            continue;
        if (stook_group_stat(group[g].handle, &stat) != 0)
            wrong("no statistics");
        if (stat.usage != group[g].usage)
            wrong("usage is not the sum of what live objects cost");
        if (stat.refused != group[g].refused)
            wrong("another number of refusals");
    }
    for (unsigned i = below(16); i < lives; i += 16) {
        int g = live[i].owner;
        if (stook_group_of(live[i].object) != (g >= 0 ? group[g].handle : NULL))
            wrong("an object names another group");
    }
}

static void step(bool may_fork);

static void fork_a_child(void)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        for (int i = 0; i < CHILD_STEPS; i++)
            step(false);
        while (lives > 0)
            free_one(lives - 1);
        check_groups();
        _exit(0);
    }
    forks++;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        wrong("a forked child found something wrong");
}

static void step(bool may_fork)
{
    unsigned what = below(1000);
    int g = any_group();

    steps++;
    if (lives > OBJECTS - BULK)
        what = 600;
    if (what < 330)
        take_one();
    else if (what < 430)
        take_many();
    else if (what < 450)
        take_ahead();
    else if (what < 760)
        lives > 0 ? free_one(below(lives)) : (void)0;
    else if (what < 800)
        free_many();
    else if (what < 850)
        move();
    else if (what < 900)
        interrupt();
    else if (what < 930)
        make_group();
    else if (what < 940)
        g >= 0 ? destroy_group(g) : (void)0;
    else if (what < 960) {
        inside = below(4) ? g : -1;
        stook_group_enter(inside >= 0 ? group[inside].handle : NULL);
    } else if (what < 980 && g >= 0) {
        group[g].limit = some_limit();
        if (stook_group_set_limit(group[g].handle, (size_t)group[g].limit) != 0)
            wrong("a limit cannot be set");
    } else if (what < 990) {
        stook_cache_shrink(cache[below(CACHES)]);
    } else if (what < 992 && may_fork) {
        fork_a_child();
    }
    check_groups();
}

static void test_objects_against_a_model(void **unused)
{
    static struct check_object held[OBJECTS];
    unsigned n = (unsigned)scaled(STEPS);

    (void)unused;
    for (unsigned i = 0; i < n; i++)
        step(i % 8 == 0);
    print_message("%u steps: %u objects, %u refusals, %u handlers, %u forks\n", steps, taken,
                  refusals, by_handlers, forks);
    assert_true(taken > n / 4 && refusals > n / 100 && by_handlers > 0);
    for (unsigned i = 0; i < lives; i++)
        held[i] = (struct check_object){cache[live[i].cache], live[i].object};
    check_all(held, lives);
    while (lives > 0)
        free_one(lives - 1);
    check_groups();
    for (bool left = true; left;) {
        left = false;
        for (int g = 0; g < GROUPS; g++)
            if (group[g].handle) {
                assert_int_equal(group[g].usage, 0);
                destroy_group(g);
                left = true;
            }
    }
    assert_int_equal(group_table.unused, atomic_load(&group_table.high)); /* no zombie is left */
    for (int c = 0; c < CACHES; c++)
        assert_int_equal(stook_cache_destroy(cache[c]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects_against_a_model),
    };
    static const size_t sizes[CACHES] = {24, 200, 992, 64};
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    struct sigaction action = {.sa_handler = on_signal};
    const char *text = getenv("STOOK_TEST_SEED");
    const char *why;

    seed = state = text ? strtoull(text, NULL, 10) : 7;
    /* Without sections CPUs may be imagined: more of them than the machine has. */
    if (strcmp(stook_mode(&why), "locked") == 0 && stook_topology_set("node:2 core:4") != 0)
        return 1;
    for (int c = 0; c < CACHES; c++)
        if (!(cache[c] = stook_cache_create("accounted", sizes[c], c < CACHES - 1 ? &args : NULL)))
            return 1;
    sigaction(SIGUSR1, &action, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
