/* SPDX-License-Identifier: MIT */
/*
 * kmalloc.c - stook_kmalloc() and its family: size classes over caches, whole pages above.  The plain and the
 * charged set of classes are made by the first call that wants them.
 */
#include <stook/inline.h>
#include <stook/kmalloc.h>

#include "base/context.h"
#include "base/report.h"
#include "charge/accounted.h"
#include "charge/group.h"
#include "debug/object.h"
#include "kmalloc/classes.h"
#include "kmalloc/kmalloc.h"
#include "base/init.h"
#include "base/raw.h"
#include "kmalloc/private.h"
#include "kmalloc/sampled.h"
#include "observe/observe.h"
#include "cache/cache_list.h"
#include "cache/reclaim.h"
#include "percpu/percpu.h"
#include "os/topology.h"
#include "large/large.h"
#include "slab/node.h"
#include "slab/slab.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

enum {
    KMALLOC_NAPS = 6,      /* doublings of the first nap */
    KMALLOC_NAP = 1000000, /* nanoseconds */
    KMALLOC_LINE = 64,
};

/* Caches of kmalloc's sizes; all are there once `made`. */
struct kmalloc_set {
    const char *prefix; /* of their names */
    unsigned flags;
    atomic_bool made;
    _Atomic(struct stook_cache *) cache[KMALLOC_CLASSES];
};
/* stook_kmalloc()'s; and one whose objects are charged to groups, for STOOK_ACCOUNT. */
static struct kmalloc_set kmalloc_plain = {.prefix = "kmalloc"};
static struct kmalloc_set kmalloc_charged = {.prefix = "kmalloc-cg", .flags = STOOK_CACHE_ACCOUNT};

/* The plain set for the fast path; NULL where each allocation is counted (kmalloc/sampled.h). */
static _Atomic(struct stook_cache *) kmalloc_open[KMALLOC_CLASSES];

static void kmalloc_show(void)
{
    bool counted;

    do {
        counted = account_sampled();
        for (unsigned i = 0; i < KMALLOC_CLASSES; i++)
            atomic_store(&kmalloc_open[i], counted ? NULL : atomic_load(&kmalloc_plain.cache[i]));
    } while (counted != account_sampled()); /* by another thread, which may have stored before */
}

void stook_kmalloc_doors(void)
{
    context_enter();
    lock_take(&cache_list.lock, LOCK_CACHES);
    observe_changed();
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    kmalloc_show();
}

/* ---- sets of caches ------------------------------------------------------------------------- */

/* "kmalloc" and class 9: "kmalloc-1k". */
static struct stook_cache *kmalloc_make_cache(const struct kmalloc_set *set, unsigned class)
{
    const struct stook_cache_args args = {
        .size = sizeof(args),
        .align = kmalloc_classes[class].align,
        .flags = set->flags | CACHE_SIZED,
    };
    size_t head = strlen(set->prefix);
    char name[STOOK_NAME_MAX + 1];

    memcpy(name, set->prefix, head);
    strcpy(name + head, kmalloc_classes[class].name);
    return private_cache(name, kmalloc_classes[class].size, &args, true);
}

static bool kmalloc_fill_set(struct kmalloc_set *set)
{
    for (unsigned i = 0; i < KMALLOC_CLASSES; i++) {
        struct stook_cache *none = NULL, *cache;
        /* Acquire: a thread that sees this thread's `made` also sees the cache of another thread. */
        if (atomic_load_explicit(&set->cache[i], memory_order_acquire))
            continue;
        cache = kmalloc_make_cache(set, i);
        if (!cache)
            return false;
        if (!atomic_compare_exchange_strong(&set->cache[i], &none, cache))
            (void)stook_cache_destroy(cache);
    }
    /* Pairs with the acquire in kmalloc_once(). */
    atomic_store_explicit(&set->made, true, memory_order_release);
    return true;
}

