/* SPDX-License-Identifier: MIT */
/* What the bare fast path runs on: for each CPU one slot with one sheaf, filled beforehand. */
#include <sched.h>
#include <sys/mman.h>
#include <sys/rseq.h>

#include "../worker/adapter.h"
#include "../worker/resident.h"
#include "sheaf/slot.h"

#define SHEAF_OFFSET 64 /* a slot and its sheaf share the CPU's area, in lines of their own */
#define SHEAF_FILLED (FLOOR_CAPACITY - 16)

adapter_t floor_rseq_open(size_t object_size)
{
    adapter_t bare;
    cpu_set_t allowed;
    size_t stride = (object_size + 15) & ~(size_t)15;

    if (__rseq_size == 0 || !PERCPU_HAS_SECTIONS)
        case_die("there are no sections here, or the C library registered no rseq area");
    if (sched_getaffinity(0, sizeof(allowed), &allowed))
        case_die("sched_getaffinity failed");
    bare.slots = mmap(NULL, (size_t)CPU_SETSIZE << STOOK_AREA_SHIFT, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bare.slots == MAP_FAILED)
        case_die("mmap failed");
    bare.rseq = __rseq_offset;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        char *area = bare.slots + (cpu << STOOK_AREA_SHIFT);
        struct slot *slot = (struct slot *)(void *)area;
        struct sheaf *sheaf = (struct sheaf *)(void *)(area + SHEAF_OFFSET);
        char *objects = resident_map(SHEAF_FILLED * stride);
        sheaf->capacity = FLOOR_CAPACITY;
        for (size_t i = 0; i < SHEAF_FILLED; i++)
            sheaf->object[sheaf->size++] = objects + i * stride;
        atomic_store(&slot->top, sheaf->object + sheaf->size);
        atomic_store(&slot->end, sheaf->object + sheaf->capacity);
        atomic_store(&slot->begin, sheaf->object);
    }
    return bare;
}
