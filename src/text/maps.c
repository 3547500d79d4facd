/* SPDX-License-Identifier: MIT */
/*
 * maps.c - reads /proc/self/maps line by line with system calls, and parses each line.
 */
#include "text/maps.h"

#include "base/raw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void maps_open(struct maps *maps)
{
    maps->fd = raw_openat(AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    maps->have = maps->at = 0;
}

void maps_close(struct maps *maps)
{
    if (maps->fd >= 0)
        (void)raw_close(maps->fd);
}

static char *maps_line(struct maps *maps)
{
    for (;;) {
        char *line = maps->text + maps->at;
        char *end = memchr(line, '\n', maps->have - maps->at);
        long n;
        if (end) {
            *end = '\0';
            maps->at = (size_t)(end + 1 - maps->text);
            return line;
        }
        memmove(maps->text, line, maps->have - maps->at);
        maps->have -= maps->at;
        maps->at = 0;
        if (maps->have == sizeof(maps->text)) /* no line of the kernel's */
            return NULL;
        n = raw_result(SYS_read, maps->fd, maps->text + maps->have,
                       sizeof(maps->text) - maps->have);
        if (n <= 0 && n != -EINTR)
            return NULL;
        maps->have += n > 0 ? (size_t)n : 0;
    }
}

/* START-END rwxp OFFSET MAJOR:MINOR INODE   PATH */
static bool maps_parse(char *line, struct maps_entry *entry)
{
    char *at = line;

    entry->start = strtoull(at, &at, 16);
    if (*at++ != '-')
        return false;
    entry->end = strtoull(at, &at, 16);
    if (strlen(at) < 6 || at[0] != ' ')
        return false;
    entry->code = at[3] == 'x';
    entry->offset = strtoull(at + 5, &at, 16);
    at = strpbrk(at, "/[");
    entry->path = at ? at : "";
    return true;
}

bool maps_next(struct maps *maps, struct maps_entry *entry)
{
    char *line;

    while (maps->fd >= 0 && (line = maps_line(maps)) != NULL)
        if (maps_parse(line, entry))
            return true;
    return false;
}
