/* SPDX-License-Identifier: MIT */
#include "support/child.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void child_run(struct child *child, int (*body)(void *arg), void *arg)
{
    char rest[512];
    size_t got = 0;
    int pipes[2];
    ssize_t n;
    pid_t pid;

    fflush(NULL);
    if (pipe(pipes) != 0 || (pid = fork()) < 0)
        abort();
    if (pid == 0) {
        prctl(PR_SET_DUMPABLE, 0);
        signal(SIGABRT, SIG_DFL); /* cmocka's handlers are the parent's */
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        _exit(body(arg));
    }
    close(pipes[1]);
    while (got < sizeof(child->error) - 1 &&
           (n = read(pipes[0], child->error + got, sizeof(child->error) - 1 - got)) > 0)
        got += (size_t)n;
    while (n > 0 && read(pipes[0], rest, sizeof(rest)) > 0) /* more than is kept */
        ;
    close(pipes[0]);
    child->error[got] = '\0';
    if (waitpid(pid, &child->status, 0) != pid)
        abort();
}

int child_died_saying(const struct child *child, const char *text)
{
    if (WIFSIGNALED(child->status) && WTERMSIG(child->status) == SIGABRT &&
        strstr(child->error, text))
        return 1;
    printf("status %#x, wanted \"%s\", got: %s\n", (unsigned)child->status, text, child->error);
    return 0;
}

int child_passed(const struct child *child)
{
    if (WIFEXITED(child->status) && WEXITSTATUS(child->status) == 0)
        return 1;
    printf("status %#x: %s\n", (unsigned)child->status, child->error);
    return 0;
}
