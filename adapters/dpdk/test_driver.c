/* SPDX-License-Identifier: MIT */
/*
 * The driver "stook" by itself, on two lcores without huge pages: counts, never times.
 *
 *   test_driver DRIVER.so
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mempool.h>

#include <stook/stook.h>

#define N 1000u
#define BULK 37u

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void *taken[4 * N];

static struct rte_mempool *pool_make(const char *name, unsigned n, unsigned size, unsigned flags)
{
    struct rte_mempool *mp = rte_mempool_create_empty(name, n, size, 0, 0, SOCKET_ID_ANY, flags);

    CHECK(mp);
    CHECK(rte_mempool_set_ops_byname(mp, "stook", NULL) == 0);
    CHECK(rte_mempool_populate_default(mp) == (int)n);
    return mp;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;

    return (x > y) - (x < y);
}

/* All n elements can be taken, each once, and no more. */
static void pool_check_all(struct rte_mempool *mp, unsigned n)
{
    void *one;

    CHECK(rte_mempool_avail_count(mp) == n);
    for (unsigned i = 0; i < n; i++) {
        CHECK(rte_mempool_get(mp, &taken[i]) == 0);
        CHECK(rte_mempool_from_obj(taken[i]) == mp);
    }
    CHECK(rte_mempool_avail_count(mp) == 0);
    CHECK(rte_mempool_get(mp, &one) == -ENOBUFS);
    qsort(taken, n, sizeof(taken[0]), by_address);
    for (unsigned i = 1; i < n; i++)
        CHECK(taken[i] != taken[i - 1]);
    rte_mempool_put_bulk(mp, taken, n);
    CHECK(rte_mempool_avail_count(mp) == n);
}

static void test_all(void)
{
    static const unsigned sizes[] = {8, 64, 100, 2048, 9000};
    static const unsigned flags[] = {0, RTE_MEMPOOL_F_NO_CACHE_ALIGN | RTE_MEMPOOL_F_NO_SPREAD,
                                     RTE_MEMPOOL_F_NO_IOVA_CONTIG};

    for (unsigned i = 0; i < RTE_DIM(sizes); i++) {
        for (unsigned f = 0; f < RTE_DIM(flags); f++) {
            struct rte_mempool *mp = pool_make("all", N, sizes[i], flags[f]);

            CHECK(stook_cache_by_name("mempool.all"));
            for (unsigned round = 0; round < 3; round++)
                pool_check_all(mp, N);
            rte_mempool_free(mp);
            CHECK(!stook_cache_by_name("mempool.all"));
        }
    }
}

/* Stook gives slabs back, and makes others: the elements of the first become those of the second. */
static void test_shrink(void)
{
    struct rte_mempool *mp = pool_make("shrink", N, 64, 0);

    for (unsigned round = 0; round < 5; round++) {
        pool_check_all(mp, N);
        CHECK(stook_cache_shrink(stook_cache_by_name("mempool.shrink")) > 0);
    }
    rte_mempool_free(mp);
}

/* A bulk is all or nothing, and larger than a batch and a sheaf. */
static void test_bulk(void)
{
    struct rte_mempool *mp = pool_make("bulk", N, 64, 0);

    CHECK(rte_mempool_get_bulk(mp, taken, N + 1) == -ENOBUFS);
    CHECK(rte_mempool_avail_count(mp) == N);
    CHECK(rte_mempool_get_bulk(mp, taken, N - 1) == 0);
    CHECK(rte_mempool_get_bulk(mp, taken + N, 2) == -ENOBUFS);
    CHECK(rte_mempool_avail_count(mp) == 1);
    CHECK(rte_mempool_get_bulk(mp, taken + N - 1, 1) == 0);
    rte_mempool_put_bulk(mp, taken, N);
    pool_check_all(mp, N);
    rte_mempool_free(mp);
}

