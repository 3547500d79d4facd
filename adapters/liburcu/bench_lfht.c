/* SPDX-License-Identifier: MIT */
/*
 * bench_lfht.c - lookups in cds_lfht while a share of the operations replaces nodes.
 *
 *   stook-bench-lfht SOURCE [SECONDS [KEYS [THREADS [CHURN]]]]
 *
 * SOURCE is stook (a typed cache and stook_free_rcu()) or malloc (malloc, and call_rcu() whose callback frees).
 * Each thread picks random keys; CHURN percent of its operations replace the key's node, the others look it
 * up.  In the first half of the time operations are counted, in the second each is timed by itself.  One line of JSON:
 * lookups and replacements a second of the process's CPU time, quantiles of both in nanoseconds, and the peak of
 * resident memory.  CPU time, since it counts the threads that free nodes, and no second in which others had the CPU.
 */
#include <urcu.h>
#include "stook_lfht.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* The same payload; only the second needs room for its rcu_head. */
struct flow {
    struct cds_lfht_node node;
    uint64_t key, value[5];
};
struct plain {
    struct cds_lfht_node node;
    uint64_t key, value[5];
    struct rcu_head head;
};
STOOK_LFHT(flow, struct flow, node)

enum { THREADS_MAX = 64, FINE = 32, BUCKETS = 40 * FINE };

struct histogram {
    uint64_t n, bucket[BUCKETS];
};

struct worker {
    pthread_t thread;
    uint64_t random, sum, looked_up, wrote;
    struct histogram lookups, writes;
} __attribute__((aligned(128)));

static struct worker workers[THREADS_MAX];
static struct cds_lfht *table;
static uint64_t keys = 100000;
static unsigned churn = 10;
static bool plain;
static atomic_bool started, timed, done;

