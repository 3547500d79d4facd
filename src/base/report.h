/* SPDX-License-Identifier: MIT */
/*
 * report.h - messages without malloc, locks or stdio: one write(2) each.
 */
#ifndef STOOK_BASE_REPORT_H
#define STOOK_BASE_REPORT_H

#include <stddef.h>

/* Says "stook: MESSAGE" on stderr, or MESSAGE to the program (stook_message_set()), and aborts. */
_Noreturn void report_fatal(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* The same without the abort; errno is kept. */
void report_warn(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* A message of several lines, "stook: …\n…\n", of `size` bytes with room for one more: as a whole to stderr, or
 * without its first word and last newline to the program. */
void report_lines(int level, char *text, size_t size);

/* Writes all of it, through interruptions; 0 or -1 with errno. */
int report_write(int fd, const char *text, size_t size);

/* STOOK_ASSERTIONS builds check invariants; others keep the expression unevaluated. */
#ifdef STOOK_ASSERTIONS
#define STOOK_ASSERT(condition)                                                                    \
    ((condition) ? (void)0 : report_fatal("%s:%d: %s", __FILE__, __LINE__, #condition))
#else
#define STOOK_ASSERT(condition) ((void)sizeof(!!(condition)))
#endif

#endif
