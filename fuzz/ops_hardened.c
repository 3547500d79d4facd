/* SPDX-License-Identifier: MIT */
/* The interpreter of calls with all caches hardened: random order, quarantine, zeros, guard pages, types. */
#include "fuzz_ops.h"

FUZZ_SETTINGS({"STOOK_HARDEN", "full"})
