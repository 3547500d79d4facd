/* SPDX-License-Identifier: MIT */
/*
 * affinity.h - the CPUs on which threads may run: their affinity, which the kernel restricts to their cpuset
 * and to the CPUs that exist.  Takes no lock and no memory, keeps errno.
 */
#ifndef STOOK_FACE_AFFINITY_H
#define STOOK_FACE_AFFINITY_H

#include "os/topology.h"

enum { AFFINITY_WORDS = TOPOLOGY_CPUS_MAX / 64 };

/* The CPUs of this thread, a bit each; false where that cannot be asked. */
bool affinity_thread(uint64_t cpus[AFFINITY_WORDS]);

/*
 * The CPUs on which any thread of the process may run; fewer, once they have all of `enough` among
 * them (NULL: all threads are asked).  0: that cannot be known, since /proc is not there or there are
 * more than `most` threads.  Else how many threads were asked, 0.2 us each.  A thread made meanwhile
 * has its maker's CPUs.
 */
unsigned affinity_process(uint64_t cpus[AFFINITY_WORDS], const uint64_t *enough, unsigned most);

static inline bool affinity_has(const uint64_t cpus[AFFINITY_WORDS], unsigned cpu)
{
    return cpus[cpu / 64] >> cpu % 64 & 1;
}

#endif
