/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE 1
#include "support/ops_model.h"
#include "support/with.h"

#include "base/context.h"
#include "kmalloc/private.h"
#include "os/topology.h"
#include "page/pagemap.h"
#include "slab/cache.h"

#include <stook/rcu.h>
#include <stook/stat.h>
#include <stook/topology.h>

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

/* ---- operations ----------------------------------------------------------------------------- */

/* Any of them: how many objects a slab has, and what is looked at, differs. */
static unsigned ops_debug_flags(void)
{
    static const unsigned flags[] = {STOOK_CACHE_DEBUG_CHECKS, STOOK_CACHE_DEBUG_RED_ZONE,
                                     STOOK_CACHE_DEBUG_POISON, STOOK_CACHE_DEBUG_USER};
    unsigned bits = 1 + ops_below(15), some = 0;

    for (unsigned i = 0; i < 4; i++)
        some |= bits >> i & 1 ? flags[i] : 0;
    return some;
}

static void ops_create(void)
{
    static const unsigned sizes[] = {24, 64, 256, 1024, 8192, 262144};
    unsigned range = sizes[ops_below(6)], size = 1 + ops_below(range), kind = ops_byte(), more, how;
    struct stook_cache_args args = {.size = sizeof(args)};
    struct ops_made *made = NULL;

    for (unsigned i = 0; i < OPS_CACHES && !made; i++)
        if (!ops.made[i].cache)
            made = &ops.made[i];
    if (!made)
        return;
    args.align = kind & 1 ? (size_t)1 << ops_below(13) : 0;
    args.flags = kind >> 1 & (STOOK_CACHE_HWALIGN | STOOK_CACHE_NOSHEAF);
    args.sheaf_capacity = kind & 16 ? ops_below(STOOK_SHEAF_CAPACITY_MAX + 1) : 0;
    *made = (struct ops_made){.built = (kind & 0x60) == 0x60};
    more = ops_byte();
    args.flags |= more & 1 ? STOOK_CACHE_RANDOM : 0;
    if (more & 2) /* links where they would not be by themselves, or would */
        args.flags |= more & 4 && !made->built ? STOOK_CACHE_LINK_INSIDE : STOOK_CACHE_LINK_OUTSIDE;
    if (made->built) {
        args.ctor = ops_ctor;
        args.dtor = ops_dtor;
    }
    if (more >= 224 && made->built && !(kind & 128)) {
        made->stable = true;
        args.flags = (args.flags & ~STOOK_CACHE_LINK_INSIDE) | STOOK_CACHE_TYPESAFE;
    }
    how = ops_byte();
    args.flags |= how % 4 == 0 && !(args.flags & STOOK_CACHE_NOSHEAF) ? STOOK_CACHE_ADAPTIVE : 0;
    args.flags |= how & 4 ? STOOK_CACHE_ACCOUNT : 0;
    if (how >= 208)
        args.flags |= ops_debug_flags();
#ifdef STOOK_CORE
    args.flags &= ~(unsigned)(STOOK_CACHE_ACCOUNT | STOOK_CACHE_TYPESAFE | CACHE_DEBUG);
    made->stable = false;
#endif
    made->cache = stook_cache_create("property", size, kind & 128 ? NULL : &args);
    if (!made->cache)
        fprintf(stderr, "ops: no cache of %u bytes, align %zu, flags %x, capacity %u: %s\n", size,
                args.align, args.flags, args.sheaf_capacity, strerror(errno));
    OPS_CHECK(made->cache);
    made->charged = args.flags & STOOK_CACHE_ACCOUNT && !(kind & 128);
    made->loose = cache_capacity(made->cache) == 0;
    made->built = made->built && !(kind & 128);
    made->size = size;
    made->align = kind & 128                         ? (size >= 16 ? 16 : 8)
                  : args.flags & STOOK_CACHE_HWALIGN ? (args.align > 64 ? args.align : 64)
                  : args.align                       ? args.align
                                                     : (size >= 16 ? 16 : 8);
    if ((more & 0x18) == 0x18) {
        made->counted = true;
        OPS_CHECK(stook_cache_stat_enable(made->cache, STOOK_STATS_ALL) == 0);
    }
    OPS_CHECK(stook_cache_object_size(made->cache) == size);
}

