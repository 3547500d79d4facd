/* SPDX-License-Identifier: MIT */
/*
 * kmalloc.c - stook_kmalloc() and its family: size classes over caches, whole pages above.
 */
#include <stook/kmalloc.h>
#include <stook/kmem_private.h>

#include "base/context.h"
#include "base/report.h"
#include "charge/accounted.h"
#include "charge/group.h"
#include "debug/object.h"
#include "debug/pages.h"
#include "debug/pages_track.h"
#include "harden/quarantine.h"
#include "guard/guard.h"
#include "kmalloc/classes.h"
#include "sample/large_samples.h"
#include "sample/shadow.h"
#include "kmalloc/kmalloc.h"
#include "base/init.h"
#include "kmalloc/private.h"
#include "kmalloc/sampled.h"
#include "cache/reclaim.h"
#include "os/os.h"
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
};

static _Atomic(struct stook_cache *) kmalloc_cache[KMALLOC_CLASSES];
static atomic_bool kmalloc_made;
/* The same for the fast path; NULL where each allocation is counted (kmalloc/sampled.h). */
static _Atomic(struct stook_cache *) kmalloc_open[KMALLOC_CLASSES];

static void kmalloc_show(void)
{
    bool counted;

    do {
        counted = sample_is_on();
        for (unsigned i = 0; i < KMALLOC_CLASSES; i++)
            atomic_store(&kmalloc_open[i], counted ? NULL : atomic_load(&kmalloc_cache[i]));
    } while (counted != sample_is_on()); /* by another thread, which may have stored before */
}

void stook_kmalloc_doors(void)
{
    kmalloc_show();
    accounted_watch();
}

static bool kmalloc_make_classes(void)
{
    for (unsigned i = 0; i < KMALLOC_CLASSES; i++) {
        struct stook_cache_args args = {
            .size = sizeof(args), .align = kmalloc_classes[i].align, .flags = CACHE_SIZED};
        struct stook_cache *none = NULL, *cache;
        /* Acquire: who sees kmalloc_made by this thread sees what the other one made. */
        if (atomic_load_explicit(&kmalloc_cache[i], memory_order_acquire))
            continue;
        cache = private_cache(kmalloc_classes[i].name, kmalloc_classes[i].size, &args, true);
        if (!cache)
            return false;
        if (!atomic_compare_exchange_strong(&kmalloc_cache[i], &none, cache))
            (void)stook_cache_destroy(cache);
    }
    /* Pairs with the acquire in kmalloc_once(). */
    atomic_store_explicit(&kmalloc_made, true, memory_order_release);
    kmalloc_show();
    return true;
}

/*
 * All classes at once, so that handlers find them later.  Of two threads that make the same class the
 * second destroys its own, and a fork in the middle leaves nothing that is waited for.  Not beside a
 * fork, which has the locks that creating takes: ENOMEM.
 */
static __attribute__((noinline, cold)) bool kmalloc_make(void)
{
    int saved = errno;
    bool made;

    if (context_self()->depth > 0 || !lock_begin_blocking()) {
        errno = ENOMEM;
        return false;
    }
    made = kmalloc_make_classes();
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

    (void)large_free(object, context_enter());
    context_leave();
    errno = error;
    return NULL;
}

void *stook_kmalloc_large(size_t size, unsigned flags, int node, uint64_t where, uint32_t owner)
{
    struct kmalloc_large large = {
        .size = pages_wanted(size), .align = kmalloc_large_align(size), .node = node};
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
        reclaim_until(kmalloc_cache[KMALLOC_CLASSES - 1], size, kmalloc_large_try, &large))
        errno = saved;
    if (owner == ACCOUNT_CURRENT)
        owner = group_current();
    if (large.object &&
        (owner != 0 || atomic_load_explicit(&account_large_hooks, memory_order_relaxed) != 0) &&
        !account_large(large.object, owner, flags, where)) /* refuses an owner only */
        return kmalloc_large_refused(large.object);
    if (large.object && (flags & STOOK_ZERO) && !large.zeroed)
        memset(large.object, 0, large_size(large.object));
    pages_set(large.object, 0, size);
    pages_track_came(large.object, size, where);
    if (large.object && large_samples_wanted() && !account_large_counted())
        large_samples_came(large.object, large_size(large.object), size, where, group_current());
    return large.object;
}

