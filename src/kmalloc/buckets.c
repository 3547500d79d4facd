/* SPDX-License-Identifier: MIT */
/*
 * buckets.c - sets of caches with kmalloc's sizes: those that a program makes (kmem_buckets_create), and one whose
 * objects are charged to groups, for __GFP_ACCOUNT.  Also kmalloc with an alignment and a node, for the same callers.
 *
 * A set is written before its caller knows it, and read only afterwards.  The charged set is made by the first
 * call that wants it; of two threads that make a cache of it the second destroys its own.  Sizes above
 * STOOK_KMALLOC_CACHE_MAX are whole pages, of no set.
 */
#include <stook/kmem_private.h>

#include "base/context.h"
#include "base/grow.h"
#include "base/lock.h"
#include "base/where.h"
#include "charge/account.h"
#include "charge/group.h"
#include "kmalloc/classes.h"
#include "kmalloc/kmalloc.h"
#include "kmalloc/private.h"
#include "os/topology.h"
#include "page/pagemap.h"
#include "kmalloc/sampled.h"
#include "slab/slab.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

struct stook_kmem_buckets {
    struct stook_cache *cache[KMALLOC_CLASSES];
};

enum {
    BUCKETS_FLAGS = STOOK_CACHE_HWALIGN | STOOK_CACHE_ACCOUNT | STOOK_CACHE_RANDOM |
                    STOOK_CACHE_ZERO_ON_FREE | STOOK_CACHE_QUARANTINE | STOOK_CACHE_GUARD_PAGES |
                    STOOK_CACHE_OWN_PAGES | CACHE_DEBUG,
    BUCKETS_LINE = 64,
    BUCKETS_ADDRESS = 47, /* bits of a size that no process has */
};

/* ---- making ------------------------------------------------------------------------------------ */

/* "msg" and class 9: "msg-1k".  A long prefix is cut, not the size. */
static struct stook_cache *buckets_cache(const char *prefix, unsigned class,
                                         const struct stook_cache_args *given)
{
    struct stook_cache_args args = *given;
    const char *size = kmalloc_classes[class].name + KMALLOC_PREFIX - 1; /* "-1k" */
    size_t tail = strlen(size), head = strnlen(prefix, STOOK_NAME_MAX - tail);
    char name[STOOK_NAME_MAX + 1];

    memcpy(name, prefix, head);
    memcpy(name + head, size, tail + 1);
    args.align = kmalloc_classes[class].align;
    if ((args.flags & STOOK_CACHE_HWALIGN) && args.align < BUCKETS_LINE)
        args.align = BUCKETS_LINE;
    args.flags |= CACHE_SIZED;
    return private_cache(name, kmalloc_classes[class].size, &args, true);
}

struct stook_kmem_buckets *stook_kmem_buckets_create(const char *name,
                                                     const struct stook_cache_args *given)
{
    struct stook_kmem_buckets *buckets;
    struct stook_cache_args args = {0};
    unsigned class;

    if (!name || !grow_read(&args, sizeof(args), given) ||
        (args.flags & ~(unsigned)BUCKETS_FLAGS) || args.align || args.dtor || args.sheaf_capacity ||
        args.cached_bytes_max || ((args.flags & STOOK_CACHE_ZERO_ON_FREE) && args.ctor)) {
        errno = EINVAL;
        return NULL;
    }
    buckets = stook_kmalloc_from(sizeof(*buckets), STOOK_ZERO,
                                 where_address(__builtin_return_address(0)));
    for (class = 0; buckets && class < KMALLOC_CLASSES; class ++) {
        buckets->cache[class] = buckets_cache(name, class, &args);
        if (!buckets->cache[class]) {
            int error = errno;
            (void)stook_kmem_buckets_destroy(buckets);
            errno = error;
            return NULL;
        }
    }
    return buckets;
}

int stook_kmem_buckets_destroy(struct stook_kmem_buckets *buckets)
{
    int result = 0;

    if (!buckets)
        return 0;
    for (unsigned class = 0; class < KMALLOC_CLASSES; class ++) {
        if (stook_cache_destroy(buckets->cache[class]) == 0)
            buckets->cache[class] = NULL;
        else
            result = -1;
    }
    if (result == 0)
        stook_free_any(buckets);
    return result;
}