static void ops_capacity_step(unsigned cache)
{
    struct ops_made *made = &ops.made[cache];
    unsigned capacity = ops_byte() % 4 ? ops_below(STOOK_SHEAF_CAPACITY_MAX + 2) : 0;
    int result = OPS_CALL(stook_cache_set_capacity(made->cache, capacity));

    if (capacity > STOOK_SHEAF_CAPACITY_MAX) {
        OPS_CHECK(result == -1 && errno == E2BIG);
    } else if (made->loose) {
        OPS_CHECK(result == -1 && errno == ENOTSUP && cache_capacity(made->cache) == 0);
    } else {
        OPS_CHECK(result == 0);
        OPS_CHECK(cache_capacity(made->cache) > 0);
        ops.counts->capacities++;
    }
}

static int ops_destroy_quietly(struct stook_cache *cache)
{
    int saved = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY), r, error;

    dup2(null, STDERR_FILENO);
    r = stook_cache_destroy(cache);
    error = errno;
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(null);
    errno = error;
    return r;
}

static void ops_destroy(unsigned cache)
{
    struct ops_made *made = &ops.made[cache];

    stook_rcu_barrier();
    ops_end_deferred(); /* what is deferred does not keep a cache */
    if (made->pools > 0)
        return; /* a pool goes before its cache */
    if (made->out + made->sheaves > 0) {
        OPS_CHECK(ops_destroy_quietly(made->cache) == -1 && errno == EBUSY);
        return;
    }
    OPS_CHECK(stook_cache_destroy(made->cache) == 0);
    made->cache = NULL;
    ops.counts->destroyed++;
}

/* Whether there can be memory of that node, or near it. */
static bool ops_has_node(int node, unsigned flags)
{
    if (node < 0)
        return true;
    if ((unsigned)node >= topology.nodes || !(topology.online_nodes >> node & 1))
        return false;
    return !(flags & STOOK_THISNODE) || topology.home_of_node[node] == (unsigned)node;
}

static void ops_alloc(unsigned cache)
{
    unsigned flags = ops_flags(ops_byte() & (STOOK_NORECLAIM | STOOK_SIGNAL_SAFE | STOOK_ZERO));
    struct ops_made *made = &ops.made[cache];
    void *object;
    bool named = made->charged && ops_byte() % 4 == 0;
    struct stook_group group = named ? ops_group() : ops.inside;
    int node;

    if (!ops_room(cache, 1))
        return;
    /* What such a call takes of the wrong node and gives back is counted too. */
    node = !made->counted && !named && ops_byte() % 4 == 0 ? (int)ops_below(topology.nodes + 2) - 1
                                                           : -1;
    if (node >= 0)
        flags |= ops_byte() % 2 ? STOOK_THISNODE : 0;
    errno = 0;
    if (named)
        object = OPS_BRING(1, alloc_with_group(made->cache, flags, group));
    else if (node < 0)
        object = OPS_BRING(1, stook_alloc(made->cache, flags));
    else
        object = OPS_BRING(1, alloc_with_node(made->cache, flags, node));
    if (made->built && (flags & STOOK_ZERO)) {
        OPS_CHECK(!object && errno == EINVAL);
        ops.counts->refused++;
        return;
    }
    if (!object) { /* only a handler that interrupted a call, and where there is no such memory */
        OPS_CHECK(ops_has_node(node, flags) ? ops.depth > 0 && errno == ENOMEM
                                            : errno == EINVAL || errno == ENOMEM);
        ops.counts->refused++;
        return;
    }
    OPS_CHECK(ops_has_node(node, flags));
    /* Memory is plenty: it is of that node, but where a handler could not get at it. */
    OPS_CHECK(node < 0 || pagemap_node(object) == topology.home_of_node[node] ||
              (ops.depth > 0 && !(flags & STOOK_THISNODE)));
    ops.counts->of_node += node >= 0;
    OPS_CHECK(!made->charged || stook_group_of(object).id == group.id);
    ops.counts->charged += made->charged && group.id;
    made->taken++;
    ops_got(cache, object, flags & STOOK_ZERO, 0);
}

