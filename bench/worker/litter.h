/* SPDX-License-Identifier: MIT */
/* A littered heap, before a case begins: many objects of its size, of which a share, drawn at random, is free again. */
#ifndef STOOK_BENCH_LITTER_H
#define STOOK_BENCH_LITTER_H

#include "loops.h"
#include "random.h"
#include "resident.h"

#if !ADAPTER_HANDOFF_ONLY

static inline void litter(adapter_t adapter, const struct case_params *params)
{
    enum { OBJECTS = 100000 };
    struct random random = {.state = 7};
    void **objects;

    if (params->litter <= 0)
        return;
    objects = resident_map(OBJECTS * sizeof(*objects));
    loops_alloc(adapter, objects, OBJECTS, 0);
    random_shuffle(&random, objects, OBJECTS);
    loops_free(adapter, objects, (size_t)(OBJECTS * params->litter), 0);
}

#endif

#endif
