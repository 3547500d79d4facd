/* SPDX-License-Identifier: MIT */
/*
 * info_settings.h - stook info --settings: the table of base/settings.def with the value of each setting and
 * where it came from.
 */
#ifndef STOOK_TOOL_INFO_SETTINGS_H
#define STOOK_TOOL_INFO_SETTINGS_H

#include "text/writer.h"

void info_settings_text(struct writer *w);
void info_settings_json(struct writer *w);

/* A key with its number; null where that is 0 (info.c). */
void info_maybe(struct writer *w, const char *key, uint64_t value, const char *end);

#endif
