/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* test_ops with all caches hardened: random order, quarantine, zeros, guard pages, types. */
#include "base/settings.h"

#include <stdlib.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wprio-ctor-dtor"
/* Before the library's own constructor, which is in the same executable. */
static __attribute__((constructor(100), used)) void hardened(void)
{
    setenv("STOOK_HARDEN", "full", 1);
}
#pragma GCC diagnostic pop

#define SETUP_CHECK assert_true(setting_number(SETTING_HARDEN) > 0)
#define SEEDS 4
#include "property/test_ops.c"
