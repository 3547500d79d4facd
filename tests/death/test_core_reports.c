/* SPDX-License-Identifier: MIT */
/* needs: native */
/* What the library says before it aborts, against golden/NAME: support/golden.h. */
#include "kmalloc/private.h"
#include "support/make.h"
#include "support/golden.h"
#include "support/test.h"

#include "base/context.h"
#include "base/lock.h"
#include "slab/slab.h"

#include <stook/inline.h>
#include <stook/stook.h>

#include <signal.h>

static void *take(struct stook_cache *cache)
{
    void *object = stook_alloc(cache, 0);

    if (!object)
        abort();
    return object;
}

/* ---- the cases: each ends in a report ------------------------------------------------------- */

DEATH(foreign_pointer, SIGABRT)
{
    int on_the_stack;
    void *volatile pointer = &on_the_stack;

    stook_free(make("trees", 64, STOOK_CACHE_NOSHEAF), pointer);
}

/* A sheaf takes it unseen where the fast path does; nothing past the sheaf does. */
DEATH(foreign_pointer_in_sheaf, SIGABRT)
{
    struct stook_cache *cache = make("trees", 64, 0);
    int on_the_stack;
    void *volatile pointer = &on_the_stack;

    stook_free(cache, take(cache));
    stook_free(cache, pointer);
    stook_cache_shrink(cache);
}

DEATH(interior_pointer, SIGABRT)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_NOSHEAF);

    stook_free(cache, (char *)take(cache) + 24);
}

DEATH(wrong_cache, SIGABRT)
{
    struct stook_cache *trees = make("trees", 64, STOOK_CACHE_NOSHEAF);

    stook_free(make("leaves", 64, STOOK_CACHE_NOSHEAF), take(trees));
}

DEATH(wrong_cache_in_sheaf, SIGABRT)
{
    struct stook_cache *trees = make("trees", 64, 0), *leaves = make("leaves", 64, 0);
    void *object = take(trees);

    stook_free(leaves, take(leaves));
    stook_free(leaves, object);
    stook_cache_shrink(leaves);
}

/* At once, by each call of a cache whose frees are checked; its main sheaf has room. */
static void free_to_other(void (*call)(struct stook_cache *cache, void *object))
{
    struct stook_cache *trees = make("trees", 64, STOOK_CACHE_OWN_PAGES);
    struct stook_cache *leaves = make("leaves", 64, STOOK_CACHE_OWN_PAGES);
    void *object = take(trees), *objects[8];

    for (unsigned i = 0; i < 8; i++)
        objects[i] = take(leaves);
    for (unsigned i = 0; i < 4; i++)
        stook_free(leaves, objects[i]);
    call(leaves, object);
    _exit(0);
}

DEATH(wrong_cache_checked, SIGABRT)
{
    free_to_other(stook_free);
}

DEATH(wrong_cache_checked_inline, SIGABRT)
{
    free_to_other(stook_free_inline);
}

static void free_in_bulk(struct stook_cache *cache, void *object)
{
    stook_free_bulk(cache, 1, &object);
}

DEATH(wrong_cache_checked_bulk, SIGABRT)
{
    free_to_other(free_in_bulk);
}

/* At once, by a cache with debug flags, which goes on, and by a hardened one. */
DEATH(wrong_cache_debug, 0)
{
    struct stook_cache *trees = make("trees", 64, STOOK_CACHE_DEBUG_CHECKS);

    stook_free(make("leaves", 64, STOOK_CACHE_DEBUG_CHECKS), take(trees));
}

DEATH(wrong_cache_hardened, SIGABRT)
{
    struct stook_cache *trees = make("trees", 64, STOOK_CACHE_ZERO_ON_FREE);
    void *objects[] = {take(trees)};

    stook_free_bulk(make("leaves", 64, STOOK_CACHE_ZERO_ON_FREE), 1, objects);
}

DEATH(double_free_of_the_last, SIGABRT)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_NOSHEAF);
    void *object = take(cache);

    stook_free(cache, object);
    stook_free(cache, object);
}

DEATH(double_free_in_bulk, SIGABRT)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_NOSHEAF);
    void *first = take(cache), *objects[] = {take(cache), first, first};

    stook_free_bulk(cache, 3, objects);
}

/* Free in its slab for long; the slab's count would not notice. */
DEATH(double_free_at_rest, SIGABRT)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_NOSHEAF);
    void *object = take(cache);

    (void)take(cache);
    stook_free(cache, object);
    (void)take(make("others", 64, STOOK_CACHE_NOSHEAF));
    stook_free(cache, object);
}

/* The same where marks are bytes, since free objects hold their links. */
DEATH(double_free_of_small, SIGABRT)
{
    struct stook_cache *cache = make("motes", 16, STOOK_CACHE_NOSHEAF);
    void *object = take(cache);

    (void)take(cache);
    stook_free(cache, object);
    stook_free(cache, object);
}

