/* SPDX-License-Identifier: MIT */
/*
 * rcu_fence.c - the fence of a thread that takes other CPUs' rcu sheaves.  A drain of deferred objects must not fail.  If
 * the kernel refuses membarrier (in a sandbox entered after the start), the thread moves to the CPU instead.
 */
#include "base/report.h"
#include "base/raw.h"
#include "percpu/percpu.h"
#include "reserve/rcu.h"

#include <errno.h>
#include <string.h>

/*
 * Runs this thread on the CPU: a thread that was in a section there has then been interrupted.  A CPU that is
 * offline, or that the process may not use, runs no section (EINVAL).
 */
static bool rcu_fence_visit(unsigned cpu)
{
    enum { BITS = 8 * sizeof(unsigned long) };
    unsigned long before[TOPOLOGY_CPUS_MAX / BITS] = {0}, there[TOPOLOGY_CPUS_MAX / BITS] = {0};
    int saved = errno;
    long size = raw_call(SYS_sched_getaffinity, 0, sizeof(before), before);
    bool been;

    there[cpu / BITS] = 1ul << cpu % BITS;
    been = size > 0 &&
           (raw_call(SYS_sched_setaffinity, 0, sizeof(there), there) == 0 || errno == EINVAL);
    if (size > 0)
        (void)raw_call(SYS_sched_setaffinity, 0, (size_t)size, before);
    errno = saved;
    return been;
}

void rcu_fence(unsigned cpu)
{
    if (!percpu_fence(cpu) && !rcu_fence_visit(cpu))
        report_fatal("deferred frees: cannot reach the objects of CPU %u: membarrier and "
                     "sched_setaffinity are refused",
                     cpu);
}