/*
 * All classes at once, so that handlers find them later.  Of two threads that make the same class the
 * second destroys its own, and a fork in the middle leaves nothing that is waited for.  Not beside a
 * fork, which has the locks that creating takes: ENOMEM.
 */
static __attribute__((noinline, cold)) bool kmalloc_make_set(struct kmalloc_set *set)
{
    int saved = errno;
    bool made;

    if (context_self()->depth > 0 || !lock_begin_blocking()) {
        errno = ENOMEM;
        return false;
    }
    made = kmalloc_fill_set(set);
    if (made && set == &kmalloc_plain)
        kmalloc_show();
    lock_end_blocking();
    if (made)
        errno = saved;
    return made;
}

/* ---- whole pages ---------------------------------------------------------------------------- */

struct kmalloc_large {
    size_t size, align;
    int node; /* -1: any */
    bool nested, zeroed;
    void *object;
};

static size_t kmalloc_large_align(size_t size)
{
    if (size & (size - 1))
        return PAGE_SIZE;
    return size < BLOCK_SIZE ? size : BLOCK_SIZE;
}

/* Within the context. */
static bool kmalloc_large_try(void *arg)
{
    struct kmalloc_large *large = arg;

    large->object = large->node < 0
                        ? large_alloc_any(large->size, large->align, large->nested, &large->zeroed)
                        : large_alloc((unsigned)large->node, large->size, large->align,
                                      large->nested, &large->zeroed);
    return large->object != NULL;
}

static __attribute__((noinline, cold)) void *kmalloc_large_refused(void *object)
{
    int error = errno;

    (void)large_free(object);
    errno = error;
    return NULL;
}

void *stook_kmalloc_large(size_t size, unsigned flags, int node, uint64_t where, uint32_t owner)
{
    struct kmalloc_large large = {
        .size = observe_large_wanted(size), .align = kmalloc_large_align(size), .node = node};
    int saved = errno;

    if (flags & ~(STOOK_NORECLAIM | STOOK_SIGNAL_SAFE | STOOK_ZERO)) {
        errno = EINVAL;
        return NULL;
    }
    if (large.size == size &&
        size <= PTRDIFF_MAX) /* all that stook_kmalloc_size() says may be used */
        large.size = stook_kmalloc_size(size);
    if (size > PTRDIFF_MAX || (flags & STOOK_SIGNAL_SAFE) || !init_once()) {
        errno = ENOMEM;
        return NULL;
    }
    large.nested = context_enter();
    (void)kmalloc_large_try(&large);
    context_leave();
    if (!large.object && reclaim_may(flags, large.nested) &&
        reclaim_until(kmalloc_plain.cache[KMALLOC_CLASSES - 1], size, kmalloc_large_try, &large))
        errno = saved;
    if (owner == ACCOUNT_CURRENT)
        owner = group_current();
    if (large.object && (flags & STOOK_ZERO) && !large.zeroed)
        memset(large.object, 0, large_size(large.object));
    if (large.object &&
        !observe_large(large.object, size, owner, flags, where)) /* refuses an owner only */
        return kmalloc_large_refused(large.object);
    return large.object;
}

/* ---- take ----------------------------------------------------------------------------------- */

/* An object of a cache of a class, of which `size` bytes are asked for. */
static void *kmalloc_cached(struct stook_cache *cache, size_t size, unsigned flags, uint64_t where,
                            uint32_t owner)
{
    struct debug_asks before;
    void *object;

    /* Beside a fork there is memory as long as there are mappings: no reclaim, which would wait. */
    if (lock_forked())
        flags |= STOOK_NORECLAIM;
    if (__builtin_expect(!(cache->flags & (CACHE_DEBUG | STOOK_CACHE_QUARANTINE)), 1))
        return accounted_alloc(cache, flags, where, owner);
    before = debug_ask((struct debug_asks){size, DEBUG_CALL_ANY, NULL});
    object = accounted_alloc(cache, flags, where, owner);
    (void)debug_ask(before);
    return object;
}

