/* SPDX-License-Identifier: MIT */
/*
 * maps.h - the mappings of this process, from /proc/self/maps: asking the loader would take its lock.  No memory,
 * any context; its buffer is the caller's.
 */
#ifndef STOOK_TEXT_MAPS_H
#define STOOK_TEXT_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAPS_LINE = 4096 + 128 };

struct maps {
    int fd; /* -1: it could not be opened */
    size_t have, at;
    char text[MAPS_LINE]; /* a line at a time */
};

struct maps_entry {
    uint64_t start, end, offset;
    bool code;        /* executable */
    const char *path; /* until the next one is read; "": none */
};

void maps_open(struct maps *maps);
bool maps_next(struct maps *maps, struct maps_entry *entry);
void maps_close(struct maps *maps);

#endif
