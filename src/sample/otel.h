/* SPDX-License-Identifier: MIT */
/*
 * otel.h - the probes that OpenTelemetry's eBPF profiler looks for in allocators, where a sampled object is handed
 * out and where it comes back.
 *
 *   otel_memory:alloc(object, size, weighted_bytes)
 *   otel_memory:free(object)
 *
 * Its contract (design-docs/00003-memory-profiling in open-telemetry/opentelemetry-ebpf-profiler): one event for
 * each sampled allocation and one for its free.  The event of an allocation has the bytes that it stands for: their
 * sum is, in the mean, the bytes that were allocated.  Its first release reads the arguments from the
 * registers of a call instead of from the note.  So each probe is the first instruction of a function of its own,
 * whose arguments are the probe's.
 */
#ifndef STOOK_SAMPLE_OTEL_H
#define STOOK_SAMPLE_OTEL_H

#include <stddef.h>
#include <stdint.h>

/* The object, of `size` bytes as asked for, is a sample and is handed out. */
void otel_alloc(const void *object, size_t size, uint64_t weighted_bytes);

/* An object of an otel_alloc() is freed. */
void otel_free(const void *object);

#endif