/* A whole slab's objects at once, the last in place of the first: there are as many as it has. */
DEATH(double_free_of_whole_slab, SIGABRT)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_NOSHEAF);
    void *objects[32767];
    size_t n = cache->layout.objects;

    if (stook_alloc_bulk(cache, 0, n, objects) != 0)
        return;
    objects[0] = objects[n - 1];
    stook_free_bulk(cache, n, objects);
}

/* With sheaves both copies go in; each return of a whole sheaf is checked. */
DEATH(double_free_in_sheaves, SIGABRT)
{
    struct stook_cache *cache = make("trees", 64, 0);
    void *objects[500];

    if (stook_alloc_bulk(cache, 0, 500, objects) != 0)
        return;
    objects[490] = objects[10];
    stook_free_bulk(cache, 500, objects);
    stook_cache_shrink(cache);
}

/* ---- hardened caches ------------------------------------------------------------------------- */

/* p q p, the objects being in quarantine. */
DEATH(quarantine_double_free, SIGABRT)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_QUARANTINE);
    void *object = take(cache), *other = take(cache);

    stook_free(cache, object);
    stook_free(cache, other);
    stook_free(cache, object);
}

/* It has left the quarantine, and is in a sheaf or a slab. */
DEATH(quarantine_late_double_free, SIGABRT)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_QUARANTINE);
    void *object = take(cache), *volatile kept = take(cache);

    (void)kept;
    stook_free(cache, object);
    (void)stook_cache_shrink(cache);
    stook_free(cache, object);
}

DEATH(quarantine_write, SIGABRT)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_QUARANTINE);
    unsigned char *volatile object = take(cache);

    stook_free(cache, object);
    object[20] = 'x';
    object[22] = 'y';
    (void)stook_cache_shrink(cache);
}

DEATH(quarantine_write_to_zeros, SIGABRT)
{
    struct stook_cache *cache =
        make("trees", 64, STOOK_CACHE_QUARANTINE | STOOK_CACHE_ZERO_ON_FREE);
    unsigned char *volatile object = take(cache);

    stook_free(cache, object);
    object[63] = 1;
    for (unsigned i = 0; i < 100000; i++)
        stook_free(cache, take(cache));
}

/* It has left the quarantine, and is handed out again. */
DEATH(quarantine_late_write, SIGABRT)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_QUARANTINE);
    unsigned char *volatile object = take(cache), *volatile kept = take(cache);

    (void)kept;
    stook_free(cache, object);
    (void)stook_cache_shrink(cache);
    object[65] = 'x'; /* behind it, where its canary was */
    for (unsigned i = 0; i < 1000; i++)
        (void)take(cache);
}

DEATH(free_of_the_library, SIGABRT)
{
    stook_free_any(make("trees", 64, 0));
}

DEATH(corrupt_freelist, SIGABRT)
{
    struct stook_cache *cache = make("motes", 8, STOOK_CACHE_NOSHEAF);
    char *objects[20];

    for (int i = 0; i < 20; i++)
        objects[i] = take(cache);
    for (int i = 0; i < 20; i += 2)
        stook_free(cache, objects[i]);
    for (int i = 0; i < 20; i += 2) /* written to after they were freed */
        objects[i][1] = (char)(objects[i][1] ^ 0x70);
    for (int i = 0; i < 20; i += 2)
        objects[i] = take(cache);
}

DEATH(free_of_nothing, SIGABRT)
{
    static char data[64];
    void *volatile pointer = data;

    stook_free_any(pointer);
}

DEATH(size_of_nothing, SIGABRT)
{
    void *volatile pointer = malloc(10);

    (void)stook_usable_size(pointer);
}

DEATH(free_too_many, SIGABRT)
{
    struct stook_cache *cache = make("trees", 64, 0);
    void *object = take(cache);

    stook_free_bulk(cache, (size_t)-1, &object);
}

DEATH(free_after_destroy, SIGABRT)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_NOSHEAF);
    void *object = take(cache);

    stook_free(cache, object);
    if (stook_cache_destroy(cache) == 0)
        stook_free_any(object);
}

DEATH(destroy_busy, 0)
{
    struct stook_cache *cache = make("trees", 200, 0);

    take(cache);
    take(cache);
    take(cache);
    if (stook_cache_destroy(cache) != -1 || errno != EBUSY)
        fprintf(stderr, "not refused\n");
}

DEATH(layout_mismatch, SIGABRT)
{
    stook_inline_layout_3(2, (const void *)(uintptr_t)&layout_mismatch);
}

DEATH(private_mismatch, SIGABRT)
{
    (void)stook_private_start(4711, "47.1.1", NULL);
}

#ifdef STOOK_ASSERTIONS
DEATH(lock_order, SIGABRT)
{
    static struct lock node, caches;

    lock_take(&node, LOCK_NODE);
    lock_take(&caches, LOCK_CACHES);
}
#endif
