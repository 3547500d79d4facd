/* SPDX-License-Identifier: MIT */
/* The calls of group.h that tenants.c leaves out: limits, and what happens at them. */
#include <errno.h>

#include <stook/group.h>
#include <stook/kmalloc.h>
#include <stook/stook.h>

struct page {
    char bytes[4000];
};

static struct page *spare;
static int events;

/* At the limit: what the group can do without. */
static size_t give_back(struct stook_group group, size_t wanted, void *arg)
{
    size_t bytes = spare && wanted > 0 && group.id != 0 ? sizeof(*spare) : 0;

    stook_free(arg, spare);
    spare = NULL;
    return bytes;
}

static void soft(struct stook_group group, size_t usage, void *arg)
{
    *(int *)arg += group.id != 0 && usage > 0;
}

int main(void)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_ACCOUNT};
    struct stook_cache *cache = stook_cache_create("page", sizeof(struct page), &args);
    struct stook_group tenant = stook_group_create("tenant", STOOK_NO_GROUP, STOOK_UNLIMITED);
    struct stook_group_stat stat = {.size = sizeof(stat)};
    struct stook_group before, at;
    struct page *pages[64];
    unsigned n = 0;

    if (!cache || tenant.id == 0 ||
        stook_group_set_soft_limit(tenant, 16 << 10, soft, &events) != 0 ||
        stook_group_set_limit(tenant, 128 << 10) != 0 ||
        stook_group_set_reclaim(tenant, give_back, cache) != 0)
        return 1;

    before = stook_group_enter(tenant); /* this thread allocates for the tenant */
    if (stook_group_current().id != tenant.id)
        return 1;
    spare = stook_alloc(cache, STOOK_WAIT);
    while (n < 64 && (pages[n] = stook_alloc(cache, STOOK_WAIT)) != NULL)
        n++;
    if (n == 64 || errno != EDQUOT || spare || stook_group_of(pages[0]).id != tenant.id)
        return 1; /* EDQUOT came after give_back() had nothing left */
    (void)stook_group_enter(before);

    if (stook_group_stat(tenant, &stat) != 0 || stat.refused == 0 || stat.reclaims == 0 ||
        events == 0)
        return 1;
    for (at = STOOK_NO_GROUP; (at = stook_group_next(at)).id != 0;)
        if (at.id == tenant.id)
            break;
    while (n > 0)
        stook_free(cache, pages[--n]);
    return at.id != tenant.id || stook_group_destroy(tenant) != 0 ||
           stook_cache_destroy(cache) != 0;
}
