/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* test_ops with all caches checked: a report would be a false one. */
#include "debug/flags.h"

#include <stdlib.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wprio-ctor-dtor"
/* Before the library's own constructor, which is in the same executable. */
static __attribute__((constructor(100), used)) void checked(void)
{
    setenv("STOOK_DEBUG", "FZPU", 1);
    setenv("STOOK_ON_CORRUPTION", "abort", 1);
}
#pragma GCC diagnostic pop

#define SETUP_CHECK assert_true(debug_flags_of("property", 0) != 0)
#define CAPACITIES 0
#define SEEDS 2
#include "property/test_ops.c"
