/* SPDX-License-Identifier: MIT */
/*
 * heap_profile.c - what a process has in use, as pprof's Profile message: bytes and objects by cache.
 *
 * A cache stands where a call site would: a place called by the cache's name, below one called by the program's, with
 * the label `cache`.  Sample types, default and period are those of Go's heap profiles, by which scrapers know them.
 */
#include "export/fleet.h"
#include "stook/proto.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct by_cache {
    struct bytes out, message, inner;
    uint64_t strings;
};

/* Strings are few: each is written where it is used. */
static uint64_t by_cache_string(struct by_cache *profile, const char *text)
{
    if (!*text)
        return 0;
    proto_block(&profile->out, 6, text, strlen(text));
    return profile->strings++;
}

static void by_cache_type(struct by_cache *profile, unsigned field, const char *type,
                          const char *unit)
{
    proto_number(&profile->message, 1, by_cache_string(profile, type));
    proto_number(&profile->message, 2, by_cache_string(profile, unit));
    proto_message(&profile->out, field, &profile->message);
}

/* A function and the location of it, both of this number. */
static void by_cache_place(struct by_cache *profile, uint64_t number, uint64_t name)
{
    proto_number(&profile->message, 1, number);
    proto_number(&profile->message, 2, name);
    proto_number(&profile->message, 3, name);
    proto_message(&profile->out, 5, &profile->message);
    proto_number(&profile->inner, 1, number);
    proto_number(&profile->message, 1, number);
    proto_message(&profile->message, 4, &profile->inner);
    proto_message(&profile->out, 4, &profile->message);
}

/* Place 1 is the program, 2 the first cache. */
static void by_cache_sample(struct by_cache *profile, uint64_t place, uint64_t key,
                            const char *name, uint64_t objects, uint64_t bytes)
{
    uint64_t text = by_cache_string(profile, name);

    by_cache_place(profile, place, text);
    proto_varint(&profile->inner, place);
    proto_varint(&profile->inner, 1);
    proto_message(&profile->message, 1, &profile->inner);
    proto_varint(&profile->inner, objects);
    proto_varint(&profile->inner, bytes);
    proto_message(&profile->message, 2, &profile->inner);
    proto_number(&profile->inner, 1, key);
    proto_number(&profile->inner, 2, text);
    proto_message(&profile->message, 3, &profile->inner);
    proto_message(&profile->out, 2, &profile->message);
}

static void by_cache_fill(struct by_cache *profile, const struct heap *heap)
{
    struct timespec now;
    uint64_t key, place = 2;

    proto_block(&profile->out, 6, "", 0);
    profile->strings = 1;
    by_cache_type(profile, 1, "inuse_objects", "count");
    by_cache_type(profile, 1, "inuse_space", "bytes");
    by_cache_place(profile, 1, by_cache_string(profile, heap->target->name));
    key = by_cache_string(profile, "cache");
    for (size_t i = 0; i < heap->caches; i++) {
        const struct heap_count *count = &heap->cache[i].count;
        if (count->active > 0)
            by_cache_sample(profile, place++, key, heap->cache[i].name, count->active,
                            count->bytes.in_use);
    }
    if (heap->large_objects > 0)
        by_cache_sample(profile, place, key, "large objects", heap->large_objects,
                        heap->large_bytes);
    clock_gettime(CLOCK_REALTIME, &now);
    proto_number(&profile->out, 9, (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
    by_cache_type(profile, 11, "space", "bytes");
    proto_number(&profile->out, 12, 1); /* every byte is counted */
    proto_number(&profile->out, 13,
                 by_cache_string(profile, "By cache: the process was read from outside, and call "
                                          "sites are not in this profile."));
    proto_number(&profile->out, 14, by_cache_string(profile, "inuse_space"));
}

bool heap_profile(const struct heap *heap, FILE *to)
{
    struct by_cache profile = {.strings = 0};
    bool good;

    by_cache_fill(&profile, heap);
    good = !profile.out.failed && !profile.message.failed && !profile.inner.failed &&
           gzip_write(&profile.out, to);
    free(profile.out.data);
    free(profile.message.data);
    free(profile.inner.data);
    return good;
}
