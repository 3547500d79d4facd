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

#if STOOK_KMEM_LINUX < 0x060c00
static bool mempool_is_saturated(mempool_t *pool)
{
    return pool->curr_nr >= pool->min_nr;
}
#endif

/* All at once where this Linux can. */
static void take_many(mempool_t *pool, void **elements, unsigned n)
{
#if STOOK_KMEM_LINUX >= 0x070000
    CHECK(mempool_alloc_bulk(pool, elements, n) == 0);
#else
    for (unsigned i = 0; i < n; i++)
        CHECK((elements[i] = mempool_alloc(pool, GFP_NOIO)) != NULL);
#endif
}

/* Returns how many went to the reserve. */
static unsigned return_many(mempool_t *pool, void **elements, unsigned n)
{
#if STOOK_KMEM_LINUX >= 0x070000
    return mempool_free_bulk(pool, elements, n);
#else
    int before = pool->curr_nr;
    for (unsigned i = 0; i < n; i++)
        mempool_free(elements[i], pool);
    return (unsigned)(pool->curr_nr - before);
#endif
}

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
        take_many(pools[kind], elements, RESERVE);
        CHECK(pools[kind]->curr_nr == RESERVE); /* none of them is of the reserve */
        for (int i = 0; i < RESERVE; i++)
            mempool_free(elements[i], pools[kind]);
        CHECK(mempool_resize(pools[kind], 3 * RESERVE) == 0 && pools[kind]->curr_nr == 3 * RESERVE);
        CHECK(mempool_resize(pools[kind], 1) == 0 && pools[kind]->curr_nr == 1);
        mempool_destroy(pools[kind]);
    }
    CHECK(stook_cache_destroy(kmem_stook_cache(cache)) == 0);
}

static unsigned tries, fail_every;

static void *alloc_or_fail(gfp_t gfp, void *size)
{
    return fail_every && ++tries % fail_every == 0 ? NULL : mempool_kmalloc(gfp, size);
}

/* The pool does not know it, so it does not check what lies in elements of its reserve. */
static void free_element(void *element, void *size)
{
    mempool_kfree(element, size);
}

/* The pool's function fails at each second try, then at every one: the reserve serves, and is refilled. */
static void with_faults(void)
{
    mempool_t *pool = mempool_create(RESERVE, alloc_or_fail, free_element, (void *)100);
    void *elements[RESERVE];

    for (int round = 0; round < 100; round++) {
        fail_every = 2;
        for (int i = 0; i < 4; i++)
            CHECK((elements[i] = mempool_alloc(pool, GFP_NOWAIT)) != NULL);
        for (int i = 0; i < 4; i++)
            mempool_free(elements[i], pool);
        CHECK(pool->curr_nr == RESERVE);
        fail_every = 1;
        take_many(pool, elements, RESERVE);
        CHECK(pool->curr_nr == 0 && !mempool_alloc(pool, GFP_NOWAIT));
        CHECK(return_many(pool, elements, RESERVE) == RESERVE);
    }
    fail_every = 0;
    mempool_destroy(pool);
}

#if STOOK_KMEM_LINUX >= 0x070000
/* The same by the faults that this Linux injects by itself. */
static void with_injected_faults(void)
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
#else
static void with_injected_faults(void)
{
}
#endif

static mempool_t *shared;
static struct stook_group group;

/* Several threads that each took one by one could wait for each other. */
static void take_in_one(mempool_t *pool, void **elements, unsigned *n)
{
#if STOOK_KMEM_LINUX < 0x070000
    *n = 1;
#endif
    take_many(pool, elements, *n);
}

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
            take_in_one(shared, elements, &n);
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
    with_injected_faults();
    at_a_limit();
    shim_end();
    printf("mempool: %s\n", shim_complaints ? "FAILED" : "passed");
    return shim_complaints || checks < THREADS * ROUNDS;
}
