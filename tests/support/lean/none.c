/* SPDX-License-Identifier: MIT */
/* none.c - what the checks of tests ask of debug/ and harden/, where the library is the lean one: there is none. */
#include "debug/gone.h"
#include "harden/quarantine.h"

const struct stook_cache *gone_kept(unsigned i)
{
    (void)i;
    return NULL;
}

void *quarantine_held(unsigned cpu, uint32_t n)
{
    (void)cpu, (void)n;
    return NULL;
}

size_t quarantine_bytes(void)
{
    return 0;
}
