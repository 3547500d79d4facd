/* SPDX-License-Identifier: MIT */
/* needs: rseq native */
/*
 * Every instruction of the section of os/tally.h, one after the other: a tracer stops the thread
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

#if defined(__x86_64__) && STOOK_RSEQ
#include "os/tally.h"
#include "support/rseq_torn.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BOUNDARIES_MAX = 40, TURNS = 1000, COUNT = 3, BYTES = 1000, OTHER = 7, OTHER_BYTES = 70 };
enum event { EVENT_STOP, EVENT_SIGNAL, EVENT_MIGRATE, EVENT_NEIGHBOUR, EVENTS };
enum request { REQUEST_NONE, REQUEST_LIST, REQUEST_BREAK };
enum { OP_TALLY, OP_TORN, OPS };

static struct shared {
    enum request request;
    enum event event;
    uintptr_t start, end, at;
    unsigned boundaries;
    uintptr_t boundary[BOUNDARIES_MAX];
    volatile int helper; /* 1: the helper shall count; 0: done */
    volatile int hit;    /* the breakpoint was reached */
    unsigned failed;     /* the test itself did not work: a line */
    unsigned runs[OPS], errors[OPS];
} * shared;

static struct tally *pairs; /* everybody's, and behind it those of the CPUs */
static volatile intptr_t registration;

#define SECTION __attribute__((noinline, noclone, noipa))
SECTION static int op_tally(void)
{
    return rseq_tally(pairs, registration, COUNT, BYTES);
}
SECTION static int op_torn(void)
{
    return torn_tally(pairs, registration, COUNT, BYTES);
}
static int (*const ops[OPS])(void) = {op_tally, op_torn};

struct descriptor {
    uint32_t version, flags;
    uint64_t start, length, abort;
} __attribute__((aligned(32)));
extern struct descriptor __start___rseq_cs[], __stop___rseq_cs[];

/* The descriptor of the one section in a function: the nearest behind its entry. */
static const struct descriptor *descriptor_of(int (*op)(void))
{
    const struct descriptor *best = NULL;

    for (const struct descriptor *d = __start___rseq_cs; d < __stop___rseq_cs; d++)
        if (d->start >= (uintptr_t)op && (!best || d->start < best->start))
            best = d;
    return best;
}

static void other(int signal)
{
    (void)signal;
    tally_add(pairs, OTHER, OTHER_BYTES);
}

static void *helper(void *arg)
{
    (void)arg;
    fixture_pin(fixture_cpu[0]);
    for (;;) {
        while (!shared->helper)
            usleep(20);
        other(0);
        __atomic_store_n(&shared->helper, 0, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void run(int op, enum event event, uintptr_t at)
{
    struct tally wanted = {0}, sum;
    bool done = false;

    for (unsigned turn = 0; turn < TURNS; turn++) {
        memset(pairs, 0, tally_size());
        fixture_pin(fixture_cpu[0]);
        shared->hit = 0;
        shared->request = REQUEST_BREAK;
        shared->event = event;
        shared->at = at;
        __asm__ __volatile__("int3" ::: "memory");
        done = ops[op]();
        if (shared->hit || done)
            break; /* else it was aborted before it came there: another program ran */
    }
    shared->runs[op]++;
    if (!shared->hit)
        shared->failed = __LINE__;
    if (done)
        wanted = (struct tally){COUNT, BYTES};
    if (event == EVENT_SIGNAL || event == EVENT_NEIGHBOUR) {
        wanted.count += OTHER;
        wanted.bytes += OTHER_BYTES;
    }
    sum = tally_read(pairs);
    if (done != (at == shared->end) || sum.count != wanted.count || sum.bytes != wanted.bytes)
        shared->errors[op]++;
}

/* Boundaries, found beside the kernel: with a registration that it does not know. */
static __thread struct {
    uint32_t start, cpu;
    uint64_t section;
    uint32_t rest[12];
} imitation __attribute__((aligned(32)));

static void list(int op)
{
    registration = (char *)&imitation - (char *)__builtin_thread_pointer();
    shared->request = REQUEST_LIST;
    shared->boundaries = 0;
    __asm__ __volatile__("int3" ::: "memory");
    if (!ops[op]())
        shared->failed = __LINE__;
    registration = percpu.rseq_offset;
}

static _Noreturn void traced(void)
{
    pthread_t thread;

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(77);
    signal(SIGUSR1, other);
    if (pthread_create(&thread, NULL, helper, NULL) != 0)
        _exit(1);
    for (int op = 0; op < OPS && !shared->failed; op++) {
        const struct descriptor *d = descriptor_of(ops[op]);
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
    shared->failed = __LINE__;
}

/* What happens while the thread stands at the breakpoint; the signal to go on with. */
static int happen(pid_t child)
{
    cpu_set_t away;

    switch (shared->event) {
    case EVENT_SIGNAL:
        return SIGUSR1;
    case EVENT_MIGRATE:
        CPU_ZERO(&away);
        CPU_SET(fixture_cpu[fixture_cpus - 1], &away);
        sched_setaffinity(child, sizeof(away), &away);
        return 0;
    case EVENT_NEIGHBOUR:
        __atomic_store_n(&shared->helper, 1, __ATOMIC_RELEASE);
        while (shared->helper)
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
    pairs = mmap(NULL, tally_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED && pairs != MAP_FAILED);

    pid_t child = fork();
    if (child == 0)
        traced();
    int result = trace(child);
    if (result == 77)
        skip(); /* no tracing here */
    if (result != 0)
        fail_msg("the traced process: %d, line %u", result, shared->failed);
    print_message("tally: %u runs, %u errors; torn: %u runs, %u errors\n", shared->runs[OP_TALLY],
                  shared->errors[OP_TALLY], shared->runs[OP_TORN], shared->errors[OP_TORN]);
    assert_true(shared->runs[OP_TALLY] >= 8 * EVENTS);
    assert_int_equal(shared->errors[OP_TALLY], 0);
    assert_true(shared->errors[OP_TORN] > 0); /* it must be seen */
}

/* A thread that is not registered leaves the section at once. */
static void test_unregistered(void **state)
{
    (void)state;
    if (!percpu.rseq)
        skip();
    pairs = mmap(NULL, tally_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pairs != MAP_FAILED);
    for (int cpu = -2; cpu < 0; cpu++) {
        imitation.cpu = (uint32_t)cpu;
        registration = (char *)&imitation - (char *)__builtin_thread_pointer();
        assert_false(op_tally());
        assert_int_equal(tally_read(pairs).count, 0);
    }
    imitation.cpu = 0;
    assert_true(op_tally());
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
