/* SPDX-License-Identifier: MIT */
/* needs: native */
/*
 * What the library says before it aborts, against golden/NAME: a pattern of fnmatch(3), with * for
 * addresses.  Each case runs in a child.  STOOK_TEST_UPDATE=1 prints what is said instead.
 */
#include "kmalloc/private.h"
#include "support/make.h"
#include "support/child.h"
#include "support/golden.h"
#include "support/test.h"

#include "base/context.h"
#include "base/lock.h"
#include "slab/slab.h"

#include <stook/inline.h>
#include <stook/stook.h>

#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void *take(struct stook_cache *cache)
{
    void *object = stook_alloc(cache, 0);

    if (!object)
        abort();
    return object;
}

/* ---- the cases: each ends in a report ------------------------------------------------------- */

static void foreign_pointer(void)
{
    int on_the_stack;
    void *volatile pointer = &on_the_stack;

    stook_free(make("trees", 64, STOOK_CACHE_NOSHEAF), pointer);
}

/* A sheaf takes it unseen where the fast path does; nothing past the sheaf does. */
static void foreign_pointer_in_sheaf(void)
{
    struct stook_cache *cache = make("trees", 64, 0);
    int on_the_stack;
    void *volatile pointer = &on_the_stack;

    stook_free(cache, take(cache));
    stook_free(cache, pointer);
    stook_cache_shrink(cache);
}

static void interior_pointer(void)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_NOSHEAF);

    stook_free(cache, (char *)take(cache) + 24);
}

static void wrong_cache(void)
{
    struct stook_cache *trees = make("trees", 64, STOOK_CACHE_NOSHEAF);

    stook_free(make("leaves", 64, STOOK_CACHE_NOSHEAF), take(trees));
}

static void wrong_cache_in_sheaf(void)
{
    struct stook_cache *trees = make("trees", 64, 0), *leaves = make("leaves", 64, 0);
    void *object = take(trees);

    stook_free(leaves, take(leaves));
    stook_free(leaves, object);
    stook_cache_shrink(leaves);
}

/* At once, by a cache with debug flags, which goes on, and by a hardened one. */
static void wrong_cache_debug(void)
{
    struct stook_cache *trees = make("trees", 64, STOOK_CACHE_DEBUG_CHECKS);

    stook_free(make("leaves", 64, STOOK_CACHE_DEBUG_CHECKS), take(trees));
}

static void wrong_cache_hardened(void)
{
    struct stook_cache *trees = make("trees", 64, STOOK_CACHE_ZERO_ON_FREE);
    void *objects[] = {take(trees)};

    stook_free_bulk(make("leaves", 64, STOOK_CACHE_ZERO_ON_FREE), 1, objects);
}

static void double_free_of_the_last(void)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_NOSHEAF);
    void *object = take(cache);

    stook_free(cache, object);
    stook_free(cache, object);
}

static void double_free_in_bulk(void)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_NOSHEAF);
    void *first = take(cache), *objects[] = {take(cache), first, first};

    stook_free_bulk(cache, 3, objects);
}

/* Free in its slab for long; the slab's count would not notice. */
static void double_free_at_rest(void)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_NOSHEAF);
    void *object = take(cache);

    (void)take(cache);
    stook_free(cache, object);
    (void)take(make("others", 64, STOOK_CACHE_NOSHEAF));
    stook_free(cache, object);
}

/* The same where marks are bytes, since free objects hold their links. */
static void double_free_of_small(void)
{
    struct stook_cache *cache = make("motes", 16, STOOK_CACHE_NOSHEAF);
    void *object = take(cache);

    (void)take(cache);
    stook_free(cache, object);
    stook_free(cache, object);
}

/* A whole slab's objects at once, the last in place of the first: there are as many as it has. */
static void double_free_of_whole_slab(void)
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
static void double_free_in_sheaves(void)
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
static void quarantine_double_free(void)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_QUARANTINE);
    void *object = take(cache), *other = take(cache);

    stook_free(cache, object);
    stook_free(cache, other);
    stook_free(cache, object);
}

/* It has left the quarantine, and is in a sheaf or a slab. */
static void quarantine_late_double_free(void)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_QUARANTINE);
    void *object = take(cache), *volatile kept = take(cache);

    (void)kept;
    stook_free(cache, object);
    (void)stook_cache_shrink(cache);
    stook_free(cache, object);
}

static void quarantine_write(void)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_QUARANTINE);
    unsigned char *volatile object = take(cache);

    stook_free(cache, object);
    object[20] = 'x';
    object[22] = 'y';
    (void)stook_cache_shrink(cache);
}

