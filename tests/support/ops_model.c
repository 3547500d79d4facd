/* SPDX-License-Identifier: MIT */
#include "support/ops_model.h"

#include "support/check.h"

#include "harden/quarantine.h"
#include "os/topology.h"
#include "reserve/pool.h"
#include "reserve/prefilled.h"
#include "slab/slab.h"

#include <stook/reserve.h>
#include <stook/rcu.h>
#include <stook/stat.h>

#include <string.h>

struct ops ops;

enum { OPS_BUILT = 0xb1 };

unsigned ops_byte(void)
{
    return ops.at < ops.end ? *ops.at++ : 0;
}

unsigned ops_below(unsigned end)
{
    unsigned value = ops_byte() << 8;

    return (value | ops_byte()) % end;
}

/* ---- contents ------------------------------------------------------------------------------- */

void ops_ctor(void *object, void *arg)
{
    *(unsigned char *)object = OPS_BUILT;
}

void ops_dtor(void *object, void *arg)
{
    OPS_CHECK(*(unsigned char *)object == OPS_BUILT);
    *(unsigned char *)object = 0;
}

/* The first byte of a constructed object stays as the constructor left it. */
static size_t ops_offset(const struct ops_made *made, size_t i)
{
    return i + made->built;
}

static size_t ops_length(const struct ops_made *made)
{
    return made->size - made->built;
}

static unsigned char ops_pattern(uint32_t pattern, size_t i)
{
    return (unsigned char)((pattern + i) * 0x9e3779b1u >> 24);
}

static void ops_fill(const struct ops_made *made, const struct ops_held *held)
{
    size_t n = ops_length(made);

    for (size_t i = 0; i < n; i = i == OPS_FILL && n > 2 * OPS_FILL ? n - OPS_FILL : i + 1)
        held->object[ops_offset(made, i)] = ops_pattern(held->pattern, i);
}

static void ops_verify(const struct ops_held *held)
{
    const struct ops_made *made = &ops.made[held->cache];
    size_t n = ops_length(made);

    for (size_t i = 0; i < n; i = i == OPS_FILL && n > 2 * OPS_FILL ? n - OPS_FILL : i + 1)
        OPS_CHECK(held->object[ops_offset(made, i)] == ops_pattern(held->pattern, i));
    OPS_CHECK(!made->built || held->object[0] == OPS_BUILT);
    OPS_CHECK(!made->charged || held->deferred ||
              stook_group_of(held->object).id == held->group.id);
}

/* ---- objects -------------------------------------------------------------------------------- */

static size_t ops_place(const void *object)
{
    size_t low = 0, high = ops.n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)ops.held[middle].object < (uintptr_t)object)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool ops_room(unsigned cache, size_t n)
{
    return ops.n + ops.coming + n <= OPS_OBJECTS &&
           ops.bytes + n * ops.made[cache].size <= OPS_BYTES;
}

void ops_got(unsigned cache, void *object, bool zero, unsigned pool)
{
    struct ops_made *made = &ops.made[cache];
    size_t at = ops_place(object);
    unsigned char *bytes = object;

    OPS_CHECK(ops.n < OPS_OBJECTS);
    OPS_CHECK(object && (uintptr_t)object % made->align == 0);
    OPS_CHECK(at == ops.n || bytes + made->size <= ops.held[at].object);
    OPS_CHECK(at == 0 || ops.held[at - 1].object + ops.made[ops.held[at - 1].cache].size <= bytes);
    OPS_CHECK(stook_usable_size(object) >= made->size);
    for (size_t i = 0; zero && i < made->size; i++)
        OPS_CHECK(bytes[i] == 0);
    OPS_CHECK(!made->built || bytes[0] == OPS_BUILT);
    memmove(&ops.held[at + 1], &ops.held[at], (ops.n - at) * sizeof(ops.held[0]));
    ops.held[at] = (struct ops_held){
        cache,          pool,   false,
        ++ops.patterns, object, made->charged ? stook_group_of(object) : STOOK_NO_GROUP};
    ops_fill(made, &ops.held[at]);
    ops.n++;
    ops.bytes += made->size;
    made->out++;
    ops.counts->allocated++;
}

static void ops_forget(size_t at)
{
    ops.made[ops.held[at].cache].out--;
    ops.bytes -= ops.made[ops.held[at].cache].size;
    memmove(&ops.held[at], &ops.held[at + 1], (--ops.n - at) * sizeof(ops.held[0]));
}

void *ops_lose(size_t at)
{
    struct ops_held held = ops.held[at];

    OPS_CHECK(!held.deferred);
    ops_verify(&held);
    ops_forget(at);
    if (ops.made[held.cache].stable)
        ops.stale[ops.stales++ % OPS_STALE] = held.object;
    ops.counts->freed++;
    return held.object;
}

void *ops_defer(size_t at)
{
    OPS_CHECK(!ops.held[at].deferred);
    ops_verify(&ops.held[at]);
    ops.held[at].deferred = true;
    ops.counts->freed++;
    ops.counts->deferred++;
    return ops.held[at].object;
}

void ops_end_deferred(void)
{
    bool armed = ops_hold();
    size_t kept = 0;

    ops_check_step();
    ops.stales = 0;
    memset(ops.stale, 0, sizeof(ops.stale));
    for (size_t i = 0; i < ops.n; i++) {
        struct ops_made *made = &ops.made[ops.held[i].cache];
        if (!ops.held[i].deferred) {
            ops.held[kept++] = ops.held[i];
            continue;
        }
        ops_verify(&ops.held[i]);
        made->out--;
        ops.bytes -= made->size;
    }
    ops.n = kept;
    ops_release(armed);
}

