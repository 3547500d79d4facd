/* SPDX-License-Identifier: MIT */
#include "base/context.h"
#include "os/topology.h"
#include "sheaf/slot.h"
#include "slab/node.h"

#include <errno.h>
#include <string.h>

enum { BULK_CHUNK = 1u << 16 };

static unsigned bulk_node(void)
{
    int cpu = percpu_cpu();

    return topology_home(cpu < 0 ? 0 : (unsigned)cpu);
}

/* Sheaves first, then slabs straight into the array; all or nothing. */
static __attribute__((noinline, cold)) size_t bulk_alloc_slow(struct stook_cache *cache,
                                                              unsigned flags, size_t n,
                                                              void **objects, size_t got)
{
    bool nested = context_enter(), nospin = nested || (flags & STOOK_NOSPIN);

    while (got < n) {
        uint32_t want = n - got < BULK_CHUNK ? (uint32_t)(n - got) : BULK_CHUNK;
        uint32_t more = slot_alloc_bulk(cache, objects + got, want, nospin);
        if (more < want)
            more += node_take(cache, bulk_node(), objects + got + more, want - more, want - more,
                              nospin);
        got += more;
        if (more < want) {
            for (size_t i = 0; i < got; i += BULK_CHUNK)
                node_put(cache, objects + i,
                         got - i < BULK_CHUNK ? (uint32_t)(got - i) : BULK_CHUNK, nospin);
            got = 0;
            errno = ENOMEM;
            break;
        }
    }
    context_leave();
    return got;
}

size_t stook_alloc_bulk(struct stook_cache *cache, unsigned flags, size_t n, void **objects)
{
    size_t got;

    if (__builtin_expect((flags & ~(STOOK_NOWAIT | STOOK_NOSPIN | STOOK_ZERO)) ||
                             ((flags & STOOK_ZERO) && cache->ctor),
                         0)) {
        errno = EINVAL;
        return 0;
    }
    if (n == 0)
        return 0;
    /* Where slots have locks they are only taken in a context that a handler can recognise. */
    got = percpu.rseq ? percpu_pop_bulk(percpu_offset(cache->index), objects,
                                        n < BULK_CHUNK ? (uint32_t)n : BULK_CHUNK)
                      : 0;
    if (__builtin_expect(got < n, 0))
        got = bulk_alloc_slow(cache, flags, n, objects, got);
    if (__builtin_expect(flags & STOOK_ZERO, 0))
        for (size_t i = 0; i < got; i++)
            memset(objects[i], 0, cache->object_size);
    return got;
}

static __attribute__((noinline, cold)) void bulk_free_slow(struct stook_cache *cache, size_t n,
                                                           void **objects)
{
    bool nested = context_enter();
    size_t real = 0;

    /* NULL entries go first: a sheaf holds none. */
    for (size_t i = 0; i < n; i++)
        if (objects[i])
            objects[real++] = objects[i];
    for (size_t i = 0; i < real; i += BULK_CHUNK) {
        uint32_t have = real - i < BULK_CHUNK ? (uint32_t)(real - i) : BULK_CHUNK;
        uint32_t put = slot_free_bulk(cache, objects + i, have, nested);
        if (put < have)
            node_put(cache, objects + i + put, have - put, nested);
    }
    context_leave();
}

void stook_free_bulk(struct stook_cache *cache, size_t n, void **objects)
{
    bulk_free_slow(cache, n, objects);
}
