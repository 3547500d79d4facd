/* SPDX-License-Identifier: MIT */
/* needs: native */
/* timeout: 300 */
/*
 * Threads allocate and free on several caches while the process forks.  No child may find a slot closed or a lock
 * held.  Each child uses every cache in full: objects, slabs, another cache, shrinking, a thread and a child of its
 * own.  The objects of the forking thread are intact.
 *
 * STOOK_TEST_FORKS=n: so many children.
 */
#include "cache/cache_list.h"
#include "sheaf/slot.h"
#include "os/topology.h"
#include "support/scale.h"
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

/* The sanitizers' runtimes take locks of their own for a thread that a child of threads starts. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define THREAD_IN_CHILD 0
#else
#define THREAD_IN_CHILD 1
#endif
#ifndef FORKS
#define FORKS 100
#endif
/* LEAST: what each thread does even where it first runs when all forks are through. */
enum { THREADS = 8, CACHES = 5, HELD = 300, CHILD_OBJECTS = 700, LEAST = 5000 };
enum {
    CHILD_GOOD,
    CHILD_SLOT_CLOSED = 10,
    CHILD_LOCK_HELD,
    CHILD_NO_MEMORY,
    CHILD_CONTENTS,
    CHILD_THREAD,
    CHILD_CHILD,
    CHILD_OTHER
};

static struct stook_cache *caches[CACHES];
static const size_t sizes[CACHES] = {16, 64, 256, 1000, 20000};
static atomic_bool stop;
static _Atomic uint64_t operations;
static _Atomic unsigned failures;

static void fill(void *object, size_t size, uint32_t with)
{
    uint32_t *word = object;

    word[0] = with;
    word[size / 4 - 1] = ~with;
}

static bool filled(const void *object, size_t size, uint32_t with)
{
    const uint32_t *word = object;

    return word[0] == with && word[size / 4 - 1] == ~with;
}

static void *worker(void *arg)
{
    uint64_t random = (uintptr_t)arg * 0x9e3779b97f4a7c15u;
    static __thread void *held[CACHES][HELD];
    static __thread uint32_t with[CACHES][HELD];
    unsigned n[CACHES] = {0};
    uint32_t count = 0;
    uint64_t done = 0;

    while (done < LEAST || !atomic_load_explicit(&stop, memory_order_relaxed)) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        unsigned c = random % CACHES, most = sizes[c] > 4096 ? 8 : HELD;
        /* In runs, so that sheaves are used up and the slow paths taken. */
        for (unsigned i = 0; i < (random >> 32 & 63); i++) {
            if ((random >> 40 & 1) && n[c] < most) {
                void *object = stook_alloc(caches[c], 0);
                if (!object)
                    break;
                with[c][n[c]] = ++count;
                fill(object, sizes[c], count);
                held[c][n[c]++] = object;
            } else if (n[c] > 0) {
                n[c]--;
                if (!filled(held[c][n[c]], sizes[c], with[c][n[c]]))
                    atomic_fetch_add(&failures, 1);
                stook_free(caches[c], held[c][n[c]]);
            }
            done++;
        }
        if ((random >> 50 & 1023) == 0)
            stook_cache_shrink(caches[c]);
    }
    atomic_fetch_add(&operations, done);
    for (unsigned c = 0; c < CACHES; c++)
        while (n[c] > 0)
            stook_free(caches[c], held[c][--n[c]]);
    return NULL;
}

/* ---- the child -------------------------------------------------------------------------------- */

static bool lock_is_held(struct lock *lock)
{
    return atomic_load(&lock->word) != 0;
}

/* Before anything else is done in the child. */
static int inherited(void)
{
    if (lock_is_held(&cache_list.lock) || lock_is_held(&percpu.lock))
        return CHILD_LOCK_HELD;
    for (struct list *l = cache_list.all.next; l != &cache_list.all; l = l->next) {
        struct stook_cache *cache = LIST_ENTRY(l, struct stook_cache, link);
        for (unsigned i = 0; i < topology.nodes; i++)
            if (lock_is_held(&cache->nodes[i].barn.lock) ||
                lock_is_held(&cache->nodes[i].node.lock))
                return CHILD_LOCK_HELD;
        for (unsigned cpu = 0; cpu < percpu.rows && cache_capacity(cache) > 0; cpu++) {
            struct slot *slot = percpu_slot(cpu, percpu_offset(cache->index));
            bool taken = slot && slot_take(slot, false);
            if (slot && !taken)
                return CHILD_SLOT_CLOSED;
            if (slot)
                slot_reopen(slot);
        }
    }
    return CHILD_GOOD;
}

