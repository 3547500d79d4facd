/* SPDX-License-Identifier: MIT */
/* needs: native */
/* wrap: raw_call6 */
/*
 * The n-th system call of the library fails, for every n, and then two and then forty in a row:
 * never a crash, nothing lost, no half-made state, and afterwards everything works.  Each n is a
 * process of its own, since the start is part of it: "test_system_calls N LENGTH" runs the
 * scenario with the calls N .. N+LENGTH-1 failing.  A refused start may end in a message.
 */
#include "support/check.h"
#include "support/faults.h"
#include "support/test.h"

#include "cache/cache_list.h"
#include "page/arena.h"
#include "large/large.h"

#include <stook/stook.h>

#include <fcntl.h>
#include <signal.h>

enum { PASSED = 0, NOTHING_FAILED = 42 };

#if FAULTS_POSSIBLE

/* ---- the scenario --------------------------------------------------------------------------- */

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fault: line %d: %s (errno %d, call %u)\n", __LINE__, #condition,      \
                    errno, fault_calls);                                                           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
/* What may fail only because something was made to fail, and then says so. */
#define MAY_FAIL(condition) MUST((condition) || (fault_hits > 0 && errno == ENOMEM))

enum { CACHES = 5, OBJECTS = 300 };

static struct stook_cache *caches[CACHES];
static const size_t sizes[CACHES] = {64, 3000, 20000, 40, 500};
static struct check_object held[CACHES * OBJECTS];
static size_t nheld;

static void ctor(void *object, void *arg)
{
    memset(object, 0x44, 40);
}

static void dtor(void *object, void *arg)
{
    MUST(*(unsigned char *)object == 0x44);
}

static void got(unsigned c, void *object, bool zero)
{
    unsigned char *bytes = object;

    for (size_t i = 0; zero && i < sizes[c]; i++)
        MUST(bytes[i] == 0);
    MUST(c != 3 || (bytes[0] == 0x44 && bytes[39] == 0x44));
    memset(bytes, 0x44, sizes[c]);
    held[nheld++] = (struct check_object){caches[c], object};
}

static void give_back(size_t keep)
{
    while (nheld > keep) {
        MUST(*(unsigned char *)held[nheld - 1].object == 0x44);
        errno = 4711;
        stook_free(held[nheld - 1].cache, held[nheld - 1].object);
        MUST(errno == 4711); /* whatever it met */
        nheld--;
    }
}

static void check(void)
{
    bool off = fault_off;

    fault_off = true;
    check_all(held, nheld);
    fault_off = off;
}

static void use_caches(void)
{
    void *objects[OBJECTS];

    for (unsigned c = 0; c < CACHES; c++) {
        struct stook_cache_args args = {.size = sizeof(args),
                                        .ctor = c == 3 ? ctor : NULL,
                                        .dtor = c == 3 ? dtor : NULL,
                                        .flags = c == 4 ? STOOK_CACHE_NOSHEAF : 0};
        errno = 0;
        caches[c] = stook_cache_create("fault", sizes[c], &args);
        MAY_FAIL(caches[c]);
    }
    for (int round = 0; round < 2; round++) {
        for (unsigned c = 0; c < CACHES; c++) {
            size_t n = sizes[c] > 10000 ? 40 : OBJECTS / 3;
            for (unsigned i = 0; caches[c] && i < n; i++) {
                bool zero = c != 3 && i % 2;
                void *object;
                errno = 0;
                object = stook_alloc(caches[c], zero ? STOOK_ZERO : 0);
                MAY_FAIL(object);
                if (object)
                    got(c, object, zero);
            }
            errno = 0;
            if (!caches[c])
                continue;
            n = stook_alloc_bulk(caches[c], 0, n, objects) == 0 ? n : 0;
            MAY_FAIL(n > 0);
            for (size_t i = 0; i < n; i++)
                got(c, objects[i], false);
        }
        check();
        give_back(round == 0 ? nheld / 2 : 0);
        for (unsigned c = 0; c < CACHES; c++)
            if (caches[c])
                (void)stook_cache_shrink(caches[c]);
        check();
        if (round == 0)
            give_back(0);
    }
    for (unsigned c = 0; c < CACHES; c++)
        MUST(stook_cache_destroy(caches[c]) == 0);
    check();
}

static void use_large(void)
{
    size_t size = (size_t)3 << 20;
    char *object, *moved;
    bool zeroed = false;

    errno = 0;
    object = large_alloc(0, size, 4096, false, &zeroed);
    MAY_FAIL(object);
    if (!object)
        return;
    for (size_t i = 0; zeroed && i < size; i += 64)
        MUST(object[i] == 0);
    memset(object, 0x44, size);
    moved = large_move(0, object, 2 * size);
    if (moved)
        object = moved;
    for (size_t i = 0; i < size; i += 4096)
        MUST(object[i] == 0x44);
    if (large_resize(object, 3 * size))
        object[3 * size - 1] = 1;
    (void)large_resize(object, size / 2);
    MUST(object[0] == 0x44 && object[size / 2 - 1] == 0x44);
    MUST(large_free(object));
    check();
}

static void scenario(void)
{
    int null;

    use_caches();
    use_large();
    fault_off |= fault_hits == fault_length;
    null = open("/dev/null", O_WRONLY);
    if (null >= 0)
        MUST(stook_report(null, STOOK_REPORT_JSON) == 0);
    (void)arena_trim();
    check();
}

static int run_scenario(void)
{
    struct arena_stat stat;
    unsigned failed;

    fprintf(stderr, "started\n");
    scenario();
    failed = fault_hits;
    fault_off = true;
    fault_hits = 0;
    scenario(); /* and now all of it works */
    arena_trim();
    check();
    arena_stat(&stat);
    /* All that is used are the library's own slabs: caches' and sheaves', kept within limits. */
    MUST(stat.used <= 256 * 4096);
    return failed > 0 ? PASSED : NOTHING_FAILED;
}

/* ---- the test ------------------------------------------------------------------------------- */

static const char *self;

/* 1: nothing failed, so n is beyond the last call. */
static int run_one(unsigned n, unsigned length)
{
    char number[32], said[2048];
    ssize_t got, size = 0;
    int pipes[2], status;
    pid_t pid;

    assert_int_equal(pipe(pipes), 0);
    snprintf(number, sizeof(number), "%u,%u", n, length);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        setenv("STOOK_TEST_FAULT", number, 1);
        execl(self, self, "scenario", NULL);
        _exit(99);
    }
    close(pipes[1]);
    while (size < (ssize_t)sizeof(said) - 1 &&
           (got = read(pipes[0], said + size, sizeof(said) - 1 - (size_t)size)) > 0)
        size += got;
    said[size] = '\0';
    close(pipes[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == PASSED)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOTHING_FAILED)
        return 1;
    /* A start that was refused what it cannot do without, and says what that is. */
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && !strstr(said, "started") &&
        (strstr(said, "stook: no memory for") || strstr(said, "stook: no address space")))
        return 0;
    fail_msg("calls %u to %u failed: status %#x: %s", n, n + length - 1, (unsigned)status, said);
    return -1;
}

static void run_all(unsigned length, unsigned step)
{
    unsigned n = 1;

    while (run_one(n, length) == 0)
        n += step;
    printf("%u calls, %u at a time\n", n - 1, length);
    assert_true(n > 60); /* the scenario makes that many at least */
}

TEST(one_call)
{
    run_all(1, 1);
}

TEST(two_calls)
{
    run_all(2, 1);
}

TEST(forty_calls)
{
    run_all(40, 5);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return run_scenario();
    self = argv[0];
    return tests_run(NULL, NULL);
}
#endif
