/* SPDX-License-Identifier: MIT */
/*
 * percpu_fixture.h - what the tests of the percpu API share: start, CPUs, sheaves.
 */
#ifndef TESTS_SUPPORT_PERCPU_FIXTURE_H
#define TESTS_SUPPORT_PERCPU_FIXTURE_H

/* The tests read sheaves beside the sections, which the compiler must know of. */
#ifndef STOOK_SECTION_CLOBBERS
#define STOOK_SECTION_CLOBBERS "memory",
#endif
#include "sheaf/slot.h"
#include "os/topology.h"
#include "support/rseq_registration.h"
#include "support/slot_look.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The sections of one object. */
#define slot_pop(offset, object) (slot_pop_bulk(offset, object, 1) == 1)
#define slot_push(offset, object) (slot_push_bulk(offset, &(void *){object}, 1) == 1)

static unsigned fixture_cpu[64], fixture_cpus; /* the CPUs this process may run on */

static inline void fixture_start(void)
{
    cpu_set_t allowed;

    if (!percpu.areas) { /* a library with a constructor may have done it */
        topology_init();
        percpu_init();
        percpu_map();
    }
    rseq_own = percpu.rseq_offset;
    sched_getaffinity(0, sizeof(allowed), &allowed);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE && fixture_cpus < 64; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            fixture_cpu[fixture_cpus++] = cpu;
}

static inline bool fixture_pin(unsigned cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0;
}

static inline void fixture_unpin(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (unsigned i = 0; i < fixture_cpus; i++)
        CPU_SET(fixture_cpu[i], &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static inline struct sheaf *fixture_sheaf(uint32_t capacity)
{
    size_t size = (sizeof(struct sheaf) + (capacity + 1) * sizeof(void *) + 63) & ~(size_t)63;
    struct sheaf *sheaf = aligned_alloc(64, size);

    if (!sheaf)
        abort();
    memset(sheaf, 0xa5, size);
    sheaf->size = 0;
    sheaf->capacity = capacity;
    sheaf->next = NULL;
    return sheaf;
}

#endif
