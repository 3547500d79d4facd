/* SPDX-License-Identifier: MIT */
/* See ops_core.h: in place of ops_account.c and ops_reserve.c. */
#include "support/ops_model.h"

#include "base/context.h"
#include "cache/cache_list.h"
#include "reserve/prefilled.h"
#include "slab/stat.h"

int ops_core_stat_enable(struct stook_cache *cache, int mode)
{
    bool done;

    context_enter();
    lock_take(&cache_list.lock, LOCK_CACHES);
    done = stat_switch(cache, mode);
    lock_drop(&cache_list.lock, LOCK_CACHES);
    context_leave();
    return done ? 0 : -1;
}

int ops_core_stat(struct stook_cache *cache, struct stook_stat *stat)
{
#define OPS_STAT(name, what) stat->name = stat_read_sum(cache, STAT_##name);
    STOOK_STAT_EVENTS(OPS_STAT)
#undef OPS_STAT
    return 0;
}

struct sheaf *prefilled_of(const struct stook_cache *cache, const struct stook_sheaf *given)
{
    return NULL;
}

/* Steps that are not there, of reserves that are none. */
unsigned ops_core_none(const void *reserve)
{
    return reserve ? 1 : 0;
}
void ops_rcu_use(void)
{
}
void ops_grace(void)
{
}
void ops_sheaf_step(unsigned cache)
{
}
void ops_pool_step(unsigned cache)
{
}
void ops_pool_free(size_t at)
{
}
void ops_pool_destroy(unsigned pool)
{
}
void ops_sheaf_return(unsigned sheaf)
{
}
void ops_free_rcu_step(void)
{
}
void ops_groups_make(void)
{
}
void ops_groups_end(void)
{
}
struct stook_group ops_group(void)
{
    return STOOK_NO_GROUP;
}
void ops_group_enter(void)
{
}
void ops_tags_step(unsigned cache)
{
}
void ops_check_groups(void)
{
}