/* ---- the charged set ---------------------------------------------------------------------------- */

static _Atomic(struct stook_cache *) buckets_charged[KMALLOC_CLASSES];
static atomic_bool buckets_charged_made;

/* All at once, as kmalloc's own caches are made, and under the same conditions. */
static __attribute__((noinline, cold)) bool buckets_make_charged(void)
{
    const struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    int saved = errno;
    bool made = true;

    if (context_self()->depth > 0 || !lock_begin_blocking()) {
        errno = ENOMEM;
        return false;
    }
    for (unsigned class = 0; made && class < KMALLOC_CLASSES; class ++) {
        struct stook_cache *none = NULL, *cache;
        if (atomic_load_explicit(&buckets_charged[class], memory_order_acquire))
            continue;
        cache = buckets_cache("kmalloc-cg", class, &args);
        made = cache != NULL;
        if (made && !atomic_compare_exchange_strong(&buckets_charged[class], &none, cache))
            (void)stook_cache_destroy(cache);
    }
    /* Pairs with the acquire in buckets_of(). */
    if (made)
        atomic_store_explicit(&buckets_charged_made, true, memory_order_release);
    lock_end_blocking();
    if (made)
        errno = saved;
    return made;
}

/* ---- objects ------------------------------------------------------------------------------------ */

struct buckets_wish {
    struct stook_kmem_buckets *buckets; /* NULL: the charged set */
    size_t size;
    unsigned flags; /* those of stook_kmalloc_cached() */
    uint64_t where;
};

static void *buckets_once(const struct buckets_wish *wish, uint32_t owner)
{
    uint32_t turn = lock_turn();
    struct stook_cache *cache;
    void *object;

    if (!wish->buckets && !atomic_load_explicit(&buckets_charged_made, memory_order_acquire) &&
        !buckets_make_charged())
        return NULL;
    if (wish->size > STOOK_KMALLOC_CACHE_MAX)
        return stook_kmalloc_large(wish->size, wish->flags, -1, wish->where,
                                   wish->buckets ? ACCOUNT_NOBODY : owner);
    cache = wish->buckets ? wish->buckets->cache[kmalloc_class(wish->size)]
                          : atomic_load_explicit(&buckets_charged[kmalloc_class(wish->size)],
                                                 memory_order_relaxed);
    object = stook_kmalloc_cached(cache, wish->size, wish->flags, wish->where, owner);
    if (object) /* it stays apart from others: in no shadow cache */
        sampled_count(cache, wish->where);
    if (!object && errno == ENOMEM && lock_forked_since(turn))
        object = stook_kmalloc_large(wish->size, wish->flags | STOOK_NORECLAIM, -1, wish->where,
                                     ACCOUNT_NOBODY);
    return object;
}

/* Of a caller that must not fail.  Beyond the limit of its group the object is charged to no group. */
static void *buckets_must(const struct buckets_wish *wish)
{
    uint32_t owner = ACCOUNT_CURRENT;
    int saved = errno;
    void *object;

    if (wish->size >> BUCKETS_ADDRESS != 0) {
        errno = ENOMEM;
        return NULL;
    }
    for (unsigned tries = 0; !(object = buckets_once(wish, owner)) && errno != EINVAL; tries++)
        if (errno == EDQUOT && owner != ACCOUNT_NOBODY)
            owner = ACCOUNT_NOBODY;
        else
            stook_kmem_nap(tries + 1);
    if (object)
        errno = saved;
    return object;
}

/*
 * The size whose class is aligned enough: a class is aligned to the largest power of two that divides it, whole pages
 * to a page, and a power of two to itself.  0 with errno EINVAL: `align` is none, or beyond a block.
 */
static size_t buckets_aligned(size_t size, size_t align)
{
    size_t class = stook_kmalloc_size(size), power;

    if (align == 0 || (align & (align - 1)) || align > BLOCK_SIZE) {
        errno = EINVAL;
        return 0;
    }
    if (size > STOOK_KMALLOC_CACHE_MAX && align <= PAGE_SIZE)
        return size;
    if (size <= STOOK_KMALLOC_CACHE_MAX && (class & -class) >= align)
        return size;
    power = size <= align ? align : (size_t)1 << (64 - __builtin_clzll(size - 1));
    return size > BLOCK_SIZE ? size : power; /* whole blocks are aligned to a block */
}

