/* SPDX-License-Identifier: MIT */
/* needs: native whole */
/*
 * Errors that the call itself reports, and not a later one.  They are frees, by every call, of a pointer that is no object
 * of the cache, and questions for the size of a free object.  Caches with debug flags, a quarantine, zeros on free or
 * accounting report them, and those without sheaves; in locked mode all do.  A refused call changes nothing.
 */
#include "debug/report.h"
#include "base/settings.h"
#include "percpu/percpu.h"
#include "reserve/pool.h"
#include "support/make.h"
#include "support/must.h"
#include "support/test.h"

#include <stook/debug.h>
#include <stook/inline.h>
#include <stook/kmem.h>
#include <stook/reserve.h>
#include <stook/rcu.h>

enum { SMALL = 48, BIG = 1024, BULK = 40, MANY = 600 };

static struct stook_cache *small, *same, *big;
static struct stook_pool *filled, *lacking; /* of big: a full reserve, and one with room */
static mempool_t *mempool;                  /* with room */
static void *bulk[BULK];                    /* big's, to be freed with the wrong one among them */

static void rcu_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    func(head);
}

static void rcu_nothing(void)
{
}

/* ---- the calls and the pointers ------------------------------------------------------------- */

static void by_free(void *p)
{
    stook_free(big, p);
}
static void by_free_inline(void *p)
{
    stook_free_inline(big, p);
}
static void by_bulk_of_one(void *p)
{
    stook_free_bulk(big, 1, &p);
}
static void by_bulk(void *p)
{
    if (stook_alloc_bulk(big, 0, BULK - 1, bulk) != 0)
        abort();
    bulk[BULK - 1] = bulk[7];
    bulk[7] = p;
    stook_free_bulk(big, BULK, bulk);
}
static void by_kmem_free(void *p)
{
    kmem_cache_free((struct kmem_cache *)(void *)big, p);
}
static void by_kmem_bulk(void *p)
{
    kmem_cache_free_bulk((struct kmem_cache *)(void *)big, 1, &p);
}
static void by_pool(void *p)
{
    stook_pool_free(filled, p);
}
static void by_pool_that_lacks(void *p)
{
    stook_pool_free(lacking, p);
}
static void by_mempool(void *p)
{
    mempool_free(p, mempool);
}
static void by_rcu(void *p)
{
    stook_free_rcu(big, p);
}

static const struct {
    const char *name;
    void (*free)(void *p);
    bool always; /* also by a cache that takes others unseen */
} calls[] = {
    {"stook_free", by_free, false},
    {"stook_free_inline", by_free_inline, false},
    {"stook_free_bulk of one", by_bulk_of_one, false},
    {"stook_free_bulk", by_bulk, false},
    {"kmem_cache_free", by_kmem_free, false},
    {"kmem_cache_free_bulk", by_kmem_bulk, false},
    {"stook_pool_free", by_pool, false},
    {"stook_pool_free to a reserve that lacks one", by_pool_that_lacks, true},
    {"mempool_free to a reserve that lacks one", by_mempool, true},
    {"stook_free_rcu", by_rcu, false},
};

static void *wrong[7];

static void make_all(unsigned flags)
{
    static const struct stook_rcu_ops ops = {
        .size = sizeof(ops), .call = rcu_call, .barrier = rcu_nothing, .synchronize = rcu_nothing};
    static char nothing[64];

    small = make("small", SMALL, flags);
    same = make("same", BIG, flags);
    big = make("big", BIG, flags);
    stook_free(big, stook_alloc(big, 0)); /* where it has sheaves, there is one */
    filled = stook_pool_create(big, 2);
    lacking = stook_pool_create(big, 2);
    mempool = mempool_create_slab_pool(2, (struct kmem_cache *)(void *)big);
    if (stook_rcu_set_ops(&ops) != 0 || !filled || !lacking || !mempool ||
        !mempool_alloc_preallocated(mempool))
        abort();
    atomic_store(&lacking->min, 3);
    wrong[0] = stook_alloc(small, 0);
    wrong[1] = stook_alloc(same, 0);
    wrong[2] = stook_kmalloc(BIG, 0);
    wrong[3] = stook_kmalloc(100000, 0);
    wrong[4] = (char *)stook_alloc(big, 0) + 64;
    wrong[5] = nothing;
    wrong[6] = big; /* the library's own */
}

static int wrong_frees(void *flags)
{
    bool checks = *(unsigned *)flags != 0 || !percpu.rseq;

    make_all(*(unsigned *)flags);
    for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++)
        for (size_t w = 0; w < 7 && (checks || calls[c].always); w++) {
            unsigned long before = debug_reports();
            void *volatile pointer = wrong[w];
            calls[c].free(pointer);
            if (debug_reports() == before + 1)
                continue;
            fprintf(stderr, "%s, pointer %zu: %lu reports\n", calls[c].name, w,
                    debug_reports() - before);
            return 1;
        }
    for (unsigned i = 0; i < MANY; i++) {
        void *object = stook_alloc(big, 0);
        for (size_t w = 0; w < 7; w++)
            MUST(object && object != wrong[w]);
    }
    return 0;
}

