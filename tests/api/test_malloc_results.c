/* SPDX-License-Identifier: MIT */
/* link: malloc */
/* needs: malloc */
/*
 * The results of every entry point for ordinary, zero, overflowing and misaligned requests, as glibc 2.36
 * documents them.
 */
#include "support/malloc_calls.h"
#include "support/test.h"

#include <stook/kmalloc.h>
#include <stook/stat.h>

#include <sys/mman.h>

static const size_t sizes[] = {
    1,       8,       15,    16,    17,    24,     100,     512,           513,     1024,
    4096,    5000,    32768, 32769, 65536, 100000, 1 << 20, (1 << 20) + 1, 2 << 20, (2 << 20) + 1,
    5000000, 33 << 20};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

TEST(test_every_size_is_usable_and_aligned)
{
    for (int i = 0; i < SIZES; i++) {
        void *p = t_malloc(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        assert_true(t_malloc_usable_size(p) >= sizes[i]);
        calls_fill(p, 0, sizes[i], (uint64_t)i);
        assert_true(calls_holds(p, sizes[i], (uint64_t)i));
        t_free(p);
    }
}

TEST(test_the_usable_size_is_usable)
{
    for (size_t size = 1; size < 40000; size += 37) {
        char *p = t_malloc(size), *q = t_malloc(size);
        memset(p, 1, t_malloc_usable_size(p));
        memset(q, 2, t_malloc_usable_size(q));
        assert_int_equal(p[t_malloc_usable_size(p) - 1], 1);
        assert_int_equal(p[0], 1);
        t_free(p);
        assert_int_equal(q[0], 2);
        t_free(q);
    }
    assert_int_equal(t_malloc_usable_size(NULL), 0);
}

/* free() takes objects of stook_kmalloc(), which hands the same object out again and knows nothing of malloc's marks. */
TEST(test_objects_of_kmalloc)
{
    for (size_t size = 8; size <= 512; size *= 2)
        for (unsigned i = 0; i < 100; i++) {
            void *p = stook_kmalloc(size, 0);
            assert_non_null(p);
            t_free(p);
        }
}

/* Nor does it read behind one: the last object of a block may have no memory behind it. */
TEST(test_nothing_is_read_behind_an_object_of_kmalloc)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void **p, **all = NULL;

    if (getenv("STOOK_DEBUG"))
        skip(); /* there are zones behind objects, which are checked */
    /* Each object points to the one before; the last one ends with a page. */
    do {
        p = stook_kmalloc(8, 0);
        assert_non_null(p);
        *p = all;
        all = p;
    } while (((uintptr_t)(p + 1) & (page - 1)) != 0);
    all = *p;
    assert_int_equal(mprotect(p + 1, page, PROT_NONE), 0);
    assert_int_equal(t_malloc_usable_size(p), 8);
    t_free(p);
    assert_int_equal(mprotect(p + 1, page, PROT_READ | PROT_WRITE), 0);
    for (; all; all = p) {
        p = *all;
        stook_free_any(all);
    }
}

TEST(test_zero_bytes_are_a_unique_object)
{
    void *p[] = {t_malloc(0),        t_malloc(0),
                 t_calloc(0, 5),     t_calloc(5, 0),
                 t_realloc(NULL, 0), t_aligned_alloc(64, 0),
                 t_memalign(64, 0),  t_valloc(0),
                 t_pvalloc(0),       t_reallocarray(NULL, 0, 7)};

    for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++) {
        assert_non_null(p[i]);
        for (size_t k = 0; k < i; k++)
            assert_ptr_not_equal(p[i], p[k]);
    }
    for (size_t i = 0; i < sizeof(p) / sizeof(p[0]); i++)
        t_free(p[i]);
}

TEST(test_free_of_null_and_errno)
{
    errno = 77;
    t_free(NULL);
    t_free_sized(NULL, 0);
    t_free_aligned_sized(NULL, 64, 0);
    assert_int_equal(errno, 77);
    for (int i = 0; i < SIZES; i++) {
        void *p = t_malloc(sizes[i]);
        errno = 78;
        t_free(p);
        assert_int_equal(errno, 78);
    }
    t_free_sized(t_malloc(100), 100);
    t_free_aligned_sized(t_aligned_alloc(256, 512), 256, 512);
}

