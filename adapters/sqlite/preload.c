/* SPDX-License-Identifier: MIT */
/*
 * Configures SQLite before main(), for programs that do not know of Stook.  The library that has this file
 * depends on libsqlite3, so it also reaches programs that load SQLite later (Python's _sqlite3).
 */
#include "stook_sqlite.h"

#include <sys/auxv.h>

__attribute__((constructor)) static void preload(void)
{
    if (!getauxval(
            AT_SECURE)) /* ld.so keeps preloads from set-uid programs, but not from all paths */
        (void)stook_sqlite_configure(STOOK_SQLITE_ALL);
}
