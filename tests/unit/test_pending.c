/* SPDX-License-Identifier: MIT */
/* needs: native */
/*
 * A slab whose list work another thread is about to do, after a fork or a handler: a thread that destroys or shrinks
 * the cache waits for it.  A forked child, where that thread is not, does the work itself.
 */
#include "slab/node_steps.h"

#include "base/context.h"
#include "slab/node.h"
#include "support/test.h"

#include <stook/stook.h>

#include <pthread.h>

enum { START, LOCKED, FREED, IN_HAND, CALLED };
enum { TURNS = 64 }; /* that the other thread has the slab while the call is made: some 5 ms */

static struct stook_cache *cache;
static struct node *node;
static void *object; /* of the cache, the only one */
static _Atomic int phase;

static void await(int wanted)
{
    for (unsigned turn = 0; atomic_load(&phase) < wanted; turn++)
        lock_pause(turn);
}

static int setup(void **unused)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_NOSHEAF};

    cache = stook_cache_create("pending", 256, &args);
    object = cache ? stook_alloc(cache, 0) : NULL;
    node = &cache->nodes[slab_node(slab_at(object, *pagemap_at(object)))].node;
    atomic_store(&phase, START);
    return object ? 0 : -1;
}

static void leave_late(void)
{
    atomic_store(&phase, IN_HAND);
    await(CALLED);
    for (unsigned turn = 0; turn < TURNS; turn++)
        lock_pause(turn);
    context_leave(); /* the list work */
}

/* As a fork: the object is freed while it has the node's lock. */
LOCK_UNCHECKED static void *fork_and_leave(void *unused)
{
    context_enter();
    lock_begin_fork();
    lock_take(&node->lock, LOCK_NODE);
    lock_mark_fork(&node->lock);
    atomic_store(&phase, LOCKED);
    await(FREED);
    lock_drop(&node->lock, LOCK_NODE);
    lock_end_fork();
    node_fork_end(node);
    leave_late();
    return unused;
}

/* As a handler that interrupts the library and frees the object. */
static void *interrupt_and_leave(void *unused)
{
    context_enter();
    context_enter();
    node_put(cache, &object, 1, true);
    context_leave();
    leave_late();
    return unused;
}

static pthread_t start_fork(void)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, fork_and_leave, NULL), 0);
    await(LOCKED);
    stook_free(cache, object);
    assert_int_equal(atomic_load(&cache->pending), 1);
    assert_non_null(atomic_load(&node->parked[0]));
    atomic_store(&phase, FREED);
    await(IN_HAND);
    assert_null(atomic_load(&node->parked[0]));
    return thread;
}

static pthread_t start_interrupted(void)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, interrupt_and_leave, NULL), 0);
    await(IN_HAND);
    assert_int_equal(atomic_load(&cache->pending), 1);
    return thread;
}

static void destroy_beside(pthread_t thread)
{
    atomic_store(&phase, CALLED);
    assert_int_equal(stook_cache_destroy(cache), 0);
    pthread_join(thread, NULL);
}

TEST_WITH(destroy_waits_for_a_fork, setup, NULL)
{
    destroy_beside(start_fork());
}

TEST_WITH(destroy_waits_for_a_handler, setup, NULL)
{
    destroy_beside(start_interrupted());
}

TEST_WITH(shrink_waits, setup, NULL)
{
    pthread_t thread = start_fork();

    atomic_store(&phase, CALLED);
    assert_true(stook_cache_shrink(cache) >= PAGE_SIZE);
    pthread_join(thread, NULL);
    assert_int_equal(stook_cache_destroy(cache), 0);
}

TEST_WITH(a_child_does_it_itself, setup, NULL)
{
    pthread_t thread = start_interrupted();
    pid_t child = fork();
    int status;

    if (child == 0) {
        alarm(60);
        _exit(stook_cache_destroy(cache) != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    destroy_beside(thread);
}
