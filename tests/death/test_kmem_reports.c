/* SPDX-License-Identifier: MIT */
/* needs: native */
/* What calls by the kernel's names report before they abort. */
#include "support/test.h"

#include <stook/kmem.h>
#include <stook/rcu.h>

static void *hidden(void *pointer) /* from the compiler, which knows what kfree() frees */
{
    void *volatile seen = pointer;

    return seen;
}

static int panic_wrong(void *unused)
{
    return kmem_cache_create("crooked", 40, 24, SLAB_PANIC, NULL) == NULL;
}

static int panic_without_rcu(void *unused)
{
    struct kmem_cache_args args = {.align = 8};

    return !kmem_cache_create("stable", 40, &args, SLAB_PANIC | SLAB_TYPESAFE_BY_RCU);
}

static int panic_large(void *unused)
{
    struct whale {
        char bytes[STOOK_OBJECT_SIZE_MAX + 8];
    };

    return !KMEM_CACHE(whale, SLAB_PANIC);
}

static int free_of_the_stack(void *unused)
{
    int here;

    kfree(kmalloc(8, GFP_KERNEL));
    kfree(hidden(&here));
    return 0;
}

static int free_inside_pages(void *unused)
{
    char *p = kmalloc(100000, GFP_KERNEL);

    kfree(hidden(p + 4096));
    return 0;
}

static int free_of_pages_twice(void *unused)
{
    char *p = kmalloc(100000, GFP_KERNEL);

    kfree(p);
    kfree(hidden(p));
    return 0;
}

static int size_of_nothing(void *unused)
{
    int here;

    kfree(kmalloc(8, GFP_KERNEL));
    return ksize(hidden(&here)) == 5;
}

static int rcu_of_nothing(void *unused)
{
    int here;

    kfree(kmalloc(8, GFP_KERNEL));
    kfree_rcu_mightsleep(hidden(&here));
    return 0;
}

static int rcu_before_it_is_set(void *unused)
{
    kfree_rcu_mightsleep(kmalloc(8, GFP_KERNEL));
    return 0;
}

static int rcu_of_pages_before_it_is_set(void *unused)
{
    kfree_rcu_mightsleep(kmalloc(100000, GFP_KERNEL));
    return 0;
}

static int free_of_the_library(void *unused)
{
    kfree(hidden(kmem_cache_create("mine", 40, 0, 0, NULL)));
    return 0;
}

/* One twice and one not at all: there are as many as were taken. */
static int twice_in_bulk(void *unused)
{
    struct kmem_cache *cache = kmem_cache_create("crowd", 40, 0, 0, NULL);
    void *objects[600];

    if (!kmem_cache_alloc_bulk(cache, GFP_KERNEL, 600, objects))
        return 1;
    objects[599] = objects[3];
    kmem_cache_free_bulk(cache, 600, objects);
    kmem_cache_shrink(cache);
    return 0;
}

static int free_of_too_many(void *unused)
{
    void *object = kmalloc(100, GFP_KERNEL);

    kfree_bulk((size_t)-1, &object);
    return 0;
}

/* No abort, a word, and the cache goes on. */
static int destroyed_in_use(void *unused)
{
    struct kmem_cache *cache = kmem_cache_create("busy", 40, 0, 0, NULL);
    void *object = kmem_cache_alloc(cache, GFP_KERNEL);

    kmem_cache_destroy(cache);
    kmem_cache_free(cache, object);
    kmem_cache_free(cache, kmem_cache_alloc(cache, GFP_KERNEL));
    kmem_cache_destroy(cache);
    abort();
}

TEST(reports)
{
    static const struct {
        int (*body)(void *);
        const char *says;
    } cases[] = {
        {panic_wrong, "cache crooked cannot be made (wrong arguments), and SLAB_PANIC"},
        {panic_without_rcu, "cache stable cannot be made (no RCU was set), and SLAB_PANIC"},
        {panic_large, "cache whale cannot be made (beyond a limit), and SLAB_PANIC"},
        {free_of_the_stack, "stook_free_any: pointer"},
        {free_of_too_many, "stook_free_any: pointer 0xffffffffffffffff"},
        {free_inside_pages, "lies 4096 bytes into object"},
        {free_of_pages_twice, "stook_free_any: pointer"},
        {size_of_nothing, "stook_usable_size: pointer"},
        {rcu_of_nothing, "stook_free_any_rcu: pointer"},
        {rcu_before_it_is_set, "cache kmalloc-8: stook_free_rcu() before stook_rcu_set_ops()"},
        {rcu_of_pages_before_it_is_set, "before stook_rcu_set_ops(): no RCU is set"},
        {free_of_the_library, "stook_free_any: pointer"},
        {twice_in_bulk, "BUG crowd: bad free: pointer 0x"},
        {destroyed_in_use, "busy"},
    };
    struct child child;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        child_run(&child, cases[i].body, NULL);
        assert_true(child_died_saying(&child, cases[i].says));
    }
}
