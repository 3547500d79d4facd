/* SPDX-License-Identifier: MIT */
/* The calls of stat.h: what a metrics endpoint asks of its caches, and call sites. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <stook/stat.h>
#include <stook/stook.h>

struct request {
    char bytes[200];
};

int main(void)
{
    struct stook_cache *cache = stook_cache_create("request", sizeof(struct request), NULL);
    struct stook_cache_usage usage = {.size = sizeof(usage)};
    struct stook_stat stat = {.size = sizeof(stat)};
    struct stook_tag_stat site = {.size = sizeof(site)};
    struct request *first;
    unsigned tag;
    int file;

    if (!cache || stook_tags_enable(cache, 1) != 0 || stook_cache_stat_enable(cache, 1) != 0)
        return 1;
    first = stook_alloc(cache, 0);

    /* Numbers of now; cheap enough for 200 caches. */
    if (!first || stook_cache_usage(cache, &usage) != 0 || usage.in_use != 1)
        return 1;
    printf("request: %llu in use, %llu bytes held, %llu at most\n",
           (unsigned long long)usage.in_use, (unsigned long long)usage.bytes,
           (unsigned long long)usage.bytes_peak);

    /* Events since statistics were switched on. */
    if (stook_cache_stat(cache, &stat) != 0)
        return 1;

    /* The call site of an object, and all of them. */
    tag = stook_tag_of(first);
    if (tag == 0 || stook_tag_stat(tag, &site) != 0 || site.live_objects != 1)
        return 1;
    for (tag = 0; (tag = stook_tag_next(tag)) != 0;)
        if (stook_tag_stat(tag, &site) == 0)
            printf("site %u: %llu objects\n", tag, (unsigned long long)site.live_objects);

    file = open("/dev/null", O_WRONLY | O_CLOEXEC); /* stook profile reads such a file */
    if (file < 0 || stook_profile_write(file) != 0)
        return 1;
    close(file);
    stook_free(cache, first);
    return stook_cache_destroy(cache);
}
