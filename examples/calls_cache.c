/* SPDX-License-Identifier: MIT */
/* Every call of stook.h that the shorter examples leave out, a line or two each; what ends with 1 went wrong. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <stook/stook.h>

struct order {
    int number;
    char goods[120];
};

static int count(void *object, void *arg)
{
    *(int *)arg += ((struct order *)object)->number > 0;
    return 0; /* go on; any other value ends the walk */
}

static int find(struct stook_cache *cache, void *arg)
{
    struct stook_cache **found = arg;

    if (strcmp(stook_cache_name(cache), "order") == 0)
        *found = cache;
    return *found != NULL;
}

static void say(int level, const char *text, size_t length, void *arg)
{
    fprintf(arg, "<%d> %.*s", level, (int)length, text);
}

/* An allocation that says more: from where, and near which node. */
static struct order *one(struct stook_cache *cache)
{
    static struct stook_site site = {.file = __FILE__, .line = __LINE__, .function = __func__};
    const struct stook_alloc_args args = {.size = sizeof(args), .site = &site, .node = 0};

    return stook_alloc_with(cache, STOOK_ZERO | STOOK_WAIT | STOOK_NODE, &args);
}

/* All of them or none. */
static int many(struct stook_cache *cache)
{
    static struct stook_site site = {.file = __FILE__, .line = __LINE__, .function = __func__};
    const struct stook_alloc_args args = {.size = sizeof(args), .site = &site};
    void *objects[100];

    if (stook_alloc_bulk_with(cache, STOOK_ZERO, 100, objects, &args) != 0)
        return -1;
    stook_free_bulk(cache, 100, objects);
    return 0;
}

int main(void)
{
    struct stook_cache *cache = stook_cache_create("order", sizeof(struct order), NULL);
    struct stook_cache *found = NULL;
    struct order *order = cache ? one(cache) : NULL;
    const char *why;
    int orders = 0;

    if (!order || many(cache) != 0)
        return 1;
    order->number = 1;

    /* From an address to its cache, and from a name. */
    if (stook_cache_of(order) != cache || stook_cache_by_name("order") != cache ||
        stook_cache_each(find, &found) != 0 || found != cache ||
        stook_usable_size(order) < sizeof(*order) ||
        stook_cache_object_size(cache) != sizeof(*order) || stook_node_of(order) < 0)
        return 1;

    /* Every object in use, and a check of every slab. */
    if (stook_cache_walk(cache, count, &orders) != 0 || orders != 1 ||
        stook_cache_validate(cache) < 0)
        return 1;

    /* Longer sheaves for a cache of bursts; a bound for what all caches keep. */
    if (stook_cache_set_capacity(cache, 256) != 0 && errno != EBUSY)
        return 1;
    if (stook_cached_bytes_set_max((size_t)64 << 20) != 0)
        return 1;

    printf("Stook %s, mode %s", stook_version(), stook_mode(&why));
    printf(": %s\n", why);
    stook_message_set(say, stderr);
    stook_message_set(NULL, NULL); /* standard error again */

    stook_free_any(order); /* of whatever cache */
    return stook_cache_destroy(cache);
}
