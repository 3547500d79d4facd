/* SPDX-License-Identifier: MIT */
/* needs: native */
/* wrap: raw_call6 */
/*
 * The n-th system call of groups fails, for every n, and then two and then all from it on.  A group is made or
 * it is not.  If no CPU can be fenced, its stock stays there: a charge may be refused although there is room, but
 * nothing is lost.  Once the calls work again there is all the room in sum, also that of a group that was
 * destroyed meanwhile.
 *
 * Each n is tried in a child of its own, since what groups map they map once.
 */
#include "charge/group_table.h"
#include "support/faults.h"
#include "support/test.h"

#include <stook/stook.h>

#include <sched.h>

#if FAULTS_POSSIBLE

/* ---- the scenario, in a child --------------------------------------------------------------- */

enum { LIMIT = 1 << 20, CPUS = 4 };

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s (call %u, %u of them)\n", __LINE__, #condition, fault_at, \
                    fault_length);                                                                 \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static uint64_t live;

static struct stook_group make(const char *name, struct stook_group parent, size_t limit)
{
    struct stook_group group = stook_group_create(name, parent, limit);

    if (group.id)
        return group;
    MUST(errno == ENOMEM && fault_hits > 0);
    fault_off = true;
    group = stook_group_create(name, parent, limit);
    MUST(group.id);
    fault_off = false;
    return group;
}

static bool take(uint32_t number, size_t bytes)
{
    if (!group_charge(&number, bytes, STOOK_WAIT, false)) {
        MUST(errno == EDQUOT);
        return false;
    }
    live += bytes;
    return true;
}

static void give(uint32_t number, size_t bytes)
{
    group_uncharge(number, bytes);
    live -= bytes;
}

static void go_to(unsigned n)
{
    cpu_set_t allowed, one;
    int cpu = -1;

    sched_getaffinity(getppid(), sizeof(allowed), &allowed);
    n %= (unsigned)CPU_COUNT(&allowed);
    for (unsigned i = 0; i <= n; i++)
        do
            cpu++; /* musl's macro evaluates its argument twice */
        while (!CPU_ISSET(cpu, &allowed));
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)sched_setaffinity(0, sizeof(one), &one);
}

static int scenario(void)
{
    struct stook_group top, sub;
    struct stook_group_stat stat = {.size = sizeof(stat)};
    uint32_t numbers[2], zombie;

    fault_off = false;
    top = make("top", STOOK_NO_GROUP, LIMIT);
    sub = make("sub", top, STOOK_UNLIMITED);
    numbers[0] = group_number(top);
    numbers[1] = zombie = group_number(sub);
    for (unsigned cpu = 0; cpu < CPUS; cpu++) {
        go_to(cpu);
        for (unsigned i = 0; i < 100; i++)
            MUST(take(numbers[i % 2], 100 + i));
        for (unsigned i = 1; i < 100; i++)
            give(numbers[i % 2], 100 + i);
    }
    MUST(stook_group_stat(top, &stat) == 0 && stat.usage == live);
    if (take(numbers[1], LIMIT - live)) /* needs all stocks */
        give(numbers[1], LIMIT - CPUS * 100);
    else
        MUST(fault_hits > 0);
    MUST(live == CPUS * 100);
    for (unsigned i = 0; i < 50; i++)
        MUST(take(zombie, 1000));
    MUST(stook_group_set_limit(top, 1000) == 0);
    if (take(numbers[0], 1)) { /* of a stock that could not be closed */
        MUST(fault_hits > 0);
        give(numbers[0], 1);
    }
    MUST(stook_group_set_limit(top, LIMIT) == 0);
    for (unsigned i = 0; i < 20; i++)
        give(zombie, 1000);
    MUST(stook_group_destroy(sub) == 0);
    for (unsigned i = 0; i < 20; i++)
        give(zombie, 1000);
    fault_off = true;

    MUST(take(numbers[0], LIMIT - live)); /* all there is */
    MUST(!take(numbers[0], 1));
    MUST(stook_group_stat(top, &stat) == 0);
    MUST(stat.usage == LIMIT && stat.stocked == 0);
    give(zombie, 10 * 1000);
    MUST(group_at(zombie)->state == GROUP_FREE);
    give(numbers[0], live);
    MUST(stook_group_stat(top, &stat) == 0 && stat.usage == 0);
    MUST(stook_group_destroy(top) == 0);
    MUST(stook_group_next(STOOK_NO_GROUP).id == 0);
    return fault_hits > 0 ? 0 : 2;
}

TEST(test_every_call_fails)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        unsigned tried = 0;
        int status = 0;
        for (fault_at = 1; WEXITSTATUS(status) != 2; fault_at++, tried++) {
            fault_length = kind == 0 ? 1 : kind == 1 ? 2 : UINT32_MAX;
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0)
                _exit(scenario());
            assert_int_equal(waitpid(child, &status, 0), child);
            assert_true(WIFEXITED(status) &&
                        (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2));
            assert_true(tried < 1000);
        }
        print_message("%u calls could fail\n", tried - 1);
        assert_true(tried > 2);
    }
}

int main(void)
{
    (void)stook_mode(NULL);
    return tests_run(NULL, NULL);
}
#endif
