/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Traces: the allocations and frees of users are in the file, once, in an order of time in which no address is allocated
 * twice.  Events that are not in it are counted, to the event.  Neither forks, handlers nor a kill break the file.
 */
#define MUST_FAILS abort()
#include "support/must.h"
#include "support/random.h"
#include "support/scale.h"
#include "support/test.h"
#include "support/trace_decode.h"

#include "trace/trace.h"
#include "os/topology.h"

#include <stook/kmalloc.h>
#include <stook/reserve.h>
#include <stook/rcu.h>
#include <stook/stook.h>
#include <stook/topology.h>
#include <stook/debug.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { SIZE = 100, MOST = 1000 };

static char folder[] = "/tmp/stook-trace-XXXXXX", path[64], other[64];
static struct stook_cache *cache;
static void *objects[MOST];
static struct trace_decoded t;

static int setup(void **state)
{
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/trace", folder);
    snprintf(other, sizeof(other), "%s/other", folder);
    cache = stook_cache_create("traced", SIZE, NULL);
    return cache ? 0 : -1;
}

static int teardown(void **state)
{
    unlink(path);
    unlink(other);
    return rmdir(folder) + stook_cache_destroy(cache);
}

static int forget(void **state)
{
    (void)stook_trace_stop();
    trace_decoded_free(&t);
    memset(&t, 0, sizeof(t));
    return 0;
}

static void begin(size_t limit)
{
    MUST(stook_trace_start(path, limit) == 0);
}

static void end(void)
{
    MUST(stook_trace_stop() == 0);
    trace_decode(&t, path);
}

static void pairs(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        void *object = stook_alloc(cache, 0);
        MUST(object);
        stook_free(cache, object);
    }
}

/* ---- what is recorded ------------------------------------------------------------------------- */

TEST_WITH(test_single, NULL, forget)
{
    void *a, *b, *c, *bulk[5];

    a = stook_alloc(cache, 0); /* not recorded */
    begin(STOOK_TRACE_LIMIT);
    errno = 77;
    b = stook_alloc(cache, STOOK_NORECLAIM);
    c = stook_alloc(cache, STOOK_ZERO);
    assert_int_equal(stook_alloc_bulk(cache, 0, 5, bulk), 0);
    stook_free(cache, b);
    stook_free_any(c);
    stook_free(cache, a);
    stook_free(cache, NULL);
    assert_int_equal(errno, 77);
    void *kept[5];
    memcpy(kept, bulk, sizeof(kept));
    bulk[2] = NULL;
    stook_free_bulk(cache, 5, bulk);
    end();
    stook_free(cache, kept[2]); /* after the end */
    assert_int_equal(t.header.lost, 0);
    assert_int_equal(t.header.ended, 1);
    assert_int_equal(t.header.pid, getpid());
    if (!getenv("STOOK_EMULATED")) /* there it is the emulator's */
        assert_string_equal(t.header.program, "test_trace");
    assert_int_equal(t.allocs, 7);
    assert_int_equal(t.frees, 7);
    assert_int_equal(t.unknown, 1); /* a */
    assert_int_equal(t.live, 1);
    assert_int_equal(t.twice, 0);
    assert_ptr_equal((void *)t.event[0].address, b);
    assert_ptr_equal((void *)t.event[1].address, c);
    for (int i = 0; i < 5; i++) {
        assert_ptr_equal((void *)t.event[2 + i].address, kept[i]);
        assert_true(t.event[2 + i].alloc && t.event[2 + i].time == t.event[2].time);
    }
    assert_true(!t.event[7].alloc && t.event[7].address == (uintptr_t)b);
    assert_true(!t.event[9].alloc && t.event[9].address == (uintptr_t)a);
    for (unsigned i = 0; i < t.n; i++) {
        assert_int_equal(t.event[i].thread, 1);
        assert_true(!t.event[i].alloc || t.event[i].cache == t.event[0].cache);
    }
    const struct trace_decoded_cache *known = &t.cache[t.event[0].cache];
    assert_string_equal(known->name, "traced");
    assert_int_equal(known->size, SIZE);
    assert_int_equal(known->align, 16);
    assert_int_equal(known->stride, 112);
}

