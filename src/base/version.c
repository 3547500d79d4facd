/* SPDX-License-Identifier: MIT */
/*
 * version.c - the version of the library that a program runs with.
 */
#include <stook/stook.h>

const char *stook_version(void)
{
    return STOOK_VERSION_STRING;
}
