/* SPDX-License-Identifier: MIT */
/*
 * Runs tests of DPDK's app/test, compiled unchanged, without DPDK's own interactive program:
 *
 *   suite EAL-ARGUMENTS -- DRIVER TEST...
 *
 * rte_mempool_create() in them is suite_mempool_create(), by -D: a mempool of DRIVER, whatever its flags say of
 * producers and consumers.  With SUITE_MOVED in the environment the driver's calls
 * are counted, which takes time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mempool.h>

#undef rte_mempool_create
#include "test.h"

struct rte_mempool *suite_mempool_create(const char *name, unsigned n, unsigned elt_size,
                                         unsigned cache_size, unsigned private_data_size,
                                         rte_mempool_ctor_t *mp_init, void *mp_init_arg,
                                         rte_mempool_obj_cb_t *obj_init, void *obj_init_arg,
                                         int socket_id, unsigned flags);
unsigned long suite_moved(void);

static struct test_command *commands;
static const char *driver;

/* The driver's own operations, and the objects that its calls moved. */
static struct rte_mempool_ops under;
static unsigned long moved;

static int count_enqueue(struct rte_mempool *mp, void *const *objects, unsigned n)
{
    __atomic_fetch_add(&moved, n, __ATOMIC_RELAXED);
    return under.enqueue(mp, objects, n);
}

static int count_dequeue(struct rte_mempool *mp, void **objects, unsigned n)
{
    __atomic_fetch_add(&moved, n, __ATOMIC_RELAXED);
    return under.dequeue(mp, objects, n);
}

/* Objects that the driver took or put since the last call. */
unsigned long suite_moved(void)
{
    return __atomic_exchange_n(&moved, 0, __ATOMIC_RELAXED);
}

/* All mempools of one driver share its operations. */
static void count_calls(struct rte_mempool *mp)
{
    struct rte_mempool_ops *ops = rte_mempool_get_ops(mp->ops_index);

    if (!getenv("SUITE_MOVED") || ops->enqueue == count_enqueue)
        return;
    under = *ops;
    ops->enqueue = count_enqueue;
    ops->dequeue = count_dequeue;
}

void add_test_command(struct test_command *t)
{
    t->next.tqe_next = commands;
    commands = t;
}

struct rte_mempool *suite_mempool_create(const char *name, unsigned n, unsigned elt_size,
                                         unsigned cache_size, unsigned private_data_size,
                                         rte_mempool_ctor_t *mp_init, void *mp_init_arg,
                                         rte_mempool_obj_cb_t *obj_init, void *obj_init_arg,
                                         int socket_id, unsigned flags)
{
    struct rte_mempool *mp = rte_mempool_create_empty(name, n, elt_size, cache_size,
                                                      private_data_size, socket_id, flags);

    if (!mp)
        return NULL;
    if (rte_mempool_set_ops_byname(mp, driver, NULL)) {
        rte_mempool_free(mp);
        return NULL;
    }
    count_calls(mp);
    if (mp_init)
        mp_init(mp, mp_init_arg);
    if (rte_mempool_populate_default(mp) < 0) {
        rte_mempool_free(mp);
        return NULL;
    }
    if (obj_init)
        rte_mempool_obj_iter(mp, obj_init, obj_init_arg);
    return mp;
}

int main(int argc, char **argv)
{
    int eal = rte_eal_init(argc, argv), failed = 0;

    if (eal < 0 || argc - eal < 3) {
        fprintf(stderr, "usage: suite EAL-ARGUMENTS -- DRIVER TEST...\n");
        return 2;
    }
    driver = argv[eal + 1];
    for (int i = eal + 2; i < argc; i++) {
        struct test_command *command = commands;
        int result;

        while (command && strcmp(command->command, argv[i]))
            command = command->next.tqe_next;
        result = command ? command->callback() : TEST_FAILED;
        printf("suite: %s on %s: %s\n", argv[i], driver, result ? "FAILED" : "passed");
        failed += result != 0;
    }
    rte_eal_cleanup();
    return failed != 0;
}
