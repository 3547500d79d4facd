/* SPDX-License-Identifier: MIT */
/*
 * Runs a command under a malloc and tells what the kernel counted for it and the children it waited for.
 *
 *   stook-bench-launch REPORT CPU PRELOAD COMMAND...
 *
 * REPORT is a descriptor that one line is written to: status, user and system microseconds, KiB at the peak of the
 * largest process, minor and major faults.  CPU is the one that it is bound to, or -; PRELOAD a library, or -.
 * SIGTERM, SIGINT and SIGQUIT go to the command.
 *
 * A process of its own, since what the kernel counts as the peak of a program begins with the size of the process
 * that started it: this one is small.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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

static void become(char **argv)
{
    if (strcmp(argv[2], "-") != 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(strtoul(argv[2], NULL, 10), &set);
        if (sched_setaffinity(0, sizeof(set), &set) != 0)
            _exit(126);
    }
    if (strcmp(argv[3], "-") != 0 && setenv("LD_PRELOAD", argv[3], 1) != 0)
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execv(argv[4], argv + 4);
    _exit(127);
}

int main(int argc, char **argv)
{
    static const int passed_on[] = {SIGTERM, SIGINT, SIGQUIT};
    struct sigaction action = {.sa_handler = pass_on};
    struct rusage usage;
    int status, report = argc > 4 ? atoi(argv[1]) : -1;

    if (report < 0) {
        fprintf(stderr, "usage: stook-bench-launch REPORT CPU PRELOAD COMMAND...\n");
        return 2;
    }
    child = fork();
    if (child < 0)
        return 1;
    if (child == 0) {
        close(report);
        become(argv);
    }
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
        sigaction(passed_on[i], &action, NULL);
    while (wait4(child, &status, 0, &usage) != child)
        if (errno != EINTR)
            return 1;
    dprintf(report, "%d %ld %ld %ld %ld %ld\n", status, microseconds(usage.ru_utime),
            microseconds(usage.ru_stime), usage.ru_maxrss, usage.ru_minflt, usage.ru_majflt);
    return 0;
}
