/* SPDX-License-Identifier: MIT */
/*
 * option.h - the options of a command, as a table: the argument of each, its bounds, and the place that it is written to.
 */
#ifndef STOOK_TOOL_OPTION_H
#define STOOK_TOOL_OPTION_H

#include "watch/settings_show.h"

#include <stdbool.h>
#include <stdint.h>

enum option_kind {
    OPTION_FLAG,     /* bool: nothing is taken */
    OPTION_TEXT,     /* const char * */
    OPTION_UNSIGNED, /* unsigned, from least to most */
    OPTION_NUMBER,   /* uint64_t */
    OPTION_SECONDS,  /* double; bounds in thousandths */
    OPTION_SETTING, /* const char *: what the setting of the number `least` takes, of a FILE its word */
    OPTION_WORD, /* unsigned or an enum: the place of the word in `words` */
    OPTION_CALL, /* read() takes it; `to` is its own */
};

struct option_row {
    const char *name;
    enum option_kind kind;
    void *to;
    uint64_t least, most;
    const char *(*read)(const char *text,
                        void *to); /* NULL, or what is expected; "": it was said */
    const char *const *words;      /* up to NULL */
    char letter;                   /* as a short option, too */
    const char *otherwise;         /* a value need not be given: then it is this */
    unsigned modes;                /* the command's own: what it goes with */
};

struct option_table {
    const char *command;
    int status; /* of an option that is wrong */
    const struct option_row *row;
    unsigned rows;
    bool program; /* the first argument that is no option ends them */
    unsigned
        units;  /* of numbers: how many k stands for, and M of k, and G of M; 0: there are none */
    bool *said; /* by row; may be NULL */
};

/* Reads the options, and leaves optind behind them.  STATUS_OK, or the table's status after complain(). */
int option_read(const struct option_table *table, int argc, char **argv);
/* Of a command without units, whose wrong options are STATUS_USAGE. */
#define option_take(command, row, argc, argv)                                                      \
    option_read(&(struct option_table){command, STATUS_USAGE, row, sizeof(row) / sizeof((row)[0]), \
                                       false, 0, NULL},                                            \
                argc, argv)
/* Checks an option that takes what a setting takes: STATUS_OK and *value, or complains with `status`. */
int option_setting(int status, const char *option, enum setting_id id, const char *text,
                   const char **value);
/* A whole number within bounds; false: it is none. */
bool option_number(const char *text, unsigned units, uint64_t least, uint64_t most,
                   uint64_t *number);

#endif
