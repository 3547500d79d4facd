/* SPDX-License-Identifier: MIT */
/*
 * report.h - a report of each finding, complete in one write, in the shape of the kernel's.
 */
#ifndef STOOK_DEBUG_REPORT_H
#define STOOK_DEBUG_REPORT_H

#include "base/finding.h"

#include <stdbool.h>

/*
 * Reports and counts a finding.  Returns if the program is to go on: then the caller does what
 * finding->done says.  Else it aborts.  The caller changes no byte before: the report shows them.
 * False: the finding was counted and one line said at most, since it came up while this thread was reporting.
 *
 * Any context, and locks may be held.  errno is kept.
 */
bool debug_report(const struct debug_finding *finding);
/* How many were reported, by this process and by those that it was forked from. */
unsigned long debug_reports(void);

/* Whether debug_report() would return: STOOK_ON_CORRUPTION, or by default whether the cache, NULL: every cache,
 * has debug flags. */
bool debug_goes_on(const struct stook_cache *cache);

/* Before there is a second thread: reads the file of STOOK_ON_CORRUPTION.  False: the path is too long. */
bool debug_report_start(void);

/* In a forked child, whose other threads are gone. */
void debug_report_child(void);

#endif
