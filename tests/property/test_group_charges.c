/* SPDX-License-Identifier: MIT */
/*
 * Groups against a model, one random step after the other: charges and their return, from any CPU and
 * in every context; groups made and destroyed with charges left; limits changed; callbacks that give
 * back; forked children that go on by themselves.
 *
 * The model knows each group's live charges and limits and nothing of stocks.  So a charge must succeed
 * whenever there is room in sum, and fail with EDQUOT whenever there is none, to the byte; and what a
 * group says to use is what the model has.
 *
 * STOOK_TEST_SEED and STOOK_TEST_STEPS repeat or prolong it.
 */
#include "account/group_table.h"
#include "os/topology.h"
#include "support/random.h"

#include <stook/stook.h>

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { GROUPS = 40, CHARGES = 3000, STEPS = 60000, CHILD_STEPS = 300 };

static struct model_group {
    struct stook_group *handle; /* NULL: not alive */
    uint32_t number;            /* kept for what is still charged */
    int parent;                 /* -1: none */
    int children;
    uint64_t limit, usage; /* with all below */
    uint64_t refused, reclaims;
    bool reclaim;
} group[GROUPS];

static struct model_charge {
    int group; /* the one in the table, or -1 when it was destroyed */
    int owner; /* the nearest that lived then, for the sums; -1: none */
    uint32_t number;
    size_t bytes;
} charge[CHARGES];
static unsigned charges;

static uint64_t seed, state;
static unsigned step_count, refusals, successes, reclaims, forks;
static int inside = -1; /* the group this thread is in */
static bool in_callback;

static void wrong(const char *what)
{
    fail_msg("%s (STOOK_TEST_SEED=%llu, step %u)", what, (unsigned long long)seed, step_count);
}

static uint32_t below(uint32_t end)
{
    return random_below(&state, end);
}

/* Somewhere else, so that stocks are left behind. */
static void move(void)
{
    if (topology.simulated) {
        assert_true(stook_topology_cpu((int)below(topology.cpus)) >= 0);
        return;
    }
    static cpu_set_t allowed;
    cpu_set_t one;
    int cpu, n;

    if (CPU_COUNT(&allowed) == 0)
        sched_getaffinity(0, sizeof(allowed), &allowed);
    n = (int)below((uint32_t)CPU_COUNT(&allowed));
    for (cpu = 0; n > 0 || !CPU_ISSET(cpu, &allowed); cpu++)
        n -= CPU_ISSET(cpu, &allowed) != 0;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)sched_setaffinity(0, sizeof(one), &one); /* CPUs may go offline */
}

static void add(int g, int64_t bytes)
{
    for (; g >= 0; g = group[g].parent)
        group[g].usage += (uint64_t)bytes;
}

/* The first on the way up that has no room, or -1. */
static int full(int g, uint64_t bytes)
{
    for (; g >= 0; g = group[g].parent)
        if (group[g].limit && group[g].usage + bytes > group[g].limit)
            break;
    return g;
}

static int any_group(void)
{
    int g = (int)below(GROUPS);

    for (int i = 0; i < GROUPS; i++, g = (g + 1) % GROUPS)
        if (group[g].handle)
            return g;
    return -1;
}

static void give_back(unsigned i)
{
    add(charge[i].owner, -(int64_t)charge[i].bytes);
    group_uncharge(charge[i].number, charge[i].bytes);
    charge[i] = charge[--charges];
}

/* Gives back what the group itself has, up to what is wanted. */
static size_t reclaim(void *arg, size_t wanted)
{
    int g = (int)((struct model_group *)arg - group);
    size_t gave = 0;

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
    static const unsigned contexts[] = {STOOK_WAIT, STOOK_WAIT, STOOK_NOWAIT, STOOK_NOSPIN};
    unsigned flags = contexts[below(4)];
    bool nested = below(8) == 0, wait = flags == STOOK_WAIT && !nested;
    size_t bytes = some_bytes();
    uint64_t calls[GROUPS], refused = 0;
    int in_the_way = full(g, bytes);

    if (charges == CHARGES)
        give_back(below(charges));
    in_the_way = full(g, bytes);
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
        in_the_way = full(g, bytes); /* the model has what it gave back */
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
    add(g, (int64_t)bytes);
}

/* As a handler that interrupted who has the lock: what it gives back comes later. */
static void give_back_under_the_lock(void)
{
    context_enter();
    group_lock(false);
    for (unsigned n = 1 + below(4); charges > 0 && n > 0; n--)
        give_back(below(charges));
    group_unlock();
    context_leave();
}

static void make_group(void)
{
    int g = (int)below(GROUPS), parent = below(3) ? any_group() : -1;
    unsigned depth = 1;

    if (group[g].handle)
        return;
    for (int p = parent; p >= 0; p = group[p].parent)
        depth++;
    if (depth > STOOK_GROUP_DEPTH_MAX)
        return;
    group[g] = (struct model_group){.parent = parent,
                                    .limit = below(3) ? 1 + below(1 << (10 + below(14))) : 0};
    group[g].handle = stook_group_create("random", parent < 0 ? NULL : group[parent].handle,
                                         (size_t)group[g].limit);
    if (!group[g].handle)
        wrong("a group cannot be made");
    group[g].number = group_number(group[g].handle);
    if (parent >= 0)
        group[parent].children++;
    group[g].reclaim = below(3) == 0;
    if (group[g].reclaim && stook_group_set_reclaim(group[g].handle, reclaim, &group[g]) != 0)
        wrong("a callback cannot be set");
}

