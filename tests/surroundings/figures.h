/* SPDX-License-Identifier: MIT */
/* What the programs of this folder say of themselves, read without malloc, and how they pin. */
#ifndef STOOK_TESTS_SURROUNDINGS_FIGURES_H
#define STOOK_TESTS_SURROUNDINGS_FIGURES_H

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes a line to standard output by one write(2). */
static inline __attribute__((format(printf, 1, 2), unused)) void say(const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    int n = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (n > (int)sizeof(line) - 1)
        n = (int)sizeof(line) - 1;
    for (int at = 0; at < n;) {
        ssize_t wrote = write(STDOUT_FILENO, line + at, (size_t)(n - at));
        if (wrote <= 0)
            return;
        at += (int)wrote;
    }
}

static inline __attribute__((format(printf, 1, 2), noreturn, unused)) void give_up(
    const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    say("%s\n", line);
    _exit(1);
}

static inline __attribute__((unused)) int mappings(void)
{
    static char buffer[65536];
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), lines = 0;
    ssize_t n;

    while ((n = read(fd, buffer, sizeof(buffer))) > 0)
        for (ssize_t i = 0; i < n; i++)
            lines += buffer[i] == '\n';
    close(fd);
    return lines;
}

/* A line of a file of /proc, in KiB; -1 where it is not there. */
static inline __attribute__((unused)) long proc_kib(const char *file, const char *name)
{
    static char buffer[8192];
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, buffer, sizeof(buffer) - 1);
    char *at;

    if (fd >= 0)
        close(fd);
    buffer[n < 0 ? 0 : n] = '\0';
    at = strstr(buffer, name);
    return at ? strtol(at + strlen(name), NULL, 10) : -1;
}

/* By the page tables; the status file's figure is exact only to some pages a CPU. */
static inline __attribute__((unused)) long resident_kib(void)
{
    return proc_kib("/proc/self/smaps_rollup", "Rss:");
}

static inline __attribute__((unused)) long virtual_kib(void)
{
    return proc_kib("/proc/self/status", "VmSize:");
}

/* The n-th of the CPUs that the program may run on, modulo their number. */
static inline __attribute__((unused)) int nth_cpu(int n)
{
    static cpu_set_t allowed;
    static int count;

    if (!count &&
        (sched_getaffinity(0, sizeof(allowed), &allowed) || !(count = CPU_COUNT(&allowed))))
        give_up("no CPUs");
    n %= count;
    for (int cpu = 0;; cpu++)
        if (CPU_ISSET(cpu, &allowed) && n-- == 0)
            return cpu;
}

static inline __attribute__((unused)) void pin_thread(pid_t thread, int n)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(nth_cpu(n), &one);
    (void)sched_setaffinity(thread, sizeof(one), &one);
}

static inline __attribute__((unused)) void pin(int n)
{
    pin_thread(0, n);
}

#endif
