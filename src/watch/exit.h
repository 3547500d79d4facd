/* SPDX-License-Identifier: MIT */
/*
 * exit.h - the report of a process at its end, as the environment asks for it.
 *
 *   STOOK_REPORT       1: every process that finds it, forked children that exit() included; 1,json: as JSON
 *   STOOK_REPORT_FILE  where to, appended; %p becomes the process number, %% a percent sign;
 *                      without it standard error
 *   STOOK_PID          only this process (stook run gives its own number, which exec keeps)
 *
 * Nothing of this is read in a process with raised privileges.  By the symbols' names malloc reaches these functions of
 * another object, where that is the first (kmalloc/private.h).
 */
#ifndef STOOK_WATCH_EXIT_H
#define STOOK_WATCH_EXIT_H

#include <stook/stook.h>

#include <stdbool.h>

/* Whether STOOK_PID lets this process write its report and profiles: it names this process, or is not set. */
bool exit_writes(void);

/*
 * At the start of a process with malloc, once.  Makes STOOK_LIMIT's group, and copies standard error early: many programs close it before destructors run.  The copy is closed on exec.  A
 * process that the setting names by its number always keeps one.  A process of a tree that reports to standard error
 * keeps one only if its number can be beyond RLIMIT_NOFILE.
 */
STOOK_API void exit_prepare(void) __asm__("stook_private_exit_prepare");

/* Writes the report if this process is asked for one.  From a destructor of the program's malloc. */
STOOK_API void exit_report(void) __asm__("stook_private_exit_report");

/* Whether the pattern has %p, so that each process has a path of its own. */
bool exit_is_numbered(const char *pattern);

/* The path of a pattern with %p and %% replaced: its length, or 0 if it is too long. */
size_t exit_expand(const char *pattern, int pid, char *path, size_t size);

#endif
