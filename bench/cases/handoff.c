/* SPDX-License-Identifier: MIT */
/*
 * handoff: one thread allocates and puts into a ring, a thread on another CPU takes out and frees.
 * The time is that of the whole, from the first allocation to the last free, over the objects.
 */
#include <pthread.h>
#include <stdio.h>

#include "../worker/adapter.h"
#include "../worker/cpus.h"
#include "../worker/ring.h"
#include "../worker/timing.h"

struct handoff {
    adapter_t adapter;
    struct ring ring;
    _Atomic uint64_t asked; /* objects of the round to come; 0 between rounds */
    _Atomic uint64_t done;  /* objects freed in that round */
    _Atomic int stop;
};

static void *handoff_consumer(void *context)
{
    struct handoff *handoff = context;
    struct ring_end end = {0, 0};
    adapter_t adapter = handoff->adapter;

    cpus_pin(1);
    for (;;) {
        uint64_t asked;
        while (!(asked = atomic_load_explicit(&handoff->asked, memory_order_acquire)))
            if (atomic_load_explicit(&handoff->stop, memory_order_relaxed))
                return NULL;
        for (uint64_t i = 0; i < asked; i++)
            adapter_free(adapter, ring_get(&handoff->ring, &end));
        atomic_store_explicit(&handoff->asked, 0, memory_order_relaxed);
        atomic_store_explicit(&handoff->done, asked, memory_order_release);
    }
}

static struct ring_end producer_end;

static uint64_t handoff_round(void *context, uint64_t count)
{
    struct handoff *handoff = context;
    adapter_t adapter = handoff->adapter;
    struct ring_end end = producer_end;
    uint64_t objects = count * RING_PUBLISH; /* whole publications: nothing is left in the ring */

    uint64_t start = timing_now();
    atomic_store_explicit(&handoff->done, 0, memory_order_relaxed);
    atomic_store_explicit(&handoff->asked, objects, memory_order_release);
    for (uint64_t i = 0; i < objects; i++) {
        void *object = adapter_alloc(adapter);
        if (!object)
            case_die("an allocation failed");
        ring_put(&handoff->ring, &end, object);
    }
    while (atomic_load_explicit(&handoff->done, memory_order_acquire) != objects)
        ring_relax();
    producer_end = end;
    return timing_now() - start;
}

int case_handoff(const struct case_params *params, struct case_result *result)
{
    static struct handoff handoff;
    pthread_t consumer;

    if (cpus_count() < 2) {
        fprintf(stderr, "needs two CPUs\n");
        return WORKER_CANNOT;
    }
    cpus_pin(0);
    handoff.adapter = adapter_open(params->object_size);
    if (pthread_create(&consumer, NULL, handoff_consumer, &handoff))
        case_die("pthread_create failed");
    double ns = timing_median(handoff_round, &handoff, params->ms, params->rounds);
    atomic_store(&handoff.stop, 1);
    pthread_join(consumer, NULL);
    CASE_SET(result, pair_ns, ns / RING_PUBLISH);
    return 0;
}
