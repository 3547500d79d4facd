/* SPDX-License-Identifier: MIT */
/* needs: native */
/* timeout: 120 */
/*
 * Rules 4 and 5 of the per-CPU protocol over the library's real fork handlers, kept and broken.
 *
 * 5: threads close slots and hold locks for long; children of fork() must find neither, children
 *    of _Fork(), which runs no handlers, must be seen to find both.
 * 4: threads wait for a lock while they have a slot closed; the fork that waits for the slot
 *    while it holds the lock must be seen to give it up.
 */
#include "cache/cache_list.h"
#include "percpu/percpu.h"
#include "sheaf/slot_drain.h"
#include "support/test.h"

#include <pthread.h>
#include <signal.h>

enum { THREADS = 4, CHILDREN_GOOD = 60, CHILDREN_MOST = 3000 };
enum { FOUND_NOTHING, FOUND_SLOT, FOUND_LOCK };
enum what { CLOSE_LONG, HOLD_LONG, WAIT_BEFORE_CLOSING, WAIT_WHILE_CLOSED };

static struct stook_cache *cache;
static atomic_bool stop;

static void spin(unsigned n)
{
    while (n-- > 0)
        __asm__ __volatile__("");
}

static void *worker(void *arg)
{
    enum what what = (enum what)(uintptr_t)arg;
    struct lock *barn = &cache->nodes[0].barn.lock;
    struct sheaf *main;
    struct slot *slot;

    for (unsigned n = 1; !atomic_load(&stop); n++) {
        if (n % 64 == 0)
            usleep(100); /* leaves the CPU to the forking thread; with nothing held */
        if (what == HOLD_LONG) {
            lock_take(barn, LOCK_BARN);
            spin(3000);
            lock_drop(barn, LOCK_BARN);
            continue;
        }
        if (what == WAIT_BEFORE_CLOSING) {
            lock_take(&percpu.lock, LOCK_PERCPU);
            spin(300);
            lock_drop(&percpu.lock, LOCK_PERCPU);
        }
        main = slot_close(percpu_offset(cache->index), &slot, false);
        if (!main)
            continue;
        if (what == WAIT_WHILE_CLOSED) {
            lock_take(&percpu.lock, LOCK_PERCPU);
            spin(300);
            lock_drop(&percpu.lock, LOCK_PERCPU);
        }
        spin(3000);
        slot_open(slot, main);
        spin(300);
    }
    return NULL;
}

static void start(pthread_t *threads, enum what what)
{
    atomic_store(&stop, false);
    for (unsigned t = 0; t < THREADS; t++)
        if (pthread_create(&threads[t], NULL, worker, (void *)(uintptr_t)what) != 0)
            abort();
}

static void finish(pthread_t *threads)
{
    atomic_store(&stop, true);
    for (unsigned t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
}

/* In a child. */
static int inherited(void)
{
    if (atomic_load(&cache->nodes[0].barn.lock.word) != 0)
        return FOUND_LOCK;
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++) {
        struct slot *slot = percpu_slot(cpu, percpu_offset(cache->index));
        bool taken = slot && slot_take(slot, false);
        if (slot && !taken)
            return FOUND_SLOT;
        if (slot)
            slot_reopen(slot);
    }
    return FOUND_NOTHING;
}

/* So many children, or until `wanted` was found; how many found it. */
static unsigned children_find(pid_t (*make)(void), enum what what, unsigned most, int wanted)
{
    pthread_t threads[THREADS];
    unsigned found = 0, made = 0;

    start(threads, what);
    for (; made < most && !found; made++) {
        int status;
        usleep(200);
        pid_t child = make();
        if (child == 0)
            _exit(inherited());
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        found += WEXITSTATUS(status) == wanted;
        if (!found)
            assert_int_equal(WEXITSTATUS(status), FOUND_NOTHING);
    }
    finish(threads);
    print_message("%u children, %u found %s\n", made, found,
                  wanted == FOUND_SLOT ? "a slot closed" : "a lock held");
    return found;
}

TEST(test_rule_5_kept)
{
    assert_int_equal(children_find(fork, CLOSE_LONG, CHILDREN_GOOD, FOUND_SLOT), 0);
    assert_int_equal(children_find(fork, HOLD_LONG, CHILDREN_GOOD, FOUND_LOCK), 0);
}

TEST(test_rule_5_broken)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* a child of _Fork() inherits ThreadSanitizer's own locks as they were, and waits for them */
#endif
    assert_true(children_find(_Fork, CLOSE_LONG, CHILDREN_MOST, FOUND_SLOT) > 0);
    assert_true(children_find(_Fork, HOLD_LONG, CHILDREN_MOST, FOUND_LOCK) > 0);
}

/*
 * In a process of its own: so many forks beside such threads, or until one gives a slot up; they
 * come to an end.  Whether a slot was given up.
 */
static bool forks_lose(enum what what, unsigned most)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        pthread_t threads[THREADS];
        start(threads, what);
        for (unsigned i = 0; i < most && atomic_load(&slot_lost) == 0; i++) {
            alarm(100); /* ends a test that hangs */
            usleep(500);
            pid_t grandchild = fork();
            if (grandchild == 0)
                _exit(0);
            if (grandchild < 0 || waitpid(grandchild, &status, 0) != grandchild || status != 0)
                _exit(1);
        }
        finish(threads);
        _exit(atomic_load(&slot_lost) > 0 ? 2 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2);
    return WEXITSTATUS(status) == 2;
}

TEST(test_rule_4_kept)
{
    (void)forks_lose(WAIT_BEFORE_CLOSING, 200); /* an owner may not get a CPU for long */
}

TEST(test_rule_4_broken)
{
    assert_true(forks_lose(WAIT_WHILE_CLOSED, 10000));
}

int main(void)
{
    cache = stook_cache_create("fork violations", 64, NULL);
    if (!cache)
        return 1;
    stook_free(cache, stook_alloc(cache, 0));
    return tests_run(NULL, NULL);
}