/* A cache that is made meanwhile, one after it with its number, and a name as long as may be. */
TEST_WITH(test_caches, NULL, forget)
{
    char name[STOOK_NAME_MAX + 10];
    struct stook_cache *made;
    uint32_t first;
    void *a, *b;

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    begin(STOOK_TRACE_LIMIT);
    made = stook_cache_create("before", 40, NULL);
    a = stook_alloc(made, 0);
    stook_free(made, a);
    assert_int_equal(stook_cache_destroy(made), 0);
    made = stook_cache_create(name, 2000, NULL);
    b = stook_alloc(made, 0);
    stook_free(made, b);
    assert_int_equal(stook_cache_destroy(made), 0);
    end();
    assert_int_equal(t.n, 4);
    first = t.event[0].cache;
    assert_int_equal(t.event[2].cache, first); /* the number was free again */
    assert_int_equal(strlen(t.cache[first].name), STOOK_NAME_MAX);
    assert_int_equal(t.cache[first].size, 2000);
}

static void no_constructor(void *object, void *arg)
{
}

/* Objects whose addresses are no multiples of eight: with a constructor nothing is written to them. */
TEST_WITH(test_tiny, NULL, forget)
{
    struct stook_cache_args args = {.size = sizeof(args), .align = 1, .ctor = no_constructor};
    struct stook_cache *tiny = stook_cache_create("tiny", 10, &args);
    unsigned odd = 0;

    assert_non_null(tiny);
    begin(STOOK_TRACE_LIMIT);
    for (unsigned i = 0; i < MOST; i++)
        objects[i] = stook_alloc(tiny, 0);
    for (unsigned i = 0; i < MOST; i++)
        stook_free(tiny, objects[i]);
    end();
    for (unsigned i = 0; i < MOST; i++) {
        assert_ptr_equal((void *)t.event[i].address, objects[i]);
        odd += (uintptr_t)objects[i] % 8 != 0;
    }
    assert_true(odd > 0);
    assert_int_equal(stook_cache_destroy(tiny), 0);
    assert_int_equal(t.allocs, MOST);
    assert_int_equal(t.unknown + t.live + t.twice + t.header.lost, 0);
}

TEST_WITH(test_kmalloc, NULL, forget)
{
    void *small, *large, *grown, *moved;

    stook_free_any(stook_kmalloc(8, 0)); /* its caches are there */
    begin(STOOK_TRACE_LIMIT);
    small = stook_kmalloc(8, 0);
    small = stook_krealloc(small, 100, 0);
    large = stook_kmalloc(100000, 0);
    grown = stook_krealloc(large, 60000, 0); /* in place, or not */
    moved = stook_krealloc(grown, 5 << 20, 0);
    moved = stook_krealloc(moved, 50 << 20, 0); /* its pages move */
    assert_non_null(moved);
    stook_free_any(moved);
    stook_free_any(small);
    end();
    assert_int_equal(t.unknown + t.live + t.twice + t.header.lost, 0);
    assert_int_equal(t.allocs, t.frees);
    assert_true(t.allocs >= 5);
    assert_int_equal(t.cache[t.event[0].cache].size, 8);
    uint64_t most = 0;
    for (unsigned i = 0; i < t.n; i++)
        if (t.event[i].alloc && t.event[i].cache == 0 && t.event[i].bytes > most)
            most = t.event[i].bytes;
    assert_true(most >= 50 << 20);
}

/* Objects of reserves are not recorded until a user has them. */
TEST_WITH(test_reserves, NULL, forget)
{
    struct stook_sheaf *sheaf;
    struct stook_pool *pool;
    void *a, *b;

    begin(STOOK_TRACE_LIMIT);
    sheaf = stook_sheaf_prefill(cache, 0, 20);
    assert_non_null(sheaf);
    a = stook_sheaf_alloc(cache, 0, sheaf);
    b = stook_sheaf_alloc(cache, 0, sheaf);
    stook_sheaf_return(cache, sheaf);
    stook_free(cache, a);
    stook_free(cache, b);
    pool = stook_pool_create(cache, 10);
    assert_non_null(pool);
    a = stook_pool_alloc(pool, 0, NULL);
    stook_pool_free(pool, a);
    assert_int_equal(stook_pool_resize(pool, 30), 0);
    assert_int_equal(stook_pool_resize(pool, 3), 0);
    assert_int_equal(stook_pool_destroy(pool), 0);
    end();
    assert_int_equal(t.allocs, 3);
    assert_int_equal(t.frees, 3);
    assert_int_equal(t.unknown + t.live + t.twice + t.header.lost, 0);
}

