/* SPDX-License-Identifier: MIT */
/*
 * common.c - the calls of the core that the whole library (hooks.c) and the lean one (lean.c) serve alike.
 *
 * The composition with simulated machines compiles this file once more, with STOOK_SIM, and links it in place of the
 * library's own.
 */
#include "face/common.h"

#include "base/context.h"
#include "base/placed.h"
#include "base/settings.h"
#include "cache/init.h"
#include "charge/account.h"
#include "charge/group.h"
#include "face/callbacks.h"
#include "face/hotplug.h"
#include "large/arena_span.h"
#include "reserve/idle.h"
#include "slab/node.h"
#include "view/reader.h"
#include "watch/settings_show.h"

#ifdef STOOK_SIM
#include "sim/sim.h"
#define COMMON_SIM(simulated) simulated
#else
#define COMMON_SIM(simulated) (void)0
#endif

/* Links the description of the library's structures (view/view.h) into every program that has the library. */
__asm__(".globl view_note\n.reloc ., BFD_RELOC_NONE, view_note");

FIRST_TEXT bool common_start(enum hooks_start phase, char *const *environment)
{
    switch (phase) {
    case HOOKS_START:
        return init_slow();
    case HOOKS_SETTINGS:
    case HOOKS_SETTINGS_ANEW:
        COMMON_SIM(sim_settings_read(environment));
        settings_show_read(environment, phase == HOOKS_SETTINGS);
        break;
    case HOOKS_BEFORE_CACHES:
        COMMON_SIM(sim_start());
        reader_allow();
        account_all = setting_number(SETTING_TAGS) ? ACCOUNT_TAG : 0;
        account_large_tags = account_all != 0;
        break;
    }
    return true;
}

SECOND_TEXT bool common_due(enum hooks_due what, void *span, size_t blocks)
{
    switch (what) {
    case HOOKS_DUE_LEFT:
        node_drain_deferred();
        arena_free_left();
        break;
    case HOOKS_DUE_UPKEEP:
        if (blocks & CONTEXT_DUE_SCAN)
            hotplug_scan();
        if (blocks & CONTEXT_DUE_WARM)
            idle_give_back();
        break;
    case HOOKS_DUE_SPAN:
        return arena_span_free_now(span, blocks);
    }
    return true;
}

SECOND_TEXT void common_fork(enum hooks_fork phase)
{
    switch (phase) {
    case HOOKS_FORK_TAKE:
        callbacks_fork_take();
        group_fork_take();
        break;
    case HOOKS_FORK_DROP:
        group_unlock();
        callbacks_fork_drop();
        break;
    case HOOKS_FORK_RENEW:
        hotplug_child();
        group_child();
        callbacks_fork_renew();
        break;
    case HOOKS_FORK_CHILD:
    case HOOKS_FORK_NESTED:
        hotplug_child(); /* also where no lock was taken */
        reader_allow();
        break;
    }
}
