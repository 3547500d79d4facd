/* SPDX-License-Identifier: MIT */
/*
 * fuzz_ops.h - the entry of the targets ops_*: bytes are a program of calls (tests/support/ops.h), run beside a model
 * of what must be true.  The targets differ in the settings of the library.
 */
#ifndef FUZZ_FUZZ_OPS_H
#define FUZZ_FUZZ_OPS_H

#include "support/fuzz.h"
#include "support/ops.h"

enum { FUZZ_OPS_EVERY = 16 }; /* steps between two checks of everything */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct ops_counts counts;

    ops_run(bytes, n, FUZZ_OPS_EVERY, &counts);
    FUZZ_CHECK(counts.allocated == counts.freed);
    return 0;
}

#endif
