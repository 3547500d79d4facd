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

#endif
