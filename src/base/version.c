/* SPDX-License-Identifier: MIT */
#include <stook/stook.h>

const char *stook_version(void)
{
    return STOOK_VERSION_STRING;
}

unsigned stook_version_number(void)
{
    return STOOK_VERSION;
}
