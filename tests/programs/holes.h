/* SPDX-License-Identifier: MIT */
/*
 * holes.h - frees objects in a fork of a process, and measures what the kernel has back: for prog_holes.c and
 * plug_holes.c, beside what stook why predicts.
 */
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The anonymous memory of this process, in KiB, without a call of stdio or malloc. */
static long holes_anonymous(void)
{
    char text[4096] = "", *at;
    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
        text[0] = '\0';
    close(fd);
    at = strstr(text, "\nAnonymous:");
    return at ? strtol(at + 11, NULL, 10) : -1;
}

/* The addresses in the file, one a line, go to `give`. */
static void holes_give(const char *path, void (*give)(void *object))
{
    static char text[1 << 16];
    size_t have = 0;
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    while ((n = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
        char *at = text, *end;
        have += (size_t)n;
        text[have] = '\0';
        for (; (end = strchr(at, '\n')) != NULL; at = end + 1)
            give((void *)strtoull(at, NULL, 16));
        have -= (size_t)(at - text);
        memmove(text, at, have);
    }
    close(fd);
}

/* In a fork: gives the objects of the file `from` back; writes how many bytes the kernel had back for them to `to`.  Where
 * there is no such file: for trimming alone. */
static void holes_measure(const char *from, const char *to, void (*give)(void *object),
                          void (*trim)(void))
{
    int some = access(from, R_OK) == 0;
    pid_t child = fork();
    char text[32];
    long before;
    int fd;

    if (child != 0) {
        waitpid(child, NULL, 0);
        return;
    }
    if (some)
        trim();
    before = holes_anonymous();
    holes_give(from, give);
    trim();
    fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (write(fd, text,
              (size_t)snprintf(text, sizeof(text), "%ld\n", (before - holes_anonymous()) << 10)) <
        0)
        _exit(1);
    _exit(0);
}
