/* SPDX-License-Identifier: MIT */
#include "sheaf/remote.h"

#include "os/topology.h"
#include "sheaf/barn.h"
#include "slab/node.h"
#include "slab/stat.h"

/* A sheaf of one other node's objects: to its owner's barn, or it is flushed.  The empty one stays with `node`. */
static void remote_send(struct stook_cache *cache, unsigned node, struct sheaf *sheaf, bool nospin)
{
    unsigned owner = pagemap_node(sheaf->object[0]);
    struct sheaf *empty;
    bool taken = barn_put_full(cache, owner, sheaf, &empty, nospin);

    stat_add(cache, taken ? STAT_remote_put : STAT_remote_put_fail, 1);
    if (!taken) {
        sheaf_flush(cache, sheaf, nospin);
        barn_shed(cache, owner, nospin);
        empty = sheaf;
    }
    if (empty)
        barn_put_empty(cache, node, empty, nospin);
}

/* The first of a chain is the caller's. */
static struct sheaf *remote_unlink(struct sheaf **at)
{
    struct sheaf *sheaf = *at;

    *at = sheaf->next;
    sheaf->next = NULL;
    return sheaf;
}

void remote_return(struct stook_cache *cache, unsigned node, struct sheaf *remote, bool nospin)
{
    while (remote)
        remote_send(cache, node, remote_unlink(&remote), nospin);
}

void remote_sort(struct stook_cache *cache, unsigned node, struct sheaf *sheaf,
                 struct sheaf **remote, bool nospin)
{
    unsigned home = topology.home_of_node[node];
    uint32_t kept = 0;

    for (uint32_t i = 0; i < sheaf->size; i++) {
        void *object = sheaf->object[i];
        unsigned owner = sheaf_node(object, home); /* what is none is found in its slabs */
        struct sheaf **at = remote;
        if (owner == home) {
            sheaf->object[kept++] = object;
            continue;
        }
        while (*at && pagemap_node((*at)->object[0]) != owner)
            at = &(*at)->next;
        if (!*at)
            *at = barn_make_empty(cache, node, nospin);
        if (!*at) {
            node_put(cache, &object, 1, nospin);
            continue;
        }
        (*at)->object[(*at)->size++] = object;
        if ((*at)->size >= (*at)->capacity)
            remote_send(cache, node, remote_unlink(at), nospin);
    }
    stat_add(cache, STAT_remote_free, sheaf->size - kept);
    sheaf->size = kept;
}

uint32_t remote_size(const struct sheaf *remote)
{
    uint32_t size = 0;

    for (; remote; remote = remote->next)
        size += remote->size;
    return size;
}
