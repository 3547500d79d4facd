/* SPDX-License-Identifier: MIT */
/* The kernel's names in C++: both forms of kmem_cache_create(), and what is a macro in C. */
#include <stook/inline.h> /* objects come and go inlined */
#include <stook/kmem.h>
#include <stook/kmem_rcu_head.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "support/test.h"

namespace
{
struct thing {
    std::uint64_t number;
    struct rcu_head rcu;
    char name[40];
};

void construct(void *object)
{
    static_cast<thing *>(object)->number = 4711;
}

TEST(test_both_forms)
{
    struct kmem_cache_args args = {};
    args.align = 128;
    args.ctor = construct;
    struct kmem_cache *caches[] = {kmem_cache_create("args", sizeof(thing), &args, 0u),
                                   kmem_cache_create("ctor", sizeof(thing), 64, 0, construct),
                                   kmem_cache_create("none", sizeof(thing), nullptr, 0),
                                   kmem_cache_create("bare", sizeof(thing), 0, 0, nullptr)};
    for (int i = 0; i < 4; i++) {
        assert_non_null(caches[i]);
        auto *object = static_cast<thing *>(kmem_cache_alloc(caches[i], GFP_KERNEL));
        assert_non_null(object);
        if (i < 2)
            assert_int_equal(object->number, 4711);
        assert_int_equal(reinterpret_cast<std::uintptr_t>(object) % (i == 0 ? 128 : 8), 0);
        kmem_cache_free(caches[i], object);
        kmem_cache_destroy(caches[i]);
    }
}

TEST(test_objects)
{
    struct kmem_cache *cache = kmem_create_with_args("thing", sizeof(thing), nullptr, SLAB_PANIC);
    void *objects[40];
    assert_true(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 40, objects));
    kmem_cache_free_bulk(cache, 40, objects);
    for (int i = 0; i < 1000; i++) {
        objects[i % 40] = kmem_cache_zalloc(cache, GFP_ATOMIC);
        assert_int_equal(static_cast<thing *>(objects[i % 40])->name[39], 0);
        if (i % 40 == 39)
            for (void *object : objects)
                kmem_cache_free(cache, object);
    }
    struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(cache, GFP_KERNEL, 3);
    assert_true(kmem_cache_sheaf_size(sheaf) >= 3);
    kfree(kmem_cache_alloc_from_sheaf(cache, GFP_KERNEL, sheaf));
    kmem_cache_return_sheaf(cache, GFP_KERNEL, sheaf);
    assert_int_equal(kmem_cache_shrink(cache), 0);
    kmem_cache_destroy(cache);

    struct kmem_cache *of_struct = KMEM_CACHE(thing, SLAB_HWCACHE_ALIGN);
    assert_int_equal(kmem_cache_size(of_struct), sizeof(thing));
    mempool_t *pool = mempool_create_slab_pool(2, of_struct);
    void *element = mempool_alloc(pool, GFP_NOIO);
    assert_non_null(element);
    mempool_free(element, pool);
    mempool_destroy(pool);
    kmem_cache_destroy(of_struct);
}

TEST(test_kmalloc)
{
    auto *text = static_cast<char *>(kmemdup_nul("sheaves", 5, GFP_KERNEL));
    assert_string_equal(text, "sheav");
    text = static_cast<char *>(krealloc(text, 30000, GFP_KERNEL));
    assert_string_equal(text, "sheav");
    kfree(text);
    thing *none = nullptr;
    kfree_rcu(none, rcu);
    assert_true(ZERO_OR_NULL_PTR(kcalloc(0, 0, GFP_KERNEL)));
}

TEST(test_by_type)
{
    thing *one = kzalloc_obj(thing), *many = kmalloc_objs(*one, 7, GFP_ATOMIC);
    auto *copy = static_cast<char *>(kmem_buckets_alloc(nullptr, 20, GFP_KERNEL));

    assert_non_null(one);
    assert_int_equal(one->name[39], 0);
    assert_true(ksize(many) >= 7 * sizeof(thing));
    kfree(many);
    kfree(one);
    kfree(copy);
    {
        thing *scoped __free(kfree) = kzalloc_obj(thing);
        assert_non_null(scoped);
    }
}

} // namespace
