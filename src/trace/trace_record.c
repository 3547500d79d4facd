/* SPDX-License-Identifier: MIT */
/* trace_record.c - encodes one event as the bytes of trace_format.h. */
#include "trace/trace_record.h"

#include <string.h>

static uint8_t *trace_record_number(uint8_t *p, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        *p++ = (uint8_t)(value | 128);
    *p++ = (uint8_t)value;
    return p;
}

static __attribute__((noinline, cold)) uint8_t *trace_record_cache(uint8_t *p,
                                                                   const struct stook_cache *cache)
{
    size_t n = strlen(cache->name);

    *p++ = TRACE_CACHE;
    p = trace_record_number(p, cache->index);
    p = trace_record_number(p, cache->object_size);
    p = trace_record_number(p, cache->layout.stride);
    p = trace_record_number(p, cache->align);
    p = trace_record_number(p, n);
    memcpy(p, cache->name, n);
    return p + n;
}
_Static_assert(1 + 3 * 4 + 5 + 1 + STOOK_NAME_MAX <= TRACE_RECORD_MAX, "trace_record_cache()");

static uint8_t *trace_record_asked(uint8_t *p, const struct trace_event *event)
{
    bool aligned = event->alignment > 0;

    p = trace_record_number(p, (uint64_t)event->asked << 1 | aligned);
    return aligned ? trace_record_number(p, (unsigned)__builtin_ctzll(event->alignment)) : p;
}

void trace_record_put(struct trace_writer *writer, struct trace_event *event, uint64_t address)
{
    struct trace_chunk *chunk = writer->chunk;
    uint8_t *from = (uint8_t *)(chunk + 1) + writer->used, *p = from;
    int64_t far = (int64_t)(address - writer->address);

    if (event->cpu != writer->cpu) {
        *p++ = TRACE_CPU;
        p = trace_record_number(p, event->cpu);
        writer->cpu = event->cpu;
    }
    if (__builtin_expect(event->announce, 0))
        p = trace_record_cache(p, event->cache);
    *p++ = (uint8_t)(event->asked ? TRACE_ASKED : event->kind);
    p = trace_record_number(p, event->time - writer->time);
    p = trace_record_number(p, (uint64_t)far << 1 ^ (uint64_t)(far >> 63));
    if (event->kind == TRACE_ALLOC) {
        p = trace_record_number(p, event->cache ? event->cache->index : 0);
        if (!event->cache)
            p = trace_record_number(p, event->bytes);
        if (event->asked)
            p = trace_record_asked(p, event);
    }
    writer->time = event->time;
    writer->address = address;
    writer->used += (uint32_t)(p - from);
    /* A reader of the file, meanwhile or after this process was killed, finds whole records. */
    __atomic_store_n(&chunk->used, writer->used, __ATOMIC_RELEASE);
    if (__builtin_expect(event->announce, 0)) {
        /* Only now: a thread that sees it need not announce the cache.  Others may announce it again. */
        __atomic_store_n(&((struct stook_cache *)(uintptr_t)event->cache)->traced, writer->on,
                         __ATOMIC_RELEASE);
        event->announce = false;
    }
}
