/* SPDX-License-Identifier: MIT */
#include "support/steps.h"
#include "support/test.h"

#if defined(__x86_64__) || defined(__aarch64__)
#include <elf.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

enum { BOUNDARIES_MAX = 160, TURNS = 1000, NO_TRACING = 77, NOBODY = -1 };
/* An instruction that traps; where the thread stands then, and how far it has to go on from its own. */
#if defined(__aarch64__)
#define STEPS_PC pc
#define STEPS_TRAP 0xd4200000l /* brk #0 */
#define STEPS_TRAP_MASK 0xffffffffl
enum { STEPS_TRAP_BEHIND = 0, STEPS_TRAP_SKIP = 4 };
#define steps_ask() __asm__ __volatile__("brk #0" ::: "memory")
#else
#define STEPS_PC rip
#define STEPS_TRAP 0xccl /* int3 */
#define STEPS_TRAP_MASK 0xffl
enum { STEPS_TRAP_BEHIND = 1, STEPS_TRAP_SKIP = 0 };
#define steps_ask() __asm__ __volatile__("int3" ::: "memory")
#endif

enum request { REQUEST_NONE, REQUEST_LIST, REQUEST_BREAK };

/* What the traced process and the tracer tell each other. */
static struct steps {
    enum request request;
    unsigned event;
    struct steps_place place;
    bool leaves, whole; /* the section that is listed, and its list */
    unsigned boundaries;
    uintptr_t boundary[BOUNDARIES_MAX];
    volatile int helper;         /* the event for the helper; negative: it is done */
    volatile int hit;            /* the breakpoint was reached */
    const char *volatile failed; /* a constant, at the same address in both */
} * steps;

static const struct steps_test *steps_test;

void *steps_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(memory != MAP_FAILED);
    return memory;
}

struct steps_place steps_place(void)
{
    return steps->place;
}

void steps_fail(const char *why)
{
    steps->failed = why;
}

intptr_t steps_imitation(uint32_t cpu)
{
    static __thread struct {
        uint32_t start, cpu;
        uint64_t section;
        uint32_t rest[12];
    } imitation __attribute__((aligned(32)));

    imitation.cpu = cpu;
    return (char *)&imitation - (char *)__builtin_thread_pointer();
}

/* ---- the traced process ---- */

/* The descriptor of the one section in a function: the nearest behind its entry. */
static const struct steps_descriptor *descriptor_of(int (*run)(void))
{
    const struct steps_descriptor *best = NULL;

    for (const struct steps_descriptor *d = __start___rseq_cs; d < __stop___rseq_cs; d++)
        if (d->start >= (uintptr_t)run && (!best || d->start < best->start))
            best = d;
    return best;
}

static void *helper(void *unused)
{
    for (;;) {
        while (steps->helper == NOBODY)
            usleep(20);
        steps_test->help((unsigned)steps->helper);
        __atomic_store_n(&steps->helper, NOBODY, __ATOMIC_RELEASE);
    }
    return unused;
}

/* Such a commit fails after any interruption, of which the kernel need not abort the section. */
static bool ends_exclusively(void)
{
#if defined(__aarch64__)
    return (((const uint32_t *)steps->place.end)[-1] & 0x3fc00000) == 0x08000000;
#else
    return false;
#endif
}

static void list(unsigned which, int (*run)(void), bool leaves)
{
    for (unsigned turn = 0; turn < TURNS; turn++) { /* again where an interruption undid it */
        int done;
        steps_test->prepare(which);
        steps->request = REQUEST_LIST;
        steps->boundaries = 0;
        steps->leaves = leaves;
        steps_test->alone(true);
        steps_ask();
        done = run();
        steps_test->alone(false);
        if (done == !leaves && steps->whole)
            return;
    }
    steps_fail(leaves ? "a section that has to leave went on" : "a section left, or is too long");
}

static void run_once(unsigned which, int (*run)(void), unsigned event, uintptr_t at)
{
    bool done = false;

    for (unsigned turn = 0; turn < TURNS; turn++) {
        steps_test->prepare(which);
        steps->hit = 0;
        steps->request = REQUEST_BREAK;
        steps->event = event;
        steps->place.at = at;
        steps_ask();
        done = run();
        if (steps->hit ? done || at != steps->place.end || !ends_exclusively() : done)
            break; /* else it was aborted before it came there: another program ran */
    }
    if (!steps->hit)
        steps_fail("a boundary was not reached");
    steps_test->judge(which, event, done);
}

void steps_through(unsigned which, int (*run)(void), bool leaves)
{
    const struct steps_descriptor *d = descriptor_of(run);

    if (steps->failed)
        return;
    steps->place.start = d->start;
    steps->place.end = d->start + d->length;
    list(which, run, leaves);
    for (unsigned b = 0; b < steps->boundaries && !steps->failed; b++)
        for (unsigned event = 0; event < steps_test->events; event++)
            run_once(which, run, event, steps->boundary[b]);
}

