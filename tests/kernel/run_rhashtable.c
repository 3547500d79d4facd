/* SPDX-License-Identifier: MIT */
/*
 * Linux's lib/rhashtable.c over Stook: first the kernel's own test of it, lib/test_rhashtable.c, then readers beside
 * writers that free objects by kfree_rcu(), and tables for which there is no memory in one piece.  In the end every
 * object that came from kmalloc() is back.  Prints one line.
 */
#include <linux/rhashtable.h>
#include <linux/sched.h>

#define CHECK(right) ((right) ? (void)checks++ : (void)shim_say(true, "%d: %s\n", __LINE__, #right))

enum { KEYS = 4000, READERS = 2, ROUNDS = 4 };

struct entry {
    u32 key, same;
    struct rhash_head node;
    struct rcu_head rcu;
};

static const struct rhashtable_params params = {
    .head_offset = offsetof(struct entry, node),
    .key_offset = offsetof(struct entry, key),
    .key_len = sizeof(u32),
    .automatic_shrinking = true,
};

static atomic_int checks;
static struct rhashtable table;
static struct kmem_cache *entries;

static int one_more(void *object, void *count)
{
    (void)object;
    ++*(unsigned long *)count;
    return 0;
}

static int count_live(struct stook_cache *cache, void *count)
{
    if (strncmp(stook_cache_name(cache), "kmalloc-", 8) == 0)
        stook_cache_walk(cache, one_more, count);
    return 0;
}

static unsigned long live(void)
{
    unsigned long count = 0;

    rcu_barrier();
    kvfree_rcu_barrier();
    stook_cache_each(count_live, &count);
    return count;
}

static int reader(void *unused)
{
    u32 key = 0;

    (void)unused;
    while (!kthread_should_stop()) {
        struct entry *entry;
        key = (key + 7) % KEYS;
        rcu_read_lock();
        entry = rhashtable_lookup(&table, &key, params);
        /* It was this key's when it was found, and no other's since. */
        CHECK(!entry || (READ_ONCE(entry->key) == key && READ_ONCE(entry->same) == key));
        rcu_read_unlock();
    }
    return 0;
}

static void beside_readers(bool no_tables)
{
    struct task_struct *task[READERS];
    int error;
    u32 key;

    atomic_store(&shim_no_tables, no_tables);
    entries = KMEM_CACHE(entry, SLAB_ACCOUNT);
    CHECK(rhashtable_init(&table, &params) == 0);
    for (int i = 0; i < READERS; i++)
        task[i] = kthread_run(reader, NULL, "reader");
    for (int round = 0; round < ROUNDS; round++) {
        for (key = 0; key < KEYS; key++) {
            struct entry *entry = kmem_cache_zalloc(entries, GFP_KERNEL);
            entry->key = entry->same = key;
            /* ENOMEM: the worker, which may wait, makes a larger table meanwhile. */
            while ((error = rhashtable_insert_fast(&table, &entry->node, params)) == -ENOMEM ||
                   error == -EBUSY)
                shim_nap();
            CHECK(error == 0);
        }
        for (key = 0; key < KEYS; key++) {
            struct entry *entry = rhashtable_lookup_fast(&table, &key, params);
            CHECK(entry && rhashtable_remove_fast(&table, &entry->node, params) == 0);
            kfree_rcu(entry, rcu);
        }
    }
    for (int i = 0; i < READERS; i++)
        CHECK(kthread_stop(task[i]) == 0);
    rhashtable_destroy(&table);
    CHECK(!no_tables || shim_pages > 0);
    atomic_store(&shim_no_tables, false);
    kvfree_rcu_barrier_on_cache(entries);
    CHECK(stook_cache_destroy(kmem_stook_cache(entries)) == 0);
}

int main(void)
{
    unsigned long before;

    shim_start();
    kfree(kmalloc(1, GFP_KERNEL));
    before = live();
    CHECK(shim_module() == 0);
    CHECK(live() == before);
    beside_readers(false);
    beside_readers(true);
    CHECK(live() == before);
    shim_module_end();
    shim_end();
    printf("rhashtable: %s\n", shim_complaints ? "FAILED" : "passed");
    return shim_complaints || checks < 2 * ROUNDS * KEYS;
}
