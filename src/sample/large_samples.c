/* SPDX-License-Identifier: MIT */
#include "sample/large_samples.h"

#include "base/context.h"
#include "os/os.h"
#include "sample/otel.h"
#include "sample/sample.h"
#include "sample/sites.h"

#include <errno.h>
#include <time.h>

/*
 * Two tables, as sites.c has: the first is two pages, and few programs need the other.  An address lies in one of
 * LARGE_PROBES places from its hash on.  Only the thread that has the object in hand looks for it, so what lies
 * beside a place's address needs no order.
 */
enum { LARGE_NEAR = 256, LARGE_FAR = 16384, LARGE_PROBES = 16 };

struct large_place {
    _Atomic uintptr_t object; /* 0: free; 1: on its way */
    struct large_sample sample;
};

_Atomic uint32_t large_samples_live;
static _Atomic(struct large_place *) large_samples_table[2];

static struct large_place *large_samples_first(unsigned which, bool make)
{
    struct large_place *found =
        atomic_load_explicit(&large_samples_table[which], memory_order_acquire);
    size_t size = (which ? LARGE_FAR : LARGE_NEAR) * sizeof(*found);
    struct large_place *fresh = found || !make ? NULL : os_map(size);

    if (!fresh ||
        atomic_compare_exchange_strong_explicit(&large_samples_table[which], &found, fresh,
                                                memory_order_acq_rel, memory_order_acquire))
        return fresh ? fresh : found;
    os_unmap(fresh, size);
    return found;
}

/* A place that holds the object, or 0: a free one, which is the caller's; NULL: there is none. */
static struct large_place *large_samples_at(uintptr_t object, bool make)
{
    uint64_t hash = (uint64_t)object * 0x9e3779b97f4a7c15u >> 32;

    for (unsigned which = 0; which < 2; which++) {
        struct large_place *table = large_samples_first(which, make);
        for (uint64_t i = 0; table && i < LARGE_PROBES; i++) {
            struct large_place *one = &table[(hash + i) & ((which ? LARGE_FAR : LARGE_NEAR) - 1)];
            uintptr_t found = atomic_load_explicit(&one->object, memory_order_relaxed);
            if (make ? found == 0 &&
                           atomic_compare_exchange_strong_explicit(
                               &one->object, &found, 1, memory_order_acquire, memory_order_relaxed)
                     : found == object)
                return one;
        }
    }
    return NULL;
}

static uint64_t large_samples_now(void)
{
    struct timespec clock = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &clock);
    return (uint64_t)clock.tv_sec * 1000000000u + (uint64_t)clock.tv_nsec;
}

static void large_samples_add(const void *object, const struct large_sample *sample)
{
    struct large_place *one = large_samples_at((uintptr_t)object, true);

    if (!one) {
        atomic_fetch_add_explicit(&sites.lost, 1, memory_order_relaxed);
        return;
    }
    one->sample = *sample;
    atomic_fetch_add_explicit(&large_samples_live, 1, memory_order_relaxed);
    atomic_store_explicit(&one->object, (uintptr_t)object, memory_order_release);
}

void large_samples_came(const void *object, size_t bytes, size_t asked, uint64_t where,
                        uint32_t group)
{
    struct site_key key = {.kind = SITE_LARGE, .group = group, .name = "large", .where = where};
    struct large_sample sample = {.bytes = bytes};
    int saved = errno;
    uint64_t now;

    if (context_self()->depth > 0 || !sample_large(bytes, &sample.weight))
        return;
    sample.time = large_samples_now();
    sample.site = sites_find(&key);
    sites_came(sample.site, sample.weight, bytes, asked);
    otel_alloc(object, asked, (uint64_t)((double)sample.weight * (double)asked));
    large_samples_add(object, &sample);
    now = large_samples_now();
    sample_paid(now - sample.time, now);
    atomic_fetch_add_explicit(&sites.cost, now - sample.time, memory_order_relaxed);
    errno = saved;
}

struct large_sample large_samples_take(const void *object)
{
    struct large_place *one = large_samples_at((uintptr_t)object, false);
    struct large_sample sample = {.weight = 0};

    if (!one)
        return sample;
    sample = one->sample;
    atomic_fetch_sub_explicit(&large_samples_live, 1, memory_order_relaxed);
    /* Release: the next owner of the place writes behind these reads. */
    atomic_store_explicit(&one->object, 0, memory_order_release);
    return sample;
}

void large_samples_end(const void *object, const struct large_sample *sample, bool stays)
{
    int saved = errno;

    if (stays) {
        large_samples_add(object, sample);
    } else {
        otel_free(object);
        sites_went(sample->site, sample->weight, sample->bytes, large_samples_now() - sample->time);
    }
    errno = saved;
}

void large_samples_remove(const void *object)
{
    struct large_sample sample = large_samples_take(object);

    if (sample.weight > 0)
        large_samples_end(object, &sample, false);
}
