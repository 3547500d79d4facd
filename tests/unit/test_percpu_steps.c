/* SPDX-License-Identifier: MIT */
/* needs: rseq native */
/*
 * Every instruction of every section, one after the other.  A tracer stops the thread right before it and causes an
 * event: only the stop; a signal whose handler pops and pushes; a migration; a remote take; pops of another thread on
 * the CPU.  Then the thread continues.  Before the end of the section the call must have aborted and changed nothing.
 * From the instruction behind the committing one on, it must have happened.  Tokens are counted each time.
 *
 * Bulk sections run with every way of copying: 1, 4 and 8 pointers at a time, and all of them.  They run with fewer
 * objects or less room than requested, with more objects in the sheaf than its capacity, and with a NULL at each
 * place, which must make a push leave without a trace.
 */
#include "support/percpu_fixture.h"
#include "support/test.h"

#if (defined(__x86_64__) || defined(__aarch64__)) && STOOK_RSEQ
#include "support/rseq_broken.h"
#include "support/steps.h"

enum { SLOT = 1, TOKENS = 100, MORE = 80, ROOM = 200, CASES_MAX = 100 };
enum op { OP_POP, OP_PUSH, OP_POP_BULK, OP_PUSH_BULK, OP_CLOSE, OP_CLOSE_LATE, OPS };
enum { EVENT_TAKE = STEPS_HELP, EVENT_NEIGHBOUR, EVENTS };

/* One section on one sheaf. */
struct one {
    enum op op;
    unsigned asked, moves;     /* pointers of the call, and how many go */
    unsigned tokens, capacity; /* of the sheaf */
    int null;                  /* place of a NULL in what is pushed, or -1 */
    bool leaves;               /* it has to leave without committing */
    bool narrow;               /* without AVX2 */
    unsigned runs, errors;
    char first[120];
};

static struct one *cases; /* both processes see them */
static unsigned ncases;

static const char *slots; /* the slot in CPU 0's area */
static uintptr_t offset;
static struct sheaf *sheaf;
static void *token[ROOM + MORE];
static void *moved[MORE]; /* by the section: popped, or to be pushed */
static void *by_event[ROOM];
static volatile unsigned events_took;
static void *closed_slot, *closed_begin; /* what is closed, and what it had */
static int closed_cpu;                   /* where the thread runs for the section */
static volatile uint32_t asked;
static uint32_t moved_count;
static bool has_wide;

/* One section each, once. */
STEPS_SECTION static int op_pop(void)
{
    return stook_rseq_pop(slots, percpu.rseq_offset, &moved[0]);
}
STEPS_SECTION static int op_push(void)
{
    return stook_rseq_push(slots, percpu.rseq_offset, moved[0]);
}
STEPS_SECTION static int op_pop_bulk(void)
{
    return rseq_pop_bulk(slots, percpu.rseq_offset, moved, asked, &moved_count) == RSEQ_DONE;
}
STEPS_SECTION static int op_push_bulk(void)
{
    return rseq_push_bulk(slots, percpu.rseq_offset, moved, asked, &moved_count) == RSEQ_DONE;
}
STEPS_SECTION static int op_close(void)
{
    return rseq_close(closed_slot, percpu.rseq_offset, closed_cpu, SLOT_CLOSED, &closed_begin) ==
           RSEQ_DONE;
}
STEPS_SECTION static int op_close_late(void)
{
    return broken_close_late(closed_slot, percpu.rseq_offset, closed_cpu, SLOT_CLOSED,
                             &closed_begin) == RSEQ_DONE;
}

static const struct {
    int (*run)(void);
    const char *name;
    bool push;
} ops[OPS] = {
    {op_pop, "pop", false},           {op_push, "push", true},
    {op_pop_bulk, "pop bulk", false}, {op_push_bulk, "push bulk", true},
    {op_close, "close", false},       {op_close_late, "close with a late end", false},
};

static void add(enum op op, unsigned n, unsigned tokens, unsigned capacity, int null)
{
    struct one *one = &cases[ncases++];
    unsigned room = capacity > tokens ? capacity - tokens : 0, most = ops[op].push ? room : tokens;

    if (ncases > CASES_MAX)
        abort();
    *one = (struct one){.op = op, .asked = n, .tokens = tokens, .capacity = capacity, .null = null};
    one->moves = n < most ? n : most;
    one->leaves = n > 0 && (one->moves == 0 || (null >= 0 && (unsigned)null < one->moves));
    if ((op == OP_POP_BULK || op == OP_PUSH_BULK) && has_wide && one->moves >= 8) {
        cases[ncases] = *one; /* once more */
        cases[ncases++].narrow = true;
    }
}

