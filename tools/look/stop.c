/* SPDX-License-Identifier: MIT */
/*
 * stop.c - stops all threads of a process by ptrace, and reads their registers.
 */
#include "look/stop.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

enum {
    STOP_NAP = 1000000, /* nanoseconds between polls of a thread that runs on … */
    STOP_NAPS = 2000,   /* … and how often: a thread that waits for a vfork does not */
    STOP_WORDS = 1024,
#if defined(__x86_64__)
    STOP_CALL = 15, /* words of NT_PRSTATUS: the system call's number, the stack pointer */
    STOP_STACK = 19,
#elif defined(__aarch64__)
    STOP_CALL = 8,
    STOP_STACK = 31,
#else
    STOP_CALL = 17,
    STOP_STACK = 2,
#endif
};

struct stop_thread {
    int number, signal; /* the signal that it was about to take */
    bool stopped;
};

struct stop {
    struct stop_thread *thread;
    size_t threads;
    bool ends;  /* its threads are traced already, and at their end … */
    bool execs; /* … since one of them becomes another program */
};

bool stop_has(const struct stop *stop, int number, bool stopped)
{
    for (size_t i = 0; i < stop->threads; i++)
        if (stop->thread[i].number == number)
            return stop->thread[i].stopped || !stopped;
    return false;
}

/* Whether a thread does not come to PTRACE_EVENT_EXIT: it has been there, or it waits in execve() for the others' end. */
static bool stop_passed(struct stop *stop, int number)
{
    char path[64], state;
    unsigned flags;
    long call = -1;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", number);
    state = target_task(AT_FDCWD, path, &flags);
    snprintf(path, sizeof(path), "/proc/%d/syscall", number);
    if (state == 'D' && (file = fopen(path, "re"))) {
        (void)!fscanf(file, "%ld", &call);
        fclose(file);
    }
    stop->execs |= call == SYS_execve || call == SYS_execveat;
    return !state || state == 'Z' || state == 'X' || stop->execs;
}

/* Takes no status of a thread that has ended: that of a main thread is the process's, which its parent waits for. */
static void stop_wait(struct stop *stop, struct stop_thread *thread)
{
    const struct timespec nap = {0, STOP_NAP};

    for (unsigned i = 0; i < STOP_NAPS && !thread->stopped; i++) {
        siginfo_t info = {.si_pid = 0};
        int event;
        if (waitid(P_PID, (id_t)thread->number, &info, WSTOPPED | WNOHANG | __WALL) != 0)
            return; /* it is no more, or not traced any more */
        event = info.si_status >> 8;
        if (info.si_pid == 0) {
            if (stop_passed(stop, thread->number))
                return;
            nanosleep(&nap, NULL);
        } else if (stop->ends && event != PTRACE_EVENT_EXIT) {
            (void)ptrace(PTRACE_CONT, thread->number, NULL, NULL);
        } else {
            thread->stopped = true;
            if (event == 0) /* about to take a signal: it does when it goes on */
                thread->signal = info.si_status;
        }
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
        if (number <= 0 || stop_has(stop, number, false))
            continue;
        if (!stop->ends && ptrace(PTRACE_SEIZE, number, NULL, NULL) != 0) {
            int error = errno;
            if (error == ESRCH)
                continue;
            closedir(folder);
            errno = error;
            return -1;
        }
        stop->thread = target_row(stop->thread, stop->threads, sizeof(*stop->thread));
        stop->thread[stop->threads++] = (struct stop_thread){.number = number};
        if (!stop->ends)
            (void)ptrace(PTRACE_INTERRUPT, number, NULL, NULL);
    }
    closedir(folder);
    for (size_t i = first; i < stop->threads; i++)
        stop_wait(stop, &stop->thread[i]);
    return (int)(stop->threads - first);
}

struct stop *stop_begin(int pid, struct target_error *error)
{
    struct stop *stop = target_need(calloc(1, sizeof(*stop)));
    int more;

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
        if (!thread->stopped && !stop->ends)
            stop_wait(stop, thread);
        (void)ptrace(PTRACE_DETACH, thread->number, NULL, (void *)(intptr_t)thread->signal);
    }
    free(stop->thread);
    free(stop);
}

struct stop *stop_at_end(int pid, int first)
{
    struct stop *stop = target_need(calloc(1, sizeof(*stop)));

    stop->thread = target_row(NULL, 0, sizeof(*stop->thread));
    stop->ends = true;
    stop->thread[stop->threads++] = (struct stop_thread){.number = first, .stopped = true};
    while (stop_round(stop, pid) > 0)
        ;
    if (!stop->execs)
        return stop;
    stop_end(stop);
    return NULL;
}

/* A word of a thread's registers. */
static uint64_t stop_word(int number, unsigned at)
{
    uint64_t words[STOP_WORDS];
    struct iovec to = {words, sizeof(words)};

    return ptrace(PTRACE_GETREGSET, number, (void *)NT_PRSTATUS, &to) == 0 && at < to.iov_len / 8
               ? words[at]
               : UINT64_MAX;
}

long stop_call(int number)
{
    return (long)stop_word(number, STOP_CALL);
}

uint64_t stop_stack(const struct stop *stop, int pid)
{
    return stop_has(stop, pid, true) ? stop_word(pid, STOP_STACK) : UINT64_MAX;
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