static void *kmalloc_once(struct kmalloc_set *set, size_t size, unsigned flags, uint64_t where,
                          uint32_t owner)
{
    uint32_t turn = lock_turn();
    void *object = NULL;

    if (__builtin_expect(atomic_load_explicit(&set->made, memory_order_acquire), 1) ||
        kmalloc_make_set(set)) {
        struct stook_cache *cache;
        if (__builtin_expect(size > STOOK_KMALLOC_CACHE_MAX, 0))
            return stook_kmalloc_large(size, flags, -1, where,
                                       set == &kmalloc_charged ? owner : ACCOUNT_NOBODY);
        cache = atomic_load_explicit(&set->cache[kmalloc_class(size)], memory_order_relaxed);
        if (account_sampled() && set == &kmalloc_plain && !cache_hooks(cache) &&
            alloc_may(cache, flags) && !(flags & STOOK_SIGNAL_SAFE) &&
            (object = sampled_alloc(cache, size, 1, where, flags & STOOK_ZERO)) != NULL)
            return object;
        object = kmalloc_cached(cache, size, flags, where, owner);
        if (object && set != &kmalloc_plain) /* it stays apart from others: in no shadow cache */
            observe_count(cache, where);
    }
    if (__builtin_expect(!object, 0) && errno == ENOMEM && lock_forked_since(turn))
        object = stook_kmalloc_large(size, flags | STOOK_NORECLAIM, -1, where, ACCOUNT_NOBODY);
    return object;
}

/* Sleeps before try number `tries` (1, 2, ...): 1 to 64 ms. */
static void kmalloc_nap(unsigned tries)
{
    static _Atomic uint32_t unwoken;

    raw_wait(&unwoken, 0, (uint64_t)KMALLOC_NAP << (tries < KMALLOC_NAPS ? tries : KMALLOC_NAPS));
}

/* Of a caller that must not fail.  Beyond the limit of its group the object is charged to no group. */
static __attribute__((noinline, cold)) void *kmalloc_nofail(struct kmalloc_set *set, size_t size,
                                                            unsigned flags, uint64_t where)
{
    uint32_t owner = ACCOUNT_CURRENT;
    int saved = errno;
    void *object;

    /* No process has as many bytes, so the loop would not end. */
    if (size >> 47 != 0 || (flags & STOOK_SIGNAL_SAFE)) {
        errno = flags & STOOK_SIGNAL_SAFE ? EINVAL : ENOMEM;
        return NULL;
    }
    for (unsigned tries = 1; !(object = kmalloc_once(set, size, flags, where, owner)); tries++)
        if (errno == EINVAL)
            return NULL;
        else if (errno == EDQUOT && owner != ACCOUNT_NOBODY)
            owner = ACCOUNT_NOBODY;
        else
            kmalloc_nap(tries);
    errno = saved;
    return object;
}

static __attribute__((noinline, cold)) void *kmalloc_any(size_t size, unsigned flags,
                                                         uint64_t where)
{
    struct kmalloc_set *set = flags & STOOK_ACCOUNT ? &kmalloc_charged : &kmalloc_plain;

    flags &= ~STOOK_ACCOUNT;
    if (__builtin_expect(size == 0, 0))
        return STOOK_KMALLOC_NONE;
    if (__builtin_expect(flags & STOOK_NOFAIL, 0))
        return kmalloc_nofail(set, size, flags & ~STOOK_NOFAIL, where);
    return kmalloc_once(set, size, flags, where, ACCOUNT_CURRENT);
}