static void add_all(void)
{
    static const unsigned counts[] = {1, 2, 3, 4, 6, 7, 8, 13, 32, 64, 79};

    add(OP_POP, 1, 8, 16, -1);
    add(OP_PUSH, 1, 8, 16, -1);
    add(OP_CLOSE, 0, 8, 16, -1);
    add(OP_CLOSE_LATE, 0, 8, 16, -1);
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        add(OP_POP_BULK, counts[i], TOKENS, ROOM, -1);
        add(OP_PUSH_BULK, counts[i], 8, ROOM, -1);
    }
    for (unsigned most = 3; most <= 20; most += 17) { /* fewer than asked for */
        add(OP_POP_BULK, 40, most, ROOM, -1);
        add(OP_PUSH_BULK, 40, ROOM - most, ROOM, -1);
    }
    for (unsigned over = 0; over <= 10; over += 5) { /* as many as its capacity, or more */
        add(OP_PUSH, 1, 20 + over, 20, -1);
        add(OP_PUSH_BULK, 13, 20 + over, 20, -1);
        add(OP_POP_BULK, 13, 20 + over, 20, -1);
    }
    add(OP_POP, 1, 0, 16, -1);
    add(OP_POP_BULK, 5, 0, 16, -1);
    for (int null = 0; null < 13; null++) /* 8 + 4 + 1, or 4 + 4 + 4 + 1 */
        add(OP_PUSH_BULK, 13, 8, ROOM, null);
    for (int null = 0; null < 3; null++)
        add(OP_PUSH_BULK, 3, 8, ROOM, null);
    add(OP_PUSH_BULK, 64, 8, ROOM, 63);
    add(OP_PUSH_BULK, 12, ROOM - 9, ROOM, 10); /* behind what there is room for: it goes */
}

static void wrong(struct one *one, unsigned event, const char *what)
{
    struct steps_place place = steps_place();

    if (one->errors++ == 0)
        snprintf(one->first, sizeof(one->first), "at +%lu of %lu, event %u: %s",
                 (unsigned long)(place.at - place.start), (unsigned long)(place.end - place.start),
                 event, what);
}

/* Pops two, pushes one back: the fill and the top are others than before. */
static void neighbour(int signal)
{
    void *object;

    for (int i = 0; i < 2; i++)
        if (slot_pop(offset, &object))
            by_event[events_took++] = object;
    if (events_took && slot_push(offset, by_event[events_took - 1]))
        events_took--;
}

static void take(struct slot *slot, unsigned cpu)
{
    struct sheaf *m = slot_take(slot, true);

    if (!m)
        return;
    if (!percpu_fence(cpu))
        steps_fail("no fence");
    m = slot_taken(slot);
    if (m->size > 0)
        by_event[events_took++] = m->object[--m->size];
    slot_open(slot, m);
}

static void help(unsigned event)
{
    fixture_pin(fixture_cpu[event == EVENT_NEIGHBOUR ? 0 : fixture_cpus - 1]);
    if (event == EVENT_NEIGHBOUR)
        neighbour(0);
    else
        take(percpu_slot(fixture_cpu[0], offset), fixture_cpu[0]);
}

static void prepare(unsigned which)
{
    const struct one *one = &cases[which];
    struct slot *slot = percpu_slot(fixture_cpu[0], offset);

    fixture_pin(fixture_cpu[0]);
    for (unsigned i = 0; i < one->tokens; i++)
        sheaf->object[i] = token[i];
    sheaf->size = one->tokens;
    sheaf->capacity = one->capacity;
    for (unsigned i = 0; i < MORE; i++)
        moved[i] = ops[one->op].push && i < one->asked ? token[ROOM + i] : NULL;
    if (one->null >= 0)
        moved[one->null] = NULL;
    asked = one->asked;
    moved_count = 0;
    percpu.wide = has_wide && !one->narrow;
    events_took = 0;
    closed_begin = NULL;
    slot_open(slot, sheaf);
}

static void count_token(struct one *one, unsigned event, const void *wanted, bool done)
{
    unsigned seen = 0;

    for (unsigned i = 0; i < sheaf->size; i++)
        seen += sheaf->object[i] == wanted;
    for (unsigned i = 0; i < events_took; i++)
        seen += by_event[i] == wanted;
    if (ops[one->op].push)
        for (unsigned i = done ? one->moves : 0; i < one->asked; i++)
            seen += moved[i] == wanted;
    for (unsigned i = 0; i < one->moves && done && !ops[one->op].push; i++)
        seen += moved[i] == wanted;
    if (seen != 1)
        wrong(one, event, seen ? "a token is there twice" : "a token is lost");
}

