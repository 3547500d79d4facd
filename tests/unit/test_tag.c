/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* wrap: raw_call6 */
/*
 * Tags: the same site has the same number in every thread, and the counts are exact, with other threads, handlers that
 * count too, threads without a CPU, children, and when numbers or memory run out.
 */
#define MUST_FAILS abort()
#include "percpu/percpu.h"
#include "site/tag.h"

#include "support/libc_names.h"
#include "support/must.h"
#include "support/random.h"
#include "support/rseq_registration.h"
#include "support/scale.h"
#include "support/test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

enum { THREADS = 4, TAGS = 50 };

static const void *address(uintptr_t i)
{
    return (const void *)(0x500000000000 + i * 5);
}

/* Of the record of a tag that was made by tag_of_address(), whether or not anything was counted. */
static uint64_t address_of(uint32_t tag)
{
    const char *chunk = (const char *)tag_chunks[tag >> TAG_CHUNK_SHIFT] + rows_size(ROWS_LARGE);

    return ((const struct tag_record *)(const void *)chunk)[tag & (TAG_CHUNK - 1)].value;
}

static struct stook_tag_stat stat_of(unsigned tag)
{
    struct stook_tag_stat stat = {.size = sizeof(stat)};

    MUST(stook_tag_stat(tag, &stat) == 0);
    return stat;
}

static uint32_t tag_at(const char *file, const char *function, unsigned line)
{
    struct stook_site site = {file, function, line, 0};
    uint32_t tag = tag_of_site(&site);

    MUST(site.tag == tag && tag_of_site(&site) == tag);
    return tag;
}

/* ---- numbers -------------------------------------------------------------------------------- */

TEST(test_sites)
{
    char file[] = "main.c", function[] = "parse";
    uint32_t tag = tag_at("main.c", "parse", 10), other;

    assert_true(tag > 0);
    /* Another unit's copy of an inlined function, or a module that was loaded again. */
    assert_int_equal(tag_at(file, function, 10), tag);
    assert_int_not_equal(tag_at("main.c", "parse", 11), tag);
    assert_int_not_equal(tag_at("main.c", "parser", 10), tag);
    assert_int_not_equal(tag_at("amain.c", "parse", 10), tag);
    /* What lies on both sides of the border between the names. */
    assert_int_not_equal(tag_at("main.cp", "arse", 10), tag);

    other = tag_at(file, "module", 12);
    memset(file, 'x', sizeof(file) - 1); /* it was unloaded */
    tag_count_alloc(other, 1, 8);
    assert_string_equal(stat_of(other).file, "main.c");
    assert_string_equal(stat_of(other).function, "module");
    assert_int_equal(stat_of(other).line, 12);
    assert_int_equal(stat_of(other).address, 0);

    tag = tag_at(NULL, NULL, 0);
    tag_count_alloc(tag, 1, 8);
    assert_string_equal(stat_of(tag).file, "?");
    assert_string_equal(stat_of(tag).function, "?");
}

TEST(test_long_names)
{
    static char file[5000], function[5000];
    struct stook_tag_stat stat;
    uint32_t tag;

    memset(file, 'a', sizeof(file) - 1);
    memset(function, 'b', sizeof(function) - 1);
    memcpy(file + sizeof(file) - 9, "/last.cc", 8);
    memcpy(function, "first", 5);
    for (unsigned line = 1; line <= 300; line++) { /* more than one block of names */
        file[100] = function[100] = (char)('A' + line % 26);
        tag = tag_at(file, function, line);
        tag_count_alloc(tag, 1, 1);
        stat = stat_of(tag);
        assert_int_equal(strlen(stat.file), STOOK_TAG_NAME_MAX);
        assert_string_equal(stat.file + STOOK_TAG_NAME_MAX - 8, "/last.cc");
        assert_int_equal(strlen(stat.function), STOOK_TAG_NAME_MAX);
        assert_memory_equal(stat.function, "first", 5);
        assert_int_equal(stat.function[100], function[100]);
        assert_int_equal(stat.line, line);
    }
}

