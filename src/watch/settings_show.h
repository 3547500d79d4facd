/* SPDX-License-Identifier: MIT */
/*
 * settings_show.h - what is said of settings: warnings, and what `stook info --settings` prints.
 *
 * A name that begins with STOOK_ and is none of the table's is named in a warning with the nearest one.
 * Only the leader of a process group warns: a shell's job does so once, not once for each child.  It
 * does not for names in STOOK_RUN, which `stook run` has warned of, nor for those that the project's
 * own tests and scripts use (settings_foreign[]).
 */
#ifndef STOOK_WATCH_SETTINGS_SHOW_H
#define STOOK_WATCH_SETTINGS_SHOW_H

#include "base/settings.h"

/* No setting, but a message of `stook run` to the processes under it: names, separated by commas, that it has set or warned of. */
#define SETTINGS_RUN "STOOK_RUN"

/* Characters that setting_accepted() writes at most, the end included. */
enum { SETTING_ACCEPTED_MAX = 128 };

/* Its user finds more wrong with it than its type does: warns, and the default holds from here on. */
void setting_refuse(enum setting_id id, const char *why);

/* STOOK_TOPOLOGY is a setting, too (sim/). */
extern bool settings_simulated __attribute__((visibility("hidden")));

/* HOOKS_SETTINGS, HOOKS_SETTINGS_ANEW */
void settings_show_read(char *const *environment, bool start);

/* ---- for the tool and tests ---------------------------------------------------------- */

enum setting_source setting_source(enum setting_id id);

/* "bytes such as 64M, at least 68K": what it takes, for messages. */
void setting_accepted(enum setting_id id, char text[SETTING_ACCEPTED_MAX]);

/* Warns of unknown names, once a process; the n-th of them, or NULL. */
void settings_warn(void);
const char *settings_unknown(unsigned n, size_t *length);

/* How far a name of n characters, 255 at most, is from that of a setting or a command. */
unsigned settings_distance(const char *a, size_t n, const char *b);

#endif
