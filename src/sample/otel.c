/* SPDX-License-Identifier: MIT */
/*
 * otel.c - the two probes, each in a function that is never inlined.
 */
#include "sample/otel.h"

#include "base/probe.h"

#if defined(__has_attribute) && __has_attribute(noipa)
#define OTEL_KEPT __attribute__((noinline, noipa))
#else
#define OTEL_KEPT __attribute__((noinline))
#endif

/* Nothing but the probe: it must not be inlined, nor must its arguments be dropped. */
OTEL_KEPT void otel_alloc(const void *object, size_t size, uint64_t weighted_bytes)
{
    PROBE3_OF(otel_memory, alloc, object, size, weighted_bytes);
}

OTEL_KEPT void otel_free(const void *object)
{
    PROBE1_OF(otel_memory, free, object);
}
