/* SPDX-License-Identifier: MIT */
/*
 * hooks.c - what stands above the core in libstook: the table of base/hooks.h.
 */
#include "base/hooks.h"
#include "base/init.h"
#include "base/placed.h"

#include "base/settings.h"
#include "cache/init.h"
#include "charge/account.h"
#include "charge/accounted.h"
#include "charge/group.h"
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
#include "face/hotplug.h"
#include "face/traced.h"
#include "guard/guard.h"
#include "harden/quarantine.h"
#include "kmalloc/kmalloc.h"
#include "large/arena_span.h"
#include "large/large.h"
#include "sample/sample.h"
#include "sample/shadow.h"
#include "slab/node.h"
#include "view/reader.h"
#include "watch/settings_show.h"

#ifdef STOOK_SIM /* compiled once more, for the composition with simulated machines */
#include "sim/sim.h"
#define HOOKS_SIM(own, simulated) simulated
#else
#define HOOKS_SIM(own, simulated) own
#endif

/* Links the description of the library's structures (view/view.h) into every program that has this table. */
__asm__(".globl view_note\n.reloc ., BFD_RELOC_NONE, view_note");

static FIRST_TEXT uint32_t hooks_before_caches(void)
{
    uint32_t closed = setting_number(SETTING_TAGS) ? CACHE_CLOSED_TAG : 0;

    HOOKS_SIM((void)0, sim_start());
    debug_flags_start();
    if (!debug_report_start())
        setting_refuse(SETTING_CORRUPTION_FILE, "the path is too long");
    tools_report_start();
    pages_start();
    pages_track_start();
    quarantine_start();
    fail_start();
    reader_allow();
    if (traced_init())
        closed |= CACHE_CLOSED_TRACE;
    account_large_switch(closed, true);
    if (debug_flags_large_users())
        account_large_switch(CACHE_CLOSED_TAG, true);
    return closed;
}

static FIRST_TEXT void hooks_fork_take(void)
{
    callbacks_fork_take();
    group_fork_take();
}

static FIRST_TEXT void hooks_fork_drop(void)
{
    group_fork_drop();
    callbacks_fork_drop();
}

static FIRST_TEXT void hooks_fork_renew(void)
{
    hotplug_child();
    group_child();
    callbacks_fork_renew();
}

static FIRST_TEXT void hooks_fork_child(bool nested)
{
    slabs_child();
    hotplug_child(); /* also where no lock was taken */
    traced_child(nested);
    quarantine_child();
    debug_report_child();
    track_child();
    sample_child();
    reader_allow();
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
    .start = init_slow,
    .settle_slabs = node_settle_deferred,
    .settle_large = large_settle,
    .span_free_now = arena_span_free_now,
    .alloc = accounted_alloc,
    .alloc_node = accounted_alloc_node,
    .alloc_bulk = accounted_alloc_bulk_from,
    .free = accounted_free,
    .free_bulk = account_free,
    .held_back = quarantine_release,
    .held_slab_gone = quarantine_slab_gone,
    .report = debug_report,
    .settings_read = HOOKS_SIM(settings_show_read, sim_settings_read),
    .before_caches = hooks_before_caches,
    .debug_flags = debug_flags_of,
    .debug_plan = slabs_plan,
    .debug_slab_made = slabs_made,
    .debug_slab_gone = slabs_gone,
    .debug_busy = slabs_busy,
    .debug_destroyed = gone_destroyed,
    .debug_is_gone = gone_check,
    .cache_made = account_cache_made,
    .tagged_slab_gone = account_slab_gone,
    .reclaim = callbacks_reclaim,
    .scan = hotplug_scan,
    .fork_take = hooks_fork_take,
    .fork_drop = hooks_fork_drop,
    .fork_renew = hooks_fork_renew,
    .fork_child = hooks_fork_child,
};
