/* SPDX-License-Identifier: MIT */
/* The interpreter of calls with all caches checked.  A report would be a false one, and ends the process. */
#include "fuzz_ops.h"

FUZZ_SETTINGS({"STOOK_DEBUG", "FZPU"}, {"STOOK_ON_CORRUPTION", "abort"})
