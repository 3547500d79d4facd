/* SPDX-License-Identifier: MIT */
/* needs: rseq */
/* timeout: 240 */
/*
 * Rules 1, 2, 3, 6, 7 and 8 of the per-CPU protocol, each broken on purpose: the storm that passes
 * over the real thing must see each.  (4 and 5: test_fork_violations; 10: the storm counts
 * membarriers.)  A violation runs in a process of its own, which may also crash or hang by it.
 */
#include "support/sections_widened.h"
#include "support/test.h"

#include "support/rseq_broken.h"

static enum rseq_result chosen_close(void *slot, intptr_t rseq, int cpu, const void *closed,
                                     void **main);
#define rseq_close chosen_close
#include "sheaf/slot.c"
#undef rseq_close

#include "support/storm_run.h"

#include <sys/mman.h>
#include <sys/resource.h>

static enum rseq_result chosen_close(void *slot, intptr_t rseq, int cpu, const void *closed,
                                     void **main)
{
    return storm.broken == BREAK_LATE_END ? broken_close_late(slot, rseq, cpu, closed, main)
                                          : rseq_close(slot, rseq, cpu, closed, main);
}

static struct storm_result *result;

enum { HANG = 60 }; /* seconds without an end of a short storm: so much later it is none */

/* Runs `body` in a child of its own; false if it ended well. */
static bool child_fails(int (*body)(void), const char **how)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        alarm(HANG); /* a hang counts as seen */
        _exit(body());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    *how = !WIFSIGNALED(status) ? "counted" : WTERMSIG(status) == SIGALRM ? "hung" : "crashed";
    return WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
}

static struct storm_args planted;
static unsigned rounds;
static uint64_t least; /* operations: on a busy machine that takes more rounds */

/* Short storms one after the other, since what is lost shows at the end of one. */
static int planted_storms(void)
{
    static struct storm_result one;

    for (unsigned round = 0; round < rounds || result->operations < least; round++) {
        alarm(HANG);
        if (!storm_run(&planted, &one))
            return 0;
        result->operations += one.operations;
        result->slow += one.slow;
        result->signals += one.signals;
        result->migrations += one.migrations;
        result->takes += one.takes;
        result->fences += one.fences;
        result->errors = one.errors;
        memcpy(result->first, one.first, sizeof(one.first));
        if (one.errors)
            return 1;
    }
    return 0;
}

static void check_seen(const char *name, enum storm_break broken, bool seen)
{
    const char *how;

    memset(result, 0, sizeof(*result));
    planted = (struct storm_args){
        .broken = broken, .threads = 12, .takers = 2, .migrators = 1, .seconds_tenths = 3};
    rounds = seen ? 60 : 2;
    least = seen ? 10000000 : 0;
    bool failed = child_fails(planted_storms, &how);
    storm_print(name, result);
    printf("    %s\n", failed ? how : "passed");
    assert_int_equal(failed, seen);
}

/* What follows shows only what was planted. */
TEST(test_nothing_broken)
{
    check_seen("nothing broken", BREAK_NOTHING, false);
}

TEST(test_rule_1_late_end)
{
    if (!percpu.rseq)
        skip();
    check_seen("rule 1, instructions behind the cmpxchg of close", BREAK_LATE_END, true);
}

TEST(test_rule_2_read_before_fence)
{
    if (!percpu.rseq || fixture_cpus < 2)
        skip();
    check_seen("rule 2, a taker reads before its fence", BREAK_READ_BEFORE_FENCE, true);
}

TEST(test_rule_3_mixed_modes)
{
    if (!percpu.rseq || fixture_cpus < 2)
        skip();
    if (getenv("STOOK_SLOW"))
        skip(); /* its CPUs hardly run side by side: ten million operations found nothing */
    check_seen("rule 3, closing by exchange beside sections", BREAK_MIXED_MODES, true);
}

TEST(test_rule_6_stale_cpu)
{
    if (!percpu.rseq || fixture_cpus < 2)
        skip();
    check_seen("rule 6, children of vfork run sections", BREAK_STALE_CPU, true);
}

TEST(test_rule_8_handler_drops)
{
    check_seen("rule 8, a handler has no place for what it frees", BREAK_HANDLER_DROPS, true);
}

#if defined(STOOK_INLINE_SECTIONS)
static void *spin(void *arg)
{
    fixture_pin(fixture_cpu[0]);
    for (;;)
        __asm__ __volatile__("");
    return NULL;
}

/*
 * Rule 7: a descriptor that goes while it is armed.  The kernel reads it when the thread is next
 * interrupted and switched, which the other thread on its CPU sees to.
 */
static int unmapped_descriptor(void)
{
    pthread_t other;

    fixture_pin(fixture_cpu[0]);
    if (pthread_create(&other, NULL, spin, NULL) != 0)
        return 0;
    for (int i = 0; i < 10; i++) {
        uint64_t *descriptor =
            mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (descriptor == MAP_FAILED)
            return 0;
        descriptor[1] = (uintptr_t)descriptor; /* a section that no thread is in */
        descriptor[2] = 16;
        descriptor[3] = (uintptr_t)descriptor + 64;
        ((uint32_t *)descriptor)[15] = STOOK_RSEQ_SIG;
        *(uint64_t *volatile *)((char *)__builtin_thread_pointer() + percpu.rseq_offset + 8) =
            descriptor;
        if (planted.broken)
            munmap(descriptor, 4096);
        struct rusage from, now;
        getrusage(RUSAGE_THREAD, &from);
        do
            getrusage(RUSAGE_THREAD, &now);
        while (now.ru_nivcsw == from.ru_nivcsw);
    }
    return 0;
}

TEST(test_rule_7_unmapped_descriptor)
{
    const char *how;

    if (!percpu.rseq)
        skip();
    planted.broken = BREAK_NOTHING;
    assert_false(child_fails(unmapped_descriptor, &how));
    planted.broken = BREAK_LATE_END;
    assert_true(child_fails(unmapped_descriptor, &how));
    assert_string_equal(how, "crashed");
}
#endif

int main(void)
{
    fixture_start();
    result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (result == MAP_FAILED)
        return 1;
    return tests_run(NULL, NULL);
}
