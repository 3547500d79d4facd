/* SPDX-License-Identifier: MIT */
#include "sheaf/sheaf.h"

#include "slab/node.h"
#include "slab/slab.h"
#include "support/check.h"
#include "support/test.h"

#include <stook/stook.h>

/* Every capacity finds a class that holds it, and comes from the library's own zones. */
TEST(every_capacity)
{
    for (unsigned capacity = 1; capacity <= STOOK_SHEAF_CAPACITY_MAX; capacity++) {
        struct sheaf *sheaf = sheaf_alloc(capacity, capacity, 0, false);
        size_t bytes = sizeof(*sheaf) + capacity * sizeof(void *), room;
        assert_non_null(sheaf);
        room = slab_cache_of(sheaf)->object_size;
        assert_true(room >= bytes && (room == sheaf_class_size[0] || room < bytes * 5 / 2));
        assert_int_equal(sheaf_room(sheaf), (room - sizeof(*sheaf)) / sizeof(void *));
        assert_int_equal((uintptr_t)sheaf % 64, 0);
        assert_true(pagemap_zone(sheaf) >= pagemap.zones / 2);
        assert_int_equal(pagemap_node(sheaf), 0);
        assert_int_equal(sheaf->size, 0);
        assert_int_equal(sheaf->capacity, capacity);
        assert_null(sheaf->next);
        for (unsigned i = 0; i < capacity; i++)
            sheaf->object[i] = sheaf; /* all of it is there */
        sheaf_free(sheaf, false);
    }
    check_all(NULL, 0);
}

TEST(flush_returns_objects)
{
    struct stook_cache_args args = {.size = sizeof(args), .flags = STOOK_CACHE_NOSHEAF};
    struct stook_cache *cache = stook_cache_create("sheaf", 100, &args);
    struct sheaf *sheaf = sheaf_alloc(50, 50, 0, false);

    assert_true(cache && sheaf);
    sheaf->size = node_take(cache, 0, sheaf->object, 50, 50, false);
    assert_int_equal(sheaf->size, 50);
    errno = 17;
    sheaf_flush(cache, sheaf, false);
    assert_int_equal(sheaf->size, 0);
    assert_int_equal(sheaf->capacity, 50);
    sheaf_free(sheaf, false);
    assert_int_equal(errno, 17);
    check_all(NULL, 0);
    assert_int_equal(stook_cache_destroy(cache), 0);
}
