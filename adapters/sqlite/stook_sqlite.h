/* SPDX-License-Identifier: MIT */
/*
 * stook_sqlite.h - SQLite on Stook: its malloc, and its page cache over typed caches.
 *
 * Link libstook-sqlite and call stook_sqlite_configure() before the first other call of SQLite, or preload
 * libstook-sqlite-preload.so into a program that uses the shared libsqlite3.
 */
#ifndef STOOK_SQLITE_H
#define STOOK_SQLITE_H

#include <sqlite3.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STOOK_SQLITE_MALLOC 0x1u /* SQLITE_CONFIG_MALLOC: all that SQLite allocates but pages */
#define STOOK_SQLITE_PAGES 0x2u  /* SQLITE_CONFIG_PCACHE2: pages of databases */
#define STOOK_SQLITE_ALL 0x3u

/*
 * Let SQLite take its memory from Stook.
 *
 * SQLite copies the methods; there is nothing to free.  With STOOK_SQLITE_PAGES, pages no longer count in
 * sqlite3_memory_used(), nor for sqlite3_soft_heap_limit64(): stook_report() counts them.
 *
 * returns: SQLITE_OK; SQLITE_MISUSE if SQLite was initialised already, or `what` has other bits
 * context: not in a signal handler; in one thread, before other threads use SQLite (sqlite3_config())
 */
int stook_sqlite_configure(unsigned what);

/*
 * The methods themselves, for a program that wraps or chooses them.
 *
 * context: any
 */
const sqlite3_mem_methods *stook_sqlite_mem_methods(void);
const sqlite3_pcache_methods2 *stook_sqlite_pcache_methods(void);

#ifdef __cplusplus
}
#endif

#endif /* STOOK_SQLITE_H */
