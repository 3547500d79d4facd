/* SPDX-License-Identifier: MIT */
/* What the bare fast path runs on: for each CPU one slot with one sheaf, filled beforehand. */
#include <sched.h>
#include <sys/rseq.h>

#include "../worker/adapter.h"
#include "../worker/resident.h"

#define SHEAF_OFFSET 64 /* a slot and its sheaf share the CPU's area, in lines of their own */
#define SHEAF_FILLED (FLOOR_CAPACITY - 16)

_Static_assert(sizeof(struct sheaf) == 8, "the sections know where the objects begin");
_Static_assert(SHEAF_OFFSET + sizeof(struct sheaf) + FLOOR_CAPACITY * sizeof(void *) <=
                   (1 << FLOOR_AREA_SHIFT),
               "a slot and its sheaf fit an area");

adapter_t floor_rseq_open(size_t object_size)
{
    adapter_t bare;
    cpu_set_t allowed;
    size_t stride = (object_size + 15) & ~(size_t)15;

    if (__rseq_size == 0)
        case_die("the C library registered no rseq area");
    if (sched_getaffinity(0, sizeof(allowed), &allowed))
        case_die("sched_getaffinity failed");
    bare.areas = resident_map((size_t)CPU_SETSIZE << FLOOR_AREA_SHIFT);
    bare.rseq = __rseq_offset;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        char *area = bare.areas + (cpu << FLOOR_AREA_SHIFT);
        struct floor_slot *slot = (struct floor_slot *)area;
        char *objects = resident_map(SHEAF_FILLED * stride);
        slot->main = (struct sheaf *)(area + SHEAF_OFFSET);
        slot->main->capacity = FLOOR_CAPACITY;
        for (size_t i = 0; i < SHEAF_FILLED; i++)
            slot->main->object[slot->main->size++] = objects + i * stride;
    }
    return bare;
}
