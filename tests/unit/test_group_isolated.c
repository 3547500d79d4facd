/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* modes: default */
/*
 * CPUs that no fence may interrupt have stocks too, and what is in them comes back all the same: without
 * one fence.  The same for threads that rseq does not know.
 */
#include "charge/group_table.h"
#include "support/percpu_fixture.h"
#include "support/test.h"

#include <stook/group.h>
#include <stook/stook.h>

#include <pthread.h>

enum { LIMIT = 1 << 20 };

static struct stook_group_stat stat_of(struct stook_group group)
{
    struct stook_group_stat stat = {.size = sizeof(stat)};

    assert_int_equal(stook_group_stat(group, &stat), 0);
    return stat;
}

/* On every CPU: a stock of the group stays behind. */
static void leave_stocks(uint32_t number)
{
    for (unsigned i = 0; i < fixture_cpus; i++) {
        fixture_pin(fixture_cpu[i]);
        for (int n = 0; n < 50; n++)
            assert_true(group_charge(&number, 100, STOOK_WAIT, false));
        for (int n = 0; n < 50; n++)
            group_uncharge(number, 100);
    }
}

TEST(test_isolated)
{
    struct stook_group group = stook_group_create("isolated", STOOK_NO_GROUP, LIMIT);
    uint32_t number = group_number(group);
    uint64_t fences = atomic_load(&percpu.fences);

    assert_false(percpu_may_fence(fixture_cpu[0]));
    leave_stocks(number);
    assert_true(stat_of(group).stocked > 0);
    assert_int_equal(stat_of(group).usage, 0);
    assert_true(group_charge(&number, LIMIT, STOOK_WAIT, false)); /* all there is */
    assert_int_equal(stat_of(group).stocked, 0);
    assert_false(group_charge(&number, 1, STOOK_WAIT, false));
    group_uncharge(number, LIMIT);
    leave_stocks(number);
    assert_int_equal(stook_group_destroy(group), 0);
    assert_int_equal(group_at(number)->state, GROUP_FREE);
    assert_int_equal(atomic_load(&percpu.fences), fences);
}

static void *unregistered(void *group)
{
    uint32_t number = group_number(*(struct stook_group *)group);

    if (percpu.rseq && (percpu_cpu() < 0 || !rseq_unregister()))
        return NULL;
    for (int n = 0; n < 50; n++)
        assert_true(group_charge(&number, 100, STOOK_WAIT, false));
    for (int n = 0; n < 50; n++)
        group_uncharge(number, 100);
    return group;
}

TEST(test_unregistered)
{
    struct stook_group group = stook_group_create("unregistered", STOOK_NO_GROUP, LIMIT);
    uint32_t number = group_number(group);
    pthread_t thread;
    void *done;

    assert_int_equal(pthread_create(&thread, NULL, unregistered, &group), 0);
    assert_int_equal(pthread_join(thread, &done), 0);
    if (done) {
        assert_true(stat_of(group).stocked > 0);
        assert_int_equal(stat_of(group).usage, 0);
        assert_true(group_charge(&number, LIMIT, STOOK_WAIT, false));
        group_uncharge(number, LIMIT);
    }
    assert_int_equal(stook_group_destroy(group), 0);
}

int main(int argc, char **argv)
{
    if (!getenv("STOOK_ISOLATED_CPUS")) { /* read at start */
        setenv("STOOK_ISOLATED_CPUS", "0-8191", 1);
        execv("/proc/self/exe", argv);
        return 77;
    }
    fixture_start();
    return tests_run(NULL, NULL);
}