static void ops_free(bool any)
{
    size_t at = ops_any();
    unsigned cache;
    void *object;

    if (at == ops.n)
        return;
    errno = 4711;
    if (ops.held[at].pool) {
        ops_pool_free(at);
    } else {
        cache = ops.held[at].cache;
        object = ops_lose(at);
        ops.made[cache].given++;
        if (any)
            OPS_DO(stook_free_any(object));
        else
            OPS_DO(stook_free(ops.made[cache].cache, object));
    }
    OPS_CHECK(errno == 4711);
}

static void ops_alloc_bulk(unsigned cache)
{
    void *objects[OPS_BULK];
    struct ops_made *made = &ops.made[cache];
    unsigned n = ops_below(ops.depth ? 60 : OPS_BULK + 1), got;
    bool zero = !made->built && ops_byte() % 4 == 0;

    if (!ops_room(cache, n))
        return;
    got = (unsigned)OPS_BRING(
        n,
        stook_alloc_bulk(made->cache, ops_flags(zero ? STOOK_ZERO : 0), n, objects) == 0 ? n : 0);
    OPS_CHECK(got == n || (got == 0 && ops.depth > 0 && errno == ENOMEM));
    made->taken += got;
    for (unsigned i = 0; i < got; i++)
        ops_got(cache, objects[i], zero, 0);
}

/* Some of one cache's objects, shuffled by the bytes or in order, with NULLs between. */
static void ops_free_bulk(unsigned cache)
{
    void *objects[OPS_BULK];
    unsigned n = ops_below(ops.depth ? 60 : OPS_BULK), got = 0, step = 1 + ops_byte() % 7;
    unsigned shuffle = ops_byte();

    for (size_t i = ops.n; i > 0 && got + 1 < n;) {
        i = i > step ? i - step : 0;
        if (i < ops.n && ops.held[i].cache == cache && !ops.held[i].pool && !ops.held[i].deferred) {
            objects[got++] = ops_lose(i);
            ops.made[cache].given++;
            if (got % 5 == 0 && got + 1 < n)
                objects[got++] = NULL;
        }
    }
    for (unsigned i = 0; i + 1 < got && shuffle % 2; i++) {
        unsigned k = i + (shuffle = shuffle * 75 + 74) % (got - i);
        void *object = objects[i];
        objects[i] = objects[k];
        objects[k] = object;
    }
    OPS_DO(stook_free_bulk(ops.made[cache].cache, got, objects));
}

/* ---- where this thread is ------------------------------------------------------------------- */

static void ops_move_really(unsigned cpu)
{
    static cpu_set_t all;
    cpu_set_t one;

    if (CPU_COUNT(&all) == 0)
        sched_getaffinity(0, sizeof(all), &all);
    for (unsigned i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET((i + cpu) % CPU_SETSIZE, &all))
            continue;
        CPU_ZERO(&one);
        CPU_SET((i + cpu) % CPU_SETSIZE, &one);
        sched_setaffinity(0, sizeof(one), &one);
        break;
    }
}

