/* SPDX-License-Identifier: MIT */
/*
 * Prefilled sheaves, pools and deferred frees for ops.c; and an RCU whose grace periods end when the
 * bytes say so.
 */
#include "support/ops_model.h"

#include <stook/reserve.h>
#include <stook/rcu.h>

#include <stdatomic.h>

/* ---- an RCU --------------------------------------------------------------------------------- */

/* A stack without a lock: handlers push too. */
static _Atomic(struct stook_rcu_head *) ops_queue;

static void ops_rcu_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    struct stook_rcu_head *next = atomic_load(&ops_queue);

    head->func = func;
    do
        head->next = next;
    while (!atomic_compare_exchange_weak(&ops_queue, &next, head));
}

/* A grace period is over: of what was called before. */
void ops_grace(void)
{
    struct stook_rcu_head *head, *next;

    ops_end_deferred();
    head = atomic_exchange(&ops_queue, NULL);
    for (; head; head = next) {
        next = head->next;
        head->func(head);
    }
}

static void ops_rcu_barrier(void)
{
    while (atomic_load(&ops_queue)) /* what comes back may call again */
        ops_grace();
}

static int ops_rcu_reading(void)
{
    return ops.depth > 0; /* a handler does not wait */
}

void ops_rcu_use(void)
{
    static const struct stook_rcu_ops rcu = {sizeof(rcu), ops_rcu_call, ops_rcu_barrier,
                                             ops_end_deferred, ops_rcu_reading};

    OPS_CHECK(stook_rcu_set_ops(&rcu) == 0);
}

void ops_free_rcu_step(void)
{
    for (unsigned n = 1 + ops_byte() % 40; n > 0; n--) {
        size_t at = ops_any();
        struct stook_cache *cache;
        void *object;
        if (at == ops.n || ops.held[at].pool || ops.made[ops.held[at].cache].counted)
            return;
        cache = ops.made[ops.held[at].cache].cache;
        object = ops_defer(at);
        OPS_DO(stook_free_rcu(cache, object));
    }
}

/* ---- prefilled sheaves ---------------------------------------------------------------------- */

static void ops_sheaf_prefill(struct ops_sheaf *s, unsigned cache)
{
    struct ops_made *made = &ops.made[cache];
    unsigned flags = ops_flags(ops_byte() & (STOOK_NORECLAIM | STOOK_SIGNAL_SAFE));
    unsigned size = 1 + ops_below(ops_byte() % 4 ? 40 : 900);
    struct stook_sheaf *sheaf;

    if (made->counted || ops.bytes + size * made->size > OPS_BYTES)
        return;
    s->busy = true;
    sheaf = OPS_CALL(stook_sheaf_prefill(made->cache, flags, size));
    s->busy = false;
    if (!sheaf) {
        OPS_CHECK(ops.depth > 0 && errno == ENOMEM);
        ops.counts->refused++;
        return;
    }
    *s = (struct ops_sheaf){cache, false, sheaf, stook_sheaf_size(sheaf)};
    OPS_CHECK(s->size >= size);
    made->sheaves++;
    ops.counts->sheaves++;
}

static void ops_sheaf_refill(struct ops_sheaf *s)
{
    struct ops_made *made = &ops.made[s->cache];
    unsigned size = 1 + ops_below(ops_byte() % 4 ? 40 : 900), had = s->size;
    int result;

    if (ops.bytes + size * made->size > OPS_BYTES)
        return;
    s->busy = true;
    result = OPS_CALL(stook_sheaf_refill(made->cache, ops_flags(0), &s->sheaf, size));
    s->busy = false;
    s->size = stook_sheaf_size(s->sheaf);
    OPS_CHECK(result == 0 ? s->size >= size && s->size >= had
                          : ops.depth > 0 && errno == ENOMEM && s->size == had);
}

