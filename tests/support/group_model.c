/* SPDX-License-Identifier: MIT */
#include "support/group_model.h"
#include "support/test.h"

#include "charge/group_table.h"
#include "base/context.h"
#include "os/topology.h"

#include <stook/stook.h>
#include <stook/topology.h>

#include <sched.h>

struct group_model group_model = {.inside = -1};

static struct group_model_group *const group = group_model.group;

bool group_model_start(unsigned groups, uint64_t seed)
{
    const char *text = getenv("STOOK_TEST_SEED");
    const char *why;

    if (groups > GROUP_MODEL_MOST)
        abort();
    group_model.groups = groups;
    group_model.seed = group_model.random = text ? strtoull(text, NULL, 10) : seed;
    return strcmp(stook_mode(&why), "locked") != 0 || stook_topology_set("node:2 core:4") == 0;
}

void group_model_wrong(const char *what)
{
    fail_msg("%s (STOOK_TEST_SEED=%llu, step %u)", what, (unsigned long long)group_model.seed,
             group_model.steps);
}

void group_model_move(void)
{
    static cpu_set_t allowed;
    cpu_set_t one;
    int cpu = -1;

    if (topology.simulated) {
        assert_true(stook_topology_cpu((int)below(topology.cpus)) >= 0);
        return;
    }
    if (CPU_COUNT(&allowed) == 0)
        sched_getaffinity(0, sizeof(allowed), &allowed);
    for (int n = (int)below((uint32_t)CPU_COUNT(&allowed)) + 1; n > 0;) {
        cpu++; /* musl's macro evaluates its argument twice */
        n -= CPU_ISSET(cpu, &allowed) != 0;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)sched_setaffinity(0, sizeof(one), &one); /* CPUs may go offline */
}

void group_model_add(int g, int64_t bytes)
{
    for (; g >= 0; g = group[g].parent)
        group[g].usage += (uint64_t)bytes;
}

int group_model_full(int g, uint64_t bytes)
{
    for (; g >= 0 && bytes > 0; g = group[g].parent)
        if (bytes > group[g].limit || group[g].usage > group[g].limit - bytes)
            return g;
    return -1;
}

int group_model_any(void)
{
    unsigned g = below(group_model.groups);

    for (unsigned i = 0; i < group_model.groups; i++, g = (g + 1) % group_model.groups)
        if (group[g].handle.id)
            return (int)g;
    return -1;
}

static uint64_t some_limit(void)
{
    return below(3) ? below(1u << (group_model.limit_bits + below(group_model.limit_more)))
                    : STOOK_UNLIMITED;
}

int group_model_make(void)
{
    int g = (int)below(group_model.groups), parent = below(3) ? group_model_any() : -1;
    unsigned depth = 1;

    for (int p = parent; p >= 0; p = group[p].parent)
        depth++;
    if (group[g].handle.id || depth > STOOK_GROUP_DEPTH_MAX)
        return -1;
    group[g] = (struct group_model_group){.parent = parent, .limit = some_limit()};
    group[g].handle = stook_group_create(
        "random", parent < 0 ? STOOK_NO_GROUP : group[parent].handle, (size_t)group[g].limit);
    if (!group[g].handle.id)
        wrong("a group cannot be made");
    group[g].number = group_number(group[g].handle);
    if (parent >= 0)
        group[parent].children++;
    return g;
}

bool group_model_destroy(int g)
{
    int result = stook_group_destroy(group[g].handle), parent = group[g].parent;

    if (group[g].children > 0) {
        if (result == 0 || errno != EBUSY)
            wrong("a parent was destroyed");
        return false;
    }
    if (result != 0)
        wrong("a group cannot be destroyed");
    if (group_number(group[g].handle) != 0)
        wrong("it lives");
    if (group_model.inside == g)
        group_model.inside = parent;
    if (parent >= 0)
        group[parent].children--;
    group[g].handle = STOOK_NO_GROUP;
    return true;
}

void group_model_set_limit(int g)
{
    group[g].limit = some_limit();
    if (stook_group_set_limit(group[g].handle, (size_t)group[g].limit) != 0)
        wrong("a limit cannot be set");
}

void group_model_enter(int g)
{
    group_model.inside = g;
    stook_group_enter(g >= 0 ? group[g].handle : STOOK_NO_GROUP);
}

void group_model_check(int g)
{
    struct stook_group_stat stat = {.size = sizeof(stat)};
    uint64_t own = group[g].usage;

    for (unsigned i = 0; i < group_model.groups; i++)
        if (group[i].handle.id && group[i].parent == g)
            own -= group[i].usage;
    if (stook_group_stat(group[g].handle, &stat) != 0)
        wrong("no statistics");
    if (stat.usage != group[g].usage)
        wrong("usage is not the sum of what lives");
    if (stat.own != own)
        wrong("another own usage");
    if (stat.refused != group[g].refused || stat.reclaims != group[g].reclaims)
        wrong("another number of events");
    if (stat.limit != group[g].limit || stat.children != (uint64_t)group[g].children)
        wrong("another limit, or other children");
    if (stat.peak < stat.usage)
        wrong("a peak below");
    if (stat.usage <= stat.limit && stat.stocked > stat.limit - stat.usage)
        wrong("stocks beyond the limit");
}

void group_model_lock(void)
{
    context_enter();
    group_lock(false);
}

void group_model_unlock(void)
{
    group_unlock();
    context_leave();
}

void group_model_fork(void (*live_on)(void))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        live_on();
        _exit(0);
    }
    group_model.forks++;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        wrong("a forked child found something wrong");
}

void group_model_end(void)
{
    for (bool left = true; left;) {
        left = false;
        for (unsigned g = 0; g < group_model.groups; g++)
            if (group[g].handle.id) {
                if (group[g].usage != 0)
                    wrong("the model does not add up");
                group_model_check((int)g);
                (void)group_model_destroy((int)g);
                left = true;
            }
    }
    assert_int_equal(group_table.unused, atomic_load(&group_table.high)); /* no zombie is left */
}
