/* SPDX-License-Identifier: MIT */
/*
 * run_leaks.c - the processes of a tree, by ptrace, each up to its end.
 *
 * The program and all that it starts are traced from their first instruction on (PTRACE_SEIZE, before the program is
 * executed), which Yama permits a parent.  They stop for signals, fork() and the ends of threads, and go on at once.  A
 * thread of a process that ends stops once more while the process has its memory: then the search is made, from here.
 */
#include "stook/run_leaks.h"

#include "stook/command.h"

#include "look/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TREE_SHARED = 1, TREE_OWN /* since it was forked or executed a program */ };

enum {
    TREE_NAPS = 100,     /* of 1 ms */
    TREE_PIDS = 1 << 22, /* the kernel's most */
    TREE_OPTIONS = PTRACE_O_TRACEEXIT | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK |
                   PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE,
    TREE_KILLED = 0x400, /* PF_SIGNALED: of a thread that a signal ends, or the process's end */
};

static struct {
    pid_t program;
    bool searched; /* the program was */
    bool lost, unknown;
    uint8_t memory[TREE_PIDS]; /* by process; 0: the event of its creation is still to come */
} tree;

/* ---- one thread that ends --------------------------------------------------------------------- */

/* The process of a thread; 0: it is gone. */
static int tree_process(int thread)
{
    char path[64];
    int process = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", thread);
    if (!(file = fopen(path, "re")))
        return 0;
    (void)!fscanf(file, "%*[^\n] %*[^\n] %*[^\n] Tgid: %d", &process);
    fclose(file);
    return process;
}

/* Whether the process ends with this thread, and not the thread alone: glibc's last one calls exit_group(), too. */
static bool tree_ends(int thread)
{
    unsigned flags = 0;
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/stat", thread);
    (void)target_task(AT_FDCWD, path, &flags);
    return stop_call(thread) == SYS_exit_group || (flags & TREE_KILLED);
}

static void tree_event(const struct run_leaks *options, int thread, int status);

/* A child may end before its parent's event, which says how it was made, is seen: others come first then. */
static void tree_await(const struct run_leaks *options, int process)
{
    const struct timespec nap = {0, 1000000};

    for (unsigned i = 0; i < TREE_NAPS && process && !tree.memory[process]; i++) {
        siginfo_t info = {.si_pid = 0};
        if (waitid(P_ALL, 0, &info, WSTOPPED | WNOHANG | __WALL) == 0 && info.si_pid)
            tree_event(options, info.si_pid, info.si_status << 8 | 0x7f);
        else
            (void)nanosleep(&nap, NULL);
    }
}

static void tree_end(const struct run_leaks *options, int thread)
{
    int process = tree_process(thread);
    struct stop *stop;
    enum leaks_end end;

    tree_await(options, process);
    if (tree.memory[process] != TREE_OWN || !tree_ends(thread)) {
        if (thread != process)
            tree.memory[thread] = 0;
        (void)ptrace(PTRACE_DETACH, thread, NULL, NULL);
        return;
    }
    stop = stop_at_end(process, thread);
    if (!stop)
        return;
    /* The main thread has no memory any more if it ended before. */
    end = leaks_at_end(options, stop_has(stop, process, true) ? process : thread, stop,
                       process == tree.program);
    stop_end(stop);
    tree.memory[process] = 0;
    tree.searched |= process == tree.program;
    tree.lost |= end == LEAKS_END_LOST;
    tree.unknown |= end == LEAKS_END_UNKNOWN && process == tree.program;
}

/* ---- the tree --------------------------------------------------------------------------------- */

static void tree_event(const struct run_leaks *options, int thread, int status)
{
    int event = status >> 16, number = WSTOPSIG(status);
    unsigned long child;

    if (event == PTRACE_EVENT_EXIT) {
        tree_end(options, thread);
        return;
    }
    if (event == PTRACE_EVENT_EXEC)
        tree.memory[thread] = TREE_OWN;
    if ((event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
         event == PTRACE_EVENT_CLONE) &&
        ptrace(PTRACE_GETEVENTMSG, thread, NULL, &child) == 0 &&
        (event == PTRACE_EVENT_FORK || !tree.memory[child % TREE_PIDS]))
        tree.memory[child % TREE_PIDS] = event == PTRACE_EVENT_FORK ? TREE_OWN : TREE_SHARED;
    if (event == PTRACE_EVENT_STOP && number != SIGTRAP) /* stopped by a signal, until SIGCONT */
        (void)ptrace(PTRACE_LISTEN, thread, NULL, NULL);
    else
        (void)ptrace(PTRACE_CONT, thread, NULL, (void *)(intptr_t)(event ? 0 : number));
}

static int tree_follow(const struct run_leaks *options)
{
    int status;
    pid_t got;

    while ((got = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR)
        if (got > 0 && WIFSTOPPED(status))
            tree_event(options, got, status);
        else if (got == tree.program)
            return status;
    return STATUS_RUN << 8;
}

/* What was sent to this process is for the program; the terminal sends to both. */
static void tree_pass(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code != SI_KERNEL && info->si_pid != tree.program)
        (void)kill(tree.program, number);
}

/* Ends as the program did. */
static int tree_result(int status)
{
    if (WIFSIGNALED(status)) {
        (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); /* the program has dumped its own */
        (void)signal(WTERMSIG(status), SIG_DFL);
        (void)raise(WTERMSIG(status));
        return 128 + WTERMSIG(status);
    }
    if (WEXITSTATUS(status) != STATUS_OK)
        return WEXITSTATUS(status);
    if (tree.lost)
        return STATUS_LEAKS;
    if (!tree.searched)
        return complain(STATUS_RUN, "the program's end was not seen: leaks were not searched for");
    return tree.unknown ? STATUS_RUN : STATUS_OK;
}

static int tree_refused(void)
{
    const char *why = strerror(errno);

    return complain(
        STATUS_RUN,
        "--leaks needs ptrace (%s; kernel.yama.ptrace_scope is %d): permit ptrace and "
        "process_vm_readv in the sandbox, container or debugger around stook (docker run "
        "--cap-add SYS_PTRACE), run stook as root, or search a core file (stook help leaks)",
        why, target_yama());
}

bool run_leaks_fork(const struct run_leaks *options, int *status)
{
    static const int passed[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    struct sigaction pass = {.sa_sigaction = tree_pass, .sa_flags = SA_SIGINFO | SA_RESTART};
    int gate[2];
    char c;

    if (pipe2(gate, O_CLOEXEC) != 0 || (tree.program = fork()) < 0) {
        *status = complain(STATUS_RUN, "no process can be made: %s", strerror(errno));
        return false;
    }
    if (tree.program == 0) {
        (void)close(gate[1]);
        (void)!read(gate[0], &c, 1); /* until it is traced */
        return true;
    }
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        (void)sigaction(passed[i], &pass, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* of a report that nothing reads: the status is still right */
    if (ptrace(PTRACE_SEIZE, tree.program, NULL, (void *)(intptr_t)TREE_OPTIONS) != 0) {
        *status = tree_refused();
        (void)kill(tree.program, SIGKILL);
        (void)waitpid(tree.program, NULL, 0);
        return false;
    }
    (void)close(gate[1]);
    tree.memory[tree.program] = TREE_SHARED;
    *status = tree_result(tree_follow(options));
    return false;
}
