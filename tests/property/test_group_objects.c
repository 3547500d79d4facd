/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Accounted objects against a model, one random step after the other.  They are allocated one by one, in bulk or
 * in a prefilled sheaf, for the thread's group or a named one, from any CPU, in handlers.  They are freed by any
 * call, by a thread in any group.  Groups are made, and destroyed with objects left.  Limits change, and forked
 * children continue by themselves.
 *
 * After each step a group's usage is the sum of its live objects' costs, to the byte.  An allocation succeeds
 * exactly if there is room for it in sum, and each object names its group.
 *
 * STOOK_TEST_SEED and STOOK_TEST_ROUNDS repeat or prolong it.
 */
#include "slab/cache.h"
#include "support/check.h"
#include "support/group_model.h"
#include "support/scale.h"
#include "support/test.h"
#include "support/with.h"

#include <stook/group.h>
#include <stook/reserve.h>
#include <stook/stook.h>

#include <signal.h>

enum { GROUPS = 12, CACHES = 4, OBJECTS = 4000, BULK = 60, STEPS = 25000, CHILD_STEPS = 200 };

static struct group_model_group *const group = group_model.group;
static struct stook_cache *cache[CACHES]; /* the last is not accounted */
static struct live {
    void *object;
    int cache, owner; /* the group, or the nearest that lives; -1: none */
} live[OBJECTS];
static unsigned lives;

static unsigned taken, refusals, by_handlers;

static uint64_t cost(int c)
{
    return c == CACHES - 1 ? 0 : cache[c]->account.charge;
}

/* ---- taking and freeing --------------------------------------------------------------------- */

static void keep(void *object, int c, int g)
{
    struct stook_group owner = c == CACHES - 1 || g < 0 ? STOOK_NO_GROUP : group[g].handle;

    if (stook_group_of(object).id != owner.id)
        wrong("an object names another group");
    memset(object, 0x5a, stook_cache_object_size(cache[c])); /* its columns are not in its way */
    if (stook_group_of(object).id != owner.id)
        wrong("an object that is written to names another group");
    live[lives++] = (struct live){object, c, c == CACHES - 1 ? -1 : g};
    group_model_add(live[lives - 1].owner, (int64_t)cost(c));
    taken++;
}

static void free_one(unsigned i)
{
    struct live gone = live[i];

    group_model_add(gone.owner, -(int64_t)cost(gone.cache));
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
            group_model_add(live[i].owner, -(int64_t)cost(c));
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
    int in_the_way = group_model_full(c == CACHES - 1 ? -1 : g, n * cost(c));

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
    static const unsigned flags[] = {STOOK_WAIT, STOOK_NORECLAIM, STOOK_ZERO, STOOK_SIGNAL_SAFE};

    return flags[below(3)]; /* NOSPIN may fail for other reasons: on_signal() */
}

static void take_one(void)
{
    int c = (int)below(CACHES), g = group_model.inside;
    void *object;

    errno = 0;
    if (below(3)) {
        object = stook_alloc(cache[c], some_flags());
    } else {
        g = below(5) ? group_model_any() : -1;
        object = alloc_with_group(cache[c], some_flags(), g < 0 ? STOOK_NO_GROUP : group[g].handle);
    }
    if (expect(object != NULL, 1, c, g))
        keep(object, c, g);
}

static void take_many(void)
{
    void *objects[BULK];
    int c = (int)below(CACHES), g = group_model.inside;
    size_t n = 1 + below(BULK), got;

    if (lives + n > OBJECTS)
        return;
    errno = 0;
    if (below(2)) {
        got = stook_alloc_bulk(cache[c], some_flags(), n, objects) == 0 ? n : 0;
    } else {
        struct stook_group previous;
        g = group_model_any();
        previous = stook_group_enter(g < 0 ? STOOK_NO_GROUP : group[g].handle);
        got = stook_alloc_bulk(cache[c], some_flags(), n, objects) == 0 ? n : 0;
        stook_group_leave(previous);
    }
    if (expect(got, n, c, g))
        for (size_t i = 0; i < n; i++)
            keep(objects[i], c, g);
}

