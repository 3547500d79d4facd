/* SPDX-License-Identifier: MIT */
/*
 * command.h - the commands of the stook tool: one file a command, one line in main.c's table.
 */
#ifndef STOOK_TOOL_COMMAND_H
#define STOOK_TOOL_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct command {
    const char *name;
    const char *summary;               /* one line for `stook help` */
    const char *help;                  /* the whole of `stook help NAME` */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; the exit status */
};

/* What is the same in the help of most commands. */
#define HELP_CORE                                                                                  \
    "  --core FILE  a core file in place of a process\n"                                           \
    "  --exe FILE   where the program of the core file lies now\n"
#define HELP_END(example)                                                                          \
    "\nexit status: 0; 1 a process, a file or the output cannot be read or written; 2 usage\n\n"   \
    "example:\n  stook " example "\n"

extern const struct command command_run, command_info, command_lab, command_plan, command_profile,
    command_list, command_caches, command_stat, command_top, command_whatis, command_walk,
    command_leaks, command_why, command_report, command_export, command_compare;

enum { /* exit statuses beside those of the program that `stook run` becomes */
       STATUS_OK = 0,
       STATUS_FAILED = 1,     /* info: something could not be written */
       STATUS_USAGE = 2,      /* an option or a command that is none */
       STATUS_LEAKS = 23,     /* run --leaks: the program succeeded, and objects were lost */
       STATUS_RUN = 125,      /* run: stook itself failed, options included */
       STATUS_NO_EXEC = 126,  /* run: the program is there but cannot be executed */
       STATUS_NOT_FOUND = 127 /* run: there is no such program */
};

/*
 * The environment of a program that this process becomes: STOOK_PID names it (`one`), or no process.  If an outer stook
 * run or stook profile has named its own process, what it asked of that is not asked of this one.
 */
int run_claim(bool one);

/* A writer to standard output, through stdio's buffer: standard_end() knows of all errors. */
struct writer;
void output_writer(struct writer *w);
/* To another stream, which keeps its errors. */
void output_writer_to(struct writer *w, FILE *to);
/* "key": "text", or null without a text; "key": true or false; then `end`. */
void output_word(struct writer *w, const char *key, const char *text, const char *end);
void output_flag(struct writer *w, const char *key, bool value, const char *end);
/* "name": value for each of these, with commas between. */
struct output_count {
    const char *name;
    uint64_t value;
};
#define output_counts(w, end, ...)                                                                 \
    output_each(w, end, (const struct output_count[]){__VA_ARGS__, {0}})
void output_each(struct writer *w, const char *end, const struct output_count *count);
/* "4.21 MiB", three digits, with a sign or without; static, four at a time. */
const char *output_bytes(int64_t bytes, bool sign);
/* A JSON string into a stream. */
void output_string(FILE *to, const char *text);
/* One character of a text of any origin, or '?' for a byte that a screen may not show: its bytes. */
unsigned output_character(FILE *to, const char *text);
/* Of main().  Where a standard descriptor is closed, the next file would take its number, and be written to: another
 * one stands in, which programs that this one becomes do not have. */
void standard_begin(void);
/* Every command ends by it: its output is written, or it has failed.  The exit status. */
int standard_end(int status);

/* Says "stook: MESSAGE" on stderr; the status, for `return complain(STATUS_..., ...)`. */
int complain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* For `return refuse(...)` where false says that it was said, and for what cannot go on. */
#define refuse(...) ((void)complain(STATUS_USAGE, __VA_ARGS__), false)
#define die(...) exit(complain(STATUS_FAILED, __VA_ARGS__))

#endif
