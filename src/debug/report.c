/* SPDX-License-Identifier: MIT */
#include "debug/report.h"

#include "base/report.h"
#include "debug/flags.h"

#include <errno.h>
#include <stdlib.h>

bool debug_goes_on(const struct stook_cache *cache)
{
    return cache ? debug_of(cache) != 0 : debug_flags_everywhere();
}

void debug_report_child(void)
{
}

bool debug_report(const struct debug_finding *finding)
{
    int saved = errno;

    report_warn("BUG %s: finding %d at %p", finding->cache ? finding->cache->name : "(none)",
                (int)finding->what, finding->at);
    if (finding->done == DEBUG_ABORTED || !debug_goes_on(finding->cache))
        abort();
    errno = saved;
    return true;
}
