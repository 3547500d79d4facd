/* SPDX-License-Identifier: MIT */
#include "sheaf/sheaf.h"

#include "base/report.h"
#include "slab/node.h"

#include <errno.h>

struct stook_cache *sheaf_cache[SHEAF_CLASSES];

static struct stook_cache *sheaf_class(unsigned capacity)
{
    size_t bytes = sizeof(struct sheaf) + capacity * sizeof(void *);
    unsigned class = 0;

    while ((size_t)SHEAF_CLASS_MIN << class < bytes)
        class ++;
    return sheaf_cache[class];
}
_Static_assert(sizeof(struct sheaf) + STOOK_SHEAF_CAPACITY_MAX * sizeof(void *) <=
                   SHEAF_CLASS_MIN << (SHEAF_CLASSES - 1),
               "the largest sheaf has a class");

struct sheaf *sheaf_alloc(unsigned capacity, unsigned node, bool nospin)
{
    int saved = errno;
    void *memory;
    struct sheaf *sheaf;

    if (node_take(sheaf_class(capacity), node, &memory, 1, 1, nospin) == 0) {
        errno = saved;
        return NULL;
    }
    sheaf = memory;
    sheaf->size = 0;
    sheaf->capacity = capacity;
    sheaf->next = NULL;
    return sheaf;
}

void sheaf_free(struct sheaf *sheaf, bool nospin)
{
    void *memory = sheaf;

    STOOK_ASSERT(sheaf->size == 0);
    node_put(sheaf_class(sheaf->capacity), &memory, 1, nospin);
}

void sheaf_flush(struct stook_cache *cache, struct sheaf *sheaf, bool nospin)
{
    uint32_t n = sheaf->size;

    sheaf->size = 0;
    node_put(cache, sheaf->object, n, nospin);
}
