/* SPDX-License-Identifier: MIT */
/* stook/kmem.h for the code of Linux 6.1: what its functions took and returned, and its own flags. */
#define STOOK_KMEM_LINUX 0x060100

/* As in the gfp_types.h of 6.1, where a bit lies elsewhere than in 7.2; and what the kernel has beside it. */
typedef unsigned gfp_t;
#define __GFP_ATOMIC ((gfp_t)0x200u)
#define __GFP_IO ((gfp_t)0x40u)
#define __GFP_FS ((gfp_t)0x80u)
#define __GFP_ZERO ((gfp_t)0x100u)
#define __GFP_DIRECT_RECLAIM ((gfp_t)0x400u)
#define __GFP_KSWAPD_RECLAIM ((gfp_t)0x800u)
#define __GFP_NOFAIL ((gfp_t)0x8000u)
#define GFP_KERNEL (__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM | __GFP_IO | __GFP_FS)
#define GFP_NOWAIT __GFP_KSWAPD_RECLAIM
#define GFP_ATOMIC (__GFP_ATOMIC | __GFP_KSWAPD_RECLAIM)
#include "support/test.h"

#include <stook/kmem.h>

TEST(bulk_returns_the_number)
{
    struct kmem_cache *cache = kmem_cache_create("older", 48, 0, 0, NULL);
    void *objects[40];

    assert_int_equal(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 40, objects), 40);
    kmem_cache_free_bulk(cache, 40, objects);
    assert_int_equal(kmem_cache_alloc_bulk(cache, GFP_ATOMIC, 3, objects), 3);
    kmem_cache_free_bulk(cache, 3, objects);
    assert_int_equal(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 0, objects), 0);
    assert_int_equal(stook_cache_destroy(kmem_stook_cache(cache)), 0);
}

TEST(kvrealloc_takes_the_old_size)
{
    char *text = kvmalloc(10, GFP_KERNEL);

    memcpy(text, "nine byte", 10);
    text = kvrealloc(text, 10, 20000, GFP_KERNEL);
    assert_non_null(text);
    assert_string_equal(text, "nine byte");
    assert_true(__ksize(text) >= 20000);
    kvfree(text);
}

TEST(flags_are_the_kernels)
{
    char *zeros = kmalloc(200, GFP_ATOMIC | __GFP_ZERO);

    assert_int_equal(kmem_stook_flags(GFP_ATOMIC), STOOK_NORECLAIM);
    assert_int_equal(kmem_stook_flags(GFP_KERNEL), STOOK_WAIT);
    for (int i = 0; i < 200; i++)
        assert_int_equal(zeros[i], 0);
    kfree(zeros);
}
