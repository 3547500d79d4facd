/* SPDX-License-Identifier: MIT */
/*
 * stop.c - stops all threads of a process by ptrace, and reads their registers.
 */
#include "look/stop.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

enum {
    STOP_NAP = 1000000, /* nanoseconds between looks at a thread that does not stop yet … */
    STOP_NAPS = 2000,   /* … and how often: one that waits for a vfork does not */
    STOP_WORDS = 1024,
};

struct stop_thread {
    int number, signal; /* the signal that it was about to take */
    bool stopped;
};

struct stop {
    struct stop_thread *thread;
    size_t threads;
};

static bool stop_has(const struct stop *stop, int number)
{
    for (size_t i = 0; i < stop->threads; i++)
        if (stop->thread[i].number == number)
            return true;
    return false;
}

static void stop_wait(struct stop_thread *thread)
{
    const struct timespec nap = {0, STOP_NAP};
    int status;

    for (unsigned i = 0; i < STOP_NAPS && !thread->stopped; i++) {
        pid_t got = waitpid(thread->number, &status, __WALL | WNOHANG);
        if (got < 0 || (got > 0 && !WIFSTOPPED(status)))
            return; /* it has ended */
        if (got == 0) {
            nanosleep(&nap, NULL);
            continue;
        }
        thread->stopped = true;
        if (status >> 16 == 0) /* about to take a signal: it does when it goes on */
            thread->signal = WSTOPSIG(status);
    }
}

/* Threads that are new since the last time; how many, or -1 with errno: the first could not be seized. */
static int stop_round(struct stop *stop, int pid)
{
    char path[64];
    size_t first = stop->threads;
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    folder = opendir(path);
    if (!folder)
        return -1;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        int number = atoi(entry->d_name);
        struct stop_thread *more;
        if (number <= 0 || stop_has(stop, number))
            continue;
        if (ptrace(PTRACE_SEIZE, number, NULL, NULL) != 0) {
            int error = errno;
            if (error == ESRCH)
                continue;
            closedir(folder);
            errno = error;
            return -1;
        }
        more = realloc(stop->thread, (stop->threads + 1) * sizeof(*more));
        if (!more)
            break;
        stop->thread = more;
        stop->thread[stop->threads++] = (struct stop_thread){.number = number};
        (void)ptrace(PTRACE_INTERRUPT, number, NULL, NULL);
    }
    closedir(folder);
    for (size_t i = first; i < stop->threads; i++)
        stop_wait(&stop->thread[i]);
    return (int)(stop->threads - first);
}

struct stop *stop_begin(int pid, struct target_error *error)
{
    struct stop *stop = calloc(1, sizeof(*stop));
    int more;

    if (!stop) {
        (void)target_fail(error, "no memory");
        return NULL;
    }
    while ((more = stop_round(stop, pid)) > 0) /* a thread that ran may have made others */
        ;
    if (more == 0 && stop->threads > 0)
        return stop;
    (void)target_fail(error,
                      errno == EPERM
                          ? "process %d cannot be stopped: another debugger has it, or the kernel "
                            "does not permit it"
                          : "process %d cannot be stopped: it has ended",
                      pid);
    stop_end(stop);
    return NULL;
}

void stop_end(struct stop *stop)
{
    if (!stop)
        return;
    for (size_t i = 0; i < stop->threads; i++) {
        struct stop_thread *thread = &stop->thread[i];
        if (!thread->stopped)
            stop_wait(thread);
        (void)ptrace(PTRACE_DETACH, thread->number, NULL, (void *)(intptr_t)thread->signal);
    }
    free(stop->thread);
    free(stop);
}

void stop_registers(const struct stop *stop, void (*fn)(const uint64_t *words, size_t n, void *arg),
                    void *arg)
{
    static const unsigned sets[] = {
        NT_PRSTATUS,
#if defined(__x86_64__)
        NT_X86_XSTATE,
#else
        NT_FPREGSET,
#endif
    };
    uint64_t words[STOP_WORDS];

    for (size_t i = 0; i < stop->threads; i++)
        for (size_t j = 0; j < sizeof(sets) / sizeof(sets[0]); j++) {
            struct iovec to = {words, sizeof(words)};
            if (stop->thread[i].stopped && ptrace(PTRACE_GETREGSET, stop->thread[i].number,
                                                  (void *)(uintptr_t)sets[j], &to) == 0)
                fn(words, to.iov_len / 8, arg);
        }
}