static int use_all_caches(void)
{
    static void *object[CHILD_OBJECTS];

    for (unsigned c = 0; c < CACHES; c++) {
        unsigned many = sizes[c] > 4096 ? 20 : CHILD_OBJECTS;
        for (unsigned i = 0; i < many; i++) {
            object[i] = stook_alloc(caches[c], 0);
            if (!object[i])
                return CHILD_NO_MEMORY;
            fill(object[i], sizes[c], i);
        }
        for (unsigned i = 0; i < many; i++) {
            if (!filled(object[i], sizes[c], i))
                return CHILD_CONTENTS;
            stook_free(caches[c], object[i]);
        }
    }
    return CHILD_GOOD;
}

static void *use_in_thread(void *arg)
{
    *(int *)arg = use_all_caches();
    return NULL;
}

static int child(unsigned number, void **mine)
{
    int result;

    alarm(240); /* ends a child that waits for a lock without a holder */
    if ((result = inherited()) != CHILD_GOOD)
        return result;
    for (unsigned c = 0; c < CACHES; c++) {
        if (!filled(mine[c], sizes[c], 0x5eed + c))
            return CHILD_CONTENTS;
        stook_free(caches[c], mine[c]);
    }
    if ((result = use_all_caches()) != CHILD_GOOD)
        return result;
    if (THREAD_IN_CHILD && number % 16 == 1) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, use_in_thread, &result) != 0 ||
            pthread_join(thread, NULL) != 0 || result != CHILD_GOOD)
            return CHILD_THREAD;
    }
    if (number % 16 == 2) {
        struct stook_cache *cache = stook_cache_create("of the child", 72, NULL);
        void *object = cache ? stook_alloc(cache, STOOK_ZERO) : NULL;
        if (!object)
            return CHILD_OTHER;
        stook_free(cache, object);
        if (stook_cache_destroy(cache) != 0)
            return CHILD_OTHER;
        for (unsigned c = 0; c < CACHES; c++)
            stook_cache_shrink(caches[c]);
    }
    if (number % 16 == 3) {
        int status;
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(inherited() == CHILD_GOOD ? use_all_caches() : CHILD_OTHER);
        if (waitpid(grandchild, &status, 0) != grandchild || status != 0)
            return CHILD_CHILD;
    }
    return inherited();
}

/* ---- the storm ---------------------------------------------------------------------------------- */

TEST(test_fork_storm)
{
    const char *text = getenv("STOOK_TEST_FORKS");
    unsigned forks = text ? (unsigned)strtoul(text, NULL, 10) : (unsigned)scaled(FORKS),
             ended[256] = {0}, killed = 0;
    pthread_t threads[THREADS];
    void *mine[CACHES];

    for (unsigned c = 0; c < CACHES; c++) {
        caches[c] = stook_cache_create("fork storm", sizes[c], NULL);
        assert_non_null(caches[c]);
    }
    for (uintptr_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, worker, (void *)(t + 1)), 0);
    for (unsigned i = 0; i < forks; i++) {
        int status;
        for (unsigned c = 0; c < CACHES; c++) {
            assert_non_null(mine[c] = stook_alloc(caches[c], 0));
            fill(mine[c], sizes[c], 0x5eed + c);
        }
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            _exit(child(i, mine));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status))
            ended[WEXITSTATUS(status)]++;
        else
            killed++;
        for (unsigned c = 0; c < CACHES; c++)
            stook_free(caches[c], mine[c]);
    }
    atomic_store(&stop, true);
    for (unsigned t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    print_message("%s: %u children beside %llu operations: %u found a slot closed, %u a lock held, "
                  "%u killed\n",
                  stook_mode(NULL), forks, (unsigned long long)atomic_load(&operations),
                  ended[CHILD_SLOT_CLOSED], ended[CHILD_LOCK_HELD], killed);
    for (unsigned i = 1; i < 256; i++)
        if (ended[i])
            print_message("%u children ended with %u\n", ended[i], i);
    assert_int_equal(ended[CHILD_GOOD], forks);
    assert_int_equal(atomic_load(&failures), 0);
    assert_true(atomic_load(&operations) >= (uint64_t)THREADS * LEAST);
    for (unsigned c = 0; c < CACHES; c++)
        assert_int_equal(stook_cache_destroy(caches[c]), 0); /* nothing is out: none was lost */
}
