/* SPDX-License-Identifier: MIT */
/* debug: no */
/*
 * Frees in arrays of every order against a model.  After each the free objects of every slab are those of the
 * model, and check_all() finds nothing lost.  A slab that became free as a whole was not written to.  Then the same
 * while other threads free to the same slabs and allocate from them.
 */
#include "slab/detached.h"
#include "slab/node.h"
#include "support/check.h"
#include "support/random.h"
#include "support/test.h"

#include <stook/stook.h>

#include <pthread.h>
#include <stdatomic.h>

enum { MOST = 6000, SLABS_MOST = 3000, ROUNDS = 60 };

static uint64_t seed = 11;
static struct stook_cache *cache;
static void *held[MOST]; /* the model: what is in use */
static unsigned n_held;

static void *given[2 * MOST];

static void shuffle(void **array, unsigned n, unsigned window)
{
    for (unsigned i = 0; i + 1 < n; i++) {
        unsigned ahead = n - i < window ? n - i : window, k = i + random_below(&seed, ahead);
        void *object = array[i];
        array[i] = array[k];
        array[k] = object;
    }
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;

    return x < y ? -1 : x > y;
}

enum order { ORDER_UP, ORDER_DOWN, ORDER_WINDOW, ORDER_DEALT, ORDER_ANY, ORDERS };

static void arrange(void **array, unsigned n, enum order order)
{
    static void *copy[MOST];
    unsigned rows = 2 + random_below(&seed, 40), at = 0;

    switch (order) {
    case ORDER_UP:
    case ORDER_DOWN:
        qsort(array, n, sizeof(*array), by_address);
        for (unsigned i = 0; order == ORDER_DOWN && i < n / 2; i++) {
            void *object = array[i];
            array[i] = array[n - 1 - i];
            array[n - 1 - i] = object;
        }
        break;
    case ORDER_WINDOW:
        qsort(array, n, sizeof(*array), by_address);
        shuffle(array, n, 64);
        break;
    case ORDER_DEALT: /* one of each slab in turn, as far as it goes */
        qsort(array, n, sizeof(*array), by_address);
        memcpy(copy, array, n * sizeof(*array));
        for (unsigned row = 0; row < rows; row++)
            for (unsigned i = row; i < n; i += rows)
                array[at++] = copy[i];
        break;
    default:
        shuffle(array, n, n);
    }
}

/* With NULLs between; how long the array is. */
static unsigned with_nulls(void **to, void *const *from, unsigned n, unsigned kind)
{
    unsigned k = 0;

    for (unsigned i = 0; i < n; i++) {
        while (kind && random_below(&seed, 6) < kind && k - i < MOST)
            to[k++] = NULL;
        to[k++] = from[i];
    }
    return k;
}

/* Slabs with an object in use, as the model has them. */
static struct known {
    struct slab *slab;
    uint32_t inuse;
} known[SLABS_MOST];
static unsigned n_known;

static void know(void)
{
    n_known = 0;
    qsort(held, n_held, sizeof(held[0]), by_address); /* a slab's objects in a row */
    for (unsigned i = 0; i < n_held; i++) {
        uint32_t index;
        struct slab *slab = slab_of(cache, held[i], &index);
        if (n_known == 0 || known[n_known - 1].slab != slab) {
            assert_true(n_known < SLABS_MOST);
            known[n_known++] = (struct known){slab, 0};
        }
        known[n_known - 1].inuse++;
    }
}

/* Each freelist has what the model does not hold, once. */
static void check_slabs(void)
{
    static bool in_use[STOOK_SLAB_OBJECTS_MAX];
    unsigned at = 0;

    know();
    for (unsigned i = 0; i < n_known; i++) {
        struct slab *slab = known[i].slab;
        uint64_t word = atomic_load(&slab->state);
        uint32_t objects = slab_objects(cache, word), index, head = slab_head(word), free = 0;
        memset(in_use, 0, objects);
        assert_int_equal(slab_inuse(word), known[i].inuse);
        for (unsigned k = 0; k < known[i].inuse; k++) {
            slab_of(cache, held[at++], &index);
            in_use[index] = true;
        }
        for (; head != SLAB_NONE; head = check_next(cache, slab, head, objects), free++) {
            assert_false(in_use[head]);
            in_use[head] = true;
        }
        assert_int_equal(free, objects - known[i].inuse);
    }
}

