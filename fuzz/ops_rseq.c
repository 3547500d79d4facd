/* SPDX-License-Identifier: MIT */
/* The interpreter of calls (tests/support/ops.h) as programs have the library by default. */
#include "fuzz_ops.h"

FUZZ_SETTINGS({"STOOK_MODE", "rseq"})