#define ASSERT_ENOMEM(call)                                                                        \
    do {                                                                                           \
        errno = 0;                                                                                 \
        assert_null(call);                                                                         \
        assert_int_equal(errno, ENOMEM);                                                           \
    } while (0)

TEST(test_too_much_is_enomem)
{
    static const size_t huge[] = {(size_t)PTRDIFF_MAX + 1, SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 2,
                                  (size_t)1 << 62};

    for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
        ASSERT_ENOMEM(t_malloc(huge[i]));
        ASSERT_ENOMEM(t_calloc(1, huge[i]));
        ASSERT_ENOMEM(t_realloc(NULL, huge[i]));
        ASSERT_ENOMEM(t_aligned_alloc(64, huge[i]));
        ASSERT_ENOMEM(t_memalign(4096, huge[i]));
        ASSERT_ENOMEM(t_memalign(8 << 20, huge[i]));
        ASSERT_ENOMEM(t_valloc(huge[i]));
        ASSERT_ENOMEM(t_pvalloc(huge[i]));
    }
    ASSERT_ENOMEM(t_calloc(SIZE_MAX / 2, 3));
    ASSERT_ENOMEM(t_calloc(3, SIZE_MAX / 2));
    ASSERT_ENOMEM(t_calloc((size_t)1 << 32, (size_t)1 << 32));
    ASSERT_ENOMEM(t_reallocarray(NULL, SIZE_MAX / 2, 3));
    ASSERT_ENOMEM(t_memalign((size_t)1 << 62, 10));
    ASSERT_ENOMEM(t_memalign((size_t)1 << 63, 10));
}

TEST(test_what_cannot_grow_stays)
{
    for (int i = 0; i < SIZES; i++) {
        void *p = t_malloc(sizes[i]);
        calls_fill(p, 0, sizes[i], (uint64_t)i);
        ASSERT_ENOMEM(t_realloc(p, SIZE_MAX - 100));
        ASSERT_ENOMEM(t_realloc(p, (size_t)1 << 62));
        ASSERT_ENOMEM(t_reallocarray(p, SIZE_MAX / 2, 3));
        assert_true(calls_holds(p, sizes[i], (uint64_t)i));
        t_free(p);
    }
}

TEST(test_realloc_to_zero_frees)
{
    for (int i = 0; i < SIZES; i++) {
        assert_null(t_realloc(t_malloc(sizes[i]), 0));
        assert_null(t_reallocarray(t_malloc(sizes[i]), 0, 8));
    }
    /* It is free: the same memory is handed out again. */
    void *p = t_malloc(48);
    assert_null(t_realloc(p, 0));
    void *again[256];
    int seen = 0;
    for (int i = 0; i < 256; i++)
        seen += (again[i] = t_malloc(48)) == p;
    assert_int_equal(seen, 1);
    for (int i = 0; i < 256; i++)
        t_free(again[i]);
}

TEST(test_bad_alignments_are_einval)
{
    static const size_t bad[] = {0, 3, 5, 12, 24, 48, 100, 4095, 6 << 20};
    void *unset = (void *)(uintptr_t)0x1234, *p = unset;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        errno = 0;
        assert_null(t_aligned_alloc(bad[i], 64));
        assert_int_equal(errno, EINVAL);
        void *rounded = t_memalign(bad[i], 64); /* up to a power of two, as glibc's */
        assert_non_null(rounded);
        for (size_t align = 1; align < bad[i]; align *= 2)
            assert_int_equal((uintptr_t)rounded % (2 * align), 0);
        t_free(rounded);
        errno = 5;
        assert_int_equal(t_posix_memalign(&p, bad[i], 64), EINVAL);
        assert_int_equal(errno, 5);
        assert_ptr_equal(p, unset);
    }
    for (size_t align = 1; align < sizeof(void *); align *= 2) {
        assert_int_equal(t_posix_memalign(&p, align, 64), EINVAL);
        assert_ptr_equal(p, unset);
        void *q = t_memalign(align, 64); /* powers of two all the same */
        assert_non_null(q);
        t_free(q);
    }
    assert_null(t_memalign(SIZE_MAX, 64));
    assert_int_equal(errno, EINVAL);
    errno = 5;
    assert_int_equal(t_posix_memalign(&p, 64, SIZE_MAX - 10), ENOMEM);
    assert_int_equal(errno, ENOMEM);
    errno = 5;
    assert_int_equal(t_posix_memalign(&p, (size_t)1 << 63, 10), ENOMEM);
    assert_int_equal(errno, ENOMEM);
    assert_ptr_equal(p, unset);
}

