/* SPDX-License-Identifier: MIT */
/*
 * steps.h - every instruction of a restartable section, one after the other: a tracer stops
 * the thread right before it, something happens there, and the thread goes on.
 *
 * The thread asks the tracer with a trap of its own (int3, brk) for a breakpoint or for the list of instruction
 * boundaries.  The tracer finds these by single steps without a registration: the kernel aborts the section of a
 * registered thread whenever it stops.  A boundary is tried again where another program ran
 * before the thread came there.
 */
#ifndef TESTS_SUPPORT_STEPS_H
#define TESTS_SUPPORT_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function with one section. */
#define STEPS_SECTION __attribute__((noinline, noclone, noipa))

/* What happens before an instruction; from STEPS_HELP on it is the test's help(). */
enum { STEPS_STOP, STEPS_SIGNAL, STEPS_MIGRATE, STEPS_HELP };

struct steps_test {
    unsigned events; /* STEPS_STOP to events - 1 are tried */
    /* In the traced process; the tracer sees only changes in steps_memory(): */
    void (*all)(void);               /* calls steps_through() for each section */
    void (*handler)(int signal);     /* of SIGUSR1, for STEPS_SIGNAL */
    void (*help)(unsigned event);    /* in another thread, which it may pin */
    void (*prepare)(unsigned which); /* before each run; pins the thread */
    void (*alone)(bool on);          /* has sections run as threads do that the kernel ignores */
    void (*judge)(unsigned which, unsigned event, bool done); /* after each run */
};

/* The section that is stepped through, and the boundary where it was interrupted. */
struct steps_place {
    uintptr_t start, end, at;
};

/* Of the kernel's ABI; the linker names the ends of the table. */
struct steps_descriptor {
    uint32_t version, flags;
    uint64_t start, length, abort;
} __attribute__((aligned(32)));
extern struct steps_descriptor __start___rseq_cs[], __stop___rseq_cs[];

/* Zeros that both processes see; from before steps_run(). */
void *steps_memory(size_t size);

/* Forks and traces; STEPS_MIGRATE goes to the CPU `away`.  A cmocka test: it fails or skips itself. */
void steps_run(const struct steps_test *test, unsigned away);

/*
 * From all(): run() calls one section and says whether it committed, which without an interruption it
 * must, and must not where it `leaves`.  `which` is the callbacks'.
 */
void steps_through(unsigned which, int (*run)(void), bool leaves);

struct steps_place steps_place(void);

/* The test itself does not work: it ends soon and says why. */
void steps_fail(const char *why);

/* The calling thread's registration that the kernel knows nothing of, from the thread pointer. */
intptr_t steps_imitation(uint32_t cpu);

#endif
