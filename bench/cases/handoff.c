/* SPDX-License-Identifier: MIT */
/*
 * handoff: one thread allocates and puts into a ring, a thread on another CPU takes out and frees.
 * The time is that of the whole, from the first allocation to the last free, over the objects.
 */
#include "../worker/handoff.h"

HANDOFF_INLINE void handoff_free(struct handoff *handoff, struct ring_end *end, uint64_t objects)
{
    adapter_t adapter = handoff->adapter;

    for (uint64_t i = 0; i < objects; i++)
        adapter_free(adapter, ring_get(&handoff->ring, end));
}

HANDOFF_INLINE void handoff_alloc(struct handoff *handoff, struct ring_end *end, uint64_t objects)
{
    adapter_t adapter = handoff->adapter;

    for (uint64_t i = 0; i < objects; i++)
        ring_put(&handoff->ring, end, handoff_object(adapter_alloc(adapter)));
}

static void *handoff_consumer(void *context)
{
    handoff_serve(context, handoff_free);
    return NULL;
}

/* Whole publications: nothing is left in the ring. */
static uint64_t handoff_round(void *context, uint64_t count)
{
    return handoff_time(context, count * RING_PUBLISH, handoff_alloc);
}

int case_handoff(const struct case_params *params, struct case_result *result)
{
    static struct handoff handoff;

    if (!handoff_can())
        return WORKER_CANNOT;
    cpus_pin(0);
    handoff.adapter = adapter_open(params->object_size);
    handoff_measure(&handoff, handoff_consumer, handoff_round, RING_PUBLISH, params, result);
    return 0;
}
