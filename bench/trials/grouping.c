/* SPDX-License-Identifier: MIT */
/*
 * Ways to sort the objects of a bulk free by their slabs, each with the linking and the one
 * compare-and-swap a list that follow:
 *
 *   ahead-3, -8, -16  from the array's end, the last object's slab collects those of its own among
 *                     what comes before, until it has met that many others (Linux: 3); again from
 *                     what is left
 *   sort              chunks of 192 pointers sorted by address; a slab's are then in a row
 *   hash              chunks of 192, a table from slab to list: src/slab/detached.c
 *
 * over arrays in order, shuffled 64 by 64, sixteen slabs by sixteen, and as a whole.  Slabs are partial before and
 * after, so no list of slabs is touched: what is measured is the grouping and what depends on it,
 * alone, and beside another CPU that changes the slabs' words all the time, as one that frees to them.
 * Written for docs/decisions/0009-grouping-by-hash.md.
 */
#include "slab/detached.h"
#include "slab/node.h"

#include <stook/stook.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OBJECTS = 16384, SLABS_MAX = 1024, ROUNDS = 41, WAYS = 5, AHEAD = DETACHED_AHEAD };

static struct stook_cache *cache;
static uint64_t lists; /* published */

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ---- what all ways do with a list ----------------------------------------------------------- */

static void publish(struct slab *slab, uint32_t head, uint32_t tail, uint32_t count)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed), pushed;

    do {
        if (slab_inuse(word) < count)
            abort();
        slab_set_link(cache, slab, tail, slab_head(word));
        pushed = slab_word(head, slab_inuse(word) - count, slab_seq(word) + 1, slab_flags(word));
    } while (!atomic_compare_exchange_weak_explicit(&slab->state, &word, pushed,
                                                    memory_order_acq_rel, memory_order_acquire));
    lists++;
}

/* Of an object of this cache; checked when it is put onto a list. */
static struct slab *slab_guess(const void *object)
{
    return slab_at(object, *pagemap_at(object));
}

/* ---- the ways ------------------------------------------------------------------------------- */

static void by_look_ahead(void **array, uint32_t n, unsigned look)
{
    while (n > 0) {
        uint32_t head, tail, count = 1, index;
        void *object = array[--n];
        unsigned left = look;
        struct slab *slab;
        if (!object)
            continue;
        if (n > AHEAD && array[n - AHEAD])
            __builtin_prefetch(slab_guess(array[n - AHEAD]), 1);
        slab = slab_of(cache, object, &tail);
        head = tail;
        for (uint32_t i = n; i-- > 0;) {
            if (!array[i])
                continue;
            if (slab_guess(array[i]) == slab) {
                slab_of(cache, array[i], &index);
                slab_set_link(cache, slab, index, head);
                head = index;
                count++;
                array[i] = NULL;
                if (i + 1 == n)
                    n = i;
            } else if (--left == 0) {
                break;
            }
        }
        publish(slab, head, tail, count);
    }
}

static void ahead_3(void **array, uint32_t n)
{
    by_look_ahead(array, n, 3);
}

static void ahead_8(void **array, uint32_t n)
{
    by_look_ahead(array, n, 8);
}

static void ahead_16(void **array, uint32_t n)
{
    by_look_ahead(array, n, 16);
}

static void sort_few(void **array, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        void *object = array[i];
        uint32_t k = i;
        for (; k > 0 && (uintptr_t)array[k - 1] > (uintptr_t)object; k--)
            array[k] = array[k - 1];
        array[k] = object;
    }
}

static void sort(void **array, uint32_t n)
{
    while (n > 16) { /* quicksort by the middle one, the smaller part first */
        uintptr_t pivot = (uintptr_t)array[n / 2];
        uint32_t low = 0, high = n - 1;
        for (;;) {
            void *object;
            while ((uintptr_t)array[low] < pivot)
                low++;
            while ((uintptr_t)array[high] > pivot)
                high--;
            if (low >= high)
                break;
            object = array[low];
            array[low++] = array[high];
            array[high--] = object;
        }
        if (low < n - low) {
            sort(array, low);
            array += low;
            n -= low;
        } else {
            sort(array + low, n - low);
            n = low;
        }
    }
    sort_few(array, n);
}