size_t ops_any(void)
{
    size_t at = ops.n > 0 ? ops_below((unsigned)ops.n) : 0;

    for (size_t i = 0; i < ops.n; i++, at = at + 1 < ops.n ? at + 1 : 0)
        if (!ops.held[at].deferred)
            return at;
    return ops.n;
}

/* ---- checks --------------------------------------------------------------------------------- */

void ops_check_step(void)
{
    /* One neighbour or other, each time another. */
    if (ops.n > 0)
        ops_verify(&ops.held[ops.counts->steps * 7919 % ops.n]);
    for (size_t i = 0; i < OPS_STALE; i++) /* free or another's, it is of its type */
        OPS_CHECK(!ops.stale[i] || *ops.stale[i] == OPS_BUILT);
    for (unsigned i = 0; i < OPS_SHEAVES; i++)
        OPS_CHECK(!ops.sheaf[i].sheaf || ops.sheaf[i].busy ||
                  stook_sheaf_size(ops.sheaf[i].sheaf) == ops.sheaf[i].size);
    for (unsigned i = 0; i < OPS_POOLS && ops.depth == 0; i++)
        OPS_CHECK(!ops.pool[i].pool || stook_pool_available(ops.pool[i].pool) <= ops.pool[i].min);
}

/* Objects of a cache that are held back: they are counted when they go on.  A handler on top of the last CPU's queue
 * uses those behind it. */
static uint64_t ops_held_back(const struct stook_cache *cache)
{
    uint64_t n = 0;

#ifndef STOOK_CORE
    for (unsigned cpu = 0; cpu < TOPOLOGY_CPUS_MAX && cache->flags & STOOK_CACHE_QUARANTINE;
         cpu++) {
        void *object;
        for (uint32_t i = 0; (object = quarantine_held(cpu, i)); i++)
            n += slab_cache_of(object) == cache;
    }
#else
    (void)cache;
#endif
    return n;
}

/* While no thread is in a call: all allocations and frees were counted. */
static void ops_check_stat(const struct ops_made *made)
{
    struct stook_stat stat = {.size = sizeof(stat)};

    OPS_CHECK(stook_cache_stat(made->cache, &stat) == 0);
    OPS_CHECK(stat.alloc_fastpath + stat.alloc_slowpath == made->taken);
    OPS_CHECK(stat.free_fastpath + stat.free_slowpath + ops_held_back(made->cache) == made->given);
    OPS_CHECK(made->taken - made->given == made->out);
    OPS_CHECK(stat.alloc_cpu_sheaf <= stat.alloc_fastpath);
    OPS_CHECK(stat.free_cpu_sheaf <= stat.free_fastpath);
    OPS_CHECK(stat.free_slab <= stat.alloc_slab && stat.sheaf_free <= stat.sheaf_alloc);
    OPS_CHECK(stat.barn_get <= stat.barn_put);
}

static size_t ops_list_sheaf(const struct ops_sheaf *s, struct check_object *list)
{
    struct stook_cache *cache = ops.made[s->cache].cache;
    struct sheaf *sheaf = prefilled_of(cache, s->sheaf);
    size_t n = 0;

    for (uint32_t i = 0; i < sheaf->size; i++)
        list[n++] = (struct check_object){cache, sheaf->object[i]};
    if (slab_cache_of(sheaf))
        list[n++] = (struct check_object){slab_cache_of(sheaf), sheaf};
    return n;
}

static size_t ops_list_pool(const struct ops_pool *p, struct check_object *list)
{
    struct stook_cache *cache = ops.made[p->cache].cache;
    size_t n = 0;

    for (unsigned chunk = 0; chunk < POOL_CHUNKS && p->pool->chunk[chunk]; chunk++)
        for (uint32_t i = 0; i < (chunk ? (uint32_t)POOL_FIRST << (chunk - 1) : POOL_FIRST); i++)
            if (p->pool->chunk[chunk][i])
                list[n++] = (struct check_object){cache, p->pool->chunk[chunk][i]};
    return n;
}

/* While memory is plenty a barn has its own node's objects, or those of the node's home. */
static void ops_check_barns(struct stook_cache *cache)
{
    for (unsigned node = 0; node < topology.nodes; node++)
        for (struct sheaf *sheaf = cache->nodes[node].barn.full; sheaf; sheaf = sheaf->next)
            for (uint32_t i = 0; i < sheaf->size; i++)
                OPS_CHECK(pagemap_node(sheaf->object[i]) == topology.home_of_node[node]);
}

void ops_check_all(void)
{
    static struct check_object list[OPS_OBJECTS + OPS_SHEAVES * 2048 + OPS_POOLS * 512];
    size_t n = 0;

    stook_rcu_barrier(); /* nothing is with the RCU */
    ops_end_deferred();
    for (size_t i = 0; i < ops.n; i++)
        list[n++] = (struct check_object){ops.made[ops.held[i].cache].cache, ops.held[i].object};
    for (unsigned i = 0; i < OPS_SHEAVES; i++)
        if (ops.sheaf[i].sheaf)
            n += ops_list_sheaf(&ops.sheaf[i], list + n);
    for (unsigned i = 0; i < OPS_POOLS; i++)
        if (ops.pool[i].pool)
            n += ops_list_pool(&ops.pool[i], list + n);
    check_all(list, n);
    for (unsigned i = 0; i < OPS_POOLS; i++)
        OPS_CHECK(!ops.pool[i].pool || ops.pool[i].pool->places == ops.pool[i].pool->count);
    for (unsigned i = 0; i < OPS_CACHES; i++)
        if (ops.made[i].cache)
            ops_check_barns(ops.made[i].cache);
    for (unsigned i = 0; i < OPS_CACHES; i++)
        if (ops.made[i].cache && ops.made[i].counted)
            ops_check_stat(&ops.made[i]);
    ops_check_groups();
    ops.counts->checked++;
}
