/* SPDX-License-Identifier: MIT */
/*
 * lean.c - the library that watches nothing (STOOK_WATCH=OFF): the table of base/hooks.h, instead of hooks.c and traced.c.
 *
 * It stands for debug/, harden/, guard/, sample/, trace/ and observe/, too.  The functions of observe.h only account here.
 * The switches of what is not here are off.
 */
#include "base/hooks.h"

#include "base/placed.h"
#include "charge/group.h"
#include "debug/depot.h"
#include "debug/object.h"
#include "debug/pages.h"
#include "debug/tools.h"
#include "face/callbacks.h"
#include "face/common.h"
#include "guard/guard.h"
#include "harden/quarantine.h"
#include "large/arena_span.h"
#include "large/large.h"
#include "observe/observe.h"
#include "sample/shadow.h"
#include "sample/sites.h"
#include "site/modules.h"
#include "trace/trace.h"
#include "watch/settings_show.h"

/* ---- the table ------------------------------------------------------------------------------------ */

/* One line for each setting of what is not here. */
static FIRST_TEXT void lean_settings(void)
{
    static const uint8_t lacking[] = {SETTING_DEBUG,   SETTING_ON_CORRUPTION, SETTING_HARDEN,
                                      SETTING_GUARD,   SETTING_SAMPLE,        SETTING_TRACE,
                                      SETTING_PROFILE, SETTING_FAIL};

    for (unsigned i = 0; i < sizeof(lacking); i++)
        if (setting_now[lacking[i]].source == SETTING_BY_ENVIRONMENT)
            setting_refuse((enum setting_id)lacking[i],
                           "this is the lean library, which does not have it");
}

static FIRST_TEXT bool lean_start(enum hooks_start phase, char *const *environment)
{
    bool started = common_start(phase, environment);

    if (phase == HOOKS_SETTINGS || phase == HOOKS_SETTINGS_ANEW)
        lean_settings();
    return started;
}

static FIRST_TEXT uint32_t lean_cache_plan(const char *name, uint32_t flags,
                                           struct layout_request *request)
{
    (void)name;
    if (request && account_all && !(flags & CACHE_MALLOC))
        request->later = 0; /* the best place for tags is sought */
    return flags;
}

static FIRST_TEXT void *lean_cache(struct stook_cache *cache, enum hooks_cache what)
{
    if (what == HOOKS_CACHE_MADE)
        account_cache_made(cache);
    return NULL;
}

static void lean_slab(struct stook_cache *cache, struct slab *slab, bool made)
{
    if (!made)
        account_slab_gone(cache, slab);
}

const struct hooks hooks = {
    .start = lean_start,
    .due = common_due,
    .span = arena_span_slab,
    .alloc = accounted_alloc,
    .alloc_more = accounted_alloc_more,
    .free = accounted_free,
    .free_more = observe_free,
    .cache_plan = lean_cache_plan,
    .cache = lean_cache,
    .slab = lean_slab,
    .reclaim = callbacks_reclaim,
    .fork = common_fork,
};

/* ---- observe.h ------------------------------------------------------------------------------------- */

#pragma GCC diagnostic ignored "-Wunused-parameter"

void observe_free(struct stook_cache *cache, void **objects, size_t n)
{
    account_return(cache, objects, n);
}

bool observe_begin(const struct stook_cache *cache, struct account *account, size_t n,
                   unsigned flags, uint64_t where, uint32_t group)
{
    return account_begin(cache, account, n, flags, where, group);
}

void observe_end(const struct stook_cache *cache, const struct account *account,
                 void *const *objects, size_t got, size_t n, uint64_t where)
{
    account_end(cache, account, objects, got, n);
}

void observe_clear(const struct stook_cache *cache, void **objects, size_t n)
{
    account_return(cache, objects, n);
}

void observe_defer(const struct stook_cache *cache, void **object)
{
    account_return(cache, object, 1);
}

void observe_deferred(const struct stook_cache *cache, void *object)
{
}

void observe_reserve(const struct stook_cache *cache, void **object)
{
    if (*object && !free_checks(cache, *object))
        *object = NULL;
}

void observe_unreserve(const struct stook_cache *cache, void *object, uint64_t where)
{
}

void observe_retag(const struct stook_cache *cache, const void *object, uint64_t where)
{
    account_retag(cache, object, where);
}

size_t observe_usable(const struct stook_cache *cache, const void *object)
{
    return slab_usable(cache);
}

size_t observe_size(const struct stook_cache *cache, const struct slab *slab, uint32_t index,
                    const void *object, bool *start)
{
    return cache->layout.room;
}

void observe_resize(struct stook_cache *cache, void *object, size_t size)
{
}

bool observe_live(const struct stook_cache *cache, const void *object, const char *call)
{
    return true;
}

void observe_changed(void)
{
}

void *observe_sample(struct stook_cache *cache, size_t size, size_t align, uint64_t where,
                     bool zero)
{
    return NULL;
}

void observe_count(struct stook_cache *cache, uint64_t where)
{
}

FIRST_TEXT size_t observe_large_wanted(size_t size)
{
    return size;
}

FIRST_TEXT bool observe_large(void *object, size_t size, uint32_t owner, unsigned flags,
                              uint64_t where)
{
    return (!owner && !account_large_counted()) || account_large(object, owner, flags, where);
}

FIRST_TEXT size_t observe_large_size(const void *object)
{
    return large_size(object);
}

FIRST_TEXT bool observe_large_free(void **object)
{
    if (atomic_load_explicit(&large_noted, memory_order_relaxed) || account_large_counted())
        (void)account_large_clear(*object);
    return true;
}

bool observe_large_resizes(void *object)
{
    return true;
}

void observe_large_resized(void *object, size_t had, size_t used, size_t size, uint64_t where)
{
}

bool observe_large_moves(void *object, struct observe_move *move)
{
    return true;
}

void observe_large_moved(void *object, void *moved, size_t size, const struct observe_move *move,
                         uint64_t where)
{
}

/* ---- what is tested or asked elsewhere: nothing ---------------------------------------------------- */

struct guard guard;
struct sites sites;
struct depot depot;
struct modules modules;
atomic_bool trace_active;
__thread int64_t sample_left;
_Atomic uint64_t shadow_use[STOOK_CACHES_MAX];
bool pages_zoned;
uint8_t tools_watch;

struct debug_asks debug_ask(struct debug_asks asks)
{
    return asks;
}

void modules_note(uint64_t address)
{
}

void trace_asked(size_t size, size_t align)
{
}

void guard_bad_pointer(const char *call, const void *pointer)
{
}

struct stook_cache *shadow_cache(unsigned number)
{
    return NULL;
}

bool quarantine_is_live(const struct stook_cache *cache, const struct slab *slab, uint32_t index)
{
    return true;
}

bool pages_holds_slow(const void *object)
{
    return false;
}

void tools_open(const void *from, size_t n)
{
}

void tools_close(const void *from, size_t n)
{
}
