/* SPDX-License-Identifier: MIT */
/* Allocations are functions: they can be members, pointers and arguments.  No header of the library
 * defines a macro of a call's name unless STOOK_SITES asks for it. */
#include <stook/inline.h>
#include <stook/kmalloc.h>
#include <stook/reserve.h>
#include <stook/stook.h>

#include <cstddef>
#include <cstdint>

#include "support/test.h"

#if defined(stook_alloc) || defined(stook_alloc_bulk) || defined(stook_alloc_inline) ||            \
    defined(stook_sheaf_alloc) || defined(stook_pool_alloc) || defined(stook_kmalloc)
#error "a call is a macro"
#endif

namespace
{
struct source {
    struct stook_cache *cache;

    void *stook_alloc() const
    {
        return ::stook_alloc(cache, 0);
    }
    void *stook_kmalloc(std::size_t size) const
    {
        return ::stook_kmalloc(size, 0);
    }
};

void *take(void *(*how)(struct stook_cache *, unsigned), struct stook_cache *cache)
{
    return how(cache, STOOK_ZERO);
}

TEST(test_members)
{
    const source from = {stook_cache_create("members", 48, nullptr)};
    const source *p = &from;
    assert_non_null(p->cache);
    void *object = p->stook_alloc();
    assert_non_null(object);
    stook_free(from.cache, object);
    object = take(stook_alloc, from.cache);
    assert_non_null(object);
    stook_free(from.cache, object);
    object = stook_alloc_inline(from.cache, STOOK_ZERO);
    assert_non_null(object);
    assert_int_equal(*static_cast<std::uint64_t *>(object), 0);
    stook_free_inline(from.cache, object);
    object = from.stook_kmalloc(100);
    assert_non_null(object);
    stook_free_any(object);
    assert_int_equal(stook_cache_destroy(from.cache), 0);
}

} // namespace