static inline __attribute__((always_inline)) bool kmalloc_fast(
    _Atomic(struct stook_cache *) *caches, size_t size, unsigned flags, void **object)
{
    /* A size of 0 is the largest here. */
    if (__builtin_expect(size - 1 < STOOK_KMALLOC_CACHE_MAX, 1) &&
        __builtin_expect((flags & ~(STOOK_NORECLAIM | STOOK_SIGNAL_SAFE)) == 0, 1)) {
        /* Acquire: its head. */
        const struct stook_cache *cache =
            atomic_load_explicit(&caches[kmalloc_class(size)], memory_order_acquire);
        return __builtin_expect(cache != NULL, 1) &&
               __builtin_expect(stook_rseq_pop(cache->head.slots, cache->head.rseq_offset, object),
                                1);
    }
    return false;
}

/*
 * Everything but "the class is made, and its main sheaf holds an object"; and that, too, where allocations are counted and
 * this one is no sample.
 */
static __attribute__((noinline, cold)) void *kmalloc_slow(size_t size, unsigned flags,
                                                          uint64_t where)
{
    void *object;

    if (account_sampled() && sample_left - 1 > (int64_t)size && !(flags & STOOK_SIGNAL_SAFE) &&
        kmalloc_fast(kmalloc_plain.cache, size, flags, &object)) {
        sample_left -= (int64_t)size + 1;
        return object;
    }
    return kmalloc_any(size, flags, where);
}

__attribute__((aligned(64))) void *stook_kmalloc(size_t size, unsigned flags)
{
    void *object;

    if (kmalloc_fast(kmalloc_open, size, flags, &object))
        return object;
    return kmalloc_slow(size, flags, where_address(__builtin_return_address(0)));
}

void *stook_kmalloc_from(size_t size, unsigned flags, uint64_t where)
{
    void *object;

    return kmalloc_fast(kmalloc_open, size, flags, &object) ? object
                                                            : kmalloc_slow(size, flags, where);
}

size_t stook_kmalloc_size(size_t size)
{
    size_t rounded;

    if (size == 0)
        return 0;
    if (size <= STOOK_KMALLOC_CACHE_MAX)
        return kmalloc_classes[kmalloc_class(size)].size;
    /* Above what a block's pages hold whole blocks are taken, as large_alloc() does. */
    rounded = size <= BLOCK_SIZE ? PAGE_SIZE : BLOCK_SIZE;
    return size > SIZE_MAX - rounded ? size : (size + rounded - 1) & ~(rounded - 1);
}

/* ---- give back ------------------------------------------------------------------------------ */

size_t stook_usable_size(const void *object)
{
    const struct stook_cache *cache;
    size_t size;

    if (kmalloc_is_none(object))
        return 0;
    cache = slab_user_cache(object);
    if (cache && !(cache->flags & CACHE_SHADOW) && !stook_private_live(object, "stook_usable_size"))
        return 0;
    if (cache)
        return observe_usable(cache, object);
    size = stook_private_large_size(object);
    if (size == 0)
        stook_private_bad_pointer("stook_usable_size", object);
    return size;
}

int stook_node_of(const void *object)
{
    if (slab_user_cache(object) || (pagemap_covers(object) && large_size(object) > 0))
        return (int)pagemap_node(object);
    errno = EINVAL;
    return -1;
}

static __attribute__((noinline, cold)) void kfree_slow(void *object)
{
    struct stook_cache *cache;

    if (kmalloc_is_none(object))
        return;
    cache = slab_user_cache(object);
    if (__builtin_expect(cache != NULL, 1))
        free_object(cache, object); /* the push was tried */
    else if (!stook_private_large_free(object))
        stook_private_bad_pointer("stook_free_any", object);
}

/* By way of the cache, whose calls may be counted: the page map alone would pass that by. */
__attribute__((aligned(64))) void stook_free_any(void *object)
{
    if (__builtin_expect(pagemap_is_low(object), 1)) {
        const struct stook_cache *cache = cache_table[pagemap_cache(*pagemap_at(object))];
        if (__builtin_expect(cache != NULL, 1) &&
            __builtin_expect(stook_rseq_push(cache->head.slots, cache->head.rseq_offset, object),
                             1))
            return;
    }
    kfree_slow(object);
}
