/* SPDX-License-Identifier: MIT */
/*
 * hooks.c - what stands above the core in libstook: the table of base/hooks.h, with what watches; the rest is in common.c.
 */
#include "base/hooks.h"

#include "base/init.h"
#include "base/placed.h"
#include "charge/account.h"
#include "debug/fail.h"
#include "debug/flags.h"
#include "debug/gone.h"
#include "debug/pages.h"
#include "debug/pages_track.h"
#include "debug/report.h"
#include "debug/slabs.h"
#include "debug/tools.h"
#include "debug/track.h"
#include "face/callbacks.h"
#include "face/common.h"
#include "face/traced.h"
#include "guard/guard.h"
#include "harden/canary.h"
#include "harden/quarantine.h"
#include "kmalloc/kmalloc.h"
#include "large/arena_span.h"
#include "observe/observe.h"
#include "sample/sample.h"
#include "sample/shadow.h"
#include "slab/column.h"
#include "watch/settings_show.h"

static FIRST_TEXT void hooks_before_caches(void)
{
    debug_flags_start();
    if (!debug_report_start())
        setting_refuse(SETTING_ON_CORRUPTION, "the path is too long");
    tools_report_start();
    pages_start();
    pages_track_start();
    canary_start();
    fail_start();
    if (debug_flags_large_users())
        account_large_tags = true;
    if (traced_init())
        observe_changed();
}

static FIRST_TEXT bool hooks_start(enum hooks_start phase, char *const *environment)
{
    bool started = common_start(phase, environment);

    if (phase == HOOKS_BEFORE_CACHES)
        hooks_before_caches();
    return started;
}

static FIRST_TEXT uint32_t hooks_cache_plan(const char *name, uint32_t flags,
                                            struct layout_request *request)
{
    if (!request)
        return flags & CACHE_INTERNAL
                   ? flags
                   : (flags & ~(uint32_t)CACHE_DEBUG) | debug_flags_of(name, flags & CACHE_DEBUG);
    /* Call sites are counted from the start: the best place for tags is sought. */
    if (account_all && !(flags & CACHE_MALLOC))
        request->later = 0;
    if (flags & STOOK_CACHE_QUARANTINE)
        request->element[LAYOUT_TRACK] = QUARANTINE_STATE;
    if (flags & CACHE_SHADOW)
        request->element[LAYOUT_TRACK] = sizeof(struct shadow);
    if (flags & CACHE_DEBUG)
        slabs_plan(flags, request);
    return flags;
}

static FIRST_TEXT void *hooks_cache(struct stook_cache *cache, enum hooks_cache what)
{
    switch (what) {
    case HOOKS_CACHE_MADE:
        account_cache_made(cache);
        observe_cache(cache);
        break;
    case HOOKS_CACHE_DRAINED:
        quarantine_release(cache);
        break;
    case HOOKS_CACHE_BUSY:
        slabs_busy(cache);
        break;
    case HOOKS_CACHE_GONE:
        return gone_destroyed(cache);
    case HOOKS_CACHE_IS_GONE:
        gone_check(cache);
    }
    return NULL;
}

static void hooks_slab(struct stook_cache *cache, struct slab *slab, bool made)
{
    uint64_t word = atomic_load_explicit(&slab->state, memory_order_relaxed);

    if (!made && (slab_flags(word) & SLAB_TAGGED))
        account_slab_gone(cache, slab);
    if ((cache->flags & STOOK_CACHE_QUARANTINE) && made)
        slab_clear(cache, slab, LAYOUT_TRACK);
    else if (cache->flags & STOOK_CACHE_QUARANTINE)
        quarantine_slab_gone(cache, slab);
    else if ((cache->flags & CACHE_DEBUG) && made)
        slabs_made(cache, slab);
    else if (cache->flags & CACHE_DEBUG)
        slabs_gone(cache, slab);
}

static SECOND_TEXT void hooks_fork(enum hooks_fork phase)
{
    common_fork(phase);
    if (phase != HOOKS_FORK_CHILD && phase != HOOKS_FORK_NESTED)
        return;
    slabs_child();
    traced_child(phase == HOOKS_FORK_NESTED);
    quarantine_child();
    debug_report_child();
    track_child();
    sample_child();
}

/* Not earlier: the loader may have no tables for the unwinder yet. */
static FIRST_TEXT __attribute__((constructor(104), used)) void hooks_sample(void)
{
    size_t profile = setting_number(SETTING_SAMPLE), guarded = setting_number(SETTING_GUARD);

    if (!init_is_first())
        return;
    if (guarded > 0)
        guard_begin(guarded);
    if (profile > 0)
        shadow_begin(profile);
    if (sample_is_on())
        stook_kmalloc_doors();
}

const struct hooks hooks = {
    .start = hooks_start,
    .due = common_due,
    .span = arena_span_slab,
    .alloc = accounted_alloc,
    .alloc_more = observe_alloc,
    .free = accounted_free,
    .free_more = observe_free,
    .report = debug_report,
    .cache_plan = hooks_cache_plan,
    .cache = hooks_cache,
    .slab = hooks_slab,
    .reclaim = callbacks_reclaim,
    .fork = hooks_fork,
};