TEST(test_addresses)
{
    enum { MANY = 9000 }; /* more than the near table has places for */
    static uint32_t tags[MANY];

    assert_int_equal(tag_of_address(NULL), 0);
    for (unsigned i = 0; i < MANY; i++) {
        tags[i] = tag_of_address(address(i));
        assert_true(tags[i] > 0 && (i == 0 || tags[i] > tags[i - 1]));
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(tag_of_address(address(i)), tags[i]);
        assert_true(address_of(tags[i]) == (uintptr_t)address(i));
    }
    tag_count_alloc(tags[7], 1, 64);
    assert_true(stat_of(tags[7]).address == (uintptr_t)address(7));
    assert_null(stat_of(tags[7]).file);
    assert_null(stat_of(tags[7]).function);
}

/* All threads ask for the same ones, each from another place on. */
enum { RACED = 2000 };
static uint32_t raced[THREADS][RACED];
static pthread_barrier_t barrier;

static void *race(void *arg)
{
    unsigned self = (unsigned)(uintptr_t)arg;

    pthread_barrier_wait(&barrier);
    for (unsigned n = 0; n < RACED; n++) {
        unsigned i = (n + self) % RACED; /* close together */
        raced[self][i] = i % 2 ? tag_at("race.c", "race", i) : tag_of_address(address(100000 + i));
    }
    return NULL;
}

static void run_threads(void *(*body)(void *))
{
    pthread_t threads[THREADS];

    rseq_own = percpu.rseq_offset;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, body, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
}

TEST(test_races)
{
    static uint8_t seen[STOOK_TAGS_MAX + 1];

    run_threads(race);
    for (unsigned i = 0; i < RACED; i++) {
        assert_true(raced[0][i] > 0 && !seen[raced[0][i]]);
        seen[raced[0][i]] = 1;
        for (unsigned t = 1; t < THREADS; t++)
            assert_int_equal(raced[t][i], raced[0][i]);
        tag_count_alloc(raced[0][i], 1, 1);
        if (i % 2)
            assert_int_equal(stat_of(raced[0][i]).line, i);
        else
            assert_true(stat_of(raced[0][i]).address == (uintptr_t)address(100000 + i));
    }
}

/* ---- counts --------------------------------------------------------------------------------- */

struct sums {
    uint64_t came, came_bytes, went, went_bytes;
};
static uint32_t tag[TAGS];
static struct sums counted[THREADS + 1][TAGS]; /* the last: the handler's */

static void sums_add(struct sums *sums, unsigned i, bool went, uint32_t calls, uint64_t bytes)
{
    if (went) {
        tag_count_free(tag[i], calls, bytes);
        sums[i].went += calls;
        sums[i].went_bytes += bytes;
    } else {
        tag_count_alloc(tag[i], calls, bytes);
        sums[i].came += calls;
        sums[i].came_bytes += bytes;
    }
}

static _Atomic unsigned handled;

static void handler(int signal)
{
    static uint64_t seed = 5; /* one thread gets signals */
    int saved = errno;

    for (int i = 0; i < 3; i++)
        sums_add(counted[THREADS], random_below(&seed, TAGS), random_below(&seed, 2), 1,
                 random_below(&seed, 1000));
    atomic_fetch_add(&handled, 1);
    errno = saved;
}

static bool was_interrupted(void)
{
    return atomic_load(&handled) >= 100;
}

/* SIGUSR1 for this thread every so many nanoseconds; 0: no more. */
static void interrupt_me(long distance)
{
    static timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    struct itimerspec when = {{0, distance}, {0, distance}};

    if (distance == 0) {
        MUST(timer_delete(timer) == 0);
        return;
    }
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    MUST(timer_settime(timer, 0, &when, NULL) == 0);
}

/* ThreadSanitizer hands signals to their handlers where the C library is called. */
static void signal_point(uint64_t i)
{
#if defined(__SANITIZE_THREAD__)
    if (i % 64 == 0)
        usleep(1);
#else
    (void)i;
#endif
}

static void *count(void *arg)
{
    unsigned self = (unsigned)(uintptr_t)arg;
    uint64_t seed = self + 1, rounds = scaled(200000);
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(self == 0 ? SIG_UNBLOCK : SIG_BLOCK, &signals, NULL);
    if (self == 1 && percpu_cpu() >= 0 && rseq_is_registered())
        MUST(rseq_unregister());
    pthread_barrier_wait(&barrier);
    if (self == 0)
        interrupt_me(scaled(50000) < 50000 ? 1000000 : 50000); /* slower code, fewer handlers */
    /* The first goes on until it was interrupted often. */
    for (uint64_t i = 0; i < rounds || (self == 0 && !was_interrupted() && i < 1000 * rounds);
         i++) {
        signal_point(i);
        sums_add(counted[self], random_below(&seed, TAGS), random_below(&seed, 2),
                 1 + random_below(&seed, 30), random_next(&seed) >> (i % 256 ? 54 : 20));
    }
    if (self == 0)
        interrupt_me(0);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    return NULL;
}

