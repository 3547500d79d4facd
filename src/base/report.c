/* SPDX-License-Identifier: MIT */
/*
 * report.c - writes messages to standard error or to the program's own function, and ends the
 * process after a fatal one.
 */
#include "base/report.h"

#include "base/raw.h"

#include <stook/stook.h>

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int report_write(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t n = raw_call(SYS_write, fd, text, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        text += n;
        size -= (size_t)n;
    }
    return 0;
}

/*
 * Where messages go but to stderr.  Two places, so that one who reads the one that is in use finds both
 * words of it while the other is written; the caller of stook_message_set() sees to the rest.
 */
static struct report_sink {
    stook_message_fn fn;
    void *arg;
} report_sinks[2];
static _Atomic(struct report_sink *) report_sink;

void stook_message_set(stook_message_fn fn, void *arg)
{
    struct report_sink *now = atomic_load_explicit(&report_sink, memory_order_relaxed);
    struct report_sink *next = now == &report_sinks[0] ? &report_sinks[1] : &report_sinks[0];

    if (fn)
        *next = (struct report_sink){fn, arg};
    /* Release: both words, for report_say(). */
    atomic_store_explicit(&report_sink, fn ? next : NULL, memory_order_release);
}

void report_lines(int level, char *text, size_t size)
{
    const struct report_sink *sink = atomic_load_explicit(&report_sink, memory_order_acquire);
    size_t head = size > 7 && memcmp(text, "stook: ", 7) == 0 ? 7 : 0;

    if (!sink) {
        (void)report_write(STDERR_FILENO, text, size);
        return;
    }
    if (size > head && text[size - 1] == '\n')
        size--;
    text[size] = '\0';
    sink->fn(level, text + head, size - head, sink->arg);
}

/* vsnprintf of integers and short strings takes no memory in glibc and musl. */
static void report_say(int level, const char *format, va_list args)
{
    char line[640] = "stook: ";
    int head = 7, room = (int)sizeof(line) - head - 1;
    int n = vsnprintf(line + head, (size_t)room, format, args);

    n = n < 0 ? 0 : n > room - 1 ? room - 1 : n;
    line[head + n] = '\n';
    report_lines(level, line, (size_t)(head + n + 1));
}

void report_fatal(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    report_say(STOOK_MESSAGE_FATAL, format, args);
    va_end(args);
    abort();
}

void report_warn(const char *format, ...)
{
    int saved = errno;
    va_list args;

    va_start(args, format);
    report_say(STOOK_MESSAGE_WARNING, format, args);
    va_end(args);
    errno = saved;
}
