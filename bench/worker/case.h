/* SPDX-License-Identifier: MIT */
/*
 * A case is one workload, in a file of its own under cases/. It is compiled once per allocator:
 * the adapter's header gives it that allocator's calls under common names,
 * so all allocators run through the same loops and no call goes through a pointer.
 */
#ifndef STOOK_BENCH_CASE_H
#define STOOK_BENCH_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "../metrics.h"
#include "../modes.h"

struct case_params {
    size_t object_size; /* bytes; cases of mixed sizes ignore it */
    size_t n;           /* objects a batch, or a thread */
    size_t align;       /* of objects; 0: as the allocator has it */
    size_t threads;
    size_t mib;      /* bytes a memory case keeps live at its highest */
    unsigned rounds; /* inner rounds: timed cases report their median */
    unsigned ms;     /* length of a timed round */
    double settle;   /* seconds between the last free and reading what is resident */
    double litter; /* share of objects that a littered heap has free; 0: the heap is not littered */
    int in_order;  /* returned: free in the order of allocation, not in random order */
    enum mode mode; /* modes.h, as the next two; _NONE where the case has no such choice */
    enum order order;
    enum free_order free_order;
};

struct case_result {
    double value[METRIC_COUNT];
};

#define CASE_SET(result, metric, number) ((result)->value[METRIC_##metric] = (number))

/* Each returns 0, or WORKER_CANNOT after saying why on stderr. */
int case_pace(const struct case_params *params, struct case_result *result);
int case_pair(const struct case_params *params, struct case_result *result);
int case_handoff(const struct case_params *params, struct case_result *result);
int case_handoff_burst(const struct case_params *params, struct case_result *result);
int case_handoff_rcu(const struct case_params *params, struct case_result *result);
int case_slab_bulk(const struct case_params *params, struct case_result *result);
int case_slub_bulk(const struct case_params *params, struct case_result *result);
int case_kmalloc(const struct case_params *params, struct case_result *result);
int case_accounted(const struct case_params *params, struct case_result *result);
int case_columns(const struct case_params *params, struct case_result *result);
int case_latency(const struct case_params *params, struct case_result *result);
int case_latency_phases(const struct case_params *params, struct case_result *result);
int case_idle(const struct case_params *params, struct case_result *result);
int case_large_fixed(const struct case_params *params, struct case_result *result);
int case_large_alternating(const struct case_params *params, struct case_result *result);
int case_large_growing(const struct case_params *params, struct case_result *result);
int case_large_random(const struct case_params *params, struct case_result *result);
int case_parked(const struct case_params *params, struct case_result *result);
int case_returned(const struct case_params *params, struct case_result *result);
int case_breathing(const struct case_params *params, struct case_result *result);
int case_remote_ordered(const struct case_params *params, struct case_result *result);
int case_remote_random(const struct case_params *params, struct case_result *result);

/* Ends the worker with a message; for what makes a figure worthless, such as a failed allocation. */
_Noreturn void case_die(const char *what);

/*
 * Keeps the compiler from dropping the work on an object. It does not clobber memory, or inlined
 * code would reload values that it holds in registers, as in no real program.
 */
static inline void case_keep(void *object)
{
    __asm__ volatile("" : : "r"(object));
}

#endif
