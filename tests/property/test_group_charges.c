/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Groups against a model, one random step after the other.  The steps are charges and their return, from any
 * CPU and in every context; groups made and destroyed with charges left; changes of limits; callbacks that
 * uncharge; forked children that continue by themselves.
 *
 * The model knows each group's live charges and limits and nothing of stocks.  A charge must succeed if there is
 * room in sum, and fail with EDQUOT if there is none, to the byte.  A group's usage is that of the model.
 *
 * STOOK_TEST_SEED and STOOK_TEST_STEPS repeat or prolong it.
 */
#include "charge/group_table.h"
#include "support/group_model.h"
#include "support/test.h"

#include <stook/stook.h>

enum { GROUPS = 40, CHARGES = 3000, STEPS = 60000, CHILD_STEPS = 300 };

static struct group_model_group *const group = group_model.group;

static struct model_charge {
    int group; /* the one in the table, or -1 when it was destroyed */
    int owner; /* the nearest that lived then, for the sums; -1: none */
    uint32_t number;
    size_t bytes;
} charge[CHARGES];
static unsigned charges;

static unsigned refusals, successes, reclaims;
static bool in_callback;

static void give_back(unsigned i)
{
    group_model_add(charge[i].owner, -(int64_t)charge[i].bytes);
    group_uncharge(charge[i].number, charge[i].bytes);
    charge[i] = charge[--charges];
}

