/* SPDX-License-Identifier: MIT */
/* needs: whole */
/* link: shared */
/*
 * Writes a JSON report of caches with names of all kinds and known counts; the argument is what
 * test_report_json.py reads it for.
 */
#include <stook/group.h>
#include <stook/stat.h>
#include <stook/stook.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    struct stook_cache *plain = stook_cache_create("plain", 256, NULL);
    struct stook_group group = stook_group_create("all", STOOK_NO_GROUP, 1 << 20);
    struct stook_cache *odd = stook_cache_create("odd \"name\"\\\n\xc3\xa9\xff", 40, NULL);
    char name[200];

    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    if (!group.id || !stook_group_create("part \"one\"", group, STOOK_UNLIMITED).id)
        return 1;
    if (!plain || stook_cache_stat_enable(plain, STOOK_STATS_ALL) != 0)
        return 1;
    if (!odd || !stook_cache_create(name, 8, NULL))
        return 1;
    for (int i = 0; i < 500; i++)
        if (!stook_alloc(plain, 0))
            return 1;
    stook_free(odd, stook_alloc(odd, 0));
    /* More rows than the writer's buffer holds. */
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "cache-%d", i);
        if (!stook_cache_create(name, 16 + (size_t)i, NULL))
            return 1;
    }
    return stook_report(STDOUT_FILENO, STOOK_REPORT_JSON) != 0;
}
