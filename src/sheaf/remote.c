/* SPDX-License-Identifier: MIT */
/*
 * remote.c - objects that are freed far from their node, on machines with several (called by slot_free.c).
 *
 * The fast path does not check the node of an object.  A full sheaf is sorted when it leaves the CPU.  A
 * sheaf with objects of one other node goes to that node's barn unchanged.  From a mixed sheaf, objects of
 * other homes move to the slot's remote sheaves, one a node; each goes to its owner's barn when it is full.
 * So a producer on one node and a consumer on another recycle sheaves and touch no slab.
 */
#include "os/topology.h"
#include "sheaf/barn.h"
#include "sheaf/slot_steps.h"
#include "slab/node.h"

struct sheaf *remote_send(const struct slot_call *call, struct sheaf *sheaf)
{
    struct stook_cache *cache = call->cache;
    unsigned owner = pagemap_node(sheaf->object[0]);
    struct sheaf *empty;
    bool taken = barn_put_full(cache, owner, sheaf, &empty, call->nospin);

    stat_add(cache, taken ? STAT_remote_put : STAT_remote_put_fail, 1);
    if (taken)
        return empty;
    sheaf_flush(cache, sheaf, call->nospin); /* this CPU keeps no objects of other nodes */
    barn_shed(cache, owner, false, call->nospin);
    return sheaf;
}

/*
 * An object of another node joins the chain of remote sheaves (linked by ->next): one for each owner, then empty ones.
 * A full one goes to its owner's barn in exchange for an empty one, for the next owner.
 */
static void remote_put(const struct slot_call *call, void *object, struct sheaf **at)
{
    unsigned owner = pagemap_node(object);
    struct sheaf *to;

    while ((to = *at) && to->size > 0 && pagemap_node(to->object[0]) != owner)
        at = &to->next;
    if (!to)
        to = *at = barn_get_empty(call->cache, call->node, call->nospin);
    if (!to) {
        node_put(call->cache, &object, 1, call->nospin);
        return;
    }
    to->object[to->size++] = object;
    if (to->size < to->capacity)
        return;
    *at = to->next;
    to->next = NULL;
    to = remote_send(call, to);
    while (*at)
        at = &(*at)->next;
    *at = to;
}

struct sheaf *remote_sort(const struct slot_call *call, struct sheaf *sheaf)
{
    unsigned home = topology.home_of_node[call->node];
    struct sheaf *main, *remote = NULL;
    struct slot *slot;
    uint32_t kept = 0;

    main = slot_close(call->offset, &slot, call->nospin);
    if (main) {
        remote = slot->remote;
        slot->remote = NULL;
        slot_open(slot, main);
    }
    for (uint32_t i = 0; i < sheaf->size; i++) {
        void *object = sheaf->object[i];
        if (sheaf_node(object, home) == home) /* or it is no object, which its slabs find */
            sheaf->object[kept++] = object;
        else
            remote_put(call, object, &remote);
    }
    stat_add(call->cache, STAT_remote_free, sheaf->size - kept);
    sheaf->size = kept;
    main = remote ? slot_close(call->offset, &slot, call->nospin) : NULL;
    if (main) {
        if (!slot->remote) {
            slot->remote = remote;
            remote = NULL;
        }
        slot_open(slot, main);
    }
    sheaf_drop(call->cache, remote, call->nospin); /* another thread has the slot, or its own */
    return sheaf;
}
