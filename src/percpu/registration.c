/* SPDX-License-Identifier: MIT */
/*
 * registration.c - the struct rseq of each thread: the C library's, the program's, or one of the library's own.
 *
 * The kernel knows one struct rseq a thread.  glibc registers its own since 2.35.  Where the C library has none, a
 * thread registers `registration` at its first slow call.  It asks once: if the program (a JIT, TCMalloc) has
 * registered another one before, the kernel refuses, and this thread stays without sections.  It never undoes what
 * others registered.  There is no lock: a thread reads and writes its own variables.
 *
 * The kernel reads and writes the area whenever it returns to the thread's code, so its memory must be there until the
 * thread's last instruction.
 *   glibc  reuses or unmaps a thread's memory only after the kernel has said that the thread is gone.
 *   musl   lets a detached thread unmap its own memory.  So a destructor of a key undoes the registration before.
 *          Where it may be too late for destructors a thread does not register: pthread_exit() switches
 *          cancellation off before it calls them.
 *   fork   gives the child a copy of the memory and of the kernel's registration (Linux: rseq_fork()).
 *   vfork, clone(CLONE_VM)  share the memory without the registration, and that child may only exec or exit.  If it
 *          calls all the same it does not register, since the area's number would stay behind in its parent.
 */
#include "percpu/registration.h"

#include "base/cancel.h"
#include "base/raw.h"

#include <errno.h>
#include <stdlib.h>

#ifndef STOOK_INLINE_SECTIONS /* no thread registers */
#define STOOK_RSEQ_SIG 0
#endif
#ifndef SYS_rseq /* Linux 4.18 */
#define SYS_rseq -1
#endif

enum { REGISTRATION_SIZE = 32, REGISTRATION_END = 1 }; /* linux/rseq.h: the first version's */

/* glibc 2.35 and later; absent elsewhere. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

/* librseq's.  It ends a process in which it can register one thread and not another. */
extern int rseq_register_current_thread(void) __attribute__((weak));

extern void *dlsym(void *handle, const char *name) __attribute__((weak));

/* Until it is registered, its cpu_id says "not registered". */
static __thread struct {
    uint32_t cpu_id_start, cpu_id;
    uint64_t rseq_cs;
    uint32_t flags, reserved[3];
} registration __attribute__((aligned(REGISTRATION_SIZE), tls_model("initial-exec"))) = {
    .cpu_id = (uint32_t)-1};
_Static_assert(sizeof(registration) == REGISTRATION_SIZE, "what the kernel may write");

/* Written at the start and in a forked child, before there are other threads; 0: no thread registers. */
static pid_t registration_process;

static intptr_t registration_offset(const void *of_this_thread)
{
    /* GCC would compare with the offset in the GOT, an instruction that ld cannot turn into a static program's. */
    __asm__("" : "+r"(of_this_thread));
    return (const char *)of_this_thread - (const char *)__builtin_thread_pointer();
}

intptr_t registration_own(void)
{
    return registration_offset(&registration);
}

static void registration_end(void *area)
{
    (void)raw_result(SYS_rseq, area, REGISTRATION_SIZE, REGISTRATION_END, STOOK_RSEQ_SIG);
}

void registration_drop(void)
{
    if (registration.cpu_id != (uint32_t)-1)
        registration_end(&registration);
}

static int registration_libc_cpu(void)
{
    return &__rseq_offset && &__rseq_size && __rseq_size > 0 ? registration_cpu(__rseq_offset) : -1;
}

int registration_machine_cpu(void)
{
    int cpu = registration_libc_cpu();

    if (cpu < 0)
        (void)raw_result(SYS_getcpu, &cpu, NULL, NULL);
    return cpu;
}

void registration_child(void)
{
    if (registration_process != 0)
        registration_process = raw_getpid();
}

#ifdef __GLIBC__
static bool registration_may_add(void)
{
    return true;
}
#else
static pthread_key_t registration_key;

static bool registration_may_add(void)
{
    static bool has_key; /* the first thread comes here before others start */
    int before = cancel_off();

    cancel_on(before);
    has_key = has_key || pthread_key_create(&registration_key, registration_end) == 0;
    return has_key && before == PTHREAD_CANCEL_ENABLE &&
           pthread_setspecific(registration_key, &registration) == 0;
}
#endif

__attribute__((cold)) long registration_add(void)
{
    static __thread bool asked __attribute__((tls_model("initial-exec")));

    if (registration_process == 0 || asked || raw_getpid() != registration_process ||
        !registration_may_add())
        return 0;
    asked = true; /* before: a signal handler may come here, too */
    return raw_result(SYS_rseq, &registration, REGISTRATION_SIZE, 0, STOOK_RSEQ_SIG);
}

/*
 * The area by the name that librseq and TCMalloc give theirs, if it has one offset in all threads; else the library's own.
 * Variables that the loader placed at the start have one.  They lie in a row from the thread pointer on, glibc's errno
 * behind the program's.
 */
static intptr_t registration_find_known(void)
{
    const void *area = dlsym ? dlsym(NULL, "__rseq_abi") : NULL;
    intptr_t offset = registration_offset(area), last = registration_offset(&errno);
    bool fixed = (offset < 0) == (last < 0) && labs(offset) <= labs(last);

    return area && fixed ? offset : registration_own();
}

bool registration_find(intptr_t *offset, const char **why)
{
    bool refused;

    if (registration_libc_cpu() >= 0) {
        *offset = __rseq_offset;
        *why = "rseq and membarrier are there";
        return true;
    }
    if (&rseq_register_current_thread) {
        *why = "librseq registers the threads, and the C library does not";
        return false;
    }
    *offset = registration_own();
    *why = &__rseq_size ? "own registration: the C library's is switched off"
                        : "own registration: the C library has none";
    registration_process = raw_getpid();
    refused = registration_add() == -EINVAL;
    if (refused) { /* this thread has one: the program registers the threads */
        registration_process = 0;
        *offset = registration_find_known();
        *why = "the program's own registration, __rseq_abi";
    }
    if (registration_cpu(*offset) >= 0)
        return true;
    *why = refused ? "the program has registered a struct rseq that it keeps to itself"
                   : "the kernel has no rseq, or a sandbox forbids it";
    return false;
}
