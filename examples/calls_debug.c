/* SPDX-License-Identifier: MIT */
/* The calls of debug.h: the story of an object, and a trace of a part of a run. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <stook/debug.h>
#include <stook/stook.h>

struct message {
    char bytes[100];
};

int main(void)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_DEBUG_USER};
    struct stook_cache *cache = stook_cache_create("message", sizeof(struct message), &args);
    struct stook_object_track track = {.size = sizeof(track)};
    struct message *message;
    char folder[] = "/tmp/stook-example-XXXXXX", file[sizeof(folder) + 8];

    if (!cache) /* the lean library has no debug flags */
        return errno == ENOTSUP ? 0 : 1;
    message = stook_alloc(cache, 0);

    /* The thread that allocated it, and what was asked for. */
    if (!message || stook_object_track(message, STOOK_TRACK_ALLOC, &track) != 0)
        return 1;
    printf("allocated by thread %d, asked for %zu bytes\n", track.thread, track.requested);

    /* Each allocation and free of the cache is written from here on. */
    if (stook_cache_debug_set(cache, STOOK_CACHE_DEBUG_TRACE, 1) != 0 ||
        stook_cache_debug_set(cache, STOOK_CACHE_DEBUG_TRACE, 0) != 0)
        return 1;

    /* A trace of what follows, for stook plan and stook lab. */
    if (!mkdtemp(folder))
        return 1;
    snprintf(file, sizeof(file), "%s/trace", folder);
    if (stook_trace_start(file, STOOK_TRACE_LIMIT) == 0) {
        stook_free(cache, message);
        message = stook_alloc(cache, 0);
        if (stook_trace_stop() != 0)
            return 1;
        unlink(file);
    } else if (errno != EBUSY) /* the process is traced from its start, by STOOK_TRACE */
        return 1;
    rmdir(folder);
    stook_free(cache, message);
    return stook_cache_destroy(cache);
}
