/* SPDX-License-Identifier: MIT */
/* needs: whole rseq native */
/*
 * Every instruction of the section of site/rows_two.h, one after the other.  A tracer stops the thread right
 * before it and causes an event: only the stop; a signal whose handler counts on the same pair; a migration; another
 * thread that counts on the CPU.  Then the thread continues.  Before the end of the section it must have aborted and
 * counted nothing.  From the instruction behind the committing one on, it must have counted both sums.  A section that stores the two one after
 * the other must be found out.
 */
#include "support/percpu_fixture.h"
#include "support/test.h"

#if (defined(__x86_64__) || defined(__aarch64__)) && STOOK_RSEQ
#include "site/rows_two.h"
#include "support/rseq_broken.h"
#include "support/steps.h"

enum { COUNT = 3, BYTES = 1000, OTHER = 7, OTHER_BYTES = 70 };
enum { EVENT_NEIGHBOUR = STEPS_HELP, EVENTS };
enum { OP_ADD_TWO, OP_TORN, OPS };

static struct count {
    unsigned runs, errors;
} * counts; /* of each section */

static struct rows_two *pairs; /* of CPU 0 */
static volatile intptr_t registration;

STEPS_SECTION static int op_add_two(void)
{
    return rseq_add_two(pairs, registration, (op_two){COUNT, BYTES}) == RSEQ_DONE;
}
STEPS_SECTION static int op_torn(void)
{
    return broken_add_two_torn(pairs, ROWS_LARGE, registration, COUNT, BYTES) == RSEQ_DONE;
}
static int (*const ops[OPS])(void) = {op_add_two, op_torn};

static void other(int signal)
{
    rows_add_two(pairs, OTHER, OTHER_BYTES);
}

static void help(unsigned event)
{
    fixture_pin(fixture_cpu[0]);
    other(0);
}

static void prepare(unsigned op)
{
    memset(rows_at(pairs, ROWS_LARGE, ROWS_NO_CPU), 0, rows_size(ROWS_LARGE));
    fixture_pin(fixture_cpu[0]);
}

static void alone(bool on)
{
    registration = on ? steps_imitation(0) : percpu.rseq_offset;
}

static void judge(unsigned op, unsigned event, bool done)
{
    struct rows_two wanted = {0}, sum = rows_sum_two(pairs);

    if (done)
        wanted = (struct rows_two){COUNT, BYTES};
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

TEST(test_every_instruction)
{
    static const struct steps_test test = {EVENTS, all, other, help, prepare, alone, judge};

    if (!percpu.rseq)
        skip();
    counts = steps_memory(OPS * sizeof(*counts));
    pairs = rows_map(ROWS_LARGE);
    assert_non_null(pairs);
    steps_run(&test, fixture_cpu[fixture_cpus - 1]);
    print_message("add two: %u runs, %u errors; torn: %u runs, %u errors\n",
                  counts[OP_ADD_TWO].runs, counts[OP_ADD_TWO].errors, counts[OP_TORN].runs,
                  counts[OP_TORN].errors);
    assert_true(counts[OP_ADD_TWO].runs >= 8 * EVENTS);
    assert_int_equal(counts[OP_ADD_TWO].errors, 0);
    assert_true(counts[OP_TORN].errors > 0); /* it must be seen */
}

/* A thread that is not registered leaves the section at once. */
TEST(test_unregistered)
{
    bool done = false;

    if (!percpu.rseq)
        skip();
    pairs = rows_map(ROWS_LARGE);
    assert_non_null(pairs);
    for (int cpu = -2; cpu < 0; cpu++) {
        registration = steps_imitation((uint32_t)cpu);
        assert_false(op_add_two());
        assert_int_equal(rows_sum_two(pairs).count, 0);
    }
    registration = steps_imitation(0);
    for (int i = 0; i < 1000 && !done; i++) /* an interruption may still undo a store-exclusive */
        done = op_add_two();
    assert_true(done);
    assert_int_equal(rows_sum_two(pairs).count, COUNT);
    assert_int_equal(((struct rows_two *)rows_at(pairs, ROWS_LARGE, ROWS_NO_CPU))->count, 0);
}

int main(void)
{
    fixture_start();
    return tests_run(NULL, NULL);
}
#endif
