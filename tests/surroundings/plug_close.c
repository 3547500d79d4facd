/* SPDX-License-Identifier: MIT */
/* link: static */
/* A module with libstook.a in it, for prog_close. */
#include <stook/stook.h>

#include <stdbool.h>
#include <string.h>

bool plug_use(void);

bool plug_use(void)
{
    struct stook_cache *cache = stook_cache_create("close", 96, NULL);
    void *object[200];
    unsigned n = 0;

    while (cache && n < 200 && (object[n] = stook_alloc(cache, 0)))
        memset(object[n++], 1, 96);
    for (unsigned i = 0; i < n; i++)
        stook_free(cache, object[i]);
    return n == 200 && stook_cache_destroy(cache) == 0;
}