static void check_sums(void)
{
    for (unsigned i = 0; i < TAGS; i++) {
        struct sums sum = {0};
        struct stook_tag_stat stat = stat_of(tag[i]);
        for (unsigned t = 0; t <= THREADS; t++) {
            sum.came += counted[t][i].came;
            sum.came_bytes += counted[t][i].came_bytes;
            sum.went += counted[t][i].went;
            sum.went_bytes += counted[t][i].went_bytes;
        }
        MUST(stat.total_objects == sum.came && stat.total_bytes == sum.came_bytes);
        MUST(stat.live_objects == sum.came - sum.went);
        MUST(stat.live_bytes == sum.came_bytes - sum.went_bytes);
    }
}

static int child_counts(void *arg)
{
    uint64_t seed = 77;

    check_sums(); /* inherited */
    for (unsigned i = 0; i < 1000; i++)
        sums_add(counted[0], random_below(&seed, TAGS), random_below(&seed, 2), 1, 8);
    check_sums();
    return 0;
}

TEST(test_counts)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};

    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    memset(counted, 0, sizeof(counted));
    for (unsigned i = 0; i < TAGS; i++)
        tag[i] = tag_at("count.c", "count", i);
    run_threads(count);
    check_sums();
    assert_true(was_interrupted());

    in_child(child_counts, NULL);
    check_sums(); /* what the child counted is the child's */
}

/* A reader never sees more frees than allocations. */
static uint32_t paired;

static void *pair_up(void *arg)
{
    uint64_t rounds = scaled(100000);

    pthread_barrier_wait(&barrier);
    if (arg) {
        for (uint64_t i = 0; i < rounds; i++) {
            tag_count_alloc(paired, 1, 24);
            tag_count_free(paired, 1, 24);
        }
        return NULL;
    }
    for (uint64_t i = 0; i < rounds / 10; i++) {
        struct stook_tag_stat stat = {.size = sizeof(stat)};
        if (stook_tag_stat(paired, &stat) == 0)
            MUST((int64_t)stat.live_objects >= 0 && (int64_t)stat.live_bytes >= 0);
    }
    return NULL;
}

TEST(test_reading_beside)
{
    paired = tag_at("pair.c", "pair", 1);
    run_threads(pair_up);
    assert_int_equal(stat_of(paired).live_objects, 0);
    assert_int_equal(stat_of(paired).live_bytes, 0);
    assert_true(stat_of(paired).total_bytes == 24 * (THREADS - 1) * scaled(100000));
}

TEST(test_listing)
{
    struct stook_tag_stat stat = {.size = sizeof(stat)};
    unsigned seen = 0, before = 0;
    uint32_t silent = tag_at("list.c", "silent", 1), heard = tag_at("list.c", "heard", 2);

    tag_count_alloc(heard, 2, 50);
    tag_count_free(heard, 2, 50);
    for (unsigned t = 0; (t = stook_tag_next(t)) != 0; before = t) {
        assert_true(t > before && t != silent);
        assert_int_equal(stook_tag_stat(t, &stat), 0);
        assert_true(stat.total_objects > 0);
        seen += t == heard;
    }
    assert_int_equal(seen, 1);
    assert_int_equal(stook_tag_next(heard), 0);
    assert_int_equal(stook_tag_next(STOOK_TAGS_MAX), 0);
    assert_int_equal(stook_tag_next(~0u), 0);

    const unsigned none[] = {0, silent, STOOK_TAGS_MAX, STOOK_TAGS_MAX + 1, ~0u};
    for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        errno = 0;
        assert_int_equal(stook_tag_stat(none[i], &stat), -1);
        assert_int_equal(errno, ENOENT);
    }
    stat.size = 1;
    assert_int_equal(stook_tag_stat(heard, &stat), -1);
    assert_int_equal(errno, EINVAL);
    tag_count_alloc(0, 1, 1); /* no tag: nothing happens */
    tag_count_free(0, 1, 1);
}

/* ---- children ------------------------------------------------------------------------------- */

static _Atomic bool forking;
static _Atomic unsigned tagged;

