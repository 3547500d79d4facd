/* SPDX-License-Identifier: MIT */
/*
 * The fence of who takes rcu sheaves.  What was deferred must come back, so there is a way besides the
 * one that the kernel may refuse (a sandbox entered after the start).
 */
#include "base/report.h"
#include "percpu/percpu.h"
#include "reserve/rcu.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Where this thread runs no other one does: if one was in a section there, it was interrupted.  A CPU
 * that is offline, or that the process may not use, runs none either (EINVAL).
 */
static bool rcu_fence_visit(unsigned cpu)
{
    enum { BITS = 8 * sizeof(unsigned long) };
    unsigned long before[TOPOLOGY_CPUS_MAX / BITS] = {0}, there[TOPOLOGY_CPUS_MAX / BITS] = {0};
    int saved = errno;
    long size = syscall(SYS_sched_getaffinity, 0, sizeof(before), before);
    bool been;

    there[cpu / BITS] = 1ul << cpu % BITS;
    been = size > 0 &&
           (syscall(SYS_sched_setaffinity, 0, sizeof(there), there) == 0 || errno == EINVAL);
    if (size > 0)
        (void)syscall(SYS_sched_setaffinity, 0, (size_t)size, before);
    errno = saved;
    return been;
}

void rcu_fence(unsigned cpu)
{
    if (!percpu_fence(cpu) && !rcu_fence_visit(cpu))
        report_fatal("deferred frees: no way to see what CPU %u has put aside: membarrier and "
                     "sched_setaffinity are refused",
                     cpu);
}
