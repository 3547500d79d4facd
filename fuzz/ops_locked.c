/* SPDX-License-Identifier: MIT */
/* The interpreter of calls with sheaves under locks, as where the kernel has no restartable sequences. */
#include "fuzz_ops.h"

FUZZ_SETTINGS({"STOOK_MODE", "locked"})
