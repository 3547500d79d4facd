/* SPDX-License-Identifier: MIT */
#include "lab/environment.h"

#include <stddef.h>
#include <stdlib.h>

void lab_environment(void)
{
    static const char *const settings[] = {
        "STOOK_ADAPTIVE", "STOOK_CACHED_MAX", "STOOK_HUGE_PAGES", "STOOK_ISOLATED_CPUS",
        "STOOK_LIMIT",    "STOOK_RANDOM",     "STOOK_RESERVE",    "STOOK_STATS",
        "STOOK_TAGS",     "STOOK_TOPOLOGY",
    };

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        unsetenv(settings[i]);
}
