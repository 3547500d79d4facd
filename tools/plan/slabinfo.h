/* SPDX-License-Identifier: MIT */
/*
 * slabinfo.h - a kernel's caches, as its files tell them.
 */
#ifndef STOOK_TOOL_SLABINFO_H
#define STOOK_TOOL_SLABINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slabinfo_cache {
    char name[64], folder[64];  /* folder: of a merged cache's names */
    size_t size, align, stride; /* size: of the object; stride where only that is known */
    unsigned order, objects;    /* a slab's */
    uint64_t active;
    bool constructed; /* its free objects may not be written to: known, or seen by the stride */
    bool sized;       /* size and align are the object's own */
};

struct slabinfo {
    struct slabinfo_cache *caches;
    size_t count;
    const char *format;
};

/* Of a file or directory, or of this machine (NULL); false after complain(). */
bool slabinfo_read(struct slabinfo *info, const char *path);
void slabinfo_free(struct slabinfo *info);

#endif
