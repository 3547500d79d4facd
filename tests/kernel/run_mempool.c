/* SPDX-License-Identifier: MIT */
/*
 * Linux's mm/mempool.c over Stook: pools of a cache, of kmalloc and of pages; reserves that a group's limit, or an
 * injected fault, makes necessary; callers that wait.  Prints one line.
 */
#include <linux/mempool.h>
#include <linux/sched.h>

#include <stook/group.h>

#define CHECK(right) ((right) ? (void)checks++ : (void)shim_say(true, "%d: %s\n", __LINE__, #right))

enum { RESERVE = 8, THREADS = 4, ROUNDS = 3000, BIO = 200 };

static atomic_int checks;

static void by_type(void)
{
    struct kmem_cache *cache = kmem_cache_create("bio", BIO, 0, SLAB_HWCACHE_ALIGN, NULL);
    mempool_t *pools[3] = {mempool_create_slab_pool(RESERVE, cache),
                           mempool_create_kmalloc_pool(RESERVE, 3000),
                           mempool_create_page_pool(RESERVE, 1)};
    const size_t sizes[3] = {BIO, 3000, 2 * PAGE_SIZE};
    void *elements[40];

    for (int kind = 0; kind < 3; kind++) {
        CHECK(pools[kind] && pools[kind]->curr_nr == RESERVE && mempool_is_saturated(pools[kind]));
        for (int i = 0; i < 40; i++) {
            elements[i] = mempool_alloc(pools[kind], i % 2 ? GFP_NOIO : GFP_NOWAIT);
            CHECK(elements[i] && ksize(elements[i]) >= sizes[kind]);
            memset(elements[i], i, sizes[kind]);
        }
        for (int i = 0; i < 40; i++) {
            CHECK(((char *)elements[i])[sizes[kind] - 1] == i);
            mempool_free(elements[i], pools[kind]);
        }
        CHECK(mempool_alloc_bulk(pools[kind], elements, RESERVE) == 0);
        CHECK(mempool_free_bulk(pools[kind], elements, RESERVE) == 0); /* the reserve is full */
        for (int i = 0; i < RESERVE; i++)
            mempool_free(elements[i], pools[kind]);
        CHECK(mempool_resize(pools[kind], 3 * RESERVE) == 0 && pools[kind]->curr_nr == 3 * RESERVE);
        CHECK(mempool_resize(pools[kind], 1) == 0 && pools[kind]->curr_nr == 1);
        mempool_destroy(pools[kind]);
    }
    CHECK(stook_cache_destroy(kmem_stook_cache(cache)) == 0);
}

/* Each second try of the pool's function fails: the reserve serves, and is refilled. */
static void with_faults(void)
{
    mempool_t *pool = mempool_create_kmalloc_pool(RESERVE, 100);
    void *elements[RESERVE];

    CHECK(shim_faults("fail_mempool_alloc", 2) == 0);
    CHECK(shim_faults("fail_mempool_alloc_bulk", 1) == 0);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 4; i++)
            CHECK((elements[i] = mempool_alloc(pool, GFP_NOIO)) != NULL);
        for (int i = 0; i < 4; i++)
            mempool_free(elements[i], pool);
        CHECK(mempool_alloc_bulk(pool, elements, RESERVE) == 0);
        CHECK(pool->curr_nr == 0 && !mempool_alloc_preallocated(pool));
        CHECK(mempool_free_bulk(pool, elements, RESERVE) == RESERVE);
    }
    shim_faults("fail_mempool_alloc", 0);
    shim_faults("fail_mempool_alloc_bulk", 0);
    mempool_destroy(pool);
}

static mempool_t *shared;
static struct stook_group group;

static int worker(void *seed)
{
    unsigned long random = (unsigned long)seed;
    void *elements[RESERVE];

    stook_group_enter(group);
    for (int i = 0; i < ROUNDS; i++) {
        unsigned n = 1 + (unsigned)((random = random * 6364136223846793005UL + 1) >> 60) % 4;
        if (i % 3) {
            n = 1;
            elements[0] = mempool_alloc(shared, GFP_NOIO);
        } else {
            mempool_alloc_bulk(shared, elements, n);
        }
        for (unsigned k = 0; k < n; k++)
            WRITE_ONCE(*(void **)elements[k], seed);
        if (i % 16 == 0)
            sched_yield();
        for (unsigned k = 0; k < n; k++) {
            CHECK(READ_ONCE(*(void **)elements[k]) == seed); /* no other thread has it */
            mempool_free(elements[k], shared);
        }
    }
    return 0;
}

/* The threads' group has room for no object of the cache: all that they get is of the reserve. */
static void at_a_limit(void)
{
    struct kmem_cache *cache = kmem_cache_create("charged", BIO, 0, SLAB_ACCOUNT, NULL);
    struct stook_group_stat stat = {.size = sizeof(stat)};
    struct task_struct *task[THREADS];

    group = stook_group_create("tight", STOOK_NO_GROUP, 100);
    shared = mempool_create_slab_pool(RESERVE, cache);
    for (unsigned long i = 0; i < THREADS; i++)
        task[i] = kthread_run(worker, (void *)i, "worker");
    for (int i = 0; i < THREADS; i++)
        CHECK(kthread_stop(task[i]) == 0);
    CHECK(shared->curr_nr == RESERVE);
    mempool_destroy(shared);
    CHECK(stook_group_stat(group, &stat) == 0 && stat.refused > 0 && stat.usage == 0);
    stook_group_destroy(group);
    CHECK(stook_cache_destroy(kmem_stook_cache(cache)) == 0);
}

int main(void)
{
    shim_start();
    by_type();
    with_faults();
    at_a_limit();
    shim_end();
    printf("mempool: %s\n", shim_complaints ? "FAILED" : "passed");
    return shim_complaints || checks < THREADS * ROUNDS;
}
