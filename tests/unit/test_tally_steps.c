/* SPDX-License-Identifier: MIT */
/* needs: rseq native */
/*
 * Every instruction of the section of percpu/tally.h, one after the other: a tracer stops the thread
 * right before it, something happens there (nothing but the stop; a signal whose handler counts on
 * the same pair; a migration; another thread that counts on the CPU), and the thread goes on.
 * Before the end of the section it must have aborted and counted nothing; from the instruction behind
 * the committing one on, it must have counted both sums.  A section that stores the two one after
 * the other must be found out.
 */
#include "support/percpu_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#if (defined(__x86_64__) || defined(__aarch64__)) && STOOK_RSEQ
#include "percpu/tally.h"
#include "support/rseq_torn.h"
#include "support/steps.h"

#include <sys/mman.h>

enum { COUNT = 3, BYTES = 1000, OTHER = 7, OTHER_BYTES = 70 };
enum { EVENT_NEIGHBOUR = STEPS_HELP, EVENTS };
enum { OP_TALLY, OP_TORN, OPS };

static struct count {
    unsigned runs, errors;
} * counts; /* of each section */

static struct tally *pairs; /* everybody's, and behind it those of the CPUs */
static volatile intptr_t registration;

STEPS_SECTION static int op_tally(void)
{
    return rseq_tally(pairs, registration, tally_pair(COUNT, BYTES));
}
STEPS_SECTION static int op_torn(void)
{
    return torn_tally(pairs, registration, COUNT, BYTES);
}
static int (*const ops[OPS])(void) = {op_tally, op_torn};

static void other(int signal)
{
    (void)signal;
    tally_add(pairs, OTHER, OTHER_BYTES);
}

static void help(unsigned event)
{
    (void)event;
    fixture_pin(fixture_cpu[0]);
    other(0);
}

static void prepare(unsigned op)
{
    (void)op;
    memset(pairs, 0, tally_size());
    fixture_pin(fixture_cpu[0]);
}

static void alone(bool on)
{
    registration = on ? steps_imitation(0) : percpu.rseq_offset;
}

static void judge(unsigned op, unsigned event, bool done)
{
    struct tally wanted = {0}, sum = tally_read(pairs);

    if (done)
        wanted = (struct tally){COUNT, BYTES};
    if (event == STEPS_SIGNAL || event == EVENT_NEIGHBOUR) {
        wanted.count += OTHER;
        wanted.bytes += OTHER_BYTES;
    }
    counts[op].runs++;
    if (done != (steps_place().at == steps_place().end) || sum.count != wanted.count ||
        sum.bytes != wanted.bytes)
        counts[op].errors++;
}

static void all(void)
{
    for (unsigned op = 0; op < OPS; op++)
        steps_through(op, ops[op], false);
}

static void test_every_instruction(void **state)
{
    static const struct steps_test test = {EVENTS, all, other, help, prepare, alone, judge};

    (void)state;
    if (!percpu.rseq)
        skip();
    counts = steps_memory(OPS * sizeof(*counts));
    pairs = mmap(NULL, tally_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pairs != MAP_FAILED);
    steps_run(&test, fixture_cpu[fixture_cpus - 1]);
    print_message("tally: %u runs, %u errors; torn: %u runs, %u errors\n", counts[OP_TALLY].runs,
                  counts[OP_TALLY].errors, counts[OP_TORN].runs, counts[OP_TORN].errors);
    assert_true(counts[OP_TALLY].runs >= 8 * EVENTS);
    assert_int_equal(counts[OP_TALLY].errors, 0);
    assert_true(counts[OP_TORN].errors > 0); /* it must be seen */
}

/* A thread that is not registered leaves the section at once. */
static void test_unregistered(void **state)
{
    (void)state;
    bool done = false;

    if (!percpu.rseq)
        skip();
    pairs = mmap(NULL, tally_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pairs != MAP_FAILED);
    for (int cpu = -2; cpu < 0; cpu++) {
        registration = steps_imitation((uint32_t)cpu);
        assert_false(op_tally());
        assert_int_equal(tally_read(pairs).count, 0);
    }
    registration = steps_imitation(0);
    for (int i = 0; i < 1000 && !done; i++) /* an interruption may still undo a store-exclusive */
        done = op_tally();
    assert_true(done);
    assert_int_equal(tally_read(pairs).count, COUNT);
    assert_int_equal(pairs->count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_instruction),
        cmocka_unit_test(test_unregistered),
    };

    fixture_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    puts("no sections on this architecture: nothing to step through");
    return 0;
}
#endif
