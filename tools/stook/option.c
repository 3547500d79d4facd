/* SPDX-License-Identifier: MIT */
/*
 * option.c - reads the options of a command by its table.
 */
#include "stook/option.h"

#include "stook/command.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_ROWS = 32, OPTION_CODE = 256 /* getopt's of row 0: beyond all letters */ };

int option_setting(int status, const char *option, enum setting_id id, const char *text,
                   const char **value)
{
    bool word = setting_table[id].type & SETTING_FILE;
    char accepted[SETTING_ACCEPTED_MAX], all[64];
    size_t number;

    *value = text;
    if (word && snprintf(all, sizeof(all), "%s,x", text) >= (int)sizeof(all))
        all[0] = ','; /* no word is so long */
    if (setting_check(id, word ? all : text, &number))
        return STATUS_OK;
    setting_accepted(id, accepted);
    return complain(status, "%s takes %s, not %s", option,
                    word ? strstr(accepted, "WORD: ") + strlen("WORD: ") : accepted, text);
}

bool option_number(const char *text, unsigned units, uint64_t least, uint64_t most,
                   uint64_t *number)
{
    static const char letters[] = "kMG";
    const char *unit;
    char *end;
    bool fits = true;

    errno = 0;
    *number = strtoull(text, &end, 10);
    if (units && *end && (unit = strchr(letters, *end)) != NULL) {
        for (end++; unit >= letters; unit--)
            fits &= !__builtin_mul_overflow(*number, units, number);
    }
    return isdigit((unsigned char)*text) && !*end && errno == 0 && fits && *number >= least &&
           *number <= most;
}

static bool option_seconds(const char *text, const struct option_row *row)
{
    double *seconds = row->to;
    char *end;

    *seconds = strtod(text, &end);
    return *text && !*end && *seconds * 1000 >= (double)row->least &&
           *seconds * 1000 <= (double)row->most;
}

static int option_word(const struct option_table *table, const struct option_row *row,
                       const char *text)
{
    char list[256] = "";
    size_t n = 0;

    for (unsigned i = 0; row->words[i]; i++) {
        if (strcmp(row->words[i], text) == 0) {
            *(unsigned *)row->to = i;
            return STATUS_OK;
        }
        n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s",
                              i == 0              ? ""
                              : row->words[i + 1] ? ", "
                                                  : " or ",
                              row->words[i]);
    }
    return complain(table->status, "--%s takes %s, not %s", row->name, list, text);
}

static int option_store(const struct option_table *table, const struct option_row *row,
                        const char *text)
{
    const char *expected;
    char option[32];
    uint64_t number;

    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)row->to = true;
        return STATUS_OK;
    case OPTION_TEXT:
        *(const char **)row->to = text;
        return STATUS_OK;
    case OPTION_UNSIGNED:
    case OPTION_NUMBER:
        if (!option_number(text, table->units, row->least, row->most, &number))
            return complain(table->status, "--%s %s: a number from %lu to %lu is expected",
                            row->name, text, row->least, row->most);
        if (row->kind == OPTION_NUMBER)
            *(uint64_t *)row->to = number;
        else
            *(unsigned *)row->to = (unsigned)number;
        return STATUS_OK;
    case OPTION_SECONDS:
        return option_seconds(text, row)
                   ? STATUS_OK
                   : complain(table->status, "--%s takes %g to %g seconds, not %s", row->name,
                              (double)row->least / 1000, (double)row->most / 1000, text);
    case OPTION_SETTING:
        (void)snprintf(option, sizeof(option), "--%s", row->name);
        return option_setting(table->status, option, (enum setting_id)row->least, text, row->to);
    case OPTION_WORD:
        return option_word(table, row, text);
    case OPTION_CALL:
        expected = row->read(text, row->to);
        return !expected   ? STATUS_OK
               : *expected ? complain(table->status, "--%s %s: %s", row->name, text, expected)
                           : table->status;
    }
    return table->status;
}

/* The table as getopt has it. */
static void option_known(const struct option_table *table, struct option known[OPTION_ROWS + 1],
                         char letters[2 * OPTION_ROWS + 3])
{
    char *at = stpcpy(letters, table->program ? "+:" : ":");

    for (unsigned i = 0; i < table->rows; i++) {
        const struct option_row *row = &table->row[i];
        int takes = row->kind == OPTION_FLAG ? no_argument
                    : row->otherwise         ? optional_argument
                                             : required_argument;
        known[i] = (struct option){row->name, takes, NULL, (int)(OPTION_CODE + i)};
        if (row->letter)
            at += sprintf(at, takes == no_argument ? "%c" : "%c:", row->letter);
    }
    known[table->rows] = (struct option){NULL, 0, NULL, 0};
}

int option_read(const struct option_table *table, int argc, char **argv)
{
    struct option known[OPTION_ROWS + 1];
    char letters[2 * OPTION_ROWS + 3];
    int code, status = STATUS_OK;

    option_known(table, known, letters);
    opterr = 0;
    optind = 0;
    while (status == STATUS_OK && (code = getopt_long(argc, argv, letters, known, NULL)) != -1) {
        unsigned i = code >= OPTION_CODE ? (unsigned)(code - OPTION_CODE) : 0;
        if (code == ':')
            return complain(table->status, "%s needs a value; see stook help %s", argv[optind - 1],
                            table->command);
        if (code == '?')
            return complain(table->status, "there is no option %s; see stook help %s",
                            argv[optind - 1], table->command);
        while (code < OPTION_CODE && table->row[i].letter != code)
            i++;
        status = option_store(table, &table->row[i], optarg ? optarg : table->row[i].otherwise);
        if (table->said)
            table->said[i] = true;
    }
    return status;
}
