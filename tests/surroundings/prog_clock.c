/* SPDX-License-Identifier: MIT */
/*
 * prog_clock counter           threads malloc and free where reading the processor's counter is a SIGSEGV
 * prog_clock vdso PROGRAM...   runs a program without the kernel's own file, so that clocks are system calls
 */
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "surroundings/exercise.h"

enum { THREADS = 2 };

/* Of a process that has just begun: where its count of arguments lies, in the file's 28th field. */
static uintptr_t stack_of(pid_t child)
{
    char path[64], line[1024], *at;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)child);
    file = fopen(path, "r");
    if (!file || !fgets(line, sizeof(line), file) || (at = strrchr(line, ')')) == NULL)
        give_up("%s cannot be read", path);
    fclose(file);
    for (int field = 2; field < 28 && at; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoul(at, NULL, 10) : 0;
}

static uintptr_t word(pid_t child, uintptr_t at)
{
    errno = 0;
    uintptr_t value = (uintptr_t)ptrace(PTRACE_PEEKDATA, child, (void *)at, NULL);
    if (errno != 0)
        _exit(77);
    return value;
}

static int without_vdso(char **argv)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
            execvp(argv[0], argv);
        _exit(77);
    }
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        return 77;
    uintptr_t at = stack_of(child), type;
    for (at += sizeof(at) * (word(child, at) + 2); word(child, at) != 0; at += sizeof(at))
        ;
    for (at += sizeof(at); (type = word(child, at)) != AT_NULL; at += 2 * sizeof(at))
        if (type == AT_SYSINFO_EHDR &&
            ptrace(PTRACE_POKEDATA, child, (void *)at, (void *)AT_IGNORE) != 0)
            _exit(77);
    ptrace(PTRACE_DETACH, child, NULL, NULL);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void *exercise(void *number)
{
    static struct exercise all[THREADS];
    struct exercise *e = &all[(intptr_t)number];

    e->random = (unsigned)(intptr_t)number + 1;
    exercise_steps(e, 5000);
    exercise_end(e);
    return NULL;
}

/* The library's own start is over: the loader of glibc reads the counter as well. */
static int without_counter(void)
{
    pthread_t thread[THREADS];

    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV))
        return 77;
    for (intptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, exercise, (void *)i))
            give_up("a thread cannot be made");
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "vdso") == 0)
        return without_vdso(argv + 2);
    if (argc == 2 && strcmp(argv[1], "counter") == 0)
        return without_counter();
    give_up("prog_clock: what?");
}
