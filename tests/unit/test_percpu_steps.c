/* SPDX-License-Identifier: MIT */
/* needs: rseq native */
/*
 * Every instruction of every section, one after the other: a tracer stops the thread right before
 * it, something happens there (nothing but the stop; a signal whose handler pops and pushes; a
 * migration; a remote take; pops of another thread on the CPU), and the thread goes on.  Before
 * the end of the section the call must have aborted and changed nothing; from the instruction
 * behind the committing one on, it must have happened.  Tokens are counted each time.
 *
 * The thread asks the tracer with a trap of its own (int3) for a breakpoint or for the list of
 * instruction boundaries, which is found by stepping through with rseq unregistered.
 */
#include "support/percpu_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#if defined(__x86_64__) && STOOK_RSEQ
#include "support/rseq_broken.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

enum { SLOT = 1, TOKENS = 8, MORE = 5, CAPACITY = 16, BOUNDARIES_MAX = 96 };
enum op { OP_POP, OP_PUSH, OP_POP_BULK, OP_PUSH_BULK, OP_CLOSE, OP_CLOSE_LATE, OPS };
enum event { EVENT_STOP, EVENT_SIGNAL, EVENT_MIGRATE, EVENT_TAKE, EVENT_NEIGHBOUR, EVENTS };
enum request { REQUEST_NONE, REQUEST_LIST, REQUEST_BREAK };

static struct shared {
    enum request request;
    enum event event;
    uintptr_t start, end, at;
    unsigned boundaries;
    uintptr_t boundary[BOUNDARIES_MAX];
    volatile int helper;                     /* the event the helper shall do; -1 when done */
    volatile int hit;                        /* the breakpoint was reached */
    unsigned runs[OPS], errors[OPS], failed; /* failed: the test itself did not work */
    char first[OPS][160];
} * shared;

static const char *slots; /* the slot in CPU 0's area */
static uintptr_t offset;
static struct sheaf *sheaf;
static void *token[TOKENS + MORE];
static void *moved[MORE]; /* by the section: popped, or to be pushed */
static void *by_event[TOKENS + MORE];
static volatile unsigned events_took;
static void *closed_at, *closed_main;

/* One section each, once. */
#define SECTION __attribute__((noinline, noclone, noipa))
SECTION static int op_pop(void)
{
    return stook_rseq_pop(slots, percpu.rseq_offset, &moved[0]);
}
SECTION static int op_push(void)
{
    return stook_rseq_push(slots, percpu.rseq_offset, moved[0]);
}
SECTION static int op_pop_bulk(void)
{
    uint32_t k = 0;
    return rseq_pop_bulk(slots, percpu.rseq_offset, moved, MORE, &k) == RSEQ_DONE;
}
SECTION static int op_push_bulk(void)
{
    uint32_t k = 0;
    return rseq_push_bulk(slots, percpu.rseq_offset, moved, MORE, &k) == RSEQ_DONE;
}
SECTION static int op_close(void)
{
    return rseq_close(slots, percpu.rseq_offset, PERCPU_CLOSED, &closed_at, &closed_main) ==
           RSEQ_DONE;
}
SECTION static int op_close_late(void)
{
    return broken_close_late(slots, percpu.rseq_offset, PERCPU_CLOSED, &closed_at, &closed_main) ==
           RSEQ_DONE;
}

static const struct {
    int (*run)(void);
    const char *name;
    unsigned moves;
    bool push;
} ops[OPS] = {
    {op_pop, "pop", 1, false},           {op_push, "push", 1, true},
    {op_pop_bulk, "pop bulk", 5, false}, {op_push_bulk, "push bulk", 5, true},
    {op_close, "close", 0, false},       {op_close_late, "close with a late end", 0, false},
};

struct descriptor {
    uint32_t version, flags;
    uint64_t start, length, abort;
} __attribute__((aligned(32)));
extern struct descriptor __start___rseq_cs[], __stop___rseq_cs[];

/* The descriptor of the one section in a function: the nearest behind its entry. */
static const struct descriptor *descriptor_of(enum op op)
{
    const struct descriptor *best = NULL;
    uintptr_t entry = (uintptr_t)ops[op].run;

    for (const struct descriptor *d = __start___rseq_cs; d < __stop___rseq_cs; d++)
        if (d->start >= entry && (!best || d->start < best->start))
            best = d;
    return best;
}

static void wrong(enum op op, enum event event, const char *what)
{
    if (shared->errors[op]++ == 0)
        snprintf(shared->first[op], sizeof(shared->first[op]), "at +%lu of %lu, event %d: %s",
                 (unsigned long)(shared->at - shared->start),
                 (unsigned long)(shared->end - shared->start), event, what);
}

