/* SPDX-License-Identifier: MIT */
/*
 * test_lfht.c - the functions of stook_lfht.h: counts of live objects, and readers beside writers.
 *
 * A reader that finds a node checks its words.  If a node were freed and reused within the reader's section, the
 * next owner would have changed them: the words of two keys differ.
 */
#ifdef TEST_QSBR
#include <urcu-qsbr.h>
#else
#include <urcu.h>
#endif
#include "stook_lfht.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 4096, WRITES = 200000, WRITERS = 2, READERS = 2 };

struct flow {
    struct cds_lfht_node node;
    uint64_t key, check, version;
};
STOOK_LFHT(flow, struct flow, node)

static struct cds_lfht *table;
static atomic_bool done;
static atomic_ulong found, wrong, replaced, deleted;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static unsigned long hash_of(uint64_t key)
{
    return (unsigned long)((key + 1) * 0x9e3779b97f4a7c15u >> 16);
}

static int match(struct cds_lfht_node *node, const void *key)
{
    return caa_container_of(node, struct flow, node)->key == *(const uint64_t *)key;
}

static struct flow *make(uint64_t key, uint64_t version)
{
    struct flow *flow = flow_new();

    CHECK(flow);
    flow->key = key;
    flow->version = version;
    flow->check = key ^ version;
    return flow;
}

static struct flow *look_up(uint64_t key)
{
    struct cds_lfht_iter iter;
    struct cds_lfht_node *node;

    cds_lfht_lookup(table, hash_of(key), match, &key, &iter);
    node = cds_lfht_iter_get_node(&iter);
    return node ? caa_container_of(node, struct flow, node) : NULL;
}

static int count_one(void *object, void *n)
{
    (void)object;
    ++*(size_t *)n;
    return 0;
}

/* Exact while no other thread uses the cache. */
static size_t live(void)
{
    size_t n = 0;

    stook_rcu_barrier();
    CHECK(stook_cache_walk(flow_cache, count_one, &n) == 0);
    return n;
}

static void *read_all(void *unused)
{
    rcu_register_thread();
    for (uint64_t key = 0; !atomic_load(&done); key++) {
        rcu_read_lock();
        struct flow *flow = look_up(key % KEYS);
        if (flow) {
            uint64_t version = flow->version;
            atomic_fetch_add_explicit(&found, 1, memory_order_relaxed);
            for (int i = 0; i < 3; i++) /* longer in the section: more writers pass */
                if (CMM_LOAD_SHARED(flow->key) != key % KEYS ||
                    CMM_LOAD_SHARED(flow->check) != (key % KEYS ^ version))
                    atomic_fetch_add(&wrong, 1);
        }
        rcu_read_unlock();
#ifdef TEST_QSBR
        rcu_quiescent_state();
#endif
    }
    rcu_unregister_thread();
    return unused;
}

static void *write_all(void *number)
{
    uint64_t random = 88172645463325252u + (uintptr_t)number;

    rcu_register_thread();
    for (int i = 0; i < WRITES; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint64_t key = random % KEYS;
        if (random >> 32 & 1) {
            flow_put(table, hash_of(key), match, &key, make(key, random));
            atomic_fetch_add(&replaced, 1);
        } else {
            rcu_read_lock();
            struct flow *flow = look_up(key);
            if (flow && flow_delete(table, flow) == 0)
                atomic_fetch_add(&deleted, 1);
            rcu_read_unlock();
        }
#ifdef TEST_QSBR
        rcu_quiescent_state();
#endif
    }
    rcu_unregister_thread();
    return NULL;
}

static size_t count(void)
{
    struct cds_lfht_iter iter;
    struct flow *flow;
    size_t n = 0;

    rcu_read_lock();
    cds_lfht_for_each_entry(table, &iter, flow, node) n++;
    rcu_read_unlock();
    return n;
}

static void test_one_thread(void)
{
    uint64_t key = 7;
    struct flow *first = make(7, 1), *second = make(7, 2), *unused = make(8, 1);

    CHECK(live() == 3);
    flow_discard(unused);
    CHECK(live() == 2);
    CHECK(flow_add_unique(table, hash_of(7), match, &key, first) == first);
    CHECK(flow_add_unique(table, hash_of(7), match, &key, second) == first); /* discards it */
    CHECK(live() == 1);
    flow_put(table, hash_of(7), match, &key, make(7, 3));
    CHECK(live() == 1);
    rcu_read_lock();
    struct flow *flow = look_up(7);
    CHECK(flow && flow->version == 3);
    CHECK(flow_delete(table, flow) == 0);
    CHECK(flow_delete(table, flow) == -ENOENT); /* frees nothing twice */
    rcu_read_unlock();
    CHECK(live() == 0);
    flow_add(table, hash_of(7), make(7, 4));
    flow_add(table, hash_of(7), make(7, 5));
    CHECK(count() == 2 && live() == 2);
    CHECK(flow_stop() == -1); /* the cache stays while a table has its objects */
    flow_clear(table);
    CHECK(count() == 0 && live() == 0);
}

static void test_threads(void)
{
    pthread_t readers[READERS], writers[WRITERS];

    for (uintptr_t i = 0; i < READERS; i++)
        CHECK(pthread_create(&readers[i], NULL, read_all, NULL) == 0);
    for (uintptr_t i = 0; i < WRITERS; i++)
        CHECK(pthread_create(&writers[i], NULL, write_all, (void *)(i + 1)) == 0);
#ifdef TEST_QSBR
    rcu_thread_offline();
#endif
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    atomic_store(&done, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
#ifdef TEST_QSBR
    rcu_thread_online();
#endif
    CHECK(atomic_load(&wrong) == 0);
    CHECK(atomic_load(&found) > 0 && atomic_load(&replaced) > 0 && atomic_load(&deleted) > 0);
    CHECK(live() == count());
    CHECK(count() > 0);
    flow_clear(table);
    CHECK(live() == 0);
}

int main(void)
{
#ifdef TEST_QSBR
    CHECK(stook_urcu_use_qsbr() == 0);
#else
    CHECK(stook_urcu_use_memb() == 0);
#endif
    rcu_register_thread();
    CHECK(flow_start() == 0);
    table = cds_lfht_new(256, 256, 0, CDS_LFHT_AUTO_RESIZE, NULL);
    CHECK(table);
    test_one_thread();
    test_threads();
#ifdef TEST_QSBR
    rcu_thread_offline();
#endif
    CHECK(cds_lfht_destroy(table, NULL) == 0);
#ifdef TEST_QSBR
    rcu_thread_online();
#endif
    CHECK(flow_stop() == 0);
    rcu_unregister_thread();
    puts("2 passed, 0 failed");
    return 0;
}
