/* SPDX-License-Identifier: MIT */
/*
 * parked: threads allocate objects of one size and free them in random order, in waves; then they free all and end.  The
 * resident memory then is all that the allocator keeps for a program that uses nothing; no call comes in between.
 */
#include <pthread.h>
#include <string.h>

#include "../worker/adapter.h"

#if !ADAPTER_HANDOFF_ONLY

#include "../worker/random.h"
#include "../worker/resident.h"

#define THREADS_MAX 64

struct parked {
    adapter_t adapter;
    const struct case_params *params;
    void **objects;
    size_t count;
    uint64_t operations;
    struct random random;
    pthread_t thread;
};

/* Three of four that are free are allocated, and written to; then as many are drawn as there are, and freed. */
static void parked_wave(struct parked *self)
{
    for (size_t i = 0; i < self->count; i++) {
        if (self->objects[i] || random_below(&self->random, 4) == 0)
            continue;
        self->objects[i] = adapter_alloc(self->adapter);
        if (!self->objects[i])
            case_die("an allocation failed");
        memset(self->objects[i], 1, self->params->object_size);
        self->operations++;
    }
    for (size_t i = 0; i < self->count; i++) {
        size_t at = random_below(&self->random, (uint32_t)self->count);
        if (self->objects[at])
            adapter_free(self->adapter, self->objects[at]);
        self->objects[at] = NULL;
    }
}

static void *parked_run(void *context)
{
    struct parked *self = context;

    adapter_join();
    for (unsigned i = 0; i < self->params->rounds; i++)
        parked_wave(self);
    random_shuffle(&self->random, self->objects, self->count);
    for (size_t i = 0; i < self->count; i++)
        if (self->objects[i])
            adapter_free(self->adapter, self->objects[i]);
    return NULL;
}

int case_parked(const struct case_params *params, struct case_result *result)
{
    static struct parked threads[THREADS_MAX];
    size_t n = params->threads < THREADS_MAX ? params->threads : THREADS_MAX;
    size_t count = ((size_t)params->mib << 20) / params->object_size / n;
    adapter_t adapter = adapter_open(params->object_size);
    void **objects = resident_map(n * count * sizeof(void *));
    double own = (double)resident_bytes();
    uint64_t faults = resident_faults(), operations = 0;

    for (size_t i = 0; i < n; i++) {
        threads[i] = (struct parked){.adapter = adapter,
                                     .params = params,
                                     .objects = objects + i * count,
                                     .count = count,
                                     .random = {i + 1}};
        if (pthread_create(&threads[i].thread, NULL, parked_run, &threads[i]) != 0)
            case_die("no thread");
    }
    for (size_t i = 0; i < n; i++) {
        pthread_join(threads[i].thread, NULL);
        operations += 2 * threads[i].operations;
    }
    own = (double)resident_bytes() - own;
    CASE_SET(result, resident_mib, own > 0 ? own / (1 << 20) : 0);
    CASE_SET(result, faults_per_1000,
             (double)(resident_faults() - faults) * 1000 / (double)operations);
    adapter_report_reserve(result, adapter_reserve());
    return 0;
}

#endif