/* Pops two, pushes one back: the fill and the top are others than before. */
static void neighbour(int signal)
{
    void *object;

    (void)signal;
    for (int i = 0; i < 2; i++)
        if (percpu_pop(offset, &object))
            by_event[events_took++] = object;
    if (events_took && percpu_push(offset, by_event[events_took - 1]))
        events_took--;
}

static void take(struct slot *slot, unsigned cpu)
{
    struct sheaf *m = percpu_take(slot);

    if (!m)
        return;
    if (!percpu_fence(cpu))
        shared->failed = __LINE__;
    if (m->size > 0)
        by_event[events_took++] = m->object[--m->size];
    percpu_open(slot, m);
}

static void *helper(void *arg)
{
    (void)arg;
    for (;;) {
        while (shared->helper < 0)
            usleep(20);
        if (shared->helper == EVENT_NEIGHBOUR) {
            fixture_pin(fixture_cpu[0]);
            neighbour(0);
        } else {
            fixture_pin(fixture_cpu[fixture_cpus - 1]);
            take(percpu_slot(fixture_cpu[0], offset), fixture_cpu[0]);
        }
        __atomic_store_n(&shared->helper, -1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void prepare(enum op op)
{
    struct slot *slot = percpu_slot(fixture_cpu[0], offset);

    fixture_pin(fixture_cpu[0]);
    for (unsigned i = 0; i < TOKENS; i++)
        sheaf->object[i] = token[i];
    sheaf->size = TOKENS;
    for (unsigned i = 0; i < ops[op].moves; i++)
        moved[i] = ops[op].push ? token[TOKENS + i] : NULL;
    events_took = 0;
    shared->hit = 0;
    closed_at = closed_main = NULL;
    percpu_open(slot, sheaf);
}

static void count_tokens(enum op op, enum event event, bool done)
{
    struct slot *slot = percpu_slot(fixture_cpu[0], offset);
    unsigned seen[TOKENS + MORE] = {0}, total = TOKENS + (ops[op].push ? ops[op].moves : 0);
    bool with_thread = ops[op].push ? !done : done;

    for (unsigned t = 0; t < total; t++) {
        for (unsigned i = 0; i < sheaf->size; i++)
            seen[t] += sheaf->object[i] == token[t];
        for (unsigned i = 0; i < events_took; i++)
            seen[t] += by_event[i] == token[t];
        for (unsigned i = 0; i < ops[op].moves && with_thread; i++)
            seen[t] += moved[i] == token[t];
        if (seen[t] != 1)
            wrong(op, event, seen[t] ? "a token is there twice" : "a token is lost");
    }
    if (op == OP_CLOSE || op == OP_CLOSE_LATE) {
        bool closed = atomic_load(&slot->main) == PERCPU_CLOSED;
        if (closed != done)
            wrong(op, event, done ? "closed, but open" : "aborted, and the slot closed for ever");
        if (done && (closed_at != slot || closed_main != sheaf))
            wrong(op, event, "closed another slot or sheaf");
    }
}

static void run(enum op op, enum event event, uintptr_t at)
{
    prepare(op);
    shared->request = REQUEST_BREAK;
    shared->event = event;
    shared->at = at;
    __asm__ __volatile__("int3" ::: "memory");
    bool done = ops[op].run();
    shared->runs[op]++;
    if (!shared->hit)
        shared->failed = __LINE__;
    if (done && at != shared->end)
        wrong(op, event, "completed although it was interrupted");
    if (!done && at == shared->end)
        wrong(op, event, "did not complete although it had committed");
    count_tokens(op, event, done);
}

/* Boundaries, found with areas shifted so that the one of unregistered threads is the real one. */
static void list(enum op op)
{
    prepare(op);
    slots = percpu.areas + ((intptr_t)fixture_cpu[0] + 1) * PERCPU_AREA_SIZE + offset;
    shared->request = REQUEST_LIST;
    shared->boundaries = 0;
    if (!rseq_unregister())
        shared->failed = __LINE__;
    __asm__ __volatile__("int3" ::: "memory");
    if (!ops[op].run())
        shared->failed = __LINE__;
    if (!rseq_register())
        shared->failed = __LINE__;
    slots = percpu.areas + offset;
}

static _Noreturn void traced(void)
{
    pthread_t thread;

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(77);
    signal(SIGUSR1, neighbour);
    shared->helper = -1;
    if (pthread_create(&thread, NULL, helper, NULL) != 0)
        _exit(1);
    fixture_pin(fixture_cpu[0]);
    percpu_slot_init(SLOT);
    struct slot *slot;
    if (percpu_close(offset, &slot, false) != PERCPU_NONE) /* the CPU is in use now */
        _exit(1);
    for (enum op op = 0; op < OPS && !shared->failed; op++) {
        const struct descriptor *d = descriptor_of(op);
        shared->start = d->start;
        shared->end = d->start + d->length;
        list(op);
        for (unsigned b = 0; b < shared->boundaries && !shared->failed; b++)
            for (enum event event = 0; event < EVENTS; event++)
                run(op, event, shared->boundary[b]);
    }
    _exit(shared->failed != 0);
}

/* ---- the tracer ---- */

static long poke(pid_t child, uintptr_t at, uint8_t byte)
{
    errno = 0;
    long word = ptrace(PTRACE_PEEKTEXT, child, at, NULL);

    ptrace(PTRACE_POKETEXT, child, at, (word & ~0xffl) | byte);
    return word & 0xff;
}

static void step_through(pid_t child, struct user_regs_struct *regs)
{
    while (regs->rip >= shared->start && regs->rip <= shared->end &&
           shared->boundaries < BOUNDARIES_MAX) {
        unsigned known = 0;
        int status;
        while (known < shared->boundaries && shared->boundary[known] != regs->rip)
            known++;
        if (known == shared->boundaries)
            shared->boundary[shared->boundaries++] = regs->rip;
        if (regs->rip == shared->end)
            return;
        ptrace(PTRACE_SINGLESTEP, child, NULL, NULL);
        waitpid(child, &status, __WALL);
        ptrace(PTRACE_GETREGS, child, NULL, regs);
    }
    shared->failed = __LINE__;
}

/* What happens while the thread stands at the breakpoint; the signal to go on with. */
static int happen(pid_t child)
{
    switch (shared->event) {
    case EVENT_SIGNAL:
        return SIGUSR1;
    case EVENT_MIGRATE: {
        cpu_set_t away;
        CPU_ZERO(&away);
        CPU_SET(fixture_cpu[fixture_cpus - 1], &away);
        sched_setaffinity(child, sizeof(away), &away);
        return 0;
    }
    case EVENT_TAKE:
    case EVENT_NEIGHBOUR:
        __atomic_store_n(&shared->helper, (int)shared->event, __ATOMIC_RELEASE);
        while (shared->helper >= 0)
            usleep(20);
        return 0;
    default:
        return 0;
    }
}

static int trace(pid_t child)
{
    struct user_regs_struct regs;
    uint8_t original = 0;
    uintptr_t armed = 0;
    int status, go_on;

    while (waitpid(child, &status, __WALL) == child && WIFSTOPPED(status)) {
        go_on = WSTOPSIG(status);
        ptrace(PTRACE_GETREGS, child, NULL, &regs);
        if (go_on == SIGTRAP && armed && regs.rip == armed + 1) {
            poke(child, armed, original);
            regs.rip = armed;
            ptrace(PTRACE_SETREGS, child, NULL, &regs);
            armed = 0;
            shared->hit = 1;
            go_on = 0;
            if (shared->request == REQUEST_LIST)
                step_through(child, &regs);
            else
                go_on = happen(child);
        } else if (go_on == SIGTRAP) {
            armed = shared->request == REQUEST_LIST ? shared->start : shared->at;
            original = (uint8_t)poke(child, armed, 0xcc);
            go_on = 0;
        }
        ptrace(PTRACE_CONT, child, NULL, go_on);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static void test_every_instruction(void **state)
{
    (void)state;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    if (!percpu.rseq)
        skip();
    for (unsigned i = 0; i < TOKENS + MORE; i++)
        token[i] = &token[i];
    offset = percpu_offset(SLOT);
    sheaf = fixture_sheaf(CAPACITY);

    pid_t child = fork();
    if (child == 0)
        traced();
    int result = trace(child);
    if (result == 77)
        skip(); /* no tracing here */
    if (result != 0)
        fail_msg("the traced process: %d, line %u", result, shared->failed);
    for (enum op op = 0; op < OPS; op++) {
        print_message("%s: %u runs, %u errors%s%s\n", ops[op].name, shared->runs[op],
                      shared->errors[op], shared->errors[op] ? "; first " : "", shared->first[op]);
        assert_true(shared->runs[op] >= 8 * EVENTS);
        if (op == OP_CLOSE_LATE) /* rule 1 broken: must be seen */
            assert_true(shared->errors[op] > 0);
        else
            assert_int_equal(shared->errors[op], 0);
    }
}

/* What the kernel checks before it trusts an abort address, for every section linked in here. */
static void test_descriptors(void **state)
{
    (void)state;
    unsigned count = 0;

    for (const struct descriptor *d = __start___rseq_cs; d < __stop___rseq_cs; d++, count++) {
        uint32_t signature;
        memcpy(&signature, (const void *)(uintptr_t)(d->abort - 4), 4);
        assert_int_equal(signature, STOOK_RSEQ_SIG);
        assert_int_equal(d->version, 0);
        assert_int_equal(d->flags, 0);
        assert_true(d->length > 20 && d->length < 400);
        assert_true(d->abort < d->start || d->abort >= d->start + d->length);
    }
    assert_true(count >= OPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_every_instruction),
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
