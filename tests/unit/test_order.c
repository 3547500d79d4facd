/* SPDX-License-Identifier: MIT */
/* needs: glibc */
#include "sheaf/order.h"

#include "page/pagemap.h"
#include "slab/cache.h"
#include "support/test.h"

enum { OBJECTS = 256, STRIDE = 32, EACH = PAGE_SIZE / STRIDE };

static struct stook_cache cache = {.flags = CACHE_MALLOC, .layout = {.stride = STRIDE}};
static void *before[OBJECTS];

/* Addresses that are never read. */
static void *object_at(uint32_t index)
{
    return (char *)(uintptr_t)0x10000000 + (size_t)index * STRIDE;
}

static struct sheaf *sheaf_of(const uint32_t *index, uint32_t n)
{
    static union {
        struct sheaf sheaf;
        char room[sizeof(struct sheaf) + OBJECTS * sizeof(void *)];
    } made;

    made.sheaf.size = made.sheaf.capacity = n;
    for (uint32_t i = 0; i < n; i++)
        before[i] = made.sheaf.object[i] = object_at(index[i]);
    return &made.sheaf;
}

static bool changes(const uint32_t *index, uint32_t n)
{
    struct sheaf *sheaf = sheaf_of(index, n);

    order_restore(&cache, sheaf);
    assert_int_equal(sheaf->size, n);
    return memcmp(sheaf->object, before, n * sizeof(void *)) != 0;
}

/* 0 to OBJECTS - 1, or the reverse, each exchanged with one at most `reach` away. */
static void shuffle(uint32_t index[OBJECTS], uint32_t reach, bool down)
{
    for (uint32_t i = 0; i < OBJECTS; i++)
        index[i] = down ? OBJECTS - 1 - i : i;
    srand(1);
    for (uint32_t i = 0; i + reach < OBJECTS; i++) {
        uint32_t other = i + (uint32_t)rand() % (reach + 1), held = index[i];
        index[i] = index[other];
        index[other] = held;
    }
}

TEST(neighbours_meet_again)
{
    uint32_t index[OBJECTS];

    for (int down = 0; down < 2; down++) {
        struct sheaf *sheaf;
        shuffle(index, 3, down != 0);
        sheaf = sheaf_of(index, OBJECTS);
        order_restore(&cache, sheaf);
        for (uint32_t i = 0; i < OBJECTS; i++)
            assert_ptr_equal(sheaf->object[i], object_at(down ? OBJECTS - 1 - i : i));
    }
}

/* Pages stay in the order in which the sheaf comes to them: what was freed last is still handed out first. */
TEST(pages_keep_their_order)
{
    uint32_t index[OBJECTS];
    struct sheaf *sheaf;

    shuffle(index, 3, false);
    for (uint32_t i = 0; i < OBJECTS; i++)
        index[i] = (index[i] + OBJECTS / 2) % OBJECTS;
    sheaf = sheaf_of(index, OBJECTS);
    order_restore(&cache, sheaf);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        uint32_t page = i / EACH == 0 ? 1 : 0;
        assert_ptr_equal(sheaf->object[i], object_at(page * EACH + EACH - 1 - i % EACH));
    }
}

TEST(what_is_not_worth_it_stays)
{
    uint32_t index[OBJECTS];

    shuffle(index, 0, false); /* in order */
    assert_false(changes(index, OBJECTS));
    shuffle(index, 3, false);
    assert_true(changes(index, OBJECTS));
    assert_false(changes(index, 32)); /* few objects */
    for (uint32_t i = 0; i < OBJECTS; i++)
        index[i] *= EACH / 2; /* two a page */
    assert_false(changes(index, OBJECTS));
    shuffle(index, 3, false);
    cache.flags = 0; /* a typed cache */
    assert_false(changes(index, OBJECTS));
    cache.flags = CACHE_MALLOC;
    cache.permutation = (uint16_t[1]){0}; /* random order was asked for */
    assert_false(changes(index, OBJECTS));
    cache.permutation = NULL;
}

/* An object that was freed twice stays twice in the sheaf, for its slab to tell. */
TEST(a_second_free_is_not_lost)
{
    uint32_t index[OBJECTS];

    shuffle(index, 3, false);
    assert_true(changes(index, EACH));
    index[EACH - 1] = index[3];
    assert_false(changes(index, EACH));
}
