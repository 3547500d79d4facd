/* SPDX-License-Identifier: MIT */
/*
 * Groups that objects are charged to, tags and capacities for ops.c.  The groups have no limits: the
 * charges must be right to the byte, and no call is refused.
 */
#include "support/ops_model.h"

#include "reserve/prefilled.h"
#include "slab/cache.h"

#include <stook/stat.h>

void ops_groups_make(void)
{
    for (unsigned g = 0; g < OPS_GROUPS; g++) {
        bool child = g > 0 && g + 1 < OPS_GROUPS;
        ops.group[g] =
            stook_group_create("property", child ? ops.group[0] : STOOK_NO_GROUP, STOOK_UNLIMITED);
        OPS_CHECK(ops.group[g].id);
    }
    ops.inside = ops.group[1];
    OPS_CHECK(!stook_group_enter(ops.inside).id);
}

void ops_groups_end(void)
{
    (void)stook_group_enter(STOOK_NO_GROUP);
    OPS_CHECK(stook_tags_enable(NULL, 0) == 0);
    for (unsigned g = OPS_GROUPS; g-- > 0;)
        OPS_CHECK(stook_group_destroy(ops.group[g]) == 0);
}

struct stook_group ops_group(void)
{
    unsigned g = ops_byte() % (OPS_GROUPS + 1);

    return g < OPS_GROUPS ? ops.group[g] : STOOK_NO_GROUP;
}

void ops_group_enter(void)
{
    struct stook_group before = ops.inside;

    ops.inside = ops_group();
    OPS_CHECK(stook_group_enter(ops.inside).id == before.id);
    OPS_CHECK(stook_group_current().id == ops.inside.id);
}

/* What is counted meanwhile is test_tags's; here it may change nothing else. */
void ops_tags_step(unsigned cache)
{
    unsigned what = ops_byte();

    OPS_DO(OPS_CHECK(stook_tags_enable(what & 2 ? ops.made[cache].cache : NULL, (int)(what & 1)) ==
                     0));
}

/* ---- checks --------------------------------------------------------------------------------- */

static void ops_add_charge(struct stook_group group, size_t bytes, uint64_t *sums)
{
    for (unsigned g = 0; group.id && g < OPS_GROUPS; g++)
        if (ops.group[g].id == group.id) {
            sums[g] += bytes;
            sums[0] += g > 0 && g + 1 < OPS_GROUPS ? bytes : 0;
            return;
        }
    OPS_CHECK(!group.id); /* no other there is */
}

void ops_check_groups(void)
{
    uint64_t sums[OPS_GROUPS] = {0};

    for (size_t i = 0; i < ops.n; i++)
        if (!ops.held[i].deferred)
            ops_add_charge(ops.held[i].group, ops.made[ops.held[i].cache].cache->account.charge,
                           sums);
    for (unsigned i = 0; i < OPS_SHEAVES; i++) {
        struct stook_cache *cache = ops.made[ops.sheaf[i].cache].cache;
        if (!ops.sheaf[i].sheaf || !ops.made[ops.sheaf[i].cache].charged)
            continue;
        struct sheaf *sheaf = prefilled_of(cache, ops.sheaf[i].sheaf);
        for (uint32_t k = 0; k < sheaf->size; k++)
            ops_add_charge(stook_group_of(sheaf->object[k]), cache->account.charge, sums);
    }
    for (unsigned g = 0; g < OPS_GROUPS; g++) {
        struct stook_group_stat stat = {.size = sizeof(stat)};
        OPS_CHECK(stook_group_stat(ops.group[g], &stat) == 0);
        OPS_CHECK(stat.usage == sums[g]);
    }
}
