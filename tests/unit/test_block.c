/* SPDX-License-Identifier: MIT */
/*
 * A block against a naive model: an array of page states, searched page by page.
 */
#include "page/block.h"

#include "support/random.h"
#include "support/test.h"

enum state { TAKEN, CLEAN, DIRTY };

static struct block *block;
static uint64_t map[BLOCK_GRANULES / 64];
static enum state model[BLOCK_PAGES];

static int setup(void **unused)
{
    block = calloc(1, sizeof(*block));
    assert_non_null(block);
    memset(map, 0, sizeof(map));
    memset(block->free, 0xff, sizeof(block->free));
    block->nfree = block->longest = BLOCK_PAGES;
    for (unsigned i = 0; i < BLOCK_PAGES; i++)
        model[i] = CLEAN;
    return 0;
}

static int teardown(void **unused)
{
    free(block);
    return 0;
}

static int naive_find(unsigned pages, unsigned align, bool only_dirty)
{
    for (unsigned at = 0; at + pages <= BLOCK_PAGES; at += align) {
        unsigned n = 0;
        while (n < pages && (only_dirty ? model[at + n] == DIRTY : model[at + n] != TAKEN))
            n++;
        if (n == pages)
            return (int)at;
    }
    return -1;
}

static unsigned naive_longest(void)
{
    unsigned longest = 0, run = 0;

    for (unsigned i = 0; i < BLOCK_PAGES; i++) {
        run = model[i] == TAKEN ? 0 : run + 1;
        if (run > longest)
            longest = run;
    }
    return longest;
}

static void same(void)
{
    unsigned nfree = 0, ndirty = 0;

    for (unsigned i = 0; i < BLOCK_PAGES; i++) {
        bool is_free = block->free[i / 64] >> i % 64 & 1,
             dirty = block->dirty[i / 64] >> i % 64 & 1;
        assert_int_equal(is_free, model[i] != TAKEN);
        assert_int_equal(dirty, model[i] == DIRTY);
        nfree += is_free;
        ndirty += dirty;
    }
    assert_int_equal(block->nfree, nfree);
    assert_int_equal(block->ndirty, ndirty);
    assert_true(block->longest >= naive_longest());
}

static void take(unsigned at, unsigned pages)
{
    unsigned dirty = 0;

    for (unsigned i = at; i < at + pages; i++) {
        dirty += model[i] == DIRTY;
        model[i] = TAKEN;
    }
    assert_int_equal(block_take(block, at, pages), dirty);
}

static void put(unsigned at, unsigned pages, bool dirty)
{
    for (unsigned i = at; i < at + pages; i++)
        model[i] = dirty ? DIRTY : CLEAN;
    block_put(block, at, pages, dirty);
}

TEST_WITH(random_runs, setup, teardown)
{
    uint64_t seed = 1;

    for (int step = 0; step < 30000; step++) {
        unsigned order = random_below(&seed, 9);
        unsigned pages =
            random_below(&seed, 2) ? 1u << order : 1 + random_below(&seed, 1u << order);
        unsigned align = random_below(&seed, 2) ? 1 : 1u << random_below(&seed, 10);
        unsigned at = random_below(&seed, BLOCK_PAGES);
        if (random_below(&seed, 2)) {
            int found = block_find(block, pages, align), want = naive_find(pages, align, true);
            if (want < 0)
                want = naive_find(pages, align, false);
            assert_int_equal(found, want); /* the first dirty run, else the first free one */
            if (found >= 0)
                take((unsigned)found, pages);
        } else if (model[at] == TAKEN) {
            unsigned n = 1;
            while (n < pages && at + n < BLOCK_PAGES && model[at + n] == TAKEN)
                n++;
            put(at, n, random_below(&seed, 2));
        } else {
            unsigned n = 0;
            while (n < pages && at + n < BLOCK_PAGES && model[at + n] != TAKEN)
                n++;
            assert_int_equal(block_is_free(block, at, pages), n == pages);
        }
        if (step % 16 == 0)
            same();
        if (step % 64 == 0) {
            block_measure(block);
            assert_int_equal(block->longest, naive_longest());
        }
    }
}