static void by_sort(void **array, uint32_t n)
{
    for (uint32_t at = 0; at < n; at += DETACHED_CHUNK) {
        void **chunk = array + at;
        uint32_t have = n - at < DETACHED_CHUNK ? n - at : DETACHED_CHUNK, i = 1;
        while (i < have && (uintptr_t)chunk[i - 1] < (uintptr_t)chunk[i])
            i++;
        if (i < have) /* not in order yet */
            sort(chunk, have);
        for (i = 0; i < have;) {
            uint32_t head, tail, count = 1, index;
            struct slab *slab = slab_of(cache, chunk[i], &tail);
            for (head = tail, i++; i < have && slab_guess(chunk[i]) == slab; i++, count++) {
                if (i + AHEAD < have)
                    __builtin_prefetch(slab_guess(chunk[i + AHEAD]), 1);
                slab_of(cache, chunk[i], &index);
                slab_set_link(cache, slab, index, head);
                head = index;
            }
            publish(slab, head, tail, count);
        }
    }
}

static void by_hash(void **array, uint32_t n)
{
    static struct detached_set set;

    while (n > 0) {
        uint32_t done = detached_gather(cache, &set, array, n, DETACHED_LISTS);
        for (unsigned i = 0; i < set.lists; i++) {
            struct detached *list = &set.list[i];
            if (!list->linked)
                detached_link(cache, &set, list);
            publish(list->slab, list->head, list->tail, list->count);
        }
        array += done;
        n -= done;
    }
}

static const struct {
    const char *name;
    void (*run)(void **array, uint32_t n);
} ways[WAYS] = {{"ahead-3", ahead_3},
                {"ahead-8", ahead_8},
                {"ahead-16", ahead_16},
                {"sort", by_sort},
                {"hash", by_hash}};

/* ---- another CPU ---------------------------------------------------------------------------- */

static struct slab *slab_list[SLABS_MAX];
static atomic_uint disturbed; /* slabs that the other CPU changes all the time; 0: none */
static atomic_bool idle;

/* As one that frees to the same slabs: their words change, and lie in its cache. */
static void *disturb(void *cpu)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(*(unsigned *)cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
    for (;;) {
        unsigned n = atomic_load(&disturbed);
        for (unsigned i = 0; i < n; i++) {
            uint64_t word = atomic_load_explicit(&slab_list[i]->state, memory_order_relaxed);
            atomic_compare_exchange_strong(
                &slab_list[i]->state, &word,
                slab_word(slab_head(word), slab_inuse(word), slab_seq(word) + 1, slab_flags(word)));
        }
        atomic_store(&idle, n == 0);
        if (n == 0) /* it may be the other half of a core */
            nanosleep(&(struct timespec){0, 100000}, NULL);
    }
    return NULL;
}

/* ---- arrays and rounds ---------------------------------------------------------------------- */

