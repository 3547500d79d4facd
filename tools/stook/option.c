/* SPDX-License-Identifier: MIT */
/*
 * option.c - reads the options of a command by its table.
 */
#include "stook/option.h"

#include "stook/command.h"

int option_setting(int status, const char *option, enum setting_id id, const char *text,
                   const char **value)
{
    char accepted[SETTING_ACCEPTED_MAX];
    size_t number;

    *value = text;
    if (setting_check(id, text, &number))
        return STATUS_OK;
    setting_accepted(id, accepted);
    return complain(status, "%s takes %s, not %s", option, accepted, text);
}
