/* SPDX-License-Identifier: MIT */
/* The public calls of stook/group.h and stook/stat.h that have to do with objects. */
#include "charge/group.h"
#include "site/tag.h"
#include "base/context.h"
#include "charge/accounted.h"
#include "cache/cache_list.h"
#include "cache/pin.h"
#include "base/init.h"
#include "base/placed.h"
#include "os/topology.h"
#include "page/window.h"
#include "slab/node.h"

#include <errno.h>

/* ---- tags ----------------------------------------------------------------------------------- */

static bool accounted_debugs; /* under the cache list's lock */

static FIRST_TEXT void accounted_say(void)
{
    bool all = account_all != 0 || account_process != 0 || accounted_debugs;

    if (hooks_set.malloc)
        hooks_set.malloc(HOOKS_MALLOC_CLOSES, (all ? HOOKS_CLOSES_ALL : 0) | account_watched);
}

void accounted_malloc_debug(void)
{
    context_enter();
    lock_take(&cache_list.lock, LOCK_CACHES);
    if (!accounted_debugs) {
        accounted_debugs = true;
        accounted_say();
    }
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
}

FIRST_TEXT void accounted_on_malloc(void (*fn)(unsigned what, size_t value))
{
    lock_take(&cache_list.lock, LOCK_CACHES);
    window_on_growing(fn);
    accounted_say();
    lock_drop(&cache_list.lock, LOCK_CACHES);
}

static void accounted_tags(bool on)
{
    account_all = on ? ACCOUNT_TAG : 0;
    account_large_tags = on;
    for (struct list *l = cache_list.all.next; l != &cache_list.all; l = l->next) {
        struct stook_cache *each = LIST_ENTRY(l, struct stook_cache, link);
        if (!(each->flags & CACHE_INTERNAL))
            account_close(each, ACCOUNT_TAG, on);
    }
    accounted_say();
}

void accounted_watched(unsigned closes)
{
    atomic_store(&account_watched, closes);
    accounted_say();
}

int stook_tags_enable(struct stook_cache *cache, int on)
{
    if ((on != 0 && on != 1) || (cache && !pin_alive(cache))) {
        errno = EINVAL;
        return -1;
    }
    if (!init_once()) {
        errno = ENOMEM;
        return -1;
    }
    account_switched();
    context_enter();
    lock_take(&cache_list.lock, LOCK_CACHES);
    if (cache) {
        account_close(cache, ACCOUNT_TAG, on);
    } else {
        accounted_tags(on);
    }
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    return 0;
}
