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

/* A command that takes a core file in place of a process has these options.  look_whom() takes the process from the arguments
 * behind the options, or says which core file was named.  NULL: neither is there. */
#define LOOK_CORE_ROWS                                                                             \
    {"core", OPTION_TEXT, .to = &look_core},                                                       \
    {                                                                                              \
        "exe", OPTION_TEXT, .to = &look_exe                                                        \
    }
extern const char *look_core, *look_exe;
const char *look_whom(int argc, char **argv);
/* The process of this number or name, or the core file that was taken, and a snapshot of it; STATUS_OK, or complains. */
int look_open(const char *pid, struct heap **heap);
/* With the cache of that name; name NULL: without one. */
int look_open_cache(const char *pid, const char *name, struct heap **heap,
                    const struct heap_cache **cache);
void look_sleep(double seconds);
/* A process number; false: it is none. */
bool look_pid(const char *text, int *pid);
/* A process number, or the name of the only process of that name; STATUS_OK, or complains with what there is. */
int look_process(const char *text, int *pid);
/* What a process was started with. */
void look_command_line(int pid, char *text, size_t size);

/*
 * A name in so many columns (4 or more): of a long one the beginning and the end, since names of C++ differ in either.
 * The text is good for the next call.
 */
const char *look_fold(const char *name, size_t width);

/* The words for a cache's flags, with commas between them. */
void look_flags(const struct heap *heap, const struct heap_cache *cache, char text[LOOK_FLAGS]);

/* The first line, and the first keys of a JSON object, with no end. */
void look_show_process(struct writer *w, const struct heap *heap);
void look_json_process(struct writer *w, const struct heap *heap);

/* The last line: the command that goes on from here, with this process or core file, and `more` behind it. */
void look_next(struct writer *w, const struct heap *heap, const char *command, const char *more);

/* Resident bytes of a process (RSS), as the kernel counts; 0: unknown. */
uint64_t look_resident(int pid);
/*
 * What an address may be: "0x…" and digits with letters among them are hexadecimal; digits alone are that, or decimal,
 * as Python's id() prints them.  How many readings there are: 2, the hexadecimal one first; 0: it is none.
 */
unsigned look_address(const char *text, uint64_t address[2]);
/* The name of a group; its number where it has none. */
const char *look_group(const struct heap *heap, uint32_t number, char text[HEAP_NAME]);

#endif
