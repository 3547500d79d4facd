/* SPDX-License-Identifier: MIT */
/*
 * cpus.c - counts the CPUs that the process may run on, and pins threads to them.
 */
#include "cpus.h"

#include <sched.h>

#include "case.h"

static cpu_set_t allowed;
static int allowed_known;

unsigned cpus_count(void)
{
    if (!allowed_known) {
        if (sched_getaffinity(0, sizeof(allowed), &allowed))
            case_die("sched_getaffinity failed");
        allowed_known = 1;
    }
    return (unsigned)CPU_COUNT(&allowed);
}

void cpus_pin(unsigned index)
{
    cpu_set_t one;
    unsigned seen = 0;

    cpus_count();
    for (size_t cpu = CPU_SETSIZE; cpu-- > 0;) {
        if (!CPU_ISSET(cpu, &allowed) || seen++ != index)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof(one), &one))
            case_die("sched_setaffinity failed");
        return;
    }
    case_die("fewer CPUs than the case needs");
}
