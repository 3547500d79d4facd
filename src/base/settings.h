/* SPDX-License-Identifier: MIT */
/*
 * settings.h - the settings of the environment: settings.def has the table and says how to add a row.
 *
 * The environment is read once, in one pass, before the library takes its first memory; the first call
 * of any function below does it, and init calls settings_start() first of all.  Each value is checked by
 * its type.  A warning on stderr names a value that is refused, and the default is used.
 * A process with raised privileges (AT_SECURE) uses all defaults and says nothing.
 *
 * Nothing here takes memory or a lock.  A value that an API changes later (stook_cached_bytes_set_max()) is
 * kept where it is used, not here.
 */
#ifndef STOOK_BASE_SETTINGS_H
#define STOOK_BASE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum setting_id {
#define SETTING(id, ...) SETTING_##id,
#include "base/settings.def"
#undef SETTING
    SETTINGS
};

/* Of STOOK_HARDEN's words the third and the last one. */
enum { SETTING_HARDEN_QUARANTINE = 4, SETTING_HARDEN_TOKENS = 32 };

enum setting_type {
    SETTING_NUMBER,
    SETTING_BYTES,
    SETTING_CHOICE,
    SETTING_SIGNAL,
    SETTING_CPUS,
    SETTING_LETTERS,
    SETTING_WORDS,
    SETTING_TEXT,
};
enum { SETTING_FILE = 16 }; /* beside one of these, which stands before a file */

/* A row.  Arrays, not pointers: the loader has nothing to relocate at a process's start. */
struct setting {
    char name[24], initial[8], words[48], unit[16];
    uint8_t type;
    size_t least, most;
};
extern const struct setting setting_table[SETTINGS] __attribute__((visibility("hidden")));

enum setting_source { SETTING_BY_DEFAULT, SETTING_BY_ENVIRONMENT, SETTING_REFUSED, SETTING_BY_RUN };

/* Written at the start by one thread, then by setting_refuse() (watch/settings_show.h). */
struct setting_now {
    size_t number;
    const char *written;
    enum setting_source source;
};
extern struct setting_now setting_now[SETTINGS] __attribute__((visibility("hidden")));

void settings_start(void);

/* The number, bytes, the place in the words, or the signal; 0 for lists, texts and files alone. */
size_t setting_number(enum setting_id id);

/*
 * The variable's text, refused or not; NULL where it is not set.  The text is the environment's own, which
 * the program may overwrite: constructors copy what they need later.
 */
const char *setting_written(enum setting_id id);

/* The same of a value that is used: NULL where it was refused. */
const char *setting_text(enum setting_id id);

/* The file of such a value; NULL where it has none. */
const char *setting_file(enum setting_id id);

/* Whether the setting takes this text; *number as setting_number(). */
bool setting_check(enum setting_id id, const char *text, size_t *number);
size_t setting_initial_number(enum setting_id id);
/* The default holds from here on. */
void setting_reset(enum setting_id id, enum setting_source source);
/* The row of "NAME=value", or -1. */
int setting_find(const char *variable);

/* Reads anew, from this environment, or (NULL) from none: for simulations and tests. */
void settings_read(char *const *environment, bool secure);

#endif