TEST_WITH(whole_and_ends, setup, teardown)
{
    assert_int_equal(block_find(block, BLOCK_PAGES, BLOCK_PAGES), 0);
    take(0, BLOCK_PAGES);
    same();
    assert_int_equal(block_find(block, 1, 1), -1);
    block_measure(block);
    assert_int_equal(block->longest, 0);
    put(BLOCK_PAGES - 1, 1, true);
    assert_int_equal(block->longest, 1);
    assert_int_equal(block_find(block, 1, 1), BLOCK_PAGES - 1);
    assert_int_equal(block_find(block, 1, 2), -1);
    assert_int_equal(block_find(block, 2, 1), -1);
    assert_false(block_is_free(block, BLOCK_PAGES - 1, 2)); /* past the end */
    put(0, BLOCK_PAGES - 1, false);
    assert_int_equal(block->longest, BLOCK_PAGES); /* grew together */
    assert_int_equal(block_find(block, BLOCK_PAGES, 1), 0);
    same();
}

static unsigned runs[8][2];

static unsigned note_runs(const uint64_t mask[BLOCK_WORDS])
{
    unsigned found = 0;

    for (unsigned at = 0, n; (n = block_next_run(mask, &at)) > 0; at += n) {
        runs[found][0] = at;
        runs[found++][1] = n;
    }
    return found;
}

TEST(each_run)
{
    uint64_t mask[BLOCK_WORDS] = {0};

    assert_int_equal(note_runs(mask), 0);
    mask[0] = 1 | (uint64_t)0xf << 60;
    mask[1] = 0x3;
    mask[BLOCK_WORDS - 1] = (uint64_t)1 << 63;
    assert_int_equal(note_runs(mask), 3);
    assert_true(runs[0][0] == 0 && runs[0][1] == 1);
    assert_true(runs[1][0] == 60 && runs[1][1] == 6); /* across words */
    assert_true(runs[2][0] == BLOCK_PAGES - 1 && runs[2][1] == 1);
}

/* Granules are handed out once, never those of the block itself, and all of them in the end. */
TEST_WITH(granules, setup, teardown)
{
    static uint8_t taken[BLOCK_GRANULES];
    static struct {
        uint32_t at, n;
    } live[4096];
    uint32_t count = 0, at, sum = 0;
    uint64_t seed = 2;

    for (int step = 0; step < 20000; step++) {
        if (count < 4096 && random_below(&seed, 100) < 55) {
            uint32_t n = 1 + random_below(&seed, 34);
            at = block_take_meta(block, map, n);
            if (at == 0)
                continue;
            assert_true(at >= BLOCK_FIRST_GRANULE && at + n <= BLOCK_GRANULES);
            assert_true(block->meta_high >= at + n);
            for (uint32_t i = at; i < at + n; i++)
                assert_int_equal(taken[i]++, 0);
            live[count].at = at;
            live[count++].n = n;
        } else if (count > 0) {
            uint32_t i = random_below(&seed, count);
            block_put_meta(block, map, live[i].at, live[i].n);
            memset(&taken[live[i].at], 0, live[i].n);
            live[i] = live[--count];
        }
    }
    while (count > 0) {
        block_put_meta(block, map, live[count - 1].at, live[count - 1].n);
        count--;
    }
    while ((at = block_take_meta(block, map, 1)) != 0)
        sum++;
    assert_int_equal(sum, BLOCK_GRANULES - BLOCK_FIRST_GRANULE);
    block_put_meta(block, map, BLOCK_GRANULES - 2, 2); /* the last ones, found again */
    assert_int_equal(block_take_meta(block, map, 3), 0);
    assert_int_equal(block_take_meta(block, map, 2), BLOCK_GRANULES - 2);
}
