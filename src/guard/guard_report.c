/* SPDX-License-Identifier: MIT */
/* What a sampled object was found to suffer, as a finding with the stacks of its allocation and free. */
#include "guard/guard_fault.h"

#include "debug/report.h"

#include <stdarg.h>
#include <stdio.h>

void guard_report(const struct guard_slot *slot, const void *at, enum debug_done done,
                  uint64_t where, const char *format, ...)
{
    struct debug_finding finding = {.what = DEBUG_GUARD, .done = done, .at = at, .where = where};
    struct debug_who who[2];
    char text[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    finding.text = text;
    if (slot) {
        const struct guard_who *both[2] = {&slot->allocated, &slot->freed};
        finding.cache = slot->cache;
        finding.object = slot->object;
        finding.size = finding.requested = slot->size;
        for (int i = 0; i < 2; i++)
            if (both[i]->depth > 0) {
                who[i] = (struct debug_who){both[i]->thread, both[i]->cpu, both[i]->depth,
                                            both[i]->frames};
                finding.who[i] = &who[i];
            }
    }
    (void)debug_report(&finding);
}
