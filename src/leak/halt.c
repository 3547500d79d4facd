/* SPDX-License-Identifier: MIT */
#include "leak/halt.h"

#include "base/raw.h"
#include "os/os.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HALT_HELPER = 0 }; /* the helper would run their code with the caller's thread */
#else
enum { HALT_HELPER = 1 };
#endif

enum {
    HALT_STACK = 256 << 10,
    HALT_THREADS = 4096, /* more are not stopped */
    HALT_WORDS = 68,     /* of a thread's registers, at most */
    HALT_NAP = 1000000,  /* nanoseconds between looks at a thread that does not stop yet … */
    HALT_NAPS = 2000,    /* … and how often: one that waits for a vfork does not */
};

struct halt_thread {
    int number, signal; /* the signal that it was about to take */
    bool stopped;
};

/* One mapping, with the helper's stack behind it. */
struct halt_work {
    void (*work)(void *arg, const struct halt *halt);
    void *arg;
    int process, caller;
    _Atomic uint32_t go;
    bool done;
    struct halt halt;
    unsigned threads;
    struct halt_thread thread[HALT_THREADS];
    uint64_t registers[HALT_THREADS][HALT_WORDS];
    char stack[HALT_STACK] __attribute__((aligned(64)));
};

/* Thread numbers of the process, into the table; how many there are.  `add` NULL: they are only counted. */
static unsigned halt_each(int process, void (*add)(struct halt_work *work, int number),
                          struct halt_work *work)
{
    char path[64], text[4096] __attribute__((aligned(8)));
    unsigned found = 0;
    long n;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/task", process);
    fd = raw_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    while ((n = raw_call(SYS_getdents64, fd, text, sizeof(text))) > 0)
        for (long at = 0; at < n;) {
            /* struct linux_dirent64: inode 8, offset 8, length 2, type 1, name */
            const char *name = text + at + 19;
            uint16_t length;
            memcpy(&length, text + at + 16, sizeof(length));
            at += length;
            if (*name < '0' || *name > '9')
                continue;
            found++;
            if (add)
                add(work, atoi(name));
        }
    (void)raw_close(fd);
    return found;
}

/* It has ended, as a main thread may have that others survive. */
static bool halt_is_dead(int process, int number)
{
    char path[64], text[512];
    const char *at;

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", process, number);
    if (os_read_file(path, text, sizeof(text)) < 0)
        return true;
    at = strrchr(text, ')');
    return at && strlen(at) > 2 && (at[2] == 'Z' || at[2] == 'X');
}

static void halt_registers(struct halt_work *work, unsigned i)
{
    struct iovec to = {work->registers[i], sizeof(work->registers[i])};

    (void)raw_call(SYS_ptrace, PTRACE_GETREGSET, work->thread[i].number, (void *)NT_PRSTATUS, &to);
}

static void halt_thread(struct halt_work *work, int number)
{
    struct halt_thread *thread = &work->thread[work->threads];
    int status;

    if (number == work->caller)
        return;
    for (unsigned i = 0; i < work->threads; i++)
        if (work->thread[i].number == number)
            return;
    if (work->threads == HALT_THREADS) {
        work->halt.alone = false;
        return;
    }
    if (raw_call(SYS_ptrace, PTRACE_SEIZE, number, NULL, NULL) != 0) {
        work->halt.alone = work->halt.alone && halt_is_dead(work->process, number);
        return;
    }
    *thread = (struct halt_thread){.number = number};
    (void)raw_call(SYS_ptrace, PTRACE_INTERRUPT, number, NULL, NULL);
    for (unsigned nap = 0; nap < HALT_NAPS && !thread->stopped; nap++) {
        int got = raw_waitpid(number, &status, __WALL | WNOHANG);
        if (got == 0) {
            struct timespec time = {0, HALT_NAP};
            (void)raw_call(SYS_nanosleep, &time, NULL);
        } else if (got == number && WIFSTOPPED(status)) {
            thread->stopped = true;
            thread->signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
        } else if (got != -1 || errno != EINTR) {
            return; /* it has ended */
        }
    }
    if (thread->stopped)
        halt_registers(work, work->threads);
    else
        work->halt.alone = false;
    work->threads++;
}

static int halt_helper(void *arg)
{
    struct halt_work *work = arg;
    unsigned before;

    while (atomic_load_explicit(&work->go, memory_order_acquire) == 0)
        raw_wait(&work->go, 0, 0);
    work->halt.alone = true;
    do { /* until no new ones have come */
        before = work->threads;
        if (halt_each(work->process, halt_thread, work) == 0)
            work->halt.alone = false;
    } while (work->threads > before);
    work->halt.others = work->threads;
    work->halt.registers = work->registers[0];
    work->halt.begin = (uintptr_t)work;
    work->halt.end = work->halt.begin + sizeof(*work);
    work->halt.words = (size_t)work->threads * HALT_WORDS;
    work->work(work->arg, &work->halt);
    work->done = true;
    for (unsigned i = 0; i < work->threads; i++)
        (void)raw_call(SYS_ptrace, PTRACE_DETACH, work->thread[i].number, NULL,
                       (void *)(intptr_t)work->thread[i].signal);
    return 0;
}

static void halt_with_helper(struct halt_work *work)
{
    sigset_t all, before;
    int helper, status;

    memset(&all, 0xff, sizeof(all));
    (void)raw_call(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, _NSIG / 8);
    /* No signal when it ends, and no wait() of the program's finds it. */
    helper = clone(halt_helper, work->stack + HALT_STACK,
                   CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED, work);
    if (helper > 0) {
#ifdef PR_SET_PTRACER
        (void)raw_call(SYS_prctl, PR_SET_PTRACER, helper, 0, 0,
                       0); /* which Yama wants; others do not know it */
#endif
        atomic_store_explicit(&work->go, 1, memory_order_release);
        raw_wake(&work->go, 1);
        while (raw_call(SYS_wait4, helper, &status, __WALL, NULL) == -1 && errno == EINTR)
            ;
#ifdef PR_SET_PTRACER
        (void)raw_call(SYS_prctl, PR_SET_PTRACER, 0, 0, 0, 0);
#endif
    }
    (void)raw_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, _NSIG / 8);
}

void halt_run(void (*work)(void *arg, const struct halt *halt), void *arg)
{
    unsigned threads = halt_each((int)raw_getpid(), NULL, NULL);
    struct halt halt = {.alone = threads == 1};
    struct halt_work *with;
    int saved = errno;
    bool done = false;

    if (threads != 1 && HALT_HELPER && (with = os_map(sizeof(*with)))) {
        with->work = work;
        with->arg = arg;
        with->process = (int)raw_getpid();
        with->caller = (int)raw_gettid();
        halt_with_helper(with);
        done = with->done;
        os_unmap(with, sizeof(*with));
    }
    if (!done)
        work(arg, &halt);
    errno = saved;
}
