/* SPDX-License-Identifier: MIT */
/*
 * modules.h - the files in which call sites lie.  Of a library that was closed, its name is known here alone: profiles and
 * readers from outside (src/view/) look here for addresses in no mapping.
 *
 * Append-only and without locks, as the tables of tag.h.  Where the loader has no _dl_find_object() (before glibc 2.35, musl) the table stays
 * empty.
 */
#ifndef STOOK_SITE_MODULES_H
#define STOOK_SITE_MODULES_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    MODULES_MOST = 128,
    MODULES_ID = 64,
    MODULES_PATH = 188,
    MODULES_PAGE = 4096,
    MODULES_HEAD = 2048, /* bytes at a file's begin with its headers and its build ID */
};

struct module {
    uint64_t start, end, offset; /* of its code, as a mapping has it */
    _Atomic uint32_t ready;      /* 0: a thread fills it, or left it so */
    uint32_t id_bytes;
    unsigned char id[MODULES_ID]; /* its build ID */
    char path[MODULES_PATH];      /* as it was opened: perhaps relative */
};

struct modules {
    _Atomic uint32_t used;
    struct module module[MODULES_MOST];
};
extern struct modules modules __attribute__((visibility("hidden")));

/* The build ID of a file by its first page, MODULES_ID bytes at most; NULL: it has none there. */
const unsigned char *modules_build_id(const char *page, uint32_t *bytes);

/* The address of a call site, when it is met first.  Any context, no system call. */
void modules_note(uint64_t address);

#endif
