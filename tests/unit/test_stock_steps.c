/* SPDX-License-Identifier: MIT */
/* needs: rseq native */
/*
 * Every instruction of the sections of a group's stock, one after the other: a tracer stops the thread
 * right before it, something happens there (nothing but the stop; a signal whose handler takes and
 * gives; a migration; another thread that does so on the CPU; the stock is closed from afar; it is
 * closed and opened again, for the same group and for another), and the thread goes on.  Before the
 * end of the section the call must have changed nothing; from the instruction behind the committing
 * one on, it must have happened.  Bytes are counted each time.  A section that goes on behind its
 * commit must be found out.
 */
#include "support/percpu_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#if defined(__x86_64__) && STOOK_RSEQ
#include "account/group_stock.h"
#include "support/rseq_stock_late.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BOUNDARIES_MAX = 40,
    TURNS = 1000,
    NUMBER = 3 * GROUP_PLACES + 7,
    STRANGER = 4 * GROUP_PLACES + 7, /* another group, later, in the same place */
    BEFORE = 1000,                   /* bytes in the stock */
    BYTES = 300,                     /* of the call */
    MOST = 2000,
    OTHER = 40, /* what the others take */
    AGAIN = 700 /* with which it is opened again */
};
enum event {
    EVENT_STOP,
    EVENT_SIGNAL,
    EVENT_MIGRATE,
    EVENT_NEIGHBOUR,
    EVENT_CLOSE,
    EVENT_REOPEN,
    EVENT_STRANGER,
    EVENTS
};
enum request { REQUEST_NONE, REQUEST_LIST, REQUEST_BREAK };
enum op { OP_TAKE, OP_TAKE_LATE, OP_TAKE_SHORT, OP_TAKE_CLOSED, OP_GIVE, OP_GIVE_FULL, OPS };

static struct shared {
    enum request request;
    enum event event;
    uintptr_t start, end, at;
    bool leaves; /* the section that is stepped through */
    unsigned boundaries;
    uintptr_t boundary[BOUNDARIES_MAX];
    volatile int helper; /* the event the helper shall do; -1 when done */
    volatile int hit;    /* the breakpoint was reached */
    unsigned failed;     /* the test itself did not work: a line */
    unsigned runs[OPS], errors[OPS];
} * shared;

static volatile intptr_t registration;
static struct group_stock *stock; /* this CPU's */
static int64_t by_event;          /* bytes that the events took out of the stock */