/* The group of the thread that fills a sheaf is charged for its objects; those that are not used are uncharged. */
static void take_ahead(void)
{
    int c = (int)below(CACHES - 1);
    unsigned wanted = 1 + below(20), had;
    struct stook_sheaf *sheaf = stook_sheaf_prefill(cache[c], STOOK_WAIT, wanted);
    int in_the_way = group_model_full(group_model.inside, wanted * cost(c));

    if ((sheaf != NULL) != (in_the_way < 0))
        wrong(sheaf ? "filled beyond a limit" : "not filled, although there was room");
    for (int g = 0; g < GROUPS; g++) { /* it asks for more first */
        struct stook_group_stat stat = {.size = sizeof(stat)};
        if (group[g].handle.id && stook_group_stat(group[g].handle, &stat) == 0)
            group[g].refused = stat.refused;
    }
    if (!sheaf)
        return;
    had = stook_sheaf_size(sheaf);
    if (had < wanted || group_model_full(group_model.inside, had * cost(c)) >= 0)
        wrong("filled with too few, or beyond a limit");
    for (unsigned i = below(wanted + 1); i > 0 && lives < OBJECTS; i--) {
        void *object = stook_sheaf_alloc(cache[c], 0, sheaf);
        if (!object)
            wrong("a sheaf has fewer than it says");
        keep(object, c, group_model.inside);
    }
    stook_sheaf_return(cache[c], sheaf);
}

/* A handler takes and frees; what it could not get may have been for want of the lock. */
static void on_signal(int signal)
{
    int c = (int)below(CACHES), g = group_model.inside, saved = errno;

    for (unsigned i = below(6); i > 0 && lives < OBJECTS; i--) {
        void *object = stook_alloc(cache[c], STOOK_SIGNAL_SAFE);
        if (object && group_model_full(c == CACHES - 1 ? -1 : g, cost(c)) >= 0)
            wrong("a handler was given an object beyond a limit");
        if (object)
            keep(object, c, g);
        else if (errno == EDQUOT)
            group[group_model_full(g, cost(c))].refused++;
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

    if (held) /* a handler interrupted the holder of the lock */
        group_model_lock();
    raise(SIGUSR1);
    if (held)
        group_model_unlock();
}

/* ---- groups --------------------------------------------------------------------------------- */

static void destroy_group(int g)
{
    if (!group_model_destroy(g))
        return;
    for (unsigned i = 0; i < lives; i++)
        if (live[i].owner == g)
            live[i].owner = group[g].parent;
}

static void check_groups(void)
{
    for (int g = 0; g < GROUPS; g++)
        if (group[g].handle.id)
            group_model_check(g);
    for (unsigned i = below(16); i < lives; i += 16) {
        int g = live[i].owner;
        if (stook_group_of(live[i].object).id != (g >= 0 ? group[g].handle.id : 0))
            wrong("an object names another group");
    }
}

static void step(bool may_fork);

static void live_on(void)
{
    for (int i = 0; i < CHILD_STEPS; i++)
        step(false);
    while (lives > 0)
        free_one(lives - 1);
    check_groups();
}

static void step(bool may_fork)
{
    unsigned what = below(1000);
    int g = group_model_any();

    group_model.steps++;
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
        group_model_move();
    else if (what < 900)
        interrupt();
    else if (what < 930)
        (void)group_model_make();
    else if (what < 940)
        g >= 0 ? destroy_group(g) : (void)0;
    else if (what < 960)
        group_model_enter(below(4) ? g : -1);
    else if (what < 980 && g >= 0)
        group_model_set_limit(g);
    else if (what < 990)
        stook_cache_shrink(cache[below(CACHES)]);
    else if (what < 992 && may_fork)
        group_model_fork(live_on);
    check_groups();
}

TEST(test_objects_against_a_model)
{
    static struct check_object held[OBJECTS];
    unsigned n = (unsigned)scaled(STEPS);

    for (unsigned i = 0; i < n; i++)
        step(i % 8 == 0);
    print_message("%u steps: %u objects, %u refusals, %u handlers, %u forks\n", group_model.steps,
                  taken, refusals, by_handlers, group_model.forks);
    assert_true(taken > n / 4 && refusals > n / 100 && by_handlers > 0);
    for (unsigned i = 0; i < lives; i++)
        held[i] = (struct check_object){cache[live[i].cache], live[i].object};
    check_all(held, lives);
    while (lives > 0)
        free_one(lives - 1);
    check_groups();
    group_model_end();
    for (int c = 0; c < CACHES; c++)
        assert_int_equal(stook_cache_destroy(cache[c]), 0);
}

int main(void)
{
    static const size_t sizes[CACHES] = {24, 200, 992, 64};
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    struct sigaction action = {.sa_handler = on_signal};

    group_model.limit_bits = 12;
    group_model.limit_more = 11;
    if (!group_model_start(GROUPS, 7))
        return 1;
    for (int c = 0; c < CACHES; c++)
        if (!(cache[c] = stook_cache_create("accounted", sizes[c], c < CACHES - 1 ? &args : NULL)))
            return 1;
    sigaction(SIGUSR1, &action, NULL);
    return tests_run(NULL, NULL);
}
