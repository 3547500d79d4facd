/* SPDX-License-Identifier: MIT */
/*
 * trace_live.c - the hash table of objects that are out, by address: open addressing, without
 * marks for deleted entries.
 */
#include "lab/trace_live.h"

#include "look/target.h"

#include <stdlib.h>

enum { TRACE_LIVE_LEAST = 1 << 10 };

static uint64_t trace_live_home(const struct trace_live *live, uint64_t address)
{
    return (address * 0x9e3779b97f4a7c15u >> 20) & live->mask;
}

void trace_live_start(struct trace_live *live)
{
    live->slot = target_need(calloc(TRACE_LIVE_LEAST, sizeof(live->slot[0])));
    live->mask = TRACE_LIVE_LEAST - 1;
    live->used = 0;
}

void trace_live_end(struct trace_live *live)
{
    free(live->slot);
    live->slot = NULL;
}

static void trace_live_place(struct trace_live *live, const struct trace_object *object)
{
    uint64_t at = trace_live_home(live, object->address);

    while (live->slot[at].address != 0)
        at = (at + 1) & live->mask;
    live->slot[at] = *object;
}

static void trace_live_grow(struct trace_live *live)
{
    struct trace_live old = *live;

    live->mask = 2 * old.mask + 1;
    live->slot = target_need(calloc(live->mask + 1, sizeof(live->slot[0])));
    for (uint64_t i = 0; i <= old.mask; i++)
        if (old.slot[i].address != 0)
            trace_live_place(live, &old.slot[i]);
    free(old.slot);
}

void trace_live_put(struct trace_live *live, const struct trace_object *object)
{
    if (live->used > live->mask / 4 * 3)
        trace_live_grow(live);
    trace_live_place(live, object);
    live->used++;
}

bool trace_live_take(struct trace_live *live, uint64_t address, struct trace_object *object)
{
    uint64_t at = trace_live_home(live, address), next, home;

    while (live->slot[at].address != address) {
        if (live->slot[at].address == 0)
            return false;
        at = (at + 1) & live->mask;
    }
    *object = live->slot[at];
    /* What was put behind it for want of this place moves up, so that no search ends at the gap. */
    for (next = (at + 1) & live->mask; live->slot[next].address != 0;
         next = (next + 1) & live->mask) {
        home = trace_live_home(live, live->slot[next].address);
        if (((next - home) & live->mask) >= ((next - at) & live->mask)) {
            live->slot[at] = live->slot[next];
            at = next;
        }
    }
    live->slot[at].address = 0;
    live->used--;
    return true;
}
