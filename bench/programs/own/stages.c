/* SPDX-License-Identifier: MIT */
/*
 * Threads build trees of objects, keep some of them on shelves that all threads share, and free what they
 * find there; between stages most of what is kept goes, and all threads end.
 */
#include "own.h"

enum { THREADS = 4, SHELF = 4096, STAGES = 10 };

struct tree {
    struct tree *child[2];
    size_t size;
    unsigned char more[];
};

static _Atomic(struct tree *) shelf[SHELF];
static unsigned rounds;

static struct tree *tree_make(struct own_random *random, unsigned depth)
{
    size_t more =
        own_below(random, 64) ? own_log_uniform(random, 3, 9) : own_log_uniform(random, 9, 14);
    struct tree *tree = own_alloc(sizeof(*tree) + more);

    tree->size = more;
    tree->more[0] = tree->more[more - 1] = (unsigned char)more;
    for (int i = 0; i < 2; i++)
        tree->child[i] = depth > 0 && own_below(random, 4) ? tree_make(random, depth - 1) : NULL;
    return tree;
}

static uint64_t tree_free(struct tree *tree)
{
    uint64_t right = 1;

    if (!tree)
        return 0;
    if (tree->more[0] != (unsigned char)tree->size || tree->more[tree->size - 1] != tree->more[0])
        abort();
    for (int i = 0; i < 2; i++)
        right += tree_free(tree->child[i]);
    free(tree);
    return right;
}

static void *work(void *arg)
{
    struct own_random random = {(uintptr_t)arg};

    for (unsigned n = 0; n < rounds; n++) {
        struct tree *tree = tree_make(&random, own_below(&random, 7));
        if (own_below(&random, 3) == 0)
            tree = __atomic_exchange_n(&shelf[own_below(&random, SHELF)], tree, __ATOMIC_ACQ_REL);
        tree_free(tree);
    }
    return NULL;
}

uint64_t own_stages(unsigned scale)
{
    rounds = scale * 240;
    for (uintptr_t stage = 0; stage < STAGES; stage++) {
        pthread_t thread[THREADS];
        for (uintptr_t t = 0; t < THREADS; t++)
            own_thread(&thread[t], work, (void *)(stage * THREADS + t + 1));
        for (int t = 0; t < THREADS; t++)
            pthread_join(thread[t], NULL);
        for (unsigned i = 0; i < SHELF; i++)
            if (i % 8 != 0 || stage == STAGES - 1)
                tree_free(__atomic_exchange_n(&shelf[i], NULL, __ATOMIC_ACQ_REL));
    }
    return rounds; /* which thread finds what differs from run to run */
}