static void ops_move(void)
{
    unsigned cpu = ops_byte();

    if (!topology.simulated) {
        ops_move_really(cpu);
        return;
    }
    cpu %= topology.cpus;
    while (!topology_has_cpu(&topology, cpu))
        cpu = (cpu + 1) % topology.cpus;
    OPS_CHECK(stook_topology_cpu((int)cpu) >= -1);
    ops.counts->moved++;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static unsigned ops_some_cache(void)
{
    unsigned cache = ops_byte() % OPS_CACHES;

    for (unsigned i = 0; i < OPS_CACHES; i++, cache = (cache + 1) % OPS_CACHES)
        if (ops.made[cache].cache)
            return cache;
    return OPS_CACHES;
}

/* What a handler may do, wherever it interrupted what else. */
void ops_handler_step(void)
{
    unsigned op = ops_byte(), cache = ops_some_cache();

    if (cache == OPS_CACHES)
        return;
    if (op < 70)
        ops_alloc(cache);
    else if (op < 140)
        ops_free(op & 1);
    else if (op < 160)
        ops_alloc_bulk(cache);
    else if (op < 180)
        ops_free_bulk(cache);
    else if (op < 205)
        ops_sheaf_step(cache);
    else if (op < 230)
        ops_pool_step(cache);
    else
        ops_free_rcu_step();
}

static void ops_step(void)
{
    unsigned op = ops_byte(), cache;

    if (op % 8 == 0 && topology.simulated)
        ops_move();
    cache = ops_some_cache();
    if (op < 12 || cache == OPS_CACHES) {
        ops_create();
        return;
    }
    if (op < 88)
        ops_alloc(cache);
    else if (op < 160)
        ops_free(op & 1);
    else if (op < 178)
        ops_alloc_bulk(cache);
    else if (op < 200)
        ops_free_bulk(cache);
    else if (op < 212)
        ops_sheaf_step(cache);
    else if (op < 222)
        ops_pool_step(cache);
    else if (op < 231)
        ops_free_rcu_step();
    else if (op < 235)
        ops_grace();
    else if (op < 237)
        stook_rcu_barrier();
    else if (op < 240)
        OPS_DO((void)stook_cache_shrink(ops.made[cache].cache));
    else if (op < 243)
        ops_capacity_step(cache);
    else if (op < 245)
        ops_group_enter();
    else if (op < 246)
        ops_tags_step(cache);
    else if (op < 251)
        ops_destroy(cache);
    else
        ops_move();
}

static void ops_end(void)
{
    for (unsigned i = 0; i < OPS_SHEAVES; i++)
        if (ops.sheaf[i].sheaf)
            ops_sheaf_return(i);
    while (ops.n > 0) {
        unsigned cache = ops.held[ops.n / 2].cache;
        if (ops.held[ops.n / 2].pool)
            ops_pool_free(ops.n / 2);
        else
            stook_free(ops.made[cache].cache, (ops.made[cache].given++, ops_lose(ops.n / 2)));
    }
    for (unsigned i = 0; i < OPS_POOLS; i++)
        if (ops.pool[i].pool)
            ops_pool_destroy(i);
    ops_check_all();
    for (unsigned i = 0; i < OPS_CACHES; i++)
        if (ops.made[i].cache)
            ops_destroy(i);
    for (unsigned i = 0; i < OPS_CACHES; i++)
        OPS_CHECK(!ops.made[i].cache);
    ops_check_all();
    ops_groups_end();
}

void ops_run(const uint8_t *bytes, size_t n, unsigned every, struct ops_counts *counts)
{
    memset(&ops, 0, sizeof(ops));
    memset(counts, 0, sizeof(*counts));
    ops.at = bytes;
    ops.end = bytes + n;
    ops.counts = counts;
    ops_rcu_use();
    ops_context_use();
    ops_groups_make();
    while (ops.at < ops.end) {
        ops_step();
        ops_check_step();
        OPS_CHECK(context_tls.depth == 0);
        if (++counts->steps % every == 0)
            ops_check_all();
    }
    stook_rcu_barrier();
    ops_end_deferred();
    ops_end();
}

void ops_add(struct ops_counts *sum, const struct ops_counts *more)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)more;

    for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
        to[i] += from[i];
}

void ops_print(const struct ops_counts *c)
{
    printf(
        "%llu steps: %llu allocated, %llu freed, %llu deferred, %llu refused, %llu of a given node, %llu "
        "charged; %llu caches, %llu capacities, %llu sheaves, %llu pools; %llu moves; %llu handlers, "
        "%llu inside, %llu nested; %llu checks\n",
        (unsigned long long)c->steps, (unsigned long long)c->allocated,
        (unsigned long long)c->freed, (unsigned long long)c->deferred,
        (unsigned long long)c->refused, (unsigned long long)c->of_node,
        (unsigned long long)c->charged, (unsigned long long)c->destroyed,
        (unsigned long long)c->capacities, (unsigned long long)c->sheaves,
        (unsigned long long)c->pools, (unsigned long long)c->moved, (unsigned long long)c->handled,
        (unsigned long long)c->inside, (unsigned long long)c->nested,
        (unsigned long long)c->checked);
}