static void shuffle(void **array, uint32_t n, uint32_t window)
{
    uint64_t seed = 1;

    for (uint32_t at = 0; at < n; at += window) {
        uint32_t have = n - at < window ? n - at : window;
        for (uint32_t i = have; i > 1; i--) {
            uint32_t k = (uint32_t)(random_next(&seed) % i);
            void *object = array[at + i - 1];
            array[at + i - 1] = array[at + k];
            array[at + k] = object;
        }
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void measure(const char *order, void *const *objects, uint32_t n, const uint64_t *word,
                    uint32_t slabs, bool beside)
{
    static void *array[OBJECTS];
    static double ns[WAYS][ROUNDS];
    uint64_t published[WAYS];

    atomic_store(&disturbed, beside ? slabs : 0);
    while (atomic_load(&idle) == beside)
        ;
    for (unsigned round = 0; round < ROUNDS; round++) {
        /* In turn, so that they share good times and bad. */
        for (unsigned way = 0; way < WAYS; way++) {
            uint64_t start;
            memcpy(array, objects, n * sizeof(void *));
            for (uint32_t i = 0; i < slabs; i++) /* all are handed out once more */
                atomic_store(&slab_list[i]->state, word[i]);
            lists = 0;
            start = now();
            ways[way].run(array, n);
            ns[way][round] = (double)(now() - start) / n;
            published[way] = lists;
        }
    }
    atomic_store(&disturbed, 0);
    while (!atomic_load(&idle))
        ;
    for (unsigned way = 0; way < WAYS; way++) {
        qsort(ns[way], ROUNDS, sizeof(double), by_value);
        printf("%5zu %-12s %-7s %-9s %8.2f %10.4f\n", cache->object_size, order,
               beside ? "beside" : "alone", ways[way].name, ns[way][ROUNDS / 2],
               (double)published[way] / n);
    }
    fflush(stdout);
}

static bool two_cpus;

static void trial(size_t size)
{
    static const struct {
        const char *name;
        uint32_t window; /* 0: sixteen slabs */
    } orders[] = {{"in-order", 1}, {"shuffled-64", 64}, {"of-16-slabs", 0}, {"shuffled", OBJECTS}};
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_NOSHEAF};
    static void *taken[OBJECTS], *objects[OBJECTS], *kept[OBJECTS];
    static uint64_t word[SLABS_MAX];
    uint32_t per_slab, slabs, n = 0, n_kept = 0, index;

    cache = stook_cache_create("grouping", size, &args);
    if (!cache)
        abort();
    per_slab = cache->layout.objects;
    slabs = OBJECTS / per_slab;
    if (slabs > SLABS_MAX ||
        node_take(cache, 0, taken, slabs * per_slab, slabs * per_slab, false) != slabs * per_slab)
        abort();
    for (uint32_t s = 0; s < slabs; s++) {
        void **of = taken + s * per_slab;
        node_put(cache, of, 1, false); /* partial, and it stays so: */
        kept[n_kept++] = of[1];        /* this one is never freed */
        for (uint32_t i = 2; i < per_slab; i++)
            objects[n++] = of[i];
        slab_list[s] = slab_of(cache, of[1], &index);
        word[s] = atomic_load(&slab_list[s]->state);
    }
    for (unsigned order = 0; order < sizeof(orders) / sizeof(orders[0]); order++) {
        shuffle(objects, n, orders[order].window ? orders[order].window : 16 * (per_slab - 2));
        for (int beside = 0; beside <= two_cpus; beside++)
            measure(orders[order].name, objects, n, word, slabs, beside);
    }
    for (uint32_t s = 0; s < slabs; s++)
        atomic_store(&slab_list[s]->state, word[s]);
    node_put(cache, objects, n, false);
    node_put(cache, kept, n_kept, false);
    if (stook_cache_destroy(cache) != 0)
        abort();
}

int main(void)
{
    static unsigned cpu[2];
    cpu_set_t allowed, one;
    pthread_t thread;

    sched_getaffinity(0, sizeof(allowed), &allowed);
    for (unsigned i = 0, n = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET(i, &allowed)) {
            cpu[n++] = i;
            two_cpus = n == 2;
        }
    CPU_ZERO(&one);
    CPU_SET(cpu[0], &one);
    sched_setaffinity(0, sizeof(one), &one);
    if (two_cpus && pthread_create(&thread, NULL, disturb, &cpu[1]) != 0)
        abort();
    atomic_store(&idle, true);
    printf("%5s %-12s %-7s %-9s %8s %10s\n", "size", "order", "", "way", "ns/obj", "lists/obj");
    for (size_t size = 64; size <= 1024; size *= 4)
        trial(size);
    return 0;
}
