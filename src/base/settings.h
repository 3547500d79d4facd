/* SPDX-License-Identifier: MIT */
/*
 * settings.h - the settings of the environment: settings.def has the table and says how to add a row.
 *
 * The environment is read once, in one pass, before the library takes its first memory; the first call
 * of any function below does it, and init calls settings_start() first of all.  Each value is checked by
 * its type.  One that is refused is named in a warning on stderr, and its default is used.
 * A process with raised privileges (AT_SECURE) uses all defaults and says nothing.
 *
 * A name that begins with STOOK_ and is none of the table's is named in a warning with the nearest one.
 * Only the leader of a process group warns: a shell's job does so once, not once for each child.  It
 * does not for names in STOOK_RUN, which `stook run` has warned of, nor for those that the project's
 * own tests and scripts use (settings_foreign[]).
 *
 * Nothing here takes memory or a lock.  What an API changes later (stook_cached_bytes_set_max()) is kept
 * where it is used, not here.
 */
#ifndef STOOK_BASE_SETTINGS_H
#define STOOK_BASE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

enum setting_id {
#define SETTING(id, ...) SETTING_##id,
#include "base/settings.def"
#undef SETTING
    SETTINGS
};

enum setting_type {
    SETTING_FLAG,
    SETTING_NUMBER,
    SETTING_BYTES,
    SETTING_CHOICE,
    SETTING_SIGNAL,
    SETTING_CPUS,
    SETTING_TEXT,
};

enum setting_source { SETTING_BY_DEFAULT, SETTING_BY_ENVIRONMENT, SETTING_REFUSED, SETTING_BY_RUN };

/* Characters that setting_accepted() writes at most, the end included. */
enum { SETTING_ACCEPTED_MAX = 128 };

void settings_start(void);

/* 0 or 1, the number, bytes, the place in the words, or the signal; 0 for lists and texts. */
size_t setting_number(enum setting_id id);

/*
 * What the variable has, refused or not; NULL where it is not set.  The text is the environment's own, which
 * the program may overwrite: constructors copy what they need later.
 */
const char *setting_written(enum setting_id id);

/* The same of a value that is used: NULL where it was refused. */
const char *setting_text(enum setting_id id);

/* Its user finds more wrong with it than its type does: warns, and the default holds from here on. */
void setting_refuse(enum setting_id id, const char *why);

/* ---- for the tool, the lab and tests ---------------------------------------------------------- */

const char *setting_name(enum setting_id id);
enum setting_type setting_type(enum setting_id id);
enum setting_source setting_source(enum setting_id id);
const char *setting_initial(enum setting_id id); /* the default, as written */
size_t setting_initial_number(enum setting_id id);

/* Whether the setting takes this text; *number as setting_number(). */
bool setting_check(enum setting_id id, const char *text, size_t *number);

/* "bytes such as 64M, at least 68K": what it takes, for messages. */
void setting_accepted(enum setting_id id, char text[SETTING_ACCEPTED_MAX]);

/* Warns of unknown names, once a process; the n-th of them, or NULL. */
void settings_warn(void);
const char *settings_unknown(unsigned n, size_t *length);

/* Simulations count the same whatever the environment says: rows that are FORGOTTEN have their defaults. */
void settings_simulate(void);

/* Reads anew, from this environment; for tests. */
void settings_read(char *const *environment, bool secure);

#endif