TEST(test_every_alignment)
{
    static const size_t lengths[] = {0, 1, 8, 24, 100, 1000, 4096, 5000, 40000, 1 << 20, 3 << 20};

    for (size_t align = 8; align <= 4 << 20; align *= 2) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            void *p[6] = {t_aligned_alloc(align, lengths[i]), t_memalign(align, lengths[i]), NULL,
                          t_aligned_alloc(align, lengths[i])};
            assert_int_equal(t_posix_memalign(&p[2], align, lengths[i]), 0);
            for (int k = 0; k < 4; k++) {
                assert_non_null(p[k]);
                assert_int_equal((uintptr_t)p[k] % align, 0);
                assert_true(t_malloc_usable_size(p[k]) >= lengths[i]);
                calls_fill(p[k], 0, lengths[i], (uint64_t)k);
            }
            for (int k = 0; k < 4; k++) {
                assert_true(calls_holds(p[k], lengths[i], (uint64_t)k));
                p[k] = t_realloc(p[k], lengths[i] + 1000);
                assert_true(calls_holds(p[k], lengths[i], (uint64_t)k));
                t_free(p[k]);
            }
        }
    }
}

TEST(test_whole_pages)
{
    void *p = t_valloc(100), *q = t_pvalloc(4097);

    assert_int_equal((uintptr_t)p % 4096, 0);
    assert_int_equal((uintptr_t)q % 4096, 0);
    assert_true(t_malloc_usable_size(q) >= 8192);
    t_free(p);
    t_free(q);
}

static int all_zero(const unsigned char *p, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (p[i])
            return 0;
    return 1;
}

TEST(test_calloc_is_zero_after_dirty_reuse)
{
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < SIZES; i++) {
            void *p[4];
            for (int k = 0; k < 4; k++) {
                p[k] = t_malloc(sizes[i]);
                memset(p[k], 0xa5, sizes[i]);
            }
            for (int k = 0; k < 4; k++)
                t_free(p[k]);
            for (int k = 0; k < 4; k++) {
                p[k] = k % 2 ? t_calloc(1, sizes[i]) : t_calloc(sizes[i], 1);
                assert_true(all_zero(p[k], sizes[i]));
            }
            for (int k = 0; k < 4; k++)
                t_free(p[k]);
        }
    }
}

TEST(test_mallinfo_sees_what_is_held)
{
    struct mallinfo2 before = t_mallinfo2(), small, large, after;
    static void *p[1000];
    void *big;

    for (int i = 0; i < 1000; i++)
        p[i] = t_malloc(256);
    small = t_mallinfo2();
    assert_in_range(small.uordblks - before.uordblks, 1000 * 256, 1000 * 256 + 65536);
    assert_true(small.uordblks + small.fordblks <= small.arena);
    big = t_malloc(10 << 20);
    large = t_mallinfo2();
    assert_int_equal(large.hblks - small.hblks, 1);
    assert_in_range(large.hblkhd - small.hblkhd, 10 << 20, 12 << 20);
    t_free(big);
    for (int i = 0; i < 1000; i++)
        t_free(p[i]);
    after = t_mallinfo2();
    assert_true(after.uordblks < small.uordblks - 900 * 256);
    assert_int_equal(after.hblks, before.hblks);
    assert_true((size_t)t_mallinfo().arena == after.arena);
}

TEST(test_trim_gives_back)
{
    static void *p[20000];
    struct mallinfo2 before, after;

    for (int i = 0; i < 20000; i++) {
        p[i] = t_malloc(500);
        memset(p[i], 1, 500);
    }
    for (int i = 0; i < 20000; i++)
        t_free(p[i]);
    before = t_mallinfo2();
    assert_true(before.keepcost > 0);
    assert_int_equal(t_malloc_trim(0), 1);
    after = t_mallinfo2();
    assert_int_equal(after.keepcost, 0);
    assert_true(after.arena <= before.arena);
}