static void *tag_on(void *arg)
{
    for (unsigned i = 0; i < 40000 && atomic_load(&forking); i++) {
        if (i % 4)
            (void)tag_of_address(address(200000 + i));
        else
            (void)tag_at("fork.c", "fork", i);
        atomic_store(&tagged, i);
    }
    return NULL;
}

/* Whatever step another thread was in: the child can do the rest. */
static void child_tags(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        uint32_t t = i % 4 ? tag_of_address(address(200000 + i)) : tag_at("fork.c", "fork", i);
        MUST(t != 0);
        tag_count_alloc(t, 1, 32);
        MUST(stat_of(t).total_bytes == 32);
        MUST(i % 4 ? stat_of(t).address == (uintptr_t)address(200000 + i) : stat_of(t).line == i);
    }
    _exit(0);
}

TEST(test_forks)
{
    pthread_t thread;
    int status;

    atomic_store(&forking, true);
    atomic_store(&tagged, 0);
    assert_int_equal(pthread_create(&thread, NULL, tag_on, NULL), 0);
    for (unsigned i = 0; i < scaled(60); i++) {
        pid_t child = fork();
        if (child == 0) {
            unsigned at = atomic_load(&tagged);
            child_tags(at > 50 ? at - 50 : 0, at + 50);
        }
        assert_true(child > 0 && waitpid(child, &status, 0) == child);
        assert_int_equal(status, 0);
    }
    atomic_store(&forking, false);
    pthread_join(thread, NULL);
}

/* ---- when something runs out ----------------------------------------------------------------- */

static int exhaust(void *arg)
{
    uint32_t known = tag_at("full.c", "before", 1), given = 0, last = 0;
    const void *known_address = address(300000);
    uint32_t known_number = tag_of_address(known_address);

    for (unsigned i = 0; i < STOOK_TAGS_MAX + 1000; i++) {
        uint32_t t = tag_of_address(address(400000 + i));
        MUST(t <= STOOK_TAGS_MAX && (t == 0 || t > last));
        MUST(t != 0 || i > 10000);
        last = t ? t : last;
        given += t != 0;
    }
    MUST(last == STOOK_TAGS_MAX && given < STOOK_TAGS_MAX);
    MUST(tag_at("full.c", "after", 1) == 0 && tag_of_address(address(1)) != 0);
    MUST(tag_at("full.c", "before", 1) == known && tag_of_address(known_address) == known_number);
    for (unsigned i = 0; i < given; i++)
        MUST(address_of(tag_of_address(address(400000 + i))) == (uintptr_t)address(400000 + i));
    tag_count_alloc(last, 3, 300);
    MUST(stat_of(last).live_bytes == 300 && stook_tag_next(last) == 0);
    return 0;
}

TEST(test_exhaustion)
{
    (void)tag_of_address(address(1));
    in_child(exhaust, NULL);
}

static bool refused;
long __real_raw_call6(long number, long a, long b, long c, long d, long e, long f);
long __wrap_raw_call6(long number, long a, long b, long c, long d, long e, long f);

long __wrap_raw_call6(long number, long a, long b, long c, long d, long e, long f)
{
    if (refused && number == SYS_mmap)
        return -ENOMEM;
    return __real_raw_call6(number, a, b, c, d, e, f);
}

TEST_IN_CHILD(test_no_memory)
{
    unsigned i = 500000, without = 0;
    uint32_t t;

    refused = true;
    for (; without < 20; i++) /* up to the end of a chunk, and beyond */
        without += tag_of_address(address(i)) == 0;
    MUST(tag_at("memory.c", "memory", 1) == 0);
    refused = false;
    t = tag_of_address(address(i - 1));
    MUST(t != 0 && address_of(t) == (uintptr_t)address(i - 1));
    MUST(tag_at("memory.c", "memory", 1) != 0);

    refused = true; /* no room for names */
    for (i = 0, without = 0; without < 20 && i < 20000; i++)
        without += tag_at("memory.c", "a function with a name of some length", i + 2) == 0;
    MUST(without == 20);
    refused = false;
    for (; i > 0; i--) {
        t = tag_at("memory.c", "a function with a name of some length", i + 1);
        tag_count_alloc(t, 1, 1);
        MUST(t != 0 && stat_of(t).line == i + 1 && stat_of(t).total_bytes == 1);
    }
    return 0;
}

int main(void)
{
    (void)stook_mode(NULL);
    return tests_run(NULL, NULL);
}
