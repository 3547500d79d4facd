/* SPDX-License-Identifier: MIT */
/* link: none */
/*
 * prog_bare N    allocates N objects, and says how many KiB of memory are the process's own, and how many page faults
 *                there were.  It calls nothing else that allocates.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void *volatile object; /* so that no compiler leaves a call out */

int main(int argc, char **argv)
{
    static char text[1 << 18], line[128];
    struct rusage usage;
    size_t size = 0;
    ssize_t n;
    long own = 0;
    int file;

    for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; i--)
        object = memset(malloc((size_t)i * 40), 1, (size_t)i * 40);
    getrusage(RUSAGE_SELF, &usage);
    file = open("/proc/self/smaps", O_RDONLY);
    while ((n = read(file, text + size, sizeof(text) - 1 - size)) > 0)
        size += (size_t)n;
    for (char *at = text; (at = strstr(at, "\nAnonymous:")) != NULL; at++)
        own += atol(at + sizeof("\nAnonymous:") - 1);
    n = snprintf(line, sizeof(line), "own %ld\nfaults %ld\n", own, usage.ru_minflt);
    return write(STDOUT_FILENO, line, (size_t)n) != n;
}
