/* SPDX-License-Identifier: MIT */
/*
 * Runs a command under a malloc and tells what the kernel counted for it and the children it waited for.
 *
 *   launch REPORT LOOK CPU PRELOAD COMMAND...
 *
 * REPORT is a descriptor that one line is written to: status, user and system microseconds, KiB at the peak of the
 * largest process, minor and major faults.  CPU is the one that it is bound to, or -; PRELOAD a library, or -.
 * LOOK is -, or a descriptor: each process of the command is stopped when it is about to end (ptrace), and the path of
 * its program and its memory map are written there.  SIGTERM, SIGINT and SIGQUIT go to the command.
 *
 * A process of its own, since what the kernel counts as the peak of a program begins with the size of the process
 * that started it: this one is small.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile pid_t child;

static void pass_on(int signal)
{
    if (child > 0)
        kill(child, signal);
}

static long microseconds(struct timeval time)
{
    return time.tv_sec * 1000000 + time.tv_usec;
}

/* argv: from CPU on. */
static void become(char **argv, bool is_watched)
{
    if (strcmp(argv[0], "-") != 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(strtoul(argv[0], NULL, 10), &set);
        if (sched_setaffinity(0, sizeof(set), &set) != 0)
            _exit(126);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (is_watched && (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0))
        _exit(126);
    if (strcmp(argv[1], "-") != 0 && setenv("LD_PRELOAD", argv[1], 1) != 0)
        _exit(126);
    execv(argv[2], argv + 2);
    _exit(127);
}

/* "= PROGRAM", and the lines of its map. */
static void look_at(pid_t process, int to)
{
    char name[64], text[4096];
    ssize_t n;
    int maps;

    snprintf(name, sizeof(name), "/proc/%d/exe", (int)process);
    n = readlink(name, text, sizeof(text));
    dprintf(to, "= %.*s\n", n > 0 ? (int)n : 0, text);
    snprintf(name, sizeof(name), "/proc/%d/maps", (int)process);
    maps = open(name, O_RDONLY | O_CLOEXEC);
    while (maps >= 0 && (n = read(maps, text, sizeof(text))) > 0)
        if (write(to, text, (size_t)n) != n)
            break;
    if (maps >= 0)
        close(maps);
}

/* Waits for the command while it and all that it starts are watched. */
static int wait_watched(int look, int *status, struct rusage *usage)
{
    long options = PTRACE_O_TRACEEXIT | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK |
                   PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    bool begun = false;
    pid_t pid;

    for (;;) {
        pid = wait4(-1, status, __WALL, usage);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0 || (pid == child && !WIFSTOPPED(*status)))
            return pid;
        if (!WIFSTOPPED(*status))
            continue;
        if (!begun && ptrace(PTRACE_SETOPTIONS, pid, NULL, options) != 0)
            return -1;
        begun = true;
        if (*status >> 16 == PTRACE_EVENT_EXIT)
            look_at(pid, look);
        /* Events are no signals of the command; SIGSTOP is how each process that is watched begins. */
        int is_own = *status >> 16 != 0 || WSTOPSIG(*status) == SIGSTOP;
        ptrace(PTRACE_CONT, pid, NULL, (long)(is_own ? 0 : WSTOPSIG(*status)));
    }
}

int main(int argc, char **argv)
{
    static const int passed_on[] = {SIGTERM, SIGINT, SIGQUIT};
    struct sigaction action = {.sa_handler = pass_on};
    struct rusage usage;
    int status, report = argc > 5 ? atoi(argv[1]) : -1, look = -1;

    if (report < 0) {
        fprintf(stderr, "usage: launch REPORT LOOK CPU PRELOAD COMMAND...\n");
        return 2;
    }
    if (strcmp(argv[2], "-") != 0)
        look = atoi(argv[2]);
    child = fork();
    if (child < 0)
        return 1;
    if (child == 0) {
        close(report);
        if (look >= 0)
            close(look);
        become(argv + 3, look >= 0);
    }
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
        sigaction(passed_on[i], &action, NULL);
    if (look >= 0 && wait_watched(look, &status, &usage) != child)
        return 1;
    while (look < 0 && wait4(child, &status, 0, &usage) != child)
        if (errno != EINTR)
            return 1;
    dprintf(report, "%d %ld %ld %ld %ld %ld\n", status, microseconds(usage.ru_utime),
            microseconds(usage.ru_stime), usage.ru_maxrss, usage.ru_minflt, usage.ru_majflt);
    return 0;
}
