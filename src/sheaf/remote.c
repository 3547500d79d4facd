/* SPDX-License-Identifier: MIT */
/*
 * remote.c - sorts a full sheaf by the objects' nodes, and sends each node's objects to that node's barn.
 */
#include "sheaf/remote.h"

#include "os/topology.h"
#include "sheaf/barn.h"
#include "sheaf/slot.h"
#include "slab/node.h"
#include "slab/stat.h"

/* A sheaf of one other node's objects to its owner's barn, or it is flushed; an empty one, or NULL. */
static struct sheaf *remote_send(struct stook_cache *cache, struct sheaf *sheaf, bool nospin)
{
    unsigned owner = pagemap_node(sheaf->object[0]);
    struct sheaf *empty;

    if (barn_put_full(cache, owner, sheaf, &empty, nospin)) {
        stat_add(cache, STAT_remote_put, 1);
        return empty;
    }
    stat_add(cache, STAT_remote_put_fail, 1);
    sheaf_flush(cache, sheaf, nospin);
    barn_shed(cache, owner, nospin);
    if (sheaf->capacity == cache_capacity(cache))
        return sheaf;
    barn_put_empty(cache, owner, sheaf, nospin);
    return empty;
}

/* All sheaves of a chain: to their owners' barns, the empty ones away. */
static void remote_return(struct stook_cache *cache, struct sheaf *remote, bool nospin)
{
    while (remote) {
        struct sheaf *next = remote->next;
        remote->next = NULL;
        if (remote->size > 0)
            remote = remote_send(cache, remote, nospin);
        sheaf_drop(cache, remote, nospin);
        remote = next;
    }
}

/* The sheaf among the remote ones for objects of a node, else an empty one, becomes the first in the
 * chain; or NULL. */
static struct sheaf *remote_of(struct stook_cache *cache, unsigned node, unsigned owner,
                               struct sheaf **remote, bool nospin)
{
    struct sheaf **at, **found = NULL, *sheaf;

    for (at = remote; *at; at = &(*at)->next)
        if ((*at)->size == 0) {
            found = at;
        } else if (pagemap_node((*at)->object[0]) == owner) {
            found = at;
            break;
        }
    if (found) {
        sheaf = *found;
        *found = sheaf->next;
    } else {
        sheaf = barn_make_empty(cache, node, nospin);
    }
    if (sheaf) {
        sheaf->next = *remote;
        *remote = sheaf;
    }
    return sheaf;
}

/* Moves the objects that are not of the home of `node` out of a sheaf, to a chain of remote sheaves (linked by ->next, some
 * may be empty).  Full ones go to their owners' barns in exchange for empty ones. */
static void remote_move(struct stook_cache *cache, unsigned node, struct sheaf *sheaf,
                        struct sheaf **remote, bool nospin)
{
    unsigned home = topology.home_of_node[node];
    uint32_t kept = 0;

    for (uint32_t i = 0; i < sheaf->size; i++) {
        void *object = sheaf->object[i];
        unsigned owner = sheaf_node(object, home); /* what is none is found in its slabs */
        struct sheaf *to;
        if (owner == home) {
            sheaf->object[kept++] = object;
            continue;
        }
        to = remote_of(cache, node, owner, remote, nospin);
        if (!to) {
            node_put(cache, &object, 1, nospin);
            continue;
        }
        to->object[to->size++] = object;
        if (to->size >= to->capacity) {
            *remote = to->next;
            to->next = NULL;
            to = remote_send(cache, to, nospin);
            if (to) { /* for the next owner */
                to->next = *remote;
                *remote = to;
            }
        }
    }
    stat_add(cache, STAT_remote_free, sheaf->size - kept);
    sheaf->size = kept;
}

void remote_sort(struct stook_cache *cache, unsigned node, uintptr_t offset, struct sheaf *sheaf,
                 bool nospin)
{
    struct sheaf *main, *remote = NULL;
    struct slot *slot;

    main = slot_close(offset, &slot, nospin);
    if (main) {
        remote = slot->remote;
        slot->remote = NULL;
        slot_open(slot, main);
    }
    remote_move(cache, node, sheaf, &remote, nospin);
    main = remote ? slot_close(offset, &slot, nospin) : NULL;
    if (main) {
        if (!slot->remote) {
            slot->remote = remote;
            remote = NULL;
        }
        slot_open(slot, main);
    }
    remote_return(cache, remote, nospin);
}
