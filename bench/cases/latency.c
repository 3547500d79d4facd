/* SPDX-License-Identifier: MIT */
/*
 * latency: the time of each single allocation and free in a mixed load.  There are n live objects.  Most
 * sizes are log-uniform from 16 bytes to 1 KiB.  One of 64 is from 1 to 16 KiB, one of 2048 from 16 to 256 KiB.  Each
 * operation replaces one at random.  In latency-phases, three quarters are freed now and then, and the set fills up again.
 * In latency-threads, two threads replace objects of one set, so most frees are of the other thread's objects.
 *
 * After each operation of SLOW_NS or more the case asks the kernel for page faults and switches to another thread since
 * the slow one before it.  Faster operations in between may have had some of them.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "../worker/adapter.h"
#include "../worker/cpus.h"
#include "../worker/histogram.h"
#include "../worker/random.h"
#include "../worker/resident.h"
#include "../worker/timing.h"

#if ADAPTER_ANY_SIZE

enum { SLOW_NS = 10000, PER_ROUND = 100000, THREADS_MOST = 2, FILLED_AFTER = 4 };

struct latency {
    const struct case_params *params;
    _Atomic(void *) *objects;
    struct random random;
    unsigned cpu;
    int phases;
    double ticks_ns; /* nanoseconds a tick */
    struct histogram alloc, free;
    uint64_t slow, slow_faults, slow_switches;
    uint64_t faults, switches; /* read last */
};

static size_t latency_size(struct random *random)
{
    unsigned kind = random_below(random, 2048);
    unsigned least = kind == 0   ? 14
                     : kind < 32 ? 10
                                 : 4,
             most = kind == 0   ? 18
                    : kind < 32 ? 14
                                : 10;
    unsigned log = least + random_below(random, most - least);

    return ((size_t)1 << log) + random_below(random, 1u << log);
}

/* How long reading the counter twice takes: the least of many. */
static uint64_t latency_clock(void)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 1000; i++) {
        uint64_t begin = timing_ticks(), took = timing_ticks() - begin;
        least = took < least ? took : least;
    }
    return least;
}

static double latency_tick_ns(void)
{
    uint64_t begin = timing_now(), ticks = timing_ticks(), took;

    while ((took = timing_now() - begin) < 20000000u)
        ;
    return (double)took / (double)(timing_ticks() - ticks);
}

static void latency_count(struct latency *latency, struct histogram *histogram, uint64_t ticks)
{
    uint64_t ns = (uint64_t)((double)ticks * latency->ticks_ns);
    struct rusage usage;
    uint64_t faults, switches;

    histogram_add(histogram, ns);
    if (__builtin_expect(ns < SLOW_NS, 1))
        return;
    getrusage(RUSAGE_THREAD, &usage);
    faults = (uint64_t)(usage.ru_minflt + usage.ru_majflt);
    switches = (uint64_t)(usage.ru_nvcsw + usage.ru_nivcsw);
    latency->slow++;
    latency->slow_faults += faults > latency->faults;
    latency->slow_switches += switches > latency->switches;
    latency->faults = faults;
    latency->switches = switches;
}

static void latency_free(struct latency *latency, void *object)
{
    uint64_t begin;

    if (!object)
        return;
    begin = timing_ticks();
    adapter_free_any(object);
    latency_count(latency, &latency->free, timing_ticks() - begin);
}

static void latency_replace(struct latency *latency)
{
    size_t size = latency_size(&latency->random);
    uint32_t at = random_below(&latency->random, (uint32_t)latency->params->n);
    uint64_t begin = timing_ticks();
    volatile char *object = adapter_alloc_size(size);

    latency_count(latency, &latency->alloc, timing_ticks() - begin);
    if (!object)
        case_die("an allocation failed");
    object[0] = 1;
    object[size - 1] = 1;
    latency_free(latency, atomic_exchange(&latency->objects[at], (void *)object));
}