static void check(void)
{
    static struct check_object list[MOST];

    check_slabs();
    for (unsigned i = 0; i < n_held; i++)
        list[i] = (struct check_object){cache, held[i]};
    check_all(list, n_held);
}

static void take(void)
{
    unsigned n = 1 + random_below(&seed, 2000), min;

    if (n > MOST - n_held)
        n = MOST - n_held;
    if (n == 0)
        return;
    min = random_below(&seed, n + 1);
    n_held += node_take(cache, 0, held + n_held, min, n, false);
}

/* Some of what is held, in an order, at once. */
static void put(enum order order)
{
    unsigned n, length;

    if (n_held == 0)
        return;
    if (random_below(&seed, 2)) /* of neighbouring slabs */
        qsort(held, n_held, sizeof(held[0]), by_address);
    else
        shuffle(held, n_held, n_held);
    n = random_below(&seed, 6) ? 1 + random_below(&seed, n_held) : n_held;
    n_held -= n;
    arrange(held + n_held, n, order);
    length = with_nulls(given, held + n_held, n, random_below(&seed, 4));
    node_put(cache, given, length, false);
}

TEST(against_a_model)
{
    static const size_t sizes[] = {8, 24, 64, 256, 700, 2048, 20000};
    static const unsigned flags[] = {0, STOOK_CACHE_LINK_INSIDE, STOOK_CACHE_LINK_OUTSIDE,
                                     STOOK_CACHE_RANDOM};

    for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        struct stook_cache_args args = {.size = sizeof(args),
                                        .flags = flags[s % 4] | STOOK_CACHE_NOSHEAF};
        cache = stook_cache_create("model", sizes[s], &args);
        assert_non_null(cache);
        for (unsigned round = 0; round < ROUNDS; round++) {
            take();
            check();
            put((enum order)(round % ORDERS));
            check();
        }
        node_put(cache, held, n_held, false);
        n_held = 0;
        check();
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
}

/*
 * A slab all of whose objects in use come back in one array of up to a chunk: no link is written,
 * inside or outside, whatever the order, and its bytes are as they were.
 */
