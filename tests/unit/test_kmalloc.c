/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/*
 * The first call of all: from a handler that interrupted the library it fails, from many threads at
 * once the classes are made once; and what the classes are made of.
 */
#include "base/context.h"
#include "cache/cache_list.h"
#include "support/check.h"
#include "support/test.h"

#include <stook/kmalloc.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 8, CLASSES = 13 };

static unsigned caches_named_kmalloc(void)
{
    unsigned n = 0;

    for (struct list *l = cache_list.all.next; l != &cache_list.all; l = l->next)
        n += strncmp(LIST_ENTRY(l, struct stook_cache, link)->name, "kmalloc-", 8) == 0;
    return n;
}

/* Runs first. */
TEST(in_a_handler)
{
    assert_int_equal(caches_named_kmalloc(), 0);
    context_enter();
    errno = 0;
    assert_null(stook_kmalloc(100, STOOK_NORECLAIM));
    assert_int_equal(errno, ENOMEM);
    assert_ptr_equal(stook_kmalloc(0, STOOK_SIGNAL_SAFE), STOOK_KMALLOC_NONE);
    context_leave();
    assert_int_equal(caches_named_kmalloc(), 0);
}

static _Atomic unsigned ready;

static void *first_call(void *unused)
{
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < THREADS)
        sched_yield();
    return stook_kmalloc(100, 0);
}

static int from_many_threads(void *unused)
{
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, first_call, NULL) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++) {
        void *object;
        pthread_join(thread[i], &object);
        if (!object)
            return 2;
        stook_free_any(object);
    }
    check_all(NULL, 0);
    return caches_named_kmalloc() == CLASSES ? 0 : 3;
}

/* Each time in a child that has made no call yet. */
TEST(made_once)
{
    for (int i = 0; i < 20; i++) {
        in_child(from_many_threads, NULL);
    }
}

TEST(once_made_handlers_have_them)
{
    void *objects[3];

    stook_free_any(stook_kmalloc(1, 0));
    assert_int_equal(caches_named_kmalloc(), CLASSES);
    context_enter();
    objects[0] = stook_kmalloc(100, STOOK_SIGNAL_SAFE);
    objects[1] = stook_kmalloc(100000, STOOK_NORECLAIM);
    objects[2] = stook_krealloc(stook_kmalloc(50, STOOK_NORECLAIM), 5000, STOOK_NORECLAIM);
    for (int i = 0; i < 3; i++) {
        assert_non_null(objects[i]);
        stook_free_any(objects[i]);
    }
    context_leave();
    check_all(NULL, 0);
}
