/* SPDX-License-Identifier: MIT */
/*
 * look_show.h - the common parts of the commands that read other processes.
 */
#ifndef STOOK_TOOL_LOOK_SHOW_H
#define STOOK_TOOL_LOOK_SHOW_H

#include "look/heap.h"

#include "text/writer.h"

enum {
    LOOK_FLAGS = 160,
    LOOK_JSON_FORMAT = 1, /* grows when a key changes its meaning or goes */
};

/*
 * Of a command that takes a core file instead of a process: `--core FILE` and `--exe FILE` are taken out of the
 * arguments, and the core file is the first of them, where the process's number would be.  STATUS_OK, or complains.
 */
int look_take_core(int *argc, char **argv);
/* The process of this number, or the core file that was taken, and a snapshot of it; STATUS_OK, or complains. */
int look_open(const char *pid, struct heap **heap);
/* With the cache of that name; name NULL: without one. */
int look_open_cache(const char *pid, const char *name, struct heap **heap,
                    const struct heap_cache **cache);
void look_sleep(double seconds);
/* A process number; false: it is none. */
bool look_pid(const char *text, int *pid);

/* The words for a cache's flags, with commas between them. */
void look_flags(const struct heap *heap, const struct heap_cache *cache, char text[LOOK_FLAGS]);

/* The first line, and the first keys of a JSON object, with no end. */
void look_show_process(struct writer *w, const struct heap *heap);
void look_json_process(struct writer *w, const struct heap *heap);

/* Resident bytes of a process, as the kernel counts; 0: unknown. */
uint64_t look_resident(int pid);
/*
 * What an address may be: "0x…" and digits with letters among them are hexadecimal; digits alone are that, or decimal,
 * as Python's id() prints them.  How many readings there are: 2, the hexadecimal one first; 0: it is none.
 */
unsigned look_address(const char *text, uint64_t address[2]);
/* The name of a group; its number where it has none. */
const char *look_group(const struct heap *heap, uint32_t number, char text[HEAP_NAME]);

#endif