static uint64_t nanoseconds(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#ifdef __x86_64__
/* The fences keep the operation's loads between two readings: a predicted branch hides misses otherwise. */
static uint64_t ticks(void)
{
    uint64_t now;

    __builtin_ia32_lfence();
    now = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    return now;
}
#else
static uint64_t ticks(void)
{
    return nanoseconds(CLOCK_MONOTONIC);
}
#endif

/* FINE buckets a doubling: quantiles are right within 1/FINE. */
static unsigned bucket_of(uint64_t value)
{
    unsigned top;

    if (value < FINE)
        return (unsigned)value;
    top = 63 - (unsigned)__builtin_clzll(value); /* 5 or more */
    top = (top - 4) * FINE + (unsigned)(value >> (top - 5)) % FINE;
    return top < BUCKETS ? top : BUCKETS - 1;
}

static uint64_t bucket_value(unsigned bucket)
{
    if (bucket < FINE)
        return bucket;
    return (uint64_t)(FINE + bucket % FINE) << (bucket / FINE - 1);
}

static void note(struct histogram *histogram, uint64_t value)
{
    histogram->n++;
    histogram->bucket[bucket_of(value)]++;
}

static uint64_t quantile(const struct histogram *histogram, double q)
{
    uint64_t wanted = (uint64_t)(q * (double)histogram->n), n = 0;

    for (unsigned i = 0; i < BUCKETS; i++) {
        n += histogram->bucket[i];
        if (n > wanted)
            return bucket_value(i);
    }
    return 0;
}

static unsigned long hash_of(uint64_t key)
{
    return (unsigned long)((key + 1) * 0x9e3779b97f4a7c15u >> 16);
}

static int match_key(struct cds_lfht_node *node, const void *key)
{
    return caa_container_of(node, struct flow, node)->key == *(const uint64_t *)key;
}

static void free_plain(struct rcu_head *head)
{
    free(caa_container_of(head, struct plain, head));
}

static void fill(uint64_t *key, uint64_t *value, uint64_t from)
{
    *key = from;
    for (int i = 0; i < 5; i++)
        value[i] = from;
}

static void replace(uint64_t key)
{
    if (plain) {
        struct plain *fresh = malloc(sizeof(*fresh));
        struct cds_lfht_node *old;

        if (!fresh)
            abort();
        cds_lfht_node_init(&fresh->node);
        fill(&fresh->key, fresh->value, key);
        rcu_read_lock();
        old = cds_lfht_add_replace(table, hash_of(key), match_key, &key, &fresh->node);
        rcu_read_unlock();
        if (old)
            call_rcu(&caa_container_of(old, struct plain, node)->head, free_plain);
    } else {
        struct flow *fresh = flow_new();

        if (!fresh)
            abort();
        fill(&fresh->key, fresh->value, key);
        flow_put(table, hash_of(key), match_key, &key, fresh);
    }
}

/* Both structures begin alike. */
static uint64_t look_up(uint64_t key)
{
    struct cds_lfht_iter iter;
    struct cds_lfht_node *node;
    uint64_t value = 0;

    rcu_read_lock();
    cds_lfht_lookup(table, hash_of(key), match_key, &key, &iter);
    node = cds_lfht_iter_get_node(&iter);
    if (node)
        value = caa_container_of(node, struct flow, node)->value[4];
    rcu_read_unlock();
    return value;
}

static void *work(void *arg)
{
    struct worker *w = arg;

    rcu_register_thread();
    while (!atomic_load(&started))
        ;
    while (!atomic_load_explicit(&done, memory_order_relaxed)) {
        w->random ^= w->random << 13, w->random ^= w->random >> 7, w->random ^= w->random << 17;
        bool writes = (w->random & 0xff) * 100 < churn * 256;
        uint64_t key = (w->random >> 8) % keys;
        if (atomic_load_explicit(&timed, memory_order_relaxed)) {
            uint64_t from = ticks();
            if (writes)
                replace(key);
            else
                w->sum += look_up(key);
            note(writes ? &w->writes : &w->lookups, ticks() - from);
        } else if (writes) {
            replace(key);
            w->wrote++;
        } else {
            w->sum += look_up(key);
            w->looked_up++;
        }
    }
    rcu_unregister_thread();
    return NULL;
}

static void add_to(struct histogram *sum, const struct histogram *one)
{
    sum->n += one->n;
    for (unsigned i = 0; i < BUCKETS; i++)
        sum->bucket[i] += one->bucket[i];
}

static void print_quantiles(const char *name, const struct histogram *h, double rate, double tick)
{
    printf("\"%s\": %.0f, \"%s_p50\": %.0f, \"%s_p99\": %.0f, \"%s_p999\": %.0f", name, rate, name,
           (double)quantile(h, 0.5) * tick, name, (double)quantile(h, 0.99) * tick, name,
           (double)quantile(h, 0.999) * tick);
}

int main(int argc, char **argv)
{
    static struct histogram lookups, writes;
    double seconds = argc > 2 ? atof(argv[2]) : 2;
    unsigned threads = argc > 4 ? (unsigned)atoi(argv[4]) : 2;
    struct rusage usage;

    if (argc > 3)
        keys = strtoull(argv[3], NULL, 10);
    if (argc > 5)
        churn = (unsigned)atoi(argv[5]);
    if (argc < 2 || keys == 0 || threads == 0 || threads > THREADS_MAX || churn > 100 ||
        (strcmp(argv[1], "stook") != 0 && strcmp(argv[1], "malloc") != 0)) {
        fputs("stook-bench-lfht stook|malloc [SECONDS [KEYS [THREADS [CHURN]]]]\n", stderr);
        return 2;
    }
    plain = strcmp(argv[1], "malloc") == 0;
    if (!plain && (stook_urcu_use_memb() != 0 || flow_start() != 0))
        return 1;
    rcu_register_thread();
    if (plain)
        get_default_call_rcu_data(); /* as stook_urcu_use_memb(): the thread starts before the clock */
    table = cds_lfht_new(1u << 17, 1u << 17, 0, 0, NULL);
    if (!table)
        return 1;
    for (uint64_t key = 0; key < keys; key++)
        replace(key);
    for (unsigned i = 0; i < threads; i++) {
        workers[i].random = 88172645463325252u * (i + 1);
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            return 1;
    }
    uint64_t from = nanoseconds(CLOCK_MONOTONIC), from_ticks = ticks();
    uint64_t from_cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    atomic_store(&started, true);
    struct timespec t = {(time_t)(seconds / 2),
                         (long)((seconds / 2 - (double)(time_t)(seconds / 2)) * 1e9)};
    nanosleep(&t, NULL);
    atomic_store(&timed, true);
    double looked_up = 0, wrote = 0;
    double counted = (double)(nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - from_cpu) / 1e9;
    nanosleep(&t, NULL);
    atomic_store(&done, true);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    double took = (double)(nanoseconds(CLOCK_MONOTONIC) - from),
           tick = took / (double)(ticks() - from_ticks);
    getrusage(RUSAGE_SELF, &usage);
    for (unsigned i = 0; i < threads; i++) {
        looked_up += (double)workers[i].looked_up;
        wrote += (double)workers[i].wrote;
        add_to(&lookups, &workers[i].lookups);
        add_to(&writes, &workers[i].writes);
    }
    printf("{\"source\": \"%s\", ", argv[1]);
    print_quantiles("lookups", &lookups, looked_up / counted, tick);
    printf(", ");
    print_quantiles("writes", &writes, wrote / counted, tick);
    printf(", \"peak_kib\": %ld}\n", usage.ru_maxrss);
    return 0; /* the table, and deferred frees, end with the process */
}