TEST(test_options_and_info)
{
    char text[4096] = "";
    FILE *stream = fmemopen(text, sizeof(text), "w");

    assert_int_equal(t_mallopt(M_TRIM_THRESHOLD, 1 << 20), 1);
    assert_int_equal(t_mallopt(M_ARENA_MAX, 2), 1);
    assert_int_equal(t_mallopt(M_CHECK_ACTION, 3), 1);
    assert_int_equal(t_mallopt(-12345, 2), 1); /* as glibc 2.36 does */
    assert_int_equal(t_malloc_info(1, stream), EINVAL);
    assert_int_equal(t_malloc_info(0, stream), 0);
    fclose(stream);
    assert_non_null(strstr(text, "<malloc version=\"stook-1\">"));
    assert_non_null(strstr(text, "</malloc>"));
}

CALLS_BYTES static bool all_bytes(const void *object, size_t from, size_t size, unsigned char byte)
{
    const unsigned char *p = object;

    for (size_t i = from; i < size; i++)
        if (p[i] != byte)
            return false;
    return true;
}

/* M_PERTURB: what is handed out has the complement, what is freed the byte; calloc gives zeros. */
TEST(test_perturb_fills)
{
    static const size_t filled[] = {1, 16, 100, 3000, 32768, 40000, 3000000};
    void *volatile freed;

    if (getenv("STOOK_DEBUG"))
        skip();                                       /* what is freed is poisoned instead */
    assert_int_equal(t_mallopt(M_PERTURB, 0x15a), 1); /* the low byte alone */
    for (size_t i = 0; i < sizeof(filled) / sizeof(filled[0]); i++)
        for (int round = 0; round < (filled[i] < 1000000 ? 3 : 1); round++) {
            unsigned char *p = t_malloc(filled[i]), *q = t_calloc(1, filled[i]);
            assert_true(all_bytes(p, 0, filled[i], 0xa5));
            assert_true(all_bytes(q, 0, filled[i], 0));
            t_free(q);
            q = t_aligned_alloc(64, filled[i]);
            assert_true(all_bytes(q, 0, filled[i], 0xa5));
            memset(q, 7, filled[i]);
            q = t_realloc(q, 2 * filled[i]); /* what was there stays */
            assert_true(all_bytes(q, 0, filled[i], 7));
            t_free(q);
            freed = p;
            t_free(p);
            if (filled[i] >= 100 && filled[i] <= 32768) /* no links and no pages that are gone */
                assert_true(all_bytes(freed, 16, filled[i], 0x5a));
        }
    assert_int_equal(t_mallopt(M_PERTURB, 0), 1);
    freed = memset(t_malloc(100), 7, 100);
    t_free(freed);
    assert_true(all_bytes(freed, 16, 100, 7));
}

static uint64_t counted_allocs(void)
{
    struct stook_tag_stat stat = {.size = sizeof(stat)};
    uint64_t sum = 0;

    for (unsigned tag = stook_tag_next(0); tag; tag = stook_tag_next(tag))
        if (stook_tag_stat(tag, &stat) == 0)
            sum += stat.total_objects;
    return sum;
}

/* The fast path stays closed until the last reason is gone: every call is counted meanwhile. */
TEST(test_perturb_beside_tags)
{
    assert_int_equal(stook_tags_enable(NULL, 1), 0);
    for (int i = 0; i < 3; i++) {
        uint64_t before = counted_allocs();
        t_mallopt(M_PERTURB, i % 2);
        for (int j = 0; j < 100; j++)
            t_free(t_malloc(22000)); /* of slabs that are new, and have tags */
        assert_true(counted_allocs() >= before + 100);
    }
    assert_int_equal(stook_tags_enable(NULL, 0), 0);
}

/* To the stream, wherever that goes. */
TEST(test_stats_go_to_the_stream)
{
#ifdef __GLIBC__ /* musl's stderr is a constant */
    FILE *before = stderr;
    char *text = NULL;
    size_t size = 0;

    stderr = open_memstream(&text, &size);
    t_malloc_stats();
    fclose(stderr);
    stderr = before;
    assert_true(size > 500);
    assert_non_null(strstr(text, "malloc-64"));
    assert_non_null(strstr(text, "\ntotal "));
    free(text);
#else
    skip();
#endif
}
