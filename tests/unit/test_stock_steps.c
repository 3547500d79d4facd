/* SPDX-License-Identifier: MIT */
/* needs: whole rseq native */
/*
 * Every instruction of the sections of a group's stock, one after the other.  A tracer stops the thread right before
 * it and causes an event: only the stop; a signal whose handler takes and gives; a migration; another thread that does
 * so on the CPU.  Other events close the stock from another CPU, or close and open it again, for the same group and for
 * another.  Then the thread continues.  Before the end of the section the call must have changed nothing.  From the
 * instruction behind the committing one on, it must have happened.  Bytes are counted each time.  A section that goes on behind its
 * commit must be found out.
 */
#include "support/percpu_fixture.h"
#include "support/test.h"

#if (defined(__x86_64__) || defined(__aarch64__)) && STOOK_RSEQ
#include "charge/group_stock.h"
#include "support/rseq_broken.h"
#include "support/steps.h"

enum {
    NUMBER = 3 * GROUP_PLACES + 7,
    STRANGER = 4 * GROUP_PLACES + 7, /* another group, later, in the same place */
    BEFORE = 1000,                   /* bytes in the stock */
    BYTES = 300,                     /* of the call */
    MOST = 2000,
    OTHER = 40, /* what the others take */
    AGAIN = 700 /* with which it is opened again */
};
enum { EVENT_NEIGHBOUR = STEPS_HELP, EVENT_CLOSE, EVENT_REOPEN, EVENT_STRANGER, EVENTS };
enum op { OP_TAKE, OP_TAKE_LATE, OP_TAKE_SHORT, OP_TAKE_CLOSED, OP_GIVE, OP_GIVE_FULL, OPS };

static struct count {
    unsigned runs, errors;
} * counts; /* of each section */

static volatile intptr_t registration;
static struct group_stock *stock; /* this CPU's */
static int64_t by_event;          /* bytes that the events took out of the stock */

#define STOCK group_stock_row(NUMBER)
STEPS_SECTION static int op_take(void)
{
    return rseq_take(STOCK, ROWS_LARGE, registration, NUMBER, BYTES) == RSEQ_DONE;
}
STEPS_SECTION static int op_take_late(void)
{
    return broken_take_late(STOCK, ROWS_LARGE, registration, NUMBER, BYTES) == RSEQ_DONE;
}
STEPS_SECTION static int op_take_short(void)
{
    return rseq_take(STOCK, ROWS_LARGE, registration, NUMBER, BEFORE + 1) == RSEQ_DONE;
}
STEPS_SECTION static int op_take_closed(void)
{
    return rseq_take(STOCK, ROWS_LARGE, registration, STRANGER, BYTES) == RSEQ_DONE;
}
STEPS_SECTION static int op_give(void)
{
    return rseq_give(STOCK, ROWS_LARGE, registration, NUMBER, BYTES, MOST) == RSEQ_DONE;
}
STEPS_SECTION static int op_give_full(void)
{
    return rseq_give(STOCK, ROWS_LARGE, registration, NUMBER, BYTES, BEFORE + BYTES - 1) ==
           RSEQ_DONE;
}

static const struct {
    const char *name;
    int (*run)(void);
    int64_t bytes; /* that it brings the caller; 0: it has to leave */
} ops[OPS] = {
    {"take", op_take, BYTES},
    {"take with a late end", op_take_late, BYTES},
    {"take too much", op_take_short, 0},
    {"take of another group", op_take_closed, 0},
    {"give", op_give, -BYTES},
    {"give too much", op_give_full, 0},
};

static void other(int signal)
{
    if (group_stock_take(NUMBER, 2 * OTHER))
        by_event += 2 * OTHER;
    if (group_stock_give(NUMBER, OTHER, MOST))
        by_event -= OTHER;
}

static void took(uint32_t number, uint32_t bytes)
{
    if (number == NUMBER)
        by_event += bytes;
}

