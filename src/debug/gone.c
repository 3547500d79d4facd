/* SPDX-License-Identifier: MIT */
/* gone.c - a ring of the descriptors of destroyed caches, so that a later call with one is reported. */
#include "debug/gone.h"

#include "base/placed.h"
#include "debug/report.h"

enum { GONE_KEPT = 64 }; /* descriptors that are kept */

/* Under the cache list's lock. */
static void *gone_last[GONE_KEPT] LARGE_BSS;
static unsigned gone_next;

void *gone_destroyed(struct stook_cache *cache)
{
    void *before = gone_last[gone_next];

    gone_last[gone_next] = cache;
    gone_next = (gone_next + 1) % GONE_KEPT;
    return before;
}

const struct stook_cache *gone_kept(unsigned i)
{
    return i < GONE_KEPT ? gone_last[i] : NULL;
}

void gone_report(const struct stook_cache *cache, const void *object, uint64_t where)
{
    struct debug_finding finding = {.what = DEBUG_DESTROYED,
                                    .done = DEBUG_REFUSED,
                                    .cache = cache,
                                    .at = object,
                                    .where = where};

    (void)debug_report(&finding);
}

void gone_check(const struct stook_cache *cache)
{
    if (gone_is(cache))
        gone_report(cache, NULL, 0);
}