/* ---- take ----------------------------------------------------------------------------------- */

void *stook_kmalloc_cached(struct stook_cache *cache, size_t size, unsigned flags, uint64_t where,
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

static void *kmalloc_once(size_t size, unsigned flags, uint64_t where)
{
    uint32_t turn = lock_turn();
    void *object = NULL;

    if (__builtin_expect(atomic_load_explicit(&kmalloc_made, memory_order_acquire), 1) ||
        kmalloc_make()) {
        struct stook_cache *cache;
        if (__builtin_expect(size > STOOK_KMALLOC_CACHE_MAX, 0))
            return stook_kmalloc_large(size, flags, -1, where, ACCOUNT_NOBODY);
        cache = atomic_load_explicit(&kmalloc_cache[kmalloc_class(size)], memory_order_relaxed);
        if (sample_is_on() && !cache_hooks(cache) && alloc_may(cache, flags) &&
            ((!(flags & STOOK_SIGNAL_SAFE) &&
              (object = sampled_alloc(cache, size, 1, where, flags & STOOK_ZERO)) != NULL) ||
             (alloc_is_fast(flags) && (object = sampled_pop(cache)) != NULL)))
            return object;
        object = stook_kmalloc_cached(cache, size, flags, where, ACCOUNT_CURRENT);
    }
    if (__builtin_expect(!object, 0) && errno == ENOMEM && lock_forked_since(turn))
        object = stook_kmalloc_large(size, flags | STOOK_NORECLAIM, -1, where, ACCOUNT_NOBODY);
    return object;
}

static __attribute__((noinline, cold)) void *kmalloc_nofail(size_t size, unsigned flags,
                                                            uint64_t where)
{
    void *object = NULL;

    /* No process has as many bytes: it would wait for ever. */
    if (size >> 47 != 0 || (flags & STOOK_SIGNAL_SAFE)) {
        errno = flags & STOOK_SIGNAL_SAFE ? EINVAL : ENOMEM;
        return NULL;
    }
    for (unsigned tries = 0; !object; tries++) {
        int saved = errno;
        if (tries > 0)
            stook_kmem_nap(tries);
        object = kmalloc_once(size, flags & ~STOOK_NOFAIL, where);
        if (object)
            errno = saved;
        else if (errno == EINVAL)
            break;
    }
    return object;
}

/* Everything but "the class is made, and its main sheaf holds an object". */
static __attribute__((noinline, cold)) void *kmalloc_slow(size_t size, unsigned flags,
                                                          uint64_t where)
{
    if (__builtin_expect(size == 0, 0))
        return STOOK_KMALLOC_NONE;
    if (__builtin_expect(flags & STOOK_NOFAIL, 0))
        return kmalloc_nofail(size, flags, where);
    return kmalloc_once(size, flags, where);
}

static inline __attribute__((always_inline)) bool kmalloc_fast(size_t size, unsigned flags,
                                                               void **object)
{
    /* A size of 0 is the largest here. */
    if (__builtin_expect(size - 1 < STOOK_KMALLOC_CACHE_MAX, 1) &&
        __builtin_expect((flags & ~(STOOK_NORECLAIM | STOOK_SIGNAL_SAFE)) == 0, 1)) {
        /* Acquire: its head. */
        const struct stook_cache *cache =
            atomic_load_explicit(&kmalloc_open[kmalloc_class(size)], memory_order_acquire);
        return __builtin_expect(cache != NULL, 1) &&
               __builtin_expect(stook_rseq_pop(cache->head.slots, cache->head.rseq_offset, object),
                                1);
    }
    return false;
}

__attribute__((aligned(64))) void *stook_kmalloc(size_t size, unsigned flags)
{
    void *object;

    if (kmalloc_fast(size, flags, &object))
        return object;
    return kmalloc_slow(size, flags, where_address(__builtin_return_address(0)));
}

__attribute__((aligned(64))) void *stook_kmalloc_at(size_t size, unsigned flags,
                                                    struct stook_site *site)
{
    void *object;

    if (kmalloc_fast(size, flags, &object))
        return object;
    return kmalloc_slow(size, flags, where_site(site, __builtin_return_address(0)));
}

/* A product that overflows is a size that cannot be had. */
void *stook_kmalloc_from(size_t size, unsigned flags, uint64_t where)
{
    void *object;

    return kmalloc_fast(size, flags, &object) ? object : kmalloc_slow(size, flags, where);
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

void stook_kmem_nap(unsigned tries)
{
    static _Atomic uint32_t nobody;
    int saved = errno;

    os_wait(&nobody, 0, (uint64_t)KMALLOC_NAP << (tries < KMALLOC_NAPS ? tries : KMALLOC_NAPS));
    errno = saved;
}

/* ---- give back ------------------------------------------------------------------------------ */

size_t stook_usable_size(const void *object)
{
    const struct stook_cache *cache;
    size_t size;

    if (kmalloc_is_none(object))
        return 0;
    cache = slab_user_cache(object);
    if (cache && __builtin_expect(cache->flags & CACHE_SHADOW, 0))
        return shadow_size(cache, object);
    if (cache && !stook_private_live(object, "stook_usable_size"))
        return 0;
    if (cache)
        return cache->flags & CACHE_DEBUG ? debug_usable(cache, object)
                                          : quarantine_usable(cache, object);
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
        stook_free(cache, object);
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

/* ---- change --------------------------------------------------------------------------------- */

void *stook_kmalloc_zero_from(void *object, size_t from, unsigned flags)
{
    size_t usable = flags & STOOK_ZERO ? stook_usable_size(object) : 0;

    if (usable > from)
        memset((char *)object + from, 0, usable - from);
    return object;
}

void *stook_krealloc_from(void *object, size_t size, unsigned flags, uint64_t where)
{
    size_t had, kept;
    void *fresh;

    if (kmalloc_is_none(object))
        return kmalloc_slow(size, flags, where);
    if (size == 0) {
        stook_free_any(object);
        return STOOK_KMALLOC_NONE;
    }
    if (!stook_private_live(object, "stook_krealloc")) {
        errno = ENOMEM;
        return NULL;
    }
    had = stook_usable_size(object);
    if (__builtin_expect(had == 0, 0)) { /* no object: the program goes on */
        errno = EINVAL;
        return NULL;
    }
    kept = size < had ? size : had;
    if (had > STOOK_KMALLOC_CACHE_MAX && size > STOOK_KMALLOC_CACHE_MAX && size <= PTRDIFF_MAX &&
        !(flags & STOOK_SIGNAL_SAFE) && !slab_cache_of(object)) {
        fresh = stook_private_large_resize(object, size,
                                           where & 1 ? NULL : (void *)(uintptr_t)(where >> 1));
        if (fresh)
            return stook_kmalloc_zero_from(fresh, kept, flags);
    }
    if (size <= had && (slab_cache_of(object) || size > STOOK_KMALLOC_CACHE_MAX)) {
        stook_private_resized(object, size);
        return stook_kmalloc_zero_from(object, size, flags);
    }
    fresh = kmalloc_slow(size, flags & ~STOOK_ZERO, where);
    if (!fresh) /* what shrinks need not move */
        return size <= had && errno != EINVAL ? stook_kmalloc_zero_from(object, size, flags) : NULL;
    memcpy(fresh, object, kept);
    stook_free_any(object);
    return stook_kmalloc_zero_from(fresh, kept, flags);
}

void *stook_krealloc(void *object, size_t size, unsigned flags)
{
    return stook_krealloc_from(object, size, flags, where_address(__builtin_return_address(0)));
}

/* ---- for stook/kmem.h ----------------------------------------------------------------------- */

int stook_kmem_shrink(struct stook_cache *cache)
{
    uint64_t slabs = 0;

    (void)stook_cache_shrink(cache);
    for (unsigned i = 0; i < topology.nodes; i++)
        slabs += __atomic_load_n(&cache->nodes[i].node.made, __ATOMIC_RELAXED) -
                 __atomic_load_n(&cache->nodes[i].node.gone, __ATOMIC_RELAXED);
    return slabs > 0;
}

static const char *kmem_reason(int error)
{
    switch (error) {
    case EINVAL:
        return "wrong arguments";
    case E2BIG:
        return "beyond a limit";
    case ENFILE:
        return "too many caches";
    case ENOTSUP:
        return "no RCU was set";
    default:
        return "no memory";
    }
}

void stook_kmem_panic(const char *name, int error)
{
    report_fatal(
        "kmem_cache_create: cache %s cannot be made (%s), and SLAB_PANIC says that it must",
        name ? name : "(no name)", kmem_reason(error));
}