static _Noreturn void traced(void)
{
    pthread_t thread;

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(NO_TRACING);
    signal(SIGUSR1, steps_test->handler);
    if (pthread_create(&thread, NULL, helper, NULL) != 0)
        _exit(1);
    steps_test->all();
    _exit(steps->failed != NULL);
}

/* ---- the tracer ---- */

static long poke(pid_t child, uintptr_t at, long code)
{
    long word = ptrace(PTRACE_PEEKTEXT, child, at, NULL);

    ptrace(PTRACE_POKETEXT, child, at, (word & ~STEPS_TRAP_MASK) | code);
    return word & STEPS_TRAP_MASK;
}

static uintptr_t where(pid_t child)
{
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof(regs)};

    ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &all);
    return regs.STEPS_PC;
}

static void go_to(pid_t child, uintptr_t at)
{
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof(regs)};

    ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &all);
    regs.STEPS_PC = at;
    ptrace(PTRACE_SETREGSET, child, NT_PRSTATUS, &all);
}

/* A section with a loop passes a boundary more than once. */
static void note_boundary(uintptr_t at)
{
    unsigned known = 0;

    while (known < steps->boundaries && steps->boundary[known] != at)
        known++;
    if (known == steps->boundaries && known < BOUNDARIES_MAX)
        steps->boundary[steps->boundaries++] = at;
}

/* A load-exclusive: where its store-exclusive ends, which fails when the thread is stopped before it. */
static uintptr_t exclusive_end(pid_t child, uintptr_t at)
{
#if defined(__aarch64__)
    const long kind = 0x3fc00000, load = 0x08400000, store = 0x08000000;

    if ((ptrace(PTRACE_PEEKTEXT, child, at, NULL) & kind) == load)
        for (unsigned i = 1; i < 8; i++)
            if ((ptrace(PTRACE_PEEKTEXT, child, at + 4 * i, NULL) & kind) == store)
                return at + 4 * (i + 1);
#endif
    (void)child;
    return 0;
}

/* To the next instruction; over what may not be stopped within, in whose midst nothing branches away. */
static void step(pid_t child, uintptr_t at)
{
    uintptr_t end = exclusive_end(child, at);
    long original;
    int status;

    if (!end) {
        ptrace(PTRACE_SINGLESTEP, child, NULL, NULL);
        waitpid(child, &status, __WALL);
        return;
    }
    for (at += 4; at < end; at += 4)
        note_boundary(at);
    original = poke(child, end, STEPS_TRAP);
    ptrace(PTRACE_CONT, child, NULL, NULL);
    waitpid(child, &status, __WALL);
    poke(child, end, original);
}

static void step_through(pid_t child)
{
    uintptr_t at = where(child);

    while (at >= steps->place.start && at < steps->place.end) {
        note_boundary(at);
        step(child, at);
        at = where(child);
    }
    if (at == steps->place.end)
        note_boundary(at);
    steps->whole = (at == steps->place.end || steps->leaves) && steps->boundaries < BOUNDARIES_MAX;
}

/* What happens while the thread stands at the breakpoint; the signal to go on with. */
static int happen(pid_t child, unsigned cpu)
{
    cpu_set_t away;

    switch (steps->event) {
    case STEPS_STOP:
        return 0;
    case STEPS_SIGNAL:
        return SIGUSR1;
    case STEPS_MIGRATE:
        CPU_ZERO(&away);
        CPU_SET(cpu, &away);
        sched_setaffinity(child, sizeof(away), &away);
        return 0;
    default:
        __atomic_store_n(&steps->helper, (int)steps->event, __ATOMIC_RELEASE);
        while (steps->helper != NOBODY)
            usleep(20);
        return 0;
    }
}

static int trace(pid_t child, unsigned away)
{
    long original = 0;
    uintptr_t armed = 0;
    int status, go_on;

    while (waitpid(child, &status, __WALL) == child && WIFSTOPPED(status)) {
        go_on = WSTOPSIG(status);
        if (go_on == SIGTRAP && armed && where(child) == armed + STEPS_TRAP_BEHIND) {
            poke(child, armed, original);
            go_to(child, armed);
            armed = 0;
            steps->hit = 1;
            go_on = 0;
            if (steps->request == REQUEST_LIST)
                step_through(child);
            else
                go_on = happen(child, away);
        } else if (go_on == SIGTRAP) {
            if (armed) /* it was not reached */
                poke(child, armed, original);
            armed = steps->request == REQUEST_LIST ? steps->place.start : steps->place.at;
            original = poke(child, armed, STEPS_TRAP);
            go_to(child, where(child) + STEPS_TRAP_SKIP);
            go_on = 0;
        }
        ptrace(PTRACE_CONT, child, NULL, go_on);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

void steps_run(const struct steps_test *test, unsigned away)
{
    steps = steps_memory(sizeof(*steps));
    steps->helper = NOBODY;
    steps_test = test;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        traced();
    int result = trace(child, away);
    if (result == NO_TRACING)
        skip(); /* no tracing here */
    if (result != 0)
        fail_msg("the traced process: %d, %s", result, steps->failed ? steps->failed : "no reason");
}
#endif
