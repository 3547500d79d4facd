/* SPDX-License-Identifier: MIT */
/* track.c - writes and reads the element of a debug object's column: the requested size and the calls. */
#include "debug/track.h"

#include "base/placed.h"
#include "base/raw.h"
#include "debug/depot.h"

#include <errno.h>

static __thread uint32_t track_thread __attribute__((tls_model("initial-exec")));

SECOND_TEXT void track_child(void)
{
    track_thread = 0;
}

void track_set(const struct stook_cache *cache, const struct slab *slab, uint32_t index,
               enum track_which which, uint64_t where)
{
    struct track *track = track_at(cache, slab, index, which);

    if (track)
        track_now(track, where);
}

void track_now(struct track *track, uint64_t where)
{
    int saved = errno;

    if (track_thread == 0)
        track_thread = (uint32_t)raw_gettid();
    *track = (struct track){.time = raw_clock(),
                            .stack = depot_here(where),
                            .thread = track_thread,
                            .cpu = (uint32_t)percpu_cpu_asked()};
    errno = saved;
}

bool track_get(const struct stook_cache *cache, const struct slab *slab, uint32_t index,
               enum track_which which, struct track *to)
{
    const struct track *track = track_at(cache, slab, index, which);

    if (!track || track->time == 0)
        return false;
    *to = *track;
    return true;
}
