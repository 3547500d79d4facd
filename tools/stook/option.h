/* SPDX-License-Identifier: MIT */
#ifndef STOOK_TOOL_OPTION_H
#define STOOK_TOOL_OPTION_H

#include "watch/settings_show.h"

/* Checks an option that takes what a setting takes: STATUS_OK and *value, or complains with `status`. */
int option_setting(int status, const char *option, enum setting_id id, const char *text,
                   const char **value);

#endif