static void quarantine_write_to_zeros(void)
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
static void quarantine_late_write(void)
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

static void free_of_the_library(void)
{
    stook_free_any(make("trees", 64, 0));
}

static void corrupt_freelist(void)
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

static void free_of_nothing(void)
{
    static char data[64];
    void *volatile pointer = data;

    stook_free_any(pointer);
}

static void size_of_nothing(void)
{
    void *volatile pointer = malloc(10);

    (void)stook_usable_size(pointer);
}

static void free_too_many(void)
{
    struct stook_cache *cache = make("trees", 64, 0);
    void *object = take(cache);

    stook_free_bulk(cache, (size_t)-1, &object);
}

static void free_after_destroy(void)
{
    struct stook_cache *cache = make("trees", 64, STOOK_CACHE_NOSHEAF);
    void *object = take(cache);

    stook_free(cache, object);
    if (stook_cache_destroy(cache) == 0)
        stook_free_any(object);
}

static void destroy_busy(void)
{
    struct stook_cache *cache = make("trees", 200, 0);

    take(cache);
    take(cache);
    take(cache);
    if (stook_cache_destroy(cache) != -1 || errno != EBUSY)
        fprintf(stderr, "not refused\n");
}

static void layout_mismatch(void)
{
    stook_inline_layout_2(STOOK_INLINE_LAYOUT + 1, (const void *)(uintptr_t)&layout_mismatch);
}

static void private_mismatch(void)
{
    (void)stook_private_start(4711, "47.1.1", NULL);
}

#ifdef STOOK_ASSERTIONS
static void lock_order(void)
{
    static struct lock node, caches;

    lock_take(&node, LOCK_NODE);
    lock_take(&caches, LOCK_CACHES);
}
#endif

/* ---- the comparison ------------------------------------------------------------------------- */

struct death {
    const char *name;
    void (*body)(void);
    int lives; /* a report and no abort */
};

static const struct death deaths[] = {
    {"foreign_pointer", foreign_pointer, 0},
    {"foreign_pointer_in_sheaf", foreign_pointer_in_sheaf, 0},
    {"interior_pointer", interior_pointer, 0},
    {"wrong_cache", wrong_cache, 0},
    {"wrong_cache_in_sheaf", wrong_cache_in_sheaf, 0},
    {"wrong_cache_debug", wrong_cache_debug, 1},
    {"wrong_cache_hardened", wrong_cache_hardened, 0},
    {"double_free_of_the_last", double_free_of_the_last, 0},
    {"double_free_in_bulk", double_free_in_bulk, 0},
    {"free_of_the_library", free_of_the_library, 0},
    {"double_free_in_sheaves", double_free_in_sheaves, 0},
    {"double_free_at_rest", double_free_at_rest, 0},
    {"double_free_of_small", double_free_of_small, 0},
    {"double_free_of_whole_slab", double_free_of_whole_slab, 0},
    {"corrupt_freelist", corrupt_freelist, 0},
    {"free_of_nothing", free_of_nothing, 0},
    {"size_of_nothing", size_of_nothing, 0},
    {"free_too_many", free_too_many, 0},
    {"free_after_destroy", free_after_destroy, 0},
    {"destroy_busy", destroy_busy, 1},
    {"layout_mismatch", layout_mismatch, 0},
    {"quarantine_double_free", quarantine_double_free, 0},
    {"quarantine_late_double_free", quarantine_late_double_free, 0},
    {"quarantine_write", quarantine_write, 0},
    {"quarantine_write_to_zeros", quarantine_write_to_zeros, 0},
    {"quarantine_late_write", quarantine_late_write, 0},
    {"private_mismatch", private_mismatch, 0},
#ifdef STOOK_ASSERTIONS
    {"lock_order", lock_order, 0},
#endif
};

static int run(void *arg)
{
    ((const struct death *)arg)->body();
    return 0;
}

TEST(reports)
{
    unsigned failed = 0;

    for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++) {
        struct child child;
        char golden[8192];
        int ended;
        child_run(&child, run, (void *)(uintptr_t)&deaths[i]);
        if (getenv("STOOK_TEST_UPDATE")) {
            printf("%s: %s", deaths[i].name, child.error);
            continue;
        }
        golden_read("", deaths[i].name, golden, sizeof(golden));
        ended = deaths[i].lives ? WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0
                                : WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT;
        if (!ended || fnmatch(golden, child.error, 0) != 0) {
            printf("%s: status %#x\nwanted: %sgot:    %s", deaths[i].name, (unsigned)child.status,
                   golden, child.error);
            failed++;
        }
    }
    assert_int_equal(failed, 0);
}
