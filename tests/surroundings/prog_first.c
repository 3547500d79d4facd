/* SPDX-License-Identifier: MIT */
/* link: none */
/*
 * prog_first WHERE    the process's first object, of which the start belongs to malloc (src/malloc/start.c):
 *
 *   child      in a forked child
 *   prepare    in a fork handler of the program's, before the fork; the child allocates, too
 *   handler    in a signal handler, on a small stack
 *   sandbox    where only those system calls are allowed that docs/malloc.md names
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "surroundings/filter.h"

static void *volatile object;

static void first(void)
{
    object = malloc(100);
    if (!object)
        give_up("no object\n");
    free(object);
}

static void first_handler(int signal)
{
    first();
}

static int child(void)
{
    int status = 1;
    pid_t pid = fork();

    if (pid == 0) {
        first();
        _exit(0);
    }
    first();
    return waitpid(pid, &status, 0) == pid ? status : 1;
}

int main(int argc, char **argv)
{
    static const int allowed[] = {__NR_mmap,       __NR_munmap, __NR_mremap,    __NR_mprotect,
                                  __NR_madvise,    __NR_futex,  __NR_getrandom, __NR_write,
                                  __NR_exit_group, __NR_exit};
    static char room[8192];
    const stack_t stack = {.ss_sp = room, .ss_size = sizeof(room)};
    const struct sigaction action = {.sa_handler = first_handler, .sa_flags = SA_ONSTACK};
    const char *where = argc > 1 ? argv[1] : "";

    if (strcmp(where, "child") == 0)
        return child();
    if (strcmp(where, "prepare") == 0)
        return pthread_atfork(first, first, first) ? 1 : child();
    if (strcmp(where, "handler") == 0)
        return sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL) || raise(SIGUSR1);
    filter_install(allowed, sizeof(allowed) / sizeof(allowed[0]), SECCOMP_RET_ALLOW,
                   SECCOMP_RET_KILL_PROCESS);
    first();
    return 0;
}