#define SECTION __attribute__((noinline, noclone, noipa))
#define STOCK (group_stocks.rows + (size_t)group_place(NUMBER) * 8)
SECTION static int op_take(void)
{
    return rseq_stock_take(STOCK, registration, NUMBER, BYTES) == RSEQ_DONE;
}
SECTION static int op_take_late(void)
{
    return late_stock_take(STOCK, registration, NUMBER, BYTES) == RSEQ_DONE;
}
SECTION static int op_take_short(void)
{
    return rseq_stock_take(STOCK, registration, NUMBER, BEFORE + 1) == RSEQ_DONE;
}
SECTION static int op_take_closed(void)
{
    return rseq_stock_take(STOCK, registration, STRANGER, BYTES) == RSEQ_DONE;
}
SECTION static int op_give(void)
{
    return rseq_stock_give(STOCK, registration, NUMBER, BYTES, MOST) == RSEQ_DONE;
}
SECTION static int op_give_full(void)
{
    return rseq_stock_give(STOCK, registration, NUMBER, BYTES, BEFORE + BYTES - 1) == RSEQ_DONE;
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

struct descriptor {
    uint32_t version, flags;
    uint64_t start, length, abort;
} __attribute__((aligned(32)));
extern struct descriptor __start___rseq_cs[], __stop___rseq_cs[];

/* The descriptor of the one section in a function: the nearest behind its entry. */
static const struct descriptor *descriptor_of(int (*run)(void))
{
    const struct descriptor *best = NULL;

    for (const struct descriptor *d = __start___rseq_cs; d < __stop___rseq_cs; d++)
        if (d->start >= (uintptr_t)run && (!best || d->start < best->start))
            best = d;
    return best;
}

static void other(int signal)
{
    (void)signal;
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
        shared->failed = __LINE__;
    if (!again)
        return;
    if (again == NUMBER)
        by_event -= AGAIN;
    atomic_store(&stock->bytes, AGAIN);
    atomic_store(&stock->number, again);
}

static void *helper(void *arg)
{
    (void)arg;
    for (;;) {
        while (shared->helper < 0)
            usleep(20);
        fixture_pin(fixture_cpu[shared->helper == EVENT_NEIGHBOUR ? 0 : fixture_cpus - 1]);
        if (shared->helper == EVENT_NEIGHBOUR)
            other(0);
        else
            close_stock(shared->helper == EVENT_REOPEN     ? NUMBER
                        : shared->helper == EVENT_STRANGER ? STRANGER
                                                           : 0);
        __atomic_store_n(&shared->helper, -1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void prepare(void)
{
    fixture_pin(fixture_cpu[0]);
    by_event = 0;
    shared->hit = 0;
    atomic_store(&stock->bytes, BEFORE);
    atomic_store(&stock->number, NUMBER);
}

/* What must be there when all is done. */
static bool right(enum event event, bool done, int64_t bytes)
{
    uint32_t left = atomic_load(&stock->bytes), number = atomic_load(&stock->number);
    int64_t ours = (int64_t)left + by_event + (done ? bytes : 0);

    if (event == EVENT_STRANGER)
        return number == STRANGER && left == AGAIN && by_event + (done ? bytes : 0) == BEFORE;
    if (event == EVENT_CLOSE && (number != 0 || left != 0))
        return false;
    return ours == BEFORE;
}

static void run(enum op op, enum event event, uintptr_t at)
{
    bool done = false;

    for (unsigned turn = 0; turn < TURNS; turn++) {
        prepare();
        shared->request = REQUEST_BREAK;
        shared->event = event;
        shared->at = at;
        __asm__ __volatile__("int3" ::: "memory");
        done = ops[op].run();
        if (shared->hit || done)
            break; /* else it was aborted before it came there: another program ran */
    }
    shared->runs[op]++;
    if (!shared->hit)
        shared->failed = __LINE__;
    if (done != (at == shared->end && ops[op].bytes != 0) || !right(event, done, ops[op].bytes))
        shared->errors[op]++;
}

/* Boundaries, found beside the kernel: with a registration that it does not know. */
static __thread struct {
    uint32_t start, cpu;
    uint64_t section;
    uint32_t rest[12];
} imitation __attribute__((aligned(32)));

static void list(enum op op)
{
    prepare();
    imitation.cpu = fixture_cpu[0];
    registration = (char *)&imitation - (char *)__builtin_thread_pointer();
    shared->request = REQUEST_LIST;
    shared->boundaries = 0;
    shared->leaves = ops[op].bytes == 0;
    __asm__ __volatile__("int3" ::: "memory");
    if (ops[op].run() == shared->leaves)
        shared->failed = __LINE__;
    registration = percpu.rseq_offset;
}

static _Noreturn void traced(void)
{
    pthread_t thread;

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(77);
    signal(SIGUSR1, other);
    shared->helper = -1;
    if (pthread_create(&thread, NULL, helper, NULL) != 0)
        _exit(1);
    for (enum op op = 0; op < OPS && !shared->failed; op++) {
        const struct descriptor *d = descriptor_of(ops[op].run);
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
    int status;

    while (regs->rip >= shared->start && regs->rip <= shared->end &&
           shared->boundaries < BOUNDARIES_MAX) {
        shared->boundary[shared->boundaries++] = regs->rip;
        if (regs->rip == shared->end)
            return;
        ptrace(PTRACE_SINGLESTEP, child, NULL, NULL);
        waitpid(child, &status, __WALL);
        ptrace(PTRACE_GETREGS, child, NULL, regs);
    }
    if (!shared->leaves || shared->boundaries == BOUNDARIES_MAX)
        shared->failed = __LINE__;
}

/* What happens while the thread stands at the breakpoint; the signal to go on with. */
static int happen(pid_t child)
{
    cpu_set_t away;

    switch (shared->event) {
    case EVENT_STOP:
        return 0;
    case EVENT_SIGNAL:
        return SIGUSR1;
    case EVENT_MIGRATE:
        CPU_ZERO(&away);
        CPU_SET(fixture_cpu[fixture_cpus - 1], &away);
        sched_setaffinity(child, sizeof(away), &away);
        return 0;
    default:
        __atomic_store_n(&shared->helper, (int)shared->event, __ATOMIC_RELEASE);
        while (shared->helper >= 0)
            usleep(20);
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
            if (armed) /* it was not reached */
                poke(child, armed, original);
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
    if (!percpu.rseq)
        skip();
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    assert_true(group_stock_init());
    fixture_pin(fixture_cpu[0]);
    assert_true(group_stock_open(NUMBER, BEFORE)); /* the row is in use now */
    stock = (struct group_stock *)(void *)(STOCK + (size_t)fixture_cpu[0] * GROUP_STOCK_ROW);
    assert_int_equal(atomic_load(&stock->number), NUMBER);

    pid_t child = fork();
    if (child == 0)
        traced();
    int result = trace(child);
    if (result == 77)
        skip(); /* no tracing here */
    if (result != 0)
        fail_msg("the traced process: %d, line %u", result, shared->failed);
    for (enum op op = 0; op < OPS; op++) {
        print_message("%s: %u runs, %u errors\n", ops[op].name, shared->runs[op],
                      shared->errors[op]);
        assert_true(shared->runs[op] >= (ops[op].bytes ? 10 : 6) * EVENTS);
        if (op == OP_TAKE_LATE) /* it must be seen */
            assert_true(shared->errors[op] > 0);
        else
            assert_int_equal(shared->errors[op], 0);
    }
}

/* A thread that is not registered leaves the section at once. */
static void test_unregistered(void **state)
{
    (void)state;
    if (!percpu.rseq)
        skip();
    registration = (char *)&imitation - (char *)__builtin_thread_pointer();
    for (int cpu = -2; cpu < 0; cpu++) {
        imitation.cpu = (uint32_t)cpu;
        assert_false(op_take());
        assert_false(op_give());
    }
    assert_int_equal(group_stock_sum(NUMBER), BEFORE);
    imitation.cpu = fixture_cpu[0];
    assert_true(op_take());
    assert_int_equal(group_stock_sum(NUMBER), BEFORE - BYTES);
    assert_true(op_give());
    assert_int_equal(group_stock_sum(NUMBER), BEFORE);
    assert_false(op_give_full());
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
