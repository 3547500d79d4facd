/* SPDX-License-Identifier: MIT */
#include "base/report.h"

#include "base/raw.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int report_write(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t n = raw_write(fd, text, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        text += n;
        size -= (size_t)n;
    }
    return 0;
}

/* vsnprintf of integers and short strings takes no memory in glibc and musl. */
static void report_say(const char *format, va_list args)
{
    char line[640] = "stook: ";
    int head = 7, room = (int)sizeof(line) - head - 1;
    int n = vsnprintf(line + head, (size_t)room, format, args);

    if (n < 0)
        n = 0;
    if (n > room - 1)
        n = room - 1;
    line[head + n] = '\n';
    (void)report_write(STDERR_FILENO, line, (size_t)(head + n + 1));
}

void report_fatal(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    report_say(format, args);
    va_end(args);
    abort();
}

void report_warn(const char *format, ...)
{
    int saved = errno;
    va_list args;

    va_start(args, format);
    report_say(format, args);
    va_end(args);
    errno = saved;
}