static void *buckets_alloc(struct stook_kmem_buckets *buckets, size_t size, size_t align,
                           unsigned flags, int node, uint64_t where)
{
    unsigned plain = flags & ~(STOOK_THISNODE | STOOK_NOFAIL | STOOK_KMEM_ACCOUNT);
    struct buckets_wish wish = {buckets, 0, plain, where};
    void *object;

    if (node != -1 && !topology_has_node(node)) {
        errno = EINVAL;
        return NULL;
    }
    if (size == 0)
        return STOOK_KMALLOC_NONE;
    wish.size = size > PTRDIFF_MAX ? size : buckets_aligned(size, align);
    if (wish.size == 0)
        return NULL;
    if (!buckets && !(flags & STOOK_KMEM_ACCOUNT))
        return stook_kmalloc_node_from(wish.size, flags, node, where);
    if ((flags & STOOK_NOFAIL) && (flags & STOOK_SIGNAL_SAFE)) {
        errno = EINVAL;
        return NULL;
    }
    object = flags & STOOK_NOFAIL ? buckets_must(&wish) : buckets_once(&wish, ACCOUNT_CURRENT);
    if (!object || node == -1)
        return object;
    return stook_kmalloc_of_node(object, wish.size, plain, flags & STOOK_THISNODE, node, where,
                                 buckets ? ACCOUNT_NOBODY : ACCOUNT_CURRENT);
}

void *stook_kmem_alloc(struct stook_kmem_buckets *buckets, size_t size, size_t align,
                       unsigned flags, int node)
{
    return buckets_alloc(buckets, size, align, flags, node,
                         where_address(__builtin_return_address(0)));
}

/* ---- a new size --------------------------------------------------------------------------------- */

/* Whether stook_krealloc() does what is asked for: it knows of neither nodes nor charges when an object moves. */
static bool buckets_in_place(void *object, size_t had, size_t size, size_t align, unsigned flags,
                             int node)
{
    bool pages = had > STOOK_KMALLOC_CACHE_MAX && !slab_cache_of(object);

    if ((uintptr_t)object & (align - 1))
        return false;
    if ((flags & STOOK_THISNODE) && node != -1 && stook_node_of(object) != node)
        return false;
    if (size <= had)
        return !pages || size > STOOK_KMALLOC_CACHE_MAX;
    return !(flags & STOOK_KMEM_ACCOUNT) && node == -1;
}

void *stook_kmem_realloc(const void *old, size_t size, size_t align, unsigned flags, int node)
{
    uint64_t where = where_address(__builtin_return_address(0));
    void *object = (void *)(uintptr_t)old, *fresh;
    size_t had, wanted;

    if (kmalloc_is_none(object))
        return buckets_alloc(NULL, size, align, flags, node, where);
    if (size == 0) {
        stook_free_any(object);
        return STOOK_KMALLOC_NONE;
    }
    wanted = size > PTRDIFF_MAX ? size : buckets_aligned(size, align);
    if (wanted == 0)
        return NULL;
    if (!stook_private_live(object, "stook_krealloc")) {
        errno = ENOMEM;
        return NULL;
    }
    had = stook_usable_size(object);
    if (had == 0) { /* no object: the program goes on */
        errno = EINVAL;
        return NULL;
    }
    if (buckets_in_place(object, had, wanted, align, flags, node))
        return stook_krealloc_from(object, wanted, flags & ~(STOOK_KMEM_ACCOUNT | STOOK_THISNODE),
                                   where);
    fresh = buckets_alloc(NULL, wanted, align, flags & ~STOOK_ZERO, node, where);
    if (!fresh)
        return NULL;
    if (had > wanted)
        had = wanted;
    memcpy(fresh, object, had);
    stook_free_any(object);
    return stook_kmalloc_zero_from(fresh, had, flags);
}
