/* SPDX-License-Identifier: MIT */
/* One run of one worker. */
#ifndef STOOK_BENCH_RUN_H
#define STOOK_BENCH_RUN_H

#include <stddef.h>

#include "../metrics.h"

struct run_figures {
    double value[METRIC_COUNT]; /* NAN where the worker reported none */
};

enum run_status { RUN_OK, RUN_CANNOT, RUN_FAILED };

/*
 * Starts argv[0] with argv and waits for it. Each of `settings` (NAME=value, or NULL) is added to its
 * environment, in place of what that name may have. The worker's stderr is the driver's.
 * RUN_FAILED after saying on stderr how it ended.
 */
enum run_status run_worker(char *const argv[], const char *const *settings, size_t count,
                           struct run_figures *figures);

#endif
