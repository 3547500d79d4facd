/* SPDX-License-Identifier: MIT */
/* link: malloc */
/* needs: malloc */
/* realloc keeps contents across every boundary: classes, runs, blocks, spans, in both directions. */
#include "support/malloc_calls.h"
#include "support/test.h"

enum { MIB = 1 << 20 };

static void *resize(void *p, size_t had, size_t size, uint64_t seed)
{
    size_t kept = had < size ? had : size;

    p = t_realloc(p, size);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 16, 0);
    assert_true(t_malloc_usable_size(p) >= size);
    assert_true(calls_holds(p, kept, seed));
    calls_fill(p, kept, size, seed);
    return p;
}

TEST(test_across_all_boundaries)
{
    static const size_t edges[] = {1, 16, 512, 2048, 32768, 65536, MIB, 2 * MIB, 4 * MIB, 6 * MIB};
    enum { EDGES = sizeof(edges) / sizeof(edges[0]) };

    for (int i = 0; i < EDGES; i++)
        for (int k = 0; k < EDGES; k++)
            for (int side = -1; side <= 1; side++) {
                size_t from = edges[i] + (size_t)(side + 1), to = edges[k] + (size_t)(1 - side);
                void *p = t_malloc(from);
                calls_fill(p, 0, from, from);
                p = resize(p, from, to, from);
                p = resize(p, to, from, from);
                t_free(p);
            }
}

TEST(test_small_steps_up_and_down)
{
    void *p = t_malloc(1);
    size_t had = 1;

    calls_fill(p, 0, had, 7);
    for (size_t size = 1; size < 9 * MIB; size += size / 9 + 1) {
        p = resize(p, had, size, 7);
        had = size;
    }
    while (had > 1) {
        size_t size = had - had / 7 - 1;
        p = resize(p, had, size == 0 ? 1 : size, 7);
        had = size == 0 ? 1 : size;
    }
    t_free(p);
}

/* Others in the way force moves; their contents must not suffer. */
TEST(test_among_neighbours)
{
    enum { N = 40 };
    void *p[N];
    size_t had[N];
    uint64_t random = 88172645463325252u;

    for (int i = 0; i < N; i++) {
        had[i] = 1000;
        p[i] = t_malloc(had[i]);
        calls_fill(p[i], 0, had[i], (uint64_t)i);
    }
    for (int round = 0; round < 1500; round++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        int i = (int)(random % N);
        size_t size = 1 + (random >> 8) % ((random >> 40) % 3 ? 60000 : 3 * MIB);
        p[i] = resize(p[i], had[i], size, (uint64_t)i);
        had[i] = size;
    }
    for (int i = 0; i < N; i++) {
        assert_true(calls_holds(p[i], had[i], (uint64_t)i));
        t_free(p[i]);
    }
}

TEST(test_a_growing_object_does_not_move_each_time)
{
    void *p = t_malloc(40000), *wall;
    int moves = 0, steps = 0;

    for (size_t size = 40000; size < 8 * MIB; size += 4096, steps++) {
        void *before = p;
        p = t_realloc(p, size);
        moves += p != before;
        if (p != before) { /* another object takes the pages right behind it */
            wall = t_malloc(40000);
            t_free(wall);
        }
    }
    assert_true(moves * 20 < steps);
    t_free(p);
}

/* A buffer that grew by doubling and is cut to its length keeps at most an eighth more, if there is a class for it. */
TEST(test_what_shrinks_fits)
{
    for (size_t had = 64; had <= 32768; had *= 2)
        for (size_t size = had / 2 + 1; size < had; size += had / 16) {
            void *p = t_malloc(had), *fits = t_malloc(size);

            calls_fill(p, 0, had, size);
            p = resize(p, had, size, size);
            assert_true(t_malloc_usable_size(p) <= t_malloc_usable_size(fits) ||
                        t_malloc_usable_size(p) - size <= t_malloc_usable_size(p) / 8);
            t_free(p);
            t_free(fits);
        }
}

TEST(test_what_shrinks_gives_back)
{
    struct mallinfo2 info;
    void *p;
    size_t before;

    if (getenv("STOOK_EMULATED"))
        skip(); /* qemu forgets the range that MREMAP_DONTUNMAP leaves mapped */
    p = t_malloc(20 * MIB);
    before = t_mallinfo2().hblkhd;
    p = t_realloc(p, 5 * MIB);
    info = t_mallinfo2();
    assert_true(info.hblkhd <= before - 13 * MIB);
    p = t_realloc(p, 100000);
    assert_true(t_mallinfo2().hblkhd <= info.hblkhd);
    p = t_realloc(p, 100);
    assert_true(t_malloc_usable_size(p) < 200);
    t_free(p);
}