/* A second free, and the sizes of what is free and of what lies inside. */
static int sizes(void *flags)
{
    unsigned long before = debug_reports();
    char *object, *volatile again;

    if (!(*(unsigned *)flags & (STOOK_CACHE_DEBUG_CHECKS | STOOK_CACHE_QUARANTINE)))
        return 0;
    make_all(*(unsigned *)flags);
    object = again = stook_alloc(big, 0);
    MUST(stook_usable_size(object) == BIG && debug_reports() == before);
    MUST(stook_usable_size(object + 8) == 0 && debug_reports() == before + 1);
    stook_free(big, object);
    MUST(stook_usable_size(again) == 0 && debug_reports() == before + 2);
    MUST(!stook_krealloc(again, 100, 0) && debug_reports() == before + 3);
    object = again = mempool_alloc_preallocated(mempool);
    mempool_free(object, mempool);
    MUST(stook_usable_size(again) == 0 && debug_reports() == before + 4);
    mempool_free(again, mempool);
    MUST(debug_reports() == before + 5);
    object = mempool_alloc_preallocated(mempool);
    MUST(object == again && !mempool_alloc_preallocated(mempool));
    mempool_free(object, mempool);
    again[5] ^= 1;
    MUST(mempool_alloc_preallocated(mempool) == again);
    before += (*(unsigned *)flags & (STOOK_CACHE_DEBUG_POISON | STOOK_CACHE_QUARANTINE)) != 0;
    MUST(debug_reports() == before + 5);
    return 0;
}

/* What usable size says may be written without a report, whatever was asked for in between. */
static int usable(void *flags)
{
    unsigned debug = *(unsigned *)flags & STOOK_CACHE_DEBUG_CHECKS ? STOOK_CACHE_DEBUG_RED_ZONE : 0;
    unsigned long before = debug_reports();

    for (size_t size = 8; size < 3000; size = size * 2 + 3) {
        struct stook_cache *cache = make("odd", size, *(unsigned *)flags | debug);
        char *object = stook_alloc(cache, STOOK_ZERO);
        MUST(object);
        memset(object, 1, stook_usable_size(object));
        object = stook_krealloc(object, size / 2, STOOK_ZERO);
        MUST(stook_cache_of(object) == cache && stook_usable_size(object) >= size);
        for (size_t i = size / 2; i < stook_usable_size(object); i++)
            MUST(object[i] == 0);
        memset(object, 2, stook_usable_size(object));
        object = stook_krealloc(object, size - 1, 0);
        MUST(stook_cache_of(object) == cache);
        memset(object, 3, stook_usable_size(object));
        stook_free(cache, object);
        MUST(stook_cache_validate(cache) == 0 && stook_cache_destroy(cache) == 0);
    }
    MUST(debug_reports() == before);
    return 0;
}

/* ---- each in a child ------------------------------------------------------------------------ */

static struct {
    int (*body)(void *flags);
    unsigned flags;
} kind;

static int run(void *unused)
{
    char *environment[] = {(char *)(uintptr_t) "STOOK_ON_CORRUPTION=continue", NULL};

    settings_read(environment, false);
    return kind.body(&kind.flags);
}

TEST(each)
{
    static const unsigned flags[] = {0,
                                     STOOK_CACHE_NOSHEAF,
                                     STOOK_CACHE_ACCOUNT,
                                     STOOK_CACHE_DEBUG_CHECKS,
                                     STOOK_CACHE_DEBUG_CHECKS | STOOK_CACHE_DEBUG_RED_ZONE |
                                         STOOK_CACHE_DEBUG_POISON | STOOK_CACHE_DEBUG_USER,
                                     STOOK_CACHE_ZERO_ON_FREE,
                                     STOOK_CACHE_QUARANTINE,
                                     STOOK_CACHE_QUARANTINE | STOOK_CACHE_ZERO_ON_FREE};
    static int (*const bodies[])(void *) = {wrong_frees, sizes, usable};
    static struct child child;
    unsigned failed = 0;

    for (size_t b = 0; b < sizeof(bodies) / sizeof(bodies[0]); b++)
        for (size_t f = 0; f < sizeof(flags) / sizeof(flags[0]); f++) {
            kind.body = bodies[b];
            kind.flags = flags[f];
            child_run(&child, run, NULL);
            if (child_passed(&child))
                continue;
            printf("body %zu, flags %#x\n", b, kind.flags);
            failed++;
        }
    assert_int_equal(failed, 0);
}