static void count_tokens(struct one *one, unsigned event, bool done)
{
    struct slot *slot = percpu_slot(fixture_cpu[0], offset);

    sheaf->size = (uint32_t)(atomic_load(&slot->top) - sheaf->object);
    for (unsigned i = 0; i < one->tokens; i++)
        count_token(one, event, token[i], done);
    for (unsigned i = 0; i < one->asked && ops[one->op].push; i++)
        if ((int)i != one->null)
            count_token(one, event, token[ROOM + i], done);
    for (unsigned i = 0; i < sheaf->size; i++)
        if (!sheaf->object[i])
            wrong(one, event, "a NULL is in the sheaf");
    if (done && one->op > OP_PUSH && moved_count != one->moves)
        wrong(one, event, "another number has moved");
    if (one->op == OP_CLOSE || one->op == OP_CLOSE_LATE) {
        bool closed = atomic_load(&slot->begin) == SLOT_CLOSED;
        if (closed != done)
            wrong(one, event, done ? "closed, but open" : "aborted, and the slot closed for ever");
        if (done && (closed_begin != sheaf->object || atomic_load(&slot->end)))
            wrong(one, event, "closed another sheaf");
    }
}

static void judge(unsigned which, unsigned event, bool done)
{
    struct one *one = &cases[which];
    bool at_end = steps_place().at == steps_place().end;

    one->runs++;
    if (done && (!at_end || one->leaves))
        wrong(one, event, "completed although it was interrupted or had to leave");
    if (!done && at_end)
        wrong(one, event, "did not complete although it had committed");
    count_tokens(one, event, done);
}

/* With areas shifted so that the one of unregistered threads is the real one. */
static void alone(bool on)
{
    slots = percpu.areas + offset;
    closed_slot = percpu_slot_at((int)fixture_cpu[0], offset);
    closed_cpu = on ? -1 : (int)fixture_cpu[0];
    if (on)
        slots += ((intptr_t)fixture_cpu[0] + 1) * PERCPU_AREA_SIZE;
    if (!(on ? rseq_unregister() : rseq_register()))
        steps_fail("rseq cannot be unregistered, or registered again");
}

static void all(void)
{
    struct slot *slot;

    fixture_pin(fixture_cpu[0]);
    percpu_slot_init(SLOT);
    if (slot_close(offset, &slot, false) != SHEAF_NONE) /* the CPU is in use now */
        steps_fail("a new slot is not empty");
    for (unsigned i = 0; i < ncases; i++)
        steps_through(i, ops[cases[i].op].run, cases[i].leaves);
}

TEST(test_every_instruction)
{
    static const struct steps_test test = {EVENTS, all, neighbour, help, prepare, alone, judge};

    if (!percpu.rseq)
        skip();
    for (unsigned i = 0; i < ROOM + MORE; i++)
        token[i] = &token[i];
    offset = percpu_offset(SLOT);
    sheaf = fixture_sheaf(ROOM);
    has_wide = percpu.wide;
    cases = steps_memory(CASES_MAX * sizeof(*cases));
    add_all();
    steps_run(&test, fixture_cpu[fixture_cpus - 1]);
    for (unsigned i = 0; i < ncases; i++) {
        const struct one *one = &cases[i];
        char name[96];
        int length =
            snprintf(name, sizeof(name), "%s of %u, sheaf %u/%u%s", ops[one->op].name, one->asked,
                     one->tokens, one->capacity, one->narrow ? ", narrow" : "");
        if (one->null >= 0)
            snprintf(name + length, sizeof(name) - (size_t)length, ", NULL at %d", one->null);
        print_message("%s: %u runs, %u errors%s%s\n", name, one->runs, one->errors,
                      one->errors ? "; first " : "", one->first);
        /* A section that leaves at once has few instructions. */
        assert_true(one->runs >= (one->leaves ? 4 : 7) * EVENTS);
        if (one->op == OP_CLOSE_LATE) /* rule 1 broken: must be seen */
            assert_true(one->errors > 0);
        else
            assert_int_equal(one->errors, 0);
    }
}

/* What the kernel checks before it trusts an abort address, for every section linked in here. */
TEST(test_descriptors)
{
    unsigned count = 0;

    for (const struct steps_descriptor *d = __start___rseq_cs; d < __stop___rseq_cs; d++, count++) {
        uint32_t signature;
        memcpy(&signature, (const void *)(uintptr_t)(d->abort - 4), 4);
        assert_int_equal(signature, STOOK_RSEQ_SIG);
        assert_int_equal(d->version, 0);
        assert_int_equal(d->flags, 0);
        assert_true(d->length >= 16 && d->length < 512);
        assert_true(d->abort < d->start || d->abort >= d->start + d->length);
    }
    assert_true(count >= OPS);
}

int main(void)
{
    fixture_start();
    return tests_run(NULL, NULL);
}
#endif