static void destroy_group(int g)
{
    int result = stook_group_destroy(group[g].handle), parent = group[g].parent;

    if (group[g].children > 0) {
        if (result == 0 || errno != EBUSY)
            wrong("a parent was destroyed");
        return;
    }
    if (result != 0)
        wrong("a group cannot be destroyed");
    if (group_number(group[g].handle) != 0)
        wrong("it lives");
    for (unsigned i = 0; i < charges; i++) {
        if (charge[i].owner == g)
            charge[i].owner = parent;
        if (charge[i].group == g)
            charge[i].group = -1;
    }
    if (inside == g)
        inside = parent;
    if (parent >= 0)
        group[parent].children--;
    group[g].handle = NULL;
}

static void enter_group(void)
{
    inside = below(4) ? any_group() : -1;
    stook_group_enter(inside >= 0 ? group[inside].handle : NULL);
}

static void set_limit(int g)
{
    group[g].limit = below(3) ? 1 + below(1 << (10 + below(14))) : 0;
    if (stook_group_set_limit(group[g].handle, (size_t)group[g].limit) != 0)
        wrong("a limit cannot be set");
}

static void check_group(int g)
{
    struct stook_group_stat stat = {.size = sizeof(stat)};
    uint64_t own = group[g].usage;

    for (int i = 0; i < GROUPS; i++)
        if (group[i].handle && group[i].parent == g)
            own -= group[i].usage;
    if (stook_group_stat(group[g].handle, &stat) != 0)
        wrong("no statistics");
    if (stat.usage != group[g].usage)
        wrong("another usage");
    if (stat.own != own)
        wrong("another own usage");
    if (stat.refused != group[g].refused || stat.reclaims != group[g].reclaims)
        wrong("another number of events");
    if (stat.limit != group[g].limit || stat.children != (uint64_t)group[g].children)
        wrong("another limit, or other children");
    if (stat.peak < stat.usage)
        wrong("a peak below");
    if (stat.limit && stat.usage <= stat.limit && stat.usage + stat.stocked > stat.limit)
        wrong("stocks beyond the limit");
}

static void check_all(void)
{
    struct stook_group *current = stook_group_current();

    for (int g = 0; g < GROUPS; g++)
        if (group[g].handle)
            check_group(g);
    if (current != (inside >= 0 ? group[inside].handle : NULL))
        wrong("in another group");
    for (unsigned i = 0; i < charges; i += 1 + below(20)) {
        struct stook_group *of = group_by_number(charge[i].number);
        if (of != (charge[i].owner >= 0 ? group[charge[i].owner].handle : NULL))
            wrong("a charge is another group's");
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
        check_all();
        while (charges > 0)
            give_back(charges - 1);
        check_all();
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

    step_count++;
    if (what < 400)
        charge_some(g, g >= 0 ? group[g].number : 0);
    else if (what < 500)
        charge_some(inside, group_current());
    else if (what < 820)
        charges > 0 ? give_back(below(charges)) : (void)0;
    else if (what < 840)
        give_back_under_the_lock();
    else if (what < 900)
        move();
    else if (what < 930)
        make_group();
    else if (what < 945)
        g >= 0 ? destroy_group(g) : (void)0;
    else if (what < 960)
        enter_group();
    else if (what < 975)
        g >= 0 ? set_limit(g) : (void)0;
    else if (what < 999)
        g >= 0 ? check_group(g) : (void)0;
    else if (may_fork && below(8) == 0)
        fork_a_child();
}

static void test_groups_against_a_model(void **unused)
{
    const char *text = getenv("STOOK_TEST_STEPS");
    unsigned steps = text ? (unsigned)strtoul(text, NULL, 10) : STEPS;

    (void)unused;
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
                  refusals, reclaims, forks);
    assert_true(successes > steps / 10 && refusals > steps / 100 && reclaims > 0);
    while (charges > 0)
        give_back(charges - 1);
    for (int left = 1; left;) {
        left = 0;
        for (int g = 0; g < GROUPS; g++)
            if (group[g].handle) {
                if (group[g].usage != 0)
                    wrong("the model does not add up");
                check_group(g);
                destroy_group(g);
                left = 1;
            }
    }
    assert_int_equal(group_table.unused, atomic_load(&group_table.high)); /* no zombie is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_against_a_model),
    };
    const char *text = getenv("STOOK_TEST_SEED");
    const char *why;

    seed = state = text ? strtoull(text, NULL, 10) : 5;
    /* Without sections CPUs may be imagined: more of them than the machine has. */
    if (strcmp(stook_mode(&why), "locked") == 0 && stook_topology_set("node:2 core:4") != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