static void latency_free_most(struct latency *latency)
{
    for (size_t i = 0; i < latency->params->n; i++)
        if (i % 4 != 0)
            latency_free(latency, atomic_exchange(&latency->objects[i], NULL));
}

static void *latency_run(void *arg)
{
    struct latency *latency = arg;
    const struct case_params *params = latency->params;

    cpus_pin(latency->cpu);
    adapter_join();
    for (size_t i = 0; i < params->n * FILLED_AFTER; i++) /* the set fills up */
        latency_replace(latency);
    memset(&latency->alloc, 0, sizeof(latency->alloc));
    memset(&latency->free, 0, sizeof(latency->free));
    latency->slow = latency->slow_faults = latency->slow_switches = 0;
    for (unsigned round = 0; round < params->rounds; round++) {
        for (unsigned i = 0; i < PER_ROUND; i++)
            latency_replace(latency);
        if (latency->phases && round % 4 == 3)
            latency_free_most(latency);
    }
    return NULL;
}

/* The metrics from `first` on: percentiles, and the largest. */
static void latency_set(struct case_result *result, enum metric first,
                        const struct histogram *histogram)
{
    static const double shares[] = {0.5, 0.99, 0.999, 0.9999, 0.99999};
    enum { SHARES = sizeof(shares) / sizeof(shares[0]) };
    _Static_assert(METRIC_alloc_max - METRIC_alloc_p50 == SHARES &&
                       METRIC_free_max - METRIC_free_p50 == SHARES,
                   "metrics.h has them in this order");

    for (unsigned i = 0; i < SHARES; i++)
        result->value[first + i] = histogram_percentile(histogram, shares[i]);
    result->value[first + SHARES] = (double)histogram->largest;
}

static void latency_report(const struct latency *latency, uint64_t clock,
                           struct case_result *result)
{
    latency_set(result, METRIC_alloc_p50, &latency->alloc);
    latency_set(result, METRIC_free_p50, &latency->free);
    CASE_SET(result, clock_ns, (double)clock * latency->ticks_ns);
    CASE_SET(result, slow, (double)latency->slow);
    CASE_SET(result, slow_faults, (double)latency->slow_faults);
    CASE_SET(result, slow_switches, (double)latency->slow_switches);
}

static int latency_case(const struct case_params *params, struct case_result *result, int phases)
{
    size_t threads = params->threads;
    struct latency *latency;
    pthread_t thread[THREADS_MOST];
    double ticks_ns = latency_tick_ns();

    if (threads < 1 || threads > THREADS_MOST || params->n < 1)
        case_die("latency takes one or two threads");
    if (cpus_count() < threads) {
        fprintf(stderr, "needs as many CPUs as threads\n");
        return WORKER_CANNOT;
    }
    latency = resident_map(threads * sizeof(*latency));
    _Atomic(void *) *objects = resident_map(params->n * sizeof(*objects));
    for (size_t t = 0; t < threads; t++) {
        latency[t].params = params;
        latency[t].objects = objects;
        latency[t].random.state = t + 1;
        latency[t].cpu = (unsigned)t;
        latency[t].phases = phases;
        latency[t].ticks_ns = ticks_ns;
        if (pthread_create(&thread[t], NULL, latency_run, &latency[t]) != 0)
            case_die("no thread");
    }
    for (size_t t = 0; t < threads; t++) {
        pthread_join(thread[t], NULL);
        if (t > 0) {
            histogram_merge(&latency[0].alloc, &latency[t].alloc);
            histogram_merge(&latency[0].free, &latency[t].free);
            latency[0].slow += latency[t].slow;
            latency[0].slow_faults += latency[t].slow_faults;
            latency[0].slow_switches += latency[t].slow_switches;
        }
    }
    latency_report(&latency[0], latency_clock(), result);
    return 0;
}

int case_latency(const struct case_params *params, struct case_result *result)
{
    return latency_case(params, result, 0);
}

int case_latency_phases(const struct case_params *params, struct case_result *result)
{
    return latency_case(params, result, 1);
}

#endif
