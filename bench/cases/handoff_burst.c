/* SPDX-License-Identifier: MIT */
/*
 * handoff-burst: as handoff, but n objects are allocated, handed over together and freed, by n single
 * calls each way or by one bulk call each way. Bursts are published whole, those of less than
 * RING_PUBLISH objects several at a time, so that a line travels as often as in handoff.
 */
#include "../worker/handoff.h"
#include "../worker/loops.h"

#if !ADAPTER_HANDOFF_ONLY
#define BURST_ALLOC loops_alloc
#define BURST_FREE loops_free
#else
/* The ring alone. */
HANDOFF_INLINE void BURST_ALLOC(adapter_t adapter, void **objects, size_t n, int bulk)
{
    (void)bulk;
    for (size_t i = 0; i < n; i++)
        objects[i] = adapter_alloc(adapter);
}

HANDOFF_INLINE void BURST_FREE(adapter_t adapter, void **objects, size_t n, int bulk)
{
    (void)bulk;
    for (size_t i = 0; i < n; i++)
        adapter_free(adapter, objects[i]);
}
#endif

/* Objects that are published at once. */
HANDOFF_INLINE uint64_t burst_unit(size_t n)
{
    return n < RING_PUBLISH ? n * (RING_PUBLISH / n) : n;
}

HANDOFF_INLINE void burst_consume(struct handoff *handoff, struct ring_end *end, uint64_t objects,
                                  int bulk)
{
    adapter_t adapter = handoff->adapter;
    size_t n = handoff->n;
    uint64_t unit = burst_unit(n);
    void *items[RING_SIZE];

    for (uint64_t i = 0; i < objects; i += unit) {
        ring_get_burst(&handoff->ring, end, items, unit);
        for (uint64_t at = 0; at < unit; at += n)
            BURST_FREE(adapter, items + at, n, bulk);
    }
}

HANDOFF_INLINE void burst_produce(struct handoff *handoff, struct ring_end *end, uint64_t objects,
                                  int bulk)
{
    adapter_t adapter = handoff->adapter;
    size_t n = handoff->n;
    uint64_t unit = burst_unit(n);
    void *items[RING_SIZE];

    for (uint64_t i = 0; i < objects; i += unit) {
        for (uint64_t at = 0; at < unit; at += n)
            BURST_ALLOC(adapter, items + at, n, bulk);
        ring_put_burst(&handoff->ring, end, items, unit);
    }
}

/* Each round chooses once between two loops: `bulk` is a constant in each. */
HANDOFF_INLINE void burst_free(struct handoff *handoff, struct ring_end *end, uint64_t objects)
{
    if (handoff->bulk)
        burst_consume(handoff, end, objects, 1);
    else
        burst_consume(handoff, end, objects, 0);
}

HANDOFF_INLINE void burst_alloc(struct handoff *handoff, struct ring_end *end, uint64_t objects)
{
    if (handoff->bulk)
        burst_produce(handoff, end, objects, 1);
    else
        burst_produce(handoff, end, objects, 0);
}

static void *burst_consumer(void *context)
{
    handoff_serve(context, burst_free);
    return NULL;
}

static uint64_t burst_round(void *context, uint64_t count)
{
    struct handoff *handoff = context;
    return handoff_time(handoff, count * burst_unit(handoff->n), burst_alloc);
}

int case_handoff_burst(const struct case_params *params, struct case_result *result)
{
    static struct handoff handoff;

    if (!handoff_can())
        return WORKER_CANNOT;
    if (params->n > RING_SIZE) {
        fprintf(stderr, "a burst has %d objects at most\n", RING_SIZE);
        return WORKER_CANNOT;
    }
    handoff.bulk = params->mode == MODE_BULK;
    if (handoff.bulk && !ADAPTER_BULK)
        return WORKER_CANNOT;
    cpus_pin(0);
    handoff.n = params->n;
    handoff.adapter = adapter_open(params->object_size);
    handoff_measure(&handoff, burst_consumer, burst_round, (double)burst_unit(params->n), params,
                    result);
    return 0;
}
