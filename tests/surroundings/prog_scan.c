/* SPDX-License-Identifier: MIT */
/*
 * prog_scan AS|DATA FROM TO STEP PROGRAM ARGUMENT...: the program under each limit of so many KiB.  A line each:
 * the limit, how the program ended (0: well), and the number behind the first word that it printed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void scan(int kind, rlim_t bytes, char **argv)
{
    struct rlimit limit = {bytes, bytes};
    char said[200] = "", *number;
    int to[2], null = open("/dev/null", O_WRONLY), status;
    pid_t child;
    ssize_t n;

    if (null < 0 || pipe(to))
        exit(2);
    child = vfork();
    if (child == 0) {
        dup2(to[1], 1);
        dup2(null, 2);
        if (setrlimit((__rlimit_resource_t)kind, &limit) == 0)
            execve(argv[0], argv, environ);
        _exit(127);
    }
    close(to[1]);
    close(null);
    n = read(to[0], said, sizeof(said) - 1);
    close(to[0]);
    if (child < 0 || waitpid(child, &status, 0) != child || n < 0)
        exit(2);
    number = strchr(said, ' ');
    printf("%lu %d %ld\n", (unsigned long)(bytes >> 10), status, number ? atol(number) : 0);
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    for (unsigned long kib = strtoul(argv[2], NULL, 10), to = strtoul(argv[3], NULL, 10); kib <= to;
         kib += strtoul(argv[4], NULL, 10))
        scan(strcmp(argv[1], "AS") ? RLIMIT_DATA : RLIMIT_AS, (rlim_t)kib << 10, argv + 5);
    return 0;
}