static void ops_sheaf_alloc(struct ops_sheaf *s)
{
    for (unsigned n = 1 + ops_byte() % 30; n > 0 && ops_room(s->cache, 1); n--) {
        struct ops_made *made = &ops.made[s->cache];
        bool zero = !made->built && ops_byte() % 4 == 0;
        void *object;
        s->busy = true;
        object = OPS_BRING(
            1, stook_sheaf_alloc(made->cache, ops_flags(zero ? STOOK_ZERO : 0), s->sheaf));
        s->busy = false;
        OPS_CHECK((object != NULL) == (s->size > 0));
        if (!object)
            return;
        s->size--;
        ops_got(s->cache, object, zero, 0);
    }
}

void ops_sheaf_return(unsigned sheaf)
{
    struct ops_sheaf s = ops.sheaf[sheaf];

    ops.sheaf[sheaf].sheaf = NULL;
    ops.made[s.cache].sheaves--;
    OPS_DO(stook_sheaf_return(ops.made[s.cache].cache, s.sheaf));
}

void ops_sheaf_step(unsigned cache)
{
    unsigned i = ops_byte() % OPS_SHEAVES;

    if (ops.sheaf[i].busy)
        return;
    if (!ops.sheaf[i].sheaf) {
        ops_sheaf_prefill(&ops.sheaf[i], cache);
        return;
    }
    switch (ops_byte() % 4) {
    case 0:
        ops_sheaf_refill(&ops.sheaf[i]);
        break;
    case 1:
    case 2:
        ops_sheaf_alloc(&ops.sheaf[i]);
        break;
    default:
        ops_sheaf_return(i);
    }
}

/* ---- pools ---------------------------------------------------------------------------------- */

static void ops_pool_make(struct ops_pool *p, unsigned cache)
{
    struct ops_made *made = &ops.made[cache];
    unsigned min = ops_below(60);

    if (ops.depth > 0 || made->counted || ops.bytes + min * made->size > OPS_BYTES)
        return;
    *p = (struct ops_pool){cache, stook_pool_create(made->cache, min), min, 0};
    OPS_CHECK(p->pool && stook_pool_available(p->pool) == min);
    made->pools++;
    ops.counts->pools++;
}

void ops_pool_destroy(unsigned pool)
{
    struct ops_pool p = ops.pool[pool];

    ops.pool[pool].pool = NULL;
    ops.made[p.cache].pools--;
    OPS_CHECK(stook_pool_destroy(p.pool) == 0);
}

void ops_pool_free(size_t at)
{
    struct ops_pool *p = &ops.pool[ops.held[at].pool - 1];
    void *object = ops_lose(at);

    p->out--;
    OPS_DO(stook_pool_free(p->pool, object));
}

static void ops_pool_alloc(unsigned pool)
{
    struct ops_pool *p = &ops.pool[pool];
    struct ops_made *made = &ops.made[p->cache];

    for (unsigned n = 1 + ops_byte() % 30; n > 0 && ops_room(p->cache, 1); n--) {
        unsigned flags = ops_byte() & (STOOK_NORECLAIM | STOOK_SIGNAL_SAFE | STOOK_ZERO);
        void *object;
        if (made->built)
            flags &= ~STOOK_ZERO;
        flags = ops_flags(flags);
        object = OPS_BRING(1, stook_pool_alloc(p->pool, flags, NULL));
        if (!object) {
            OPS_CHECK(ops.depth > 0 && errno == ENOMEM);
            ops.counts->refused++;
            return;
        }
        p->out++;
        ops_got(p->cache, object, flags & STOOK_ZERO, pool + 1);
    }
}

void ops_pool_step(unsigned cache)
{
    unsigned i = ops_byte() % OPS_POOLS, what = ops_byte();
    struct ops_pool *p = &ops.pool[i];

    if (!p->pool) {
        ops_pool_make(p, cache);
    } else if (what < 200 || ops.depth > 0) {
        ops_pool_alloc(i);
    } else if (what < 240) {
        p->min = ops_below(100);
        OPS_DO((void)stook_pool_resize(p->pool, p->min));
        OPS_CHECK(ops.bytes > OPS_BYTES || stook_pool_available(p->pool) <= p->min);
    } else if (p->out == 0) {
        ops_pool_destroy(i);
    }
}