static struct stook_rcu_head *rcu_first;

static void rcu_call(struct stook_rcu_head *head, void (*func)(struct stook_rcu_head *head))
{
    head->func = func;
    head->next = rcu_first;
    rcu_first = head;
}

static void rcu_pass(void)
{
    while (rcu_first) {
        struct stook_rcu_head *head = rcu_first;
        rcu_first = head->next;
        head->func(head);
    }
}

/* A deferred free is recorded when the user gives it, and then not once more. */
static int deferred(void *arg)
{
    const struct stook_rcu_ops ops = {
        .size = sizeof(ops), .call = rcu_call, .barrier = rcu_pass, .synchronize = rcu_pass};

    MUST(stook_rcu_set_ops(&ops) == 0);
    begin(STOOK_TRACE_LIMIT);
    MUST(stook_alloc_bulk(cache, 0, MOST, objects) == 0);
    for (unsigned i = 0; i < MOST; i++)
        stook_free_rcu(cache, objects[i]);
    stook_rcu_barrier();
    end();
    MUST(t.allocs == MOST && t.frees == MOST);
    MUST(t.unknown + t.live + t.twice + t.header.lost == 0);
    return 0;
}

TEST_WITH(test_deferred, NULL, forget)
{
    in_child(deferred, NULL);
}

/* CPUs are those of the machine that the process believes in. */
static int simulated(void *arg)
{
    struct stook_cache *own;
    void *a;

    MUST(stook_topology_set("node:4 core:16") == 0);
    begin(STOOK_TRACE_LIMIT);
    own = stook_cache_create("own", 64, NULL);
    MUST(own && stook_topology_cpu(50) >= 0);
    a = stook_alloc(own, 0);
    MUST(stook_topology_cpu(3) == 50);
    stook_free(own, a);
    end();
    MUST(t.header.cpus == 64 && t.n == 2);
    MUST(t.event[0].cpu == 50 && t.event[1].cpu == 3);
    return 0;
}

static int cpus(void *arg)
{
    /* The library starts anew only while nothing was taken. */
    execl("/proc/self/exe", "test_trace", "simulated", path, (char *)NULL);
    return 1;
}

TEST_WITH(test_simulated, NULL, forget)
{
    if (getenv("STOOK_EMULATED")) /* what it executes is not emulated */
        skip();
    in_child(cpus, NULL);
}

/* ---- the file --------------------------------------------------------------------------------- */

