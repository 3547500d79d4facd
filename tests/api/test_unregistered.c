/* SPDX-License-Identifier: MIT */
/* needs: glibc */
/*
 * Threads whose rseq registration is gone use the library beside threads that have theirs, hand
 * each other objects, and register again half way.  Every object has one owner; at the end each
 * cache can be destroyed, so none is lost.
 */
#include "support/rseq_registration.h"
#include "support/test.h"

#include <stook/inline.h>

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 6, UNREGISTERED = 3, CACHES = 3, HELD = 500, EXCHANGE = 64, ROUNDS = 400000 };

static const size_t sizes[CACHES] = {24, 256, 3000};
static struct stook_cache *caches[CACHES];
static void *_Atomic exchange[CACHES][EXCHANGE]; /* between threads */
static _Atomic unsigned errors, unregistered;

struct object {
    _Atomic uintptr_t owner;
};

static void construct(void *object, void *arg)
{
    atomic_init(&((struct object *)object)->owner, 0);
}

static void own(void *object, uintptr_t from, uintptr_t to)
{
    if (atomic_exchange(&((struct object *)object)->owner, to) != from)
        atomic_fetch_add(&errors, 1);
}

static void release(unsigned c, void *object, uintptr_t me, unsigned how)
{
    own(object, me, 0);
    if (how % 3 == 0)
        stook_free(caches[c], object);
    else if (how % 3 == 1)
        stook_free_inline(caches[c], object);
    else
        stook_free_bulk(caches[c], 1, &object);
}

static void *worker(void *arg)
{
    static __thread void *held[CACHES][HELD];
    uintptr_t me = (uintptr_t)arg;
    uint64_t random = me * 0x9e3779b97f4a7c15u;
    unsigned n[CACHES] = {0};
    bool gone;

    stook_free(caches[0], stook_alloc(caches[0], 0)); /* the library registers a thread once */
    gone = me <= UNREGISTERED && rseq_unregister();
    atomic_fetch_add(&unregistered, gone);
    for (unsigned i = 0; i < ROUNDS; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        unsigned c = random % CACHES, how = random >> 32 & 0xff;
        bool grow = random >> 40 & 1;
        if (i == ROUNDS / 2 && gone && me % 2) {
            rseq_register();
            gone = false;
        }
        if ((how & 15) == 0 && n[c] > 0) { /* one for another thread */
            void *object = held[c][--n[c]];
            own(object, me, 1000);
            object = atomic_exchange(&exchange[c][random >> 48 & (EXCHANGE - 1)], object);
            if (object) {
                own(object, 1000, me);
                held[c][n[c]++] = object;
            }
        } else if (grow && n[c] < HELD) {
            void *object = how & 1 ? stook_alloc_inline(caches[c], 0) : stook_alloc(caches[c], 0);
            if (!object) {
                atomic_fetch_add(&errors, 1);
                continue;
            }
            own(object, 0, me);
            held[c][n[c]++] = object;
        } else if (n[c] > 0) {
            release(c, held[c][--n[c]], me, how);
        }
    }
    for (unsigned c = 0; c < CACHES; c++)
        while (n[c]-- > 0)
            release(c, held[c][n[c]], me, n[c]);
    if (gone)
        rseq_register();
    return NULL;
}

TEST(test_unregistered_threads)
{
    struct stook_cache_args args = {.size = sizeof(args), .ctor = construct};
    pthread_t threads[THREADS];

    for (unsigned c = 0; c < CACHES; c++)
        assert_non_null(caches[c] = stook_cache_create("unregistered", sizes[c], &args));
    rseq_own = ((struct stook_cache_head *)caches[0])->rseq_offset;
    for (uintptr_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, worker, (void *)(t + 1)), 0);
    for (unsigned t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    print_message("%s: %u threads unregistered\n", stook_mode(NULL), atomic_load(&unregistered));
    assert_int_equal(atomic_load(&errors), 0);
    if (stook_mode(NULL)[0] == 'r')
        assert_int_equal(atomic_load(&unregistered), UNREGISTERED);
    for (unsigned c = 0; c < CACHES; c++) {
        for (unsigned i = 0; i < EXCHANGE; i++) {
            void *object = atomic_exchange(&exchange[c][i], NULL);
            if (object)
                release(c, object, 1000, i);
        }
        stook_cache_shrink(caches[c]);
        assert_int_equal(stook_cache_destroy(caches[c]), 0);
    }
    assert_int_equal(atomic_load(&errors), 0);
}
