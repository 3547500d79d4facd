/* SPDX-License-Identifier: MIT */
/*
 * kfree_rcu() of objects of caches, of kmalloc() and of whole pages under readers, with an RCU that
 * delays grace periods at random; type-stable caches; destroying a cache right after.
 */
#include "support/delayed_rcu.h"
#include "support/test.h"

#include <stook/kmem.h>
#include <stook/kmem_rcu_head.h>

enum { CELLS = 32, READERS = 2, ROUNDS = 3000 };

struct node {
    uint64_t number, same;
    struct rcu_head rcu;
    char rest[];
};

static struct kmem_cache *nodes;
static struct node *_Atomic cell[CELLS];
static atomic_bool stop;
static _Atomic uint64_t looked;

static int setup(void **unused)
{
    if (delayed_use() != 0)
        return -1;
    nodes = kmem_cache_create("node", sizeof(struct node) + 20, 0, 0, NULL);
    return nodes ? 0 : -1;
}

static int teardown(void **unused)
{
    int result = stook_cache_destroy(kmem_stook_cache(nodes)); /* waits for what was deferred */

    delayed_end();
    return result;
}

static struct node *make(uint64_t number)
{
    static const size_t sizes[] = {0, 20, 200, 5000, 20000, 300000};
    size_t more = sizes[number % 6];
    struct node *node = more == 20 ? kmem_cache_alloc(nodes, GFP_KERNEL)
                                   : kmalloc(sizeof(*node) + more, GFP_KERNEL);

    assert_non_null(node);
    __atomic_store_n(&node->number, number, __ATOMIC_RELAXED);
    __atomic_store_n(&node->same, number, __ATOMIC_RELAXED);
    return node;
}

static void *reader(void *seed)
{
    uint64_t random = (uintptr_t)seed;

    delayed_register();
    while (!atomic_load(&stop)) {
        struct node *node;
        delayed_read_lock();
        node = atomic_load(&cell[random_below(&random, CELLS)]);
        if (node) {
            uint64_t number = __atomic_load_n(&node->number, __ATOMIC_RELAXED);
            if (random_below(&random, 16) == 0)
                sched_yield();
            /* Whatever became of it meanwhile, it is still what it was. */
            if (__atomic_load_n(&node->same, __ATOMIC_RELAXED) != number)
                abort();
            atomic_fetch_add(&looked, 1);
        }
        delayed_read_unlock();
    }
    return NULL;
}

TEST(under_readers)
{
    pthread_t thread[READERS];
    uint64_t random = 3;
    struct node *node;

    for (uintptr_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, reader, (void *)i), 0);
    for (uint64_t i = 0; i < ROUNDS || atomic_load(&looked) < ROUNDS; i++) {
        node = atomic_exchange(&cell[random_below(&random, CELLS)], make(i));
        switch (i % 3) {
        case 0:
            kfree_rcu(node, rcu);
            break;
        case 1:
            kvfree_rcu(node, rcu);
            break;
        default:
            kfree_rcu_mightsleep(node);
        }
    }
    for (int i = 0; i < CELLS; i++) {
        node = atomic_exchange(&cell[i], NULL);
        kfree_rcu(node, rcu);
    }
    kvfree_rcu_barrier();
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(thread[i], NULL);
    /* Nothing of it is left out. */
    assert_int_equal(kmem_cache_shrink(nodes), 0);
}

TEST(stays_until_then)
{
    struct node *small = make(2), *large = make(5), *none = NULL;

    delayed_register();
    delayed_read_lock();
    kfree_rcu(small, rcu);
    kfree_rcu(large, rcu);
    kfree_rcu(none, rcu);
    for (int i = 0; i < 1000; i++) { /* others do not get them */
        struct node *other = make((uint64_t)i);
        assert_ptr_not_equal(other, small);
        assert_ptr_not_equal(other, large);
        kfree(other);
    }
    assert_true(small->same == 2 && large->same == 5);
    delayed_read_unlock();
    kvfree_rcu_barrier();
}

TEST(type_stable)
{
    struct kmem_cache *stable = KMEM_CACHE(node, SLAB_TYPESAFE_BY_RCU | SLAB_PANIC);
    void *objects[500];
    struct node *node;

    delayed_read_lock();
    assert_true(kmem_cache_alloc_bulk(stable, GFP_KERNEL | __GFP_ZERO, 500, objects));
    for (int i = 0; i < 500; i++)
        ((struct node *)objects[i])->number = 77;
    kmem_cache_free_bulk(stable, 500, (void *[500]){0}); /* nothing at all */
    node = objects[250];
    for (int i = 0; i < 500; i++)
        kmem_cache_free(stable, objects[i]);
    (void)kmem_cache_shrink(stable);
    /* Inside the section the memory is still of this type, as it was left. */
    assert_int_equal(node->number, 77);
    delayed_read_unlock();
    kmem_cache_destroy(stable);
}

TEST(destroyed_right_after)
{
    for (int i = 0; i < 20; i++) {
        struct kmem_cache *cache = kmem_cache_create("short", 64, 0, 0, NULL);
        for (int k = 0; k < 50; k++) {
            struct node *node = kmem_cache_alloc(cache, GFP_KERNEL);
            kfree_rcu(node, rcu);
        }
        assert_int_equal(stook_cache_destroy(kmem_stook_cache(cache)), 0);
    }
}

int main(void)
{
    return tests_run(setup, teardown);
}
