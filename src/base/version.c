/* SPDX-License-Identifier: MIT */
/*
 * version.c - the version of the library, as text and as a number.
 */
#include <stook/stook.h>

const char *stook_version(void)
{
    return STOOK_VERSION_STRING;
}

unsigned stook_version_number(void)
{
    return STOOK_VERSION;
}