/* Gives back what the group itself has, up to what is wanted. */
static size_t reclaim(struct stook_group of, size_t wanted, void *arg)
{
    int g = (int)((struct group_model_group *)arg - group);
    size_t gave = 0;

    if (of.id != group[g].handle.id)
        abort();
    group[g].reclaims++;
    reclaims++;
    in_callback = true;
    for (unsigned i = 0; i < charges && gave < wanted;)
        if (charge[i].owner == g) {
            gave += charge[i].bytes;
            give_back(i);
        } else {
            i++;
        }
    in_callback = false;
    return gave;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static size_t some_bytes(void)
{
    switch (below(10)) {
    case 0:
        return 1 + below(400000);
    case 1:
        return 1 + below(20000);
    default:
        return 16 + 16 * below(256);
    }
}

/* What must come of a charge, with the callbacks that it leads to. */
static void charge_some(int g, uint32_t number)
{
    static const unsigned contexts[] = {STOOK_WAIT, STOOK_WAIT, STOOK_NORECLAIM, STOOK_SIGNAL_SAFE};
    unsigned flags = contexts[below(4)];
    bool nested = below(8) == 0, wait = flags == STOOK_WAIT && !nested;
    size_t bytes = some_bytes();
    uint64_t calls[GROUPS], refused = 0;
    int in_the_way = group_model_full(g, bytes);

    if (charges == CHARGES)
        give_back(below(charges));
    in_the_way = group_model_full(g, bytes);
    for (int i = 0; i < GROUPS; i++)
        calls[i] = group[i].reclaims;
    errno = 4711;
    bool done = group_charge(&number, bytes, flags, nested);
    if (done && errno != 4711)
        wrong("errno was not kept");
    if (!done && errno != EDQUOT)
        wrong("another error than EDQUOT");
    for (int i = 0; i < GROUPS; i++) {
        uint64_t called = group[i].reclaims - calls[i];
        if (called > 1)
            wrong("a callback was called twice");
        if (called && (!wait || in_the_way < 0))
            wrong("a callback was called for nothing");
    }
    if (in_the_way >= 0 && wait && group[in_the_way].reclaim) {
        if (group[in_the_way].reclaims == calls[in_the_way])
            wrong("the callback was not called");
        in_the_way = group_model_full(g, bytes); /* the model has what it gave back */
    }
    if (done != (in_the_way < 0))
        wrong(done ? "charged beyond a limit" : "refused while there was room in sum");
    if (number != (g >= 0 ? group[g].number : 0))
        wrong("charged to another group");
    if (!done) {
        refused = ++group[in_the_way].refused;
        refusals += refused > 0;
        return;
    }
    successes++;
    if (g < 0)
        return;
    charge[charges++] = (struct model_charge){g, g, number, bytes};
    group_model_add(g, (int64_t)bytes);
}

/* As a handler that interrupted who has the lock: what it gives back comes later. */
static void give_back_under_the_lock(void)
{
    group_model_lock();
    for (unsigned n = 1 + below(4); charges > 0 && n > 0; n--)
        give_back(below(charges));
    group_model_unlock();
}

static void make_group(void)
{
    int g = group_model_make();

    if (g < 0)
        return;
    group[g].reclaim = below(3) == 0;
    if (group[g].reclaim && stook_group_set_reclaim(group[g].handle, reclaim, &group[g]) != 0)
        wrong("a callback cannot be set");
}

static void destroy_group(int g)
{
    if (!group_model_destroy(g))
        return;
    for (unsigned i = 0; i < charges; i++) {
        if (charge[i].owner == g)
            charge[i].owner = group[g].parent;
        if (charge[i].group == g)
            charge[i].group = -1;
    }
}

static void check_all(void)
{
    struct stook_group current = stook_group_current();

    for (int g = 0; g < GROUPS; g++)
        if (group[g].handle.id)
            group_model_check(g);
    if (current.id != (group_model.inside >= 0 ? group[group_model.inside].handle.id : 0))
        wrong("in another group");
    for (unsigned i = 0; i < charges; i += 1 + below(20)) {
        struct stook_group of = group_by_number(charge[i].number);
        if (of.id != (charge[i].owner >= 0 ? group[charge[i].owner].handle.id : 0))
            wrong("a charge is another group's");
    }
}

static void step(bool may_fork);

static void live_on(void)
{
    for (int i = 0; i < CHILD_STEPS; i++)
        step(false);
    check_all();
    while (charges > 0)
        give_back(charges - 1);
    check_all();
}

static void step(bool may_fork)
{
    unsigned what = below(1000);
    int g = group_model_any();

    group_model.steps++;
    if (what < 400)
        charge_some(g, g >= 0 ? group[g].number : 0);
    else if (what < 500)
        charge_some(group_model.inside, group_current());
    else if (what < 820)
        charges > 0 ? give_back(below(charges)) : (void)0;
    else if (what < 840)
        give_back_under_the_lock();
    else if (what < 900)
        group_model_move();
    else if (what < 930)
        make_group();
    else if (what < 945)
        g >= 0 ? destroy_group(g) : (void)0;
    else if (what < 960)
        group_model_enter(below(4) ? group_model_any() : -1);
    else if (what < 975)
        g >= 0 ? group_model_set_limit(g) : (void)0;
    else if (what < 999)
        g >= 0 ? group_model_check(g) : (void)0;
    else if (may_fork && below(8) == 0)
        group_model_fork(live_on);
}

TEST(test_groups_against_a_model)
{
    const char *text = getenv("STOOK_TEST_STEPS");
    unsigned steps = text ? (unsigned)strtoul(text, NULL, 10) : STEPS;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    steps = text ? steps : STEPS / 4;
#endif
    for (unsigned i = 0; i < steps; i++) {
        step(true);
        if (i % 500 == 0)
            check_all();
    }
    check_all();
    print_message("%u steps: %u charged, %u refused, %u callbacks, %u forks\n", steps, successes,
                  refusals, reclaims, group_model.forks);
    assert_true(successes > steps / 10 && refusals > steps / 100 && reclaims > 0);
    while (charges > 0)
        give_back(charges - 1);
    group_model_end();
}

int main(void)
{
    group_model.limit_bits = 10;
    group_model.limit_more = 14;
    if (!group_model_start(GROUPS, 5))
        return 1;
    return tests_run(NULL, NULL);
}
