/* SPDX-License-Identifier: MIT */
/* needs: native */
/* wrap: raw_call6 */
/*
 * Traces where the system refuses: the n-th call that begins one or lengthens its file fails, for every
 * n, and then all from it on.  A trace begins or does not, and says why; the program notices nothing;
 * and what has no place in the file is counted, to the event.
 *
 * And what comes in the middle of a record, where the clock is read: other events, as a handler's, and a
 * fork.
 */
#include "support/faults.h"
#include "support/test.h"
#include "support/trace_decode.h"

#include <stook/stook.h>
#include <stook/debug.h>

#if FAULTS_POSSIBLE

/* Within a record. */
static void (*in_record)(void);
static bool in_hook;

static void on_clock(void)
{
    if (in_record && !in_hook) {
        in_hook = true;
        in_record();
        in_hook = false;
    }
}

enum { PAIRS = 20000, CALLS_MAX = 200 }; /* pairs: some chunks */

static struct stook_cache *cache;
static char folder[] = "/tmp/stook-trace-XXXXXX", path[64];

/* Whether calls from `at` on, so many, were too few for one to fail. */
static bool record(unsigned at, unsigned length, unsigned *refused, unsigned *lost)
{
    struct trace_decoded t;
    int started;

    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); /* each time as many calls */
    fault_at = at;
    fault_length = length;
    fault_calls = fault_hits = 0;
    errno = 0;
    fault_off = false;
    started = stook_trace_start(path, STOOK_TRACE_LIMIT);
    assert_true(started == 0 || (errno != 0 && fault_hits > 0));
    errno = 77;
    for (unsigned i = 0; i < PAIRS; i++) {
        void *object = stook_alloc(cache, STOOK_NORECLAIM);
        assert_non_null(object);
        stook_free(cache, object);
    }
    assert_int_equal(errno, 77);
    fault_off = true;
    if (started != 0) {
        ++*refused;
        assert_int_equal(stook_trace_stop(), -1);
        return false;
    }
    assert_int_equal(stook_trace_stop(), 0);
    trace_decode(&t, path);
    assert_int_equal(t.n + t.header.lost, 2 * PAIRS);
    assert_true(t.header.lost == 0 || fault_hits > 0);
    if (t.header.lost == 0)
        assert_int_equal(t.unknown + t.live + t.twice, 0);
    *lost += t.header.lost > 0;
    trace_decoded_free(&t);
    return fault_hits == 0;
}

static void every(unsigned length)
{
    unsigned refused = 0, lost = 0, at = 1;

    while (!record(at, length, &refused, &lost)) {
        at++;
        assert_true(at < CALLS_MAX);
    }
    assert_true(at > 10 && refused >= 3 && lost >= 4);
}

TEST(test_one_fails)
{
    every(1);
}

TEST(test_all_fail_from_one_on)
{
    every(UINT32_MAX - CALLS_MAX);
}

/* What fails for a while is tried again. */
TEST(test_some_fail)
{
    unsigned refused = 0, lost = 0;

    for (unsigned at = 8; at < 40; at++)
        (void)record(at, 3, &refused, &lost);
    assert_true(lost > 0);
}

static void pair(void)
{
    void *object = stook_alloc(cache, STOOK_SIGNAL_SAFE);

    assert_non_null(object);
    stook_free(cache, object);
}

static void pairs(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        pair();
}

static unsigned nested;

static void pair_in_record(void)
{
    nested++;
    pair();
}

TEST(test_nested)
{
    struct trace_decoded t;

    nested = 0;
    assert_int_equal(stook_trace_start(path, STOOK_TRACE_LIMIT), 0);
    in_record = pair_in_record;
    pairs(1000);
    in_record = NULL;
    assert_int_equal(stook_trace_stop(), 0);
    trace_decode(&t, path);
    assert_true(nested >= 2000);
    assert_int_equal(t.n, 2000);
    assert_int_equal(t.header.lost, 2 * nested);
    assert_int_equal(t.unknown + t.live + t.twice, 0);
    trace_decoded_free(&t);
}

static pid_t parent;

static void fork_in_record(void)
{
    in_record = NULL;
    assert_true(fork() >= 0);
}

/* The child ends its parent's record too, to no effect, and goes on unrecorded. */
TEST(test_fork_in_record)
{
    struct trace_decoded t;
    unsigned n = 0;
    int status;

    parent = getpid();
    assert_int_equal(stook_trace_start(path, STOOK_TRACE_LIMIT), 0);
    for (unsigned i = 0; i < 20; i++) {
        pairs(i * 50);
        in_record = fork_in_record;
        pair();
        n += i * 50 + 1;
        if (getpid() != parent) {
            pairs(20000);
            _exit(stook_trace_stop() == -1 ? 0 : 1);
        }
        assert_true(waitpid(-1, &status, 0) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(stook_trace_stop(), 0);
    trace_decode(&t, path);
    assert_int_equal(t.header.pid, parent);
    assert_int_equal(t.n, 2 * n);
    assert_int_equal(t.unknown + t.live + t.twice + t.header.lost, 0);
    trace_decoded_free(&t);
}

static int setup(void **state)
{
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/trace", folder);
    cache = stook_cache_create("traced", 100, NULL);
    if (!cache)
        return -1;
    for (unsigned i = 0; i < 100; i++) /* it has its sheaves, and the thread its writer */
        stook_free(cache, stook_alloc(cache, 0));
    return 0;
}

static int teardown(void **state)
{
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    fault_clock = on_clock;
    return tests_run(setup, teardown);
}
#endif