/* A mempool with elements in use is freed, as DPDK allows. */
static void test_in_use(void)
{
    struct rte_mempool *mp = pool_make("in_use", N, 64, 0);

    CHECK(rte_mempool_get_bulk(mp, taken, N / 3) == 0);
    rte_mempool_free(mp);
    CHECK(!stook_cache_by_name("mempool.in_use"));
}

/* The other lcore puts elements into its CPU's sheaves: this one still gets all of them. */
static int other_puts(void *arg)
{
    rte_mempool_put_bulk(arg, taken, N);
    return 0;
}

static void test_stranded(unsigned other)
{
    struct rte_mempool *mp = pool_make("stranded", N, 64, 0);

    for (unsigned round = 0; round < 20; round++) {
        CHECK(rte_mempool_get_bulk(mp, taken, N) == 0);
        rte_eal_remote_launch(other_puts, mp, other);
        CHECK(rte_eal_wait_lcore(other) == 0);
        pool_check_all(mp, N);
    }
    rte_mempool_free(mp);
}

/* Both lcores take and put; each element is marked while it is taken. */
static int storm(void *arg)
{
    struct rte_mempool *mp = arg;
    void *held[8 * BULK];
    unsigned n = 0, failed = 0;
    uint64_t seed = rte_lcore_id() + 1;

    for (unsigned i = 0; i < 20000; i++) {
        unsigned bulk;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bulk = 1 + (unsigned)(seed >> 33) % BULK;
        if (seed >> 63 && n + bulk <= RTE_DIM(held)) {
            if (rte_mempool_get_bulk(mp, held + n, bulk)) {
                failed++;
                continue;
            }
            for (unsigned k = n; k < n + bulk; k++)
                CHECK(__atomic_exchange_n((int *)held[k], 1, __ATOMIC_ACQ_REL) == 0);
            n += bulk;
        } else if (n >= bulk) {
            n -= bulk;
            for (unsigned k = n; k < n + bulk; k++)
                CHECK(__atomic_exchange_n((int *)held[k], 0, __ATOMIC_ACQ_REL) == 1);
            rte_mempool_put_bulk(mp, held + n, bulk);
        }
    }
    for (unsigned k = 0; k < n; k++)
        __atomic_store_n((int *)held[k], 0, __ATOMIC_RELEASE);
    rte_mempool_put_bulk(mp, held, n);
    return (int)failed;
}

static void element_clear(struct rte_mempool *mp, void *arg, void *element, unsigned i)
{
    (void)mp, (void)arg, (void)i;
    *(int *)element = 0;
}

static void test_storm(unsigned other)
{
    /* Enough elements for both, and fewer: the last ones lie in the other CPU's sheaves. */
    static const unsigned sizes[] = {2 * 8 * BULK, 10 * BULK};

    for (unsigned i = 0; i < RTE_DIM(sizes); i++) {
        struct rte_mempool *mp = pool_make("storm", sizes[i], 64, 0);

        rte_mempool_obj_iter(mp, element_clear, NULL);
        rte_eal_remote_launch(storm, mp, other);
        storm(mp);
        rte_eal_wait_lcore(other);
        pool_check_all(mp, sizes[i]);
        rte_mempool_free(mp);
    }
}

int main(int argc, char **argv)
{
    char *arguments[] = {argv[0],
                         "--no-huge",
                         "-m",
                         "64",
                         "--no-pci",
                         "--no-shconf",
                         "-l",
                         "0,1",
                         "-d",
                         argv[argc - 1],
                         "--log-level=lib.eal:error"};
    unsigned other;

    CHECK(argc == 2);
    if (rte_eal_init(RTE_DIM(arguments), arguments) < 0) {
        printf("skipped: rte_eal_init: %s\n", rte_strerror(rte_errno));
        return 77;
    }
    other = rte_get_next_lcore(-1, 1, 0);
    test_all();
    test_shrink();
    test_bulk();
    test_in_use();
    test_stranded(other);
    test_storm(other);
    rte_eal_cleanup();
    puts("passed");
    return 0;
}
