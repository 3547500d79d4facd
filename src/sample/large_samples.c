/* SPDX-License-Identifier: MIT */
/*
 * large_samples.c - the table of large objects that are samples, by their addresses; without a lock.
 */
#include "sample/large_samples.h"

#include "base/context.h"
#include "os/os.h"
#include "sample/otel.h"
#include "sample/sample.h"
#include "sample/sites.h"

#include <errno.h>

/*
 * Tables of 256, 1024, 4096 and 16384 places, each made when there is no place in those before it: so they are dense,
 * and few programs need a second one.  An address lies in one of LARGE_PROBES places from its hash on; addresses lie
 * together, since most objects that are looked for are not there.  Only the thread that has the object in hand looks
 * for it, so what lies at a place's number needs no order.  Addresses are inverted: a search for leaks (tools/look/)
 * takes what it finds in the process's memory for pointers.
 */
enum { LARGE_TABLES = 4, LARGE_NEAR = 256, LARGE_PROBES = 16 };

struct large_table {
    struct large_sample *sample;
    _Atomic uintptr_t object[]; /* ~address; 0: free; 1: on its way */
};

_Atomic uint32_t large_samples_live;
static _Atomic(struct large_table *) large_samples_tables[LARGE_TABLES];

static uint64_t large_samples_places(unsigned which)
{
    return (uint64_t)LARGE_NEAR << 2 * which;
}

static struct large_table *large_samples_table(unsigned which, bool make)
{
    struct large_table *found =
        atomic_load_explicit(&large_samples_tables[which], memory_order_acquire);
    uint64_t places = large_samples_places(which);
    size_t keys = sizeof(*found) + places * sizeof(found->object[0]),
           size = keys + places * sizeof(found->sample[0]);
    struct large_table *fresh = found || !make ? NULL : os_map(size);

    if (!fresh)
        return found;
    fresh->sample = (struct large_sample *)((char *)fresh + keys);
    if (atomic_compare_exchange_strong_explicit(&large_samples_tables[which], &found, fresh,
                                                memory_order_acq_rel, memory_order_acquire))
        return fresh;
    os_unmap(fresh, size);
    return found;
}

/* The place that holds the object, or 0: a free one, which is the caller's.  NULL: there is none; else *sample is
 * what lies there. */
static _Atomic uintptr_t *large_samples_at(uintptr_t object, bool make,
                                           struct large_sample **sample)
{
    uint64_t hash = (uint64_t)object * 0x9e3779b97f4a7c15u >> 32;

    for (unsigned which = 0; which < LARGE_TABLES; which++) {
        struct large_table *table = large_samples_table(which, make);
        for (uint64_t i = 0; table && i < LARGE_PROBES; i++) {
            uint64_t number = (hash + i) & (large_samples_places(which) - 1);
            _Atomic uintptr_t *place = &table->object[number];
            uintptr_t found = atomic_load_explicit(place, memory_order_relaxed);
            *sample = &table->sample[number];
            if (make ? found == 0 && atomic_compare_exchange_strong_explicit(place, &found, 1,
                                                                             memory_order_acquire,
                                                                             memory_order_relaxed)
                     : found == ~object)
                return place;
        }
    }
    return NULL;
}

static void large_samples_add(const void *object, const struct large_sample *sample)
{
    struct large_sample *at;
    _Atomic uintptr_t *place = large_samples_at((uintptr_t)object, true, &at);

    if (!place) {
        atomic_fetch_add_explicit(&sites.lost, 1, memory_order_relaxed);
        return;
    }
    *at = *sample;
    atomic_fetch_add_explicit(&large_samples_live, 1, memory_order_relaxed);
    atomic_store_explicit(place, ~(uintptr_t)object, memory_order_release);
}

void large_samples_came(const void *object, size_t bytes, size_t asked, uint64_t where,
                        uint32_t group)
{
    struct site_key key = {.kind = SITE_LARGE, .group = group, .name = "large", .where = where};
    struct large_sample sample = {.bytes = bytes};
    struct sample found;
    int saved = errno;

    if (!sample_is_due(bytes) || context_self()->depth > 0)
        return;
    found = sample_take(bytes);
    if (found.weight == 0 || found.line != SAMPLE_PROFILE)
        return;
    sample.weight = found.weight;
    sample.site = sites_find(&key);
    sites_came(sample.site, sample.weight, bytes, asked);
    sample.born = sites_age();
    otel_alloc(object, asked, (uint64_t)((double)sample.weight * (double)asked));
    large_samples_add(object, &sample);
    errno = saved;
}

struct large_sample large_samples_take(const void *object)
{
    struct large_sample sample = {.weight = 0}, *at;
    _Atomic uintptr_t *place = large_samples_at((uintptr_t)object, false, &at);

    if (!place)
        return sample;
    sample = *at;
    atomic_fetch_sub_explicit(&large_samples_live, 1, memory_order_relaxed);
    /* Release: the next owner of the place writes after these reads. */
    atomic_store_explicit(place, 0, memory_order_release);
    return sample;
}

void large_samples_end(const void *object, const struct large_sample *sample, bool stays)
{
    int saved = errno;

    if (stays) {
        large_samples_add(object, sample);
    } else {
        otel_free(object);
        sites_went(sample->site, sample->weight, sample->bytes, sample->born);
    }
    errno = saved;
}

void large_samples_remove(const void *object)
{
    struct large_sample sample = large_samples_take(object);

    if (sample.weight > 0)
        large_samples_end(object, &sample, false);
}