/* From the other CPU, if there is one. */
static void close_stock(uint32_t again)
{
    const uint32_t number = NUMBER;

    group_stock_close(&number, 1, took);
    if (atomic_load(&stock->number) != 0 || atomic_load(&stock->bytes) != 0)
        steps_fail("a closed stock is open");
    if (!again)
        return;
    if (again == NUMBER)
        by_event -= AGAIN;
    atomic_store(&stock->bytes, AGAIN);
    atomic_store(&stock->number, again);
}

static void help(unsigned event)
{
    fixture_pin(fixture_cpu[event == EVENT_NEIGHBOUR ? 0 : fixture_cpus - 1]);
    if (event == EVENT_NEIGHBOUR)
        other(0);
    else
        close_stock(event == EVENT_REOPEN ? NUMBER : event == EVENT_STRANGER ? STRANGER : 0);
}

static void prepare(unsigned op)
{
    fixture_pin(fixture_cpu[0]);
    by_event = 0;
    atomic_store(&stock->bytes, BEFORE);
    atomic_store(&stock->number, NUMBER);
}

/* What must be there when all is done. */
static bool right(unsigned event, bool done, int64_t bytes)
{
    uint32_t left = atomic_load(&stock->bytes), number = atomic_load(&stock->number);
    int64_t ours = (int64_t)left + by_event + (done ? bytes : 0);

    if (event == EVENT_STRANGER)
        return number == STRANGER && left == AGAIN && by_event + (done ? bytes : 0) == BEFORE;
    if (event == EVENT_CLOSE && (number != 0 || left != 0))
        return false;
    return ours == BEFORE;
}

static void alone(bool on)
{
    registration = on ? steps_imitation(fixture_cpu[0]) : percpu.rseq_offset;
}

static void judge(unsigned op, unsigned event, bool done)
{
    bool committed = steps_place().at == steps_place().end && ops[op].bytes != 0;

    counts[op].runs++;
    if (done != committed || !right(event, done, ops[op].bytes))
        counts[op].errors++;
}

static void all(void)
{
    for (unsigned op = 0; op < OPS; op++)
        steps_through(op, ops[op].run, ops[op].bytes == 0);
}

TEST(test_every_instruction)
{
    static const struct steps_test test = {EVENTS, all, other, help, prepare, alone, judge};

    if (!percpu.rseq)
        skip();
    counts = steps_memory(OPS * sizeof(*counts));
    assert_true(group_stock_init());
    fixture_pin(fixture_cpu[0]);
    assert_true(group_stock_open(NUMBER, BEFORE)); /* the row is in use now */
    stock = rows_at(STOCK, ROWS_LARGE, (int)fixture_cpu[0]);
    assert_int_equal(atomic_load(&stock->number), NUMBER);

    steps_run(&test, fixture_cpu[fixture_cpus - 1]);
    for (enum op op = 0; op < OPS; op++) {
        print_message("%s: %u runs, %u errors\n", ops[op].name, counts[op].runs, counts[op].errors);
        assert_true(counts[op].runs >= (ops[op].bytes ? 10 : 5) * EVENTS);
        if (op == OP_TAKE_LATE) /* it must be seen */
            assert_true(counts[op].errors > 0);
        else
            assert_int_equal(counts[op].errors, 0);
    }
}

/* A thread that is not registered leaves the section at once. */
TEST(test_unregistered)
{
    if (!percpu.rseq)
        skip();
    for (int cpu = -2; cpu < 0; cpu++) {
        registration = steps_imitation((uint32_t)cpu);
        assert_false(op_take());
        assert_false(op_give());
    }
    assert_int_equal(group_stock_sum(NUMBER), BEFORE);
    registration = steps_imitation(fixture_cpu[0]);
    assert_true(op_take());
    assert_int_equal(group_stock_sum(NUMBER), BEFORE - BYTES);
    assert_true(op_give());
    assert_int_equal(group_stock_sum(NUMBER), BEFORE);
    assert_false(op_give_full());
}

int main(void)
{
    fixture_start();
    return tests_run(NULL, NULL);
}
#endif