TEST(whole_slabs_are_not_written_to)
{
    enum { SLABS = 3, LEFT = DETACHED_CHUNK / SLABS };
    static char pages[SLABS][1 << 20];
    static const size_t sizes[] = {24, 48, 256, 1024, 9000};

    for (unsigned s = 0; s < 2 * ORDERS * sizeof(sizes) / sizeof(sizes[0]); s++) {
        struct stook_cache_args args = {.size = sizeof(args),
                                        .flags = STOOK_CACHE_NOSHEAF |
                                                 (s % 2 ? STOOK_CACHE_LINK_INSIDE : 0)};
        struct slab *slab[SLABS];
        unsigned objects;
        size_t bytes;
        uint64_t links;
        cache = stook_cache_create("whole", sizes[s / 2 / ORDERS], &args);
        objects = cache->layout.objects;
        bytes = (size_t)PAGE_SIZE << cache->layout.order;
        assert_true(objects < MOST / SLABS && bytes <= sizeof(pages[0]));
        n_held = node_take(cache, 0, held, SLABS * objects, SLABS * objects, false);
        know();
        assert_int_equal(n_known, SLABS);
        for (unsigned i = 0; i < SLABS; i++)
            slab[i] = known[i].slab;
        for (unsigned i = SLABS; i-- > 0 && objects > LEFT;) { /* down to what a chunk holds */
            node_put(cache, held + i * objects + LEFT, objects - LEFT, false);
            memmove(held + i * objects + LEFT, held + (i + 1) * objects,
                    (n_held - (i + 1) * objects) * sizeof(held[0]));
            n_held -= objects - LEFT;
        }
        check();
        for (unsigned i = 0; i < SLABS; i++) {
            for (unsigned k = 0; k < n_held / SLABS; k++)
                memset(held[i * (n_held / SLABS) + k], 0x51 + (int)i, sizes[s / 2 / ORDERS]);
            memcpy(pages[i], slab_base(slab[i]), bytes);
        }
        cache->min_partial = SLABS; /* all stay, to be looked at */
        arrange(held, n_held, (enum order)(s / 2 % ORDERS));
        n_known = with_nulls(given, held, n_held, s % 2 * (n_held <= DETACHED_CHUNK / 2));
        links = slab_counts.links;
        node_put(cache, given, n_known, false);
        n_held = 0;
        assert_int_equal(slab_counts.links, links);
        for (unsigned i = 0; i < SLABS; i++) {
            assert_int_equal(slab_inuse(atomic_load(&slab[i]->state)), 0);
            assert_memory_equal(slab_base(slab[i]), pages[i], bytes);
        }
        check();
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
}

/* ---- with others on the same slabs ---------------------------------------------------------- */

enum { THREADS = 4, EACH = 600, POOL = 1200, TURNS = 1500 };

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static void *pool[POOL]; /* objects on their way from thread to thread */
static unsigned n_pool;

struct worker {
    uint64_t state, id;
    void *object[EACH];
    unsigned n;
};

/* The owner, behind the bytes of a link.  An object that is allocated twice gets two owners. */
static uint64_t *owner(void *object)
{
    return (uint64_t *)object + 1;
}

static void must(bool condition, int line)
{
    if (!condition) {
        fprintf(stderr, "%s:%d\n", __FILE__, line);
        abort();
    }
}
#define MUST(condition) must(condition, __LINE__)

static void mix(struct worker *w)
{
    for (unsigned i = 0; i + 1 < w->n; i++) {
        unsigned k = i + random_below(&w->state, w->n - i);
        void *object = w->object[i];
        w->object[i] = w->object[k];
        w->object[k] = object;
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;

    for (unsigned turn = 0; turn < TURNS; turn++) {
        unsigned n = 1 + random_below(&w->state, 300), got;
        if (w->n + n <= EACH) {
            got = node_take(cache, 0, w->object + w->n, 1 + random_below(&w->state, n), n, false);
            MUST(got > 0);
            for (unsigned i = 0; i < got; i++)
                *owner(w->object[w->n++]) = w->id;
        }
        mix(w);
        pthread_mutex_lock(&pool_lock); /* some change hands, so that slabs have many owners */
        for (unsigned i = 0; i < w->n && i < n_pool && i < 60; i++) {
            void *object = pool[i];
            MUST(*owner(w->object[i]) == w->id && *owner(object) == THREADS + 1);
            pool[i] = w->object[i];
            *owner(pool[i]) = THREADS + 1;
            w->object[i] = object;
            *owner(object) = w->id;
        }
        for (unsigned i = 0; i < 20 && n_pool < POOL && w->n > 0; i++) {
            pool[n_pool] = w->object[--w->n];
            MUST(*owner(pool[n_pool]) == w->id);
            *owner(pool[n_pool++]) = THREADS + 1;
        }
        pthread_mutex_unlock(&pool_lock);
        n = random_below(&w->state, w->n + 1);
        for (unsigned i = 0; i < n; i++)
            MUST(*owner(w->object[w->n - 1 - i]) == w->id);
        w->n -= n;
        node_put(cache, w->object + w->n, n, false);
    }
    return NULL;
}

TEST(beside_others)
{
    static struct worker workers[THREADS];
    static struct check_object list[THREADS * EACH + POOL];
    static const struct {
        size_t size;
        unsigned flags;
    } kinds[] = {{64, 0}, {256, STOOK_CACHE_LINK_INSIDE}, {1024, STOOK_CACHE_RANDOM}};

    for (unsigned k = 0; k < 3; k++) {
        struct stook_cache_args args = {.size = sizeof(args),
                                        .flags = kinds[k].flags | STOOK_CACHE_NOSHEAF};
        pthread_t thread[THREADS];
        size_t n = 0;
        cache = stook_cache_create("beside", kinds[k].size, &args);
        assert_non_null(cache);
        n_pool = 0;
        for (unsigned t = 0; t < THREADS; t++) {
            workers[t] = (struct worker){.state = 10 * k + t, .id = t + 1};
            assert_int_equal(pthread_create(&thread[t], NULL, work, &workers[t]), 0);
        }
        for (unsigned t = 0; t < THREADS; t++)
            pthread_join(thread[t], NULL);
        for (unsigned t = 0; t < THREADS; t++)
            for (unsigned i = 0; i < workers[t].n; i++)
                list[n++] = (struct check_object){cache, workers[t].object[i]};
        for (unsigned i = 0; i < n_pool; i++)
            list[n++] = (struct check_object){cache, pool[i]};
        check_all(list, n);
        for (unsigned t = 0; t < THREADS; t++)
            node_put(cache, workers[t].object, workers[t].n, false);
        node_put(cache, pool, n_pool, false);
        check_all(NULL, 0);
        assert_int_equal(stook_cache_destroy(cache), 0);
    }
}