TEST_WITH(test_errors, NULL, forget)
{
    struct stat st;
    int fd;

    assert_int_equal(stook_trace_stop(), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(stook_trace_start(NULL, STOOK_TRACE_LIMIT), -1);
    assert_int_equal(stook_trace_start("", STOOK_TRACE_LIMIT), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(stook_trace_start(path, STOOK_TRACE_LIMIT_MIN - 1), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(stook_trace_start("/nowhere/at/all", STOOK_TRACE_LIMIT), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(stook_trace_start(folder, STOOK_TRACE_LIMIT), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(symlink("elsewhere", other), 0);
    assert_int_equal(stook_trace_start(other, STOOK_TRACE_LIMIT), -1);
    assert_int_equal(errno, ELOOP);
    unlink(other);
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_int_equal(stook_trace_start(other, STOOK_TRACE_LIMIT), -1);
    assert_int_equal(errno, EEXIST);
    unlink(other);

    /* What was there goes; it is its owner's, and no child gets it. */
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0 && write(fd, "old", 3) == 3);
    close(fd);
    begin(STOOK_TRACE_LIMIT);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stook_trace_start(other, STOOK_TRACE_LIMIT), -1);
    assert_int_equal(errno, EBUSY);
    pairs(1);
    end();
    assert_int_equal(t.n, 2);
}

/* Another process writes to that file. */
TEST_WITH(test_busy, NULL, forget)
{
    int status;
    pid_t pid;

    begin(STOOK_TRACE_LIMIT);
    pairs(1);
    pid = fork();
    if (pid == 0)
        _exit(stook_trace_start(path, STOOK_TRACE_LIMIT) == -1 && errno == EBUSY ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    end();
    assert_int_equal(t.n, 2);
}

/* At the limit everything is lost, and counted. */
TEST_WITH(test_limit, NULL, forget)
{
    const unsigned n = 20000;

    begin(STOOK_TRACE_LIMIT_MIN);
    pairs(n);
    MUST(stook_alloc_bulk(cache, 0, MOST, objects) == 0);
    stook_free_bulk(cache, MOST, objects);
    end();
    assert_int_equal(t.header.chunks, 1);
    assert_true(t.header.lost > 0 && t.n > 5000);
    assert_int_equal(t.n + t.header.lost, 2 * n + 2 * MOST);
}

/* A limit on files would send a signal; and files that a daemon closes can be had again. */
static int limited(void *arg)
{
    struct rlimit limit = {TRACE_HEADER_BYTES + TRACE_CHUNK_BYTES + 1000, RLIM_INFINITY};
    const unsigned n = 15000;

    signal(SIGXFSZ, SIG_DFL);
    MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    begin(STOOK_TRACE_LIMIT);
    pairs(n);
    end();
    MUST(t.header.chunks == 1 && t.n + t.header.lost == 2 * n);
    limit.rlim_cur = RLIM_INFINITY;
    MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    begin(STOOK_TRACE_LIMIT);
    pairs(1);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    int mine = open("/dev/null", O_RDONLY);
    MUST(mine >= 0 && dup2(mine, 200) == 200); /* where the trace was */
    pairs(n);
    end();
    MUST(fcntl(200, F_GETFD) >= 0);
    MUST(t.header.lost == 0 && t.n == 2 * n + 2);
    return 0;
}

TEST_WITH(test_limited, NULL, forget)
{
    in_child(limited, NULL);
}

/* ---- threads ---------------------------------------------------------------------------------- */

enum { THREADS = 4, SHARED = 64 };

static _Atomic(void *) shared[SHARED];
static atomic_uint_fast64_t done;
static atomic_bool stop;

/* Threads exchange objects: the thread that takes one out of a place frees it. */
static void *exchange(void *arg)
{
    uint64_t seed = (uintptr_t)arg + 1, n = scaled(20000), count = 0;

    for (uint64_t i = 0; i < n; i++) {
        void *object = stook_alloc(cache, 0), *was;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        MUST(object);
        was = atomic_exchange(&shared[seed >> 40 & (SHARED - 1)], object);
        stook_free(cache, was);
        count += 1 + (was != NULL);
    }
    atomic_fetch_add(&done, count);
    return NULL;
}

TEST_WITH(test_threads, NULL, forget)
{
    pthread_t thread[THREADS];

    atomic_store(&done, 0);
    begin(STOOK_TRACE_LIMIT);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, exchange, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < SHARED; i++) {
        void *left = atomic_exchange(&shared[i], NULL);
        atomic_fetch_add(&done, left != NULL);
        stook_free(cache, left);
    }
    end();
    assert_int_equal(t.n, atomic_load(&done));
    assert_int_equal(t.allocs, t.frees);
    assert_int_equal(t.unknown + t.live + t.twice + t.header.lost, 0);
}

static void *one_pair(void *arg)
{
    pairs(1);
    return NULL;
}

/* Threads that have ended leave their chunks to others. */
TEST_WITH(test_short_threads, NULL, forget)
{
    const unsigned n = (unsigned)scaled(1000);
    pthread_t thread;

    begin(STOOK_TRACE_LIMIT);
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(pthread_create(&thread, NULL, one_pair, NULL), 0);
        pthread_join(thread, NULL);
    }
    end();
    assert_int_equal(t.n, 2 * n);
    assert_int_equal(t.unknown + t.live + t.twice + t.header.lost, 0);
    assert_true(t.header.chunks <= n / 2); /* some end while the next begins */
}

static void *churn(void *arg)
{
    while (!atomic_load(&stop))
        pairs(10);
    return NULL;
}

/* Begun and ended under threads that go on. */
TEST_WITH(test_restarts, NULL, forget)
{
    pthread_t thread[THREADS];

    atomic_store(&stop, false);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, churn, NULL), 0);
    for (unsigned i = 0; i < 10; i++) {
        begin(STOOK_TRACE_LIMIT);
        pairs(100);
        end();
        assert_int_equal(t.header.lost, 0);
        assert_true(t.n >= 200);
        trace_decoded_free(&t);
        memset(&t, 0, sizeof(t));
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

/* ---- handlers, forks, kills ------------------------------------------------------------------- */

static atomic_uint handled;

static void handler(int signal)
{
    void *object;

    object = stook_alloc(cache, STOOK_SIGNAL_SAFE);
    atomic_fetch_add(&done, 2u * (object != NULL));
    stook_free(cache, object);
    atomic_fetch_add(&handled, 1);
}

static pthread_t victim;

static void *shoot(void *arg)
{
    while (!atomic_load(&stop)) { /* one at a time, so that the interrupted thread makes progress */
        unsigned before = atomic_load(&handled);
        pthread_kill(victim, SIGUSR1);
        while (atomic_load(&handled) == before && !atomic_load(&stop))
            sched_yield();
    }
    return NULL;
}

/* What a handler does while a record is written is lost, and counted; between records it is not. */
TEST_WITH(test_handlers, NULL, forget)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    uint64_t n = 0;
    pthread_t shooter;

    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    atomic_store(&done, 0);
    atomic_store(&handled, 0);
    atomic_store(&stop, false);
    victim = pthread_self();
    begin(STOOK_TRACE_LIMIT);
    assert_int_equal(pthread_create(&shooter, NULL, shoot, NULL), 0);
    for (; atomic_load(&handled) < 300 || n < 20000; n += 10)
        pairs(10);
    atomic_store(&stop, true);
    pthread_join(shooter, NULL);
    end();
    assert_int_equal(t.n + t.header.lost, 2 * n + atomic_load(&done));
    if (t.header.lost == 0)
        assert_int_equal(t.unknown + t.live + t.twice, 0);
}

static int child_body(void *arg)
{
    pairs(100); /* into a file that is not there any more */
    MUST(stook_trace_stop() == -1 && errno == EINVAL);
    MUST(stook_trace_start(other, STOOK_TRACE_LIMIT) == 0); /* into its own */
    pairs(3);
    MUST(stook_trace_stop() == 0);
    return 0;
}

TEST_WITH(test_fork, NULL, forget)
{
    begin(STOOK_TRACE_LIMIT);
    pairs(5);
    in_child(child_body, NULL);
    pairs(5);
    end();
    assert_int_equal(t.n, 20);
    assert_int_equal(t.unknown + t.live + t.twice + t.header.lost, 0);
    trace_decoded_free(&t);
    trace_decode(&t, other);
    assert_int_equal(t.n, 6);
    assert_int_not_equal(t.header.pid, getpid());
}

/* A child that no atfork handler saw. */
TEST_WITH(test_raw_fork, NULL, forget)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    skip();
#endif
    int status;
    pid_t pid;

    begin(STOOK_TRACE_LIMIT);
    pairs(5);
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    assert_true(pid >= 0);
    if (pid == 0) {
        pairs(100);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    pairs(5);
    end();
    assert_int_equal(t.n, 20);
    assert_int_equal(t.unknown + t.live + t.twice + t.header.lost, 0);
}

/* Killed in the middle of things: all that was recorded is there, as whole records. */
TEST_WITH(test_killed, NULL, forget)
{
    int pipes[2], status;
    pid_t pid;
    char byte;

    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    if (pid == 0) {
        begin(STOOK_TRACE_LIMIT);
        pairs(10000);
        MUST(write(pipes[1], "x", 1) == 1);
        for (;;)
            pairs(1);
    }
    assert_true(pid > 0);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(pipes[0]);
    close(pipes[1]);
    trace_decode(&t, path);
    assert_int_equal(t.header.pid, pid);
    assert_int_equal(t.header.ended, 0);
    assert_int_equal(t.header.lost, 0);
    assert_true(t.n >= 20000);
    assert_true(t.live <= 1);
    assert_int_equal(t.unknown + t.twice, 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "simulated") == 0) {
        snprintf(path, sizeof(path), "%s", argv[2]);
        return simulated(NULL);
    }
    return tests_run(setup, teardown);
}
