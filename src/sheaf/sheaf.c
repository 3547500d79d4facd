/* SPDX-License-Identifier: MIT */
/*
 * sheaf.c - allocates and frees sheaves by classes of capacity, and returns their objects to the slabs.
 */
#include "sheaf/sheaf.h"

#include "base/probe.h"
#include "base/report.h"
#include "os/topology.h"
#include "slab/detached.h"
#include "slab/node.h"
#include "slab/stat.h"

#include <errno.h>
#include <string.h>

struct stook_cache *sheaf_cache[SHEAF_CLASSES];

const uint16_t sheaf_class_size[SHEAF_CLASSES] = {64, 128, 192, 320, 576, 1088, 2048, 4096, 8192};
const char sheaf_class_name[SHEAF_CLASSES][sizeof("stook-sheaf-8192")] = {
    "stook-sheaf-64",   "stook-sheaf-128",  "stook-sheaf-192",
    "stook-sheaf-320",  "stook-sheaf-576",  "stook-sheaf-1088",
    "stook-sheaf-2048", "stook-sheaf-4096", "stook-sheaf-8192"};
_Static_assert(sizeof(struct sheaf) + STOOK_SHEAF_CAPACITY_MAX * sizeof(void *) <= 8192,
               "the largest sheaf has a class");

_Static_assert((int)SHEAF_FLUSH_SLABS <= (int)DETACHED_LISTS, "a step's lists are one set");

static struct stook_cache *sheaf_class(unsigned room)
{
    size_t bytes = sizeof(struct sheaf) + room * sizeof(void *);
    unsigned class = 0;

    while (sheaf_class_size[class] < bytes)
        class ++;
    return sheaf_cache[class];
}

struct sheaf *sheaf_alloc(unsigned capacity, unsigned room, unsigned node, bool nospin)
{
    int saved = errno;
    void *memory = NULL;

    if (node_take_near(sheaf_class(room), node, &memory, 1, 1, nospin) > 0)
        *(struct sheaf *)memory = (struct sheaf){.capacity = capacity};
    errno = saved; /* one node may have refused, and another given */
    return memory;
}

unsigned sheaf_room(const struct sheaf *sheaf)
{
    const struct stook_cache *cache = slab_cache_of(sheaf);

    return (unsigned)((cache->object_size - sizeof(struct sheaf)) / sizeof(void *));
}

int sheaf_owner(const struct sheaf *sheaf)
{
    unsigned owner;

    if (topology.memories == 1)
        return topology.home_of_node[0];
    owner = sheaf_node(sheaf->object[0], 0);
    for (uint32_t i = 1; i < sheaf->size; i++)
        if (sheaf_node(sheaf->object[i], owner) != owner)
            return -1;
    return (int)owner;
}

void sheaf_free(struct sheaf *sheaf, bool nospin)
{
    void *memory = sheaf;

    STOOK_ASSERT(sheaf->size == 0);
    node_put(slab_cache_of(sheaf), &memory, 1, nospin);
}

/* The counts change meanwhile; a wrong answer costs a little memory or time.  What is no object goes, and is reported. */
static bool sheaf_is_sparse(const struct stook_cache *cache, const void *object)
{
    uint32_t entry = pagemap_covers(object) ? *pagemap_at(object) : 0;
    uint64_t word;

    if (pagemap_cache(entry) != cache->index)
        return true;
    word = atomic_load_explicit(&slab_at(object, entry)->state, memory_order_relaxed);
    return slab_inuse(word) * 3 < slab_objects(cache, word) * 2;
}

uint32_t sheaf_sift(const struct stook_cache *cache, struct sheaf *sheaf)
{
    uint32_t sparse = 0, rest = sheaf->size;

    for (uint32_t looked = 0; looked < SHEAF_SIFT && sparse < rest; looked++) {
        void *object = sheaf->object[sparse];
        if (sheaf_is_sparse(cache, object)) {
            sparse++;
        } else { /* to the top, so that others come down for the next call */
            sheaf->object[sparse] = sheaf->object[--rest];
            sheaf->object[rest] = object;
        }
    }
    return rest == sheaf->size ? sheaf->size : sparse;
}

uint32_t sheaf_flush_some(struct stook_cache *cache, struct sheaf *sheaf, uint32_t n,
                          unsigned *slabs, bool nospin)
{
    uint32_t done, left, moved, size = sheaf->size;

    done = node_put_some(cache, sheaf->object, n, slabs, nospin);
    left = size - done;
    stat_add(cache, STAT_sheaf_flush, done);
    PROBE2(sheaf_flushed, &cache->name[0], done);
    moved = left < done ? left : done; /* from the top: no more than went */
    memcpy(sheaf->object, sheaf->object + size - moved, moved * sizeof(void *));
    sheaf->size = left;
    return done;
}

void sheaf_flush_array(struct stook_cache *cache, void *const *objects, uint32_t n, bool nospin)
{
    if (n == 0)
        return;
    stat_add(cache, STAT_sheaf_flush, n);
    PROBE2(sheaf_flushed, &cache->name[0], n);
    node_put(cache, objects, n, nospin);
}

void sheaf_flush(struct stook_cache *cache, struct sheaf *sheaf, bool nospin)
{
    sheaf_flush_array(cache, sheaf->object, sheaf->size, nospin);
    sheaf->size = 0;
}

void sheaf_drop(struct stook_cache *cache, struct sheaf *chain, bool nospin)
{
    while (chain) {
        struct sheaf *next = chain->next;
        sheaf_flush(cache, chain, nospin);
        stat_add(cache, STAT_sheaf_free, 1);
        sheaf_free(chain, nospin);
        chain = next;
    }
}

#ifdef __x86_64__
__attribute__((target("prfchw"))) /* to CPUs without it, it is no instruction */
#endif
void sheaf_expect(const struct sheaf *sheaf)
{
    uint32_t n = sheaf->size > 0 ? sheaf->size : sheaf->capacity;
    const char *line = (const char *)sheaf, *end = (const char *)&sheaf->object[n];

    __builtin_prefetch(line, 1);
    for (line += 64; line < end; line += 64)
        __builtin_prefetch(line, 1);
}
