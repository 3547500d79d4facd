/* SPDX-License-Identifier: MIT */
/* link: look */
/* needs: whole */
/*
 * The marking of look/reach.h over a heap that is only numbers: at addresses that this process does not have, read
 * through a reader, as the heap of another process would be.
 */
#include "look/reach.h"
#include "support/test.h"

enum { SLABS = 3, OBJECTS = 32, SIZE = 64, PAGE = 4096, LARGE_PAGES = 20 };
#define BASE UINT64_C(0x7e5500000000)
#define ROOTS UINT64_C(0x1000)

static struct {
    struct reach *reach;
    uint8_t live[SLABS * OBJECTS + 1], kind[SLABS * OBJECTS + 1];
    uint64_t memory[(SLABS + LARGE_PAGES) * PAGE / 8], roots[64];
    unsigned reads, refused;
} fake;

static const void *fake_view(void *context, uint64_t address, size_t size, void *buffer)
{
    const char *from = NULL;

    assert_ptr_equal(context, &fake);
    assert_true(size > 0 && size <= REACH_CHUNK && size % 8 == 0 && address % 8 == 0);
    fake.reads++;
    if (address >= BASE && address + size <= BASE + sizeof(fake.memory))
        from = (const char *)fake.memory + (address - BASE);
    else if (address >= ROOTS && address + size <= ROOTS + sizeof(fake.roots))
        from = (const char *)fake.roots + (address - ROOTS);
    else
        fake.refused++;
    return from ? memcpy(buffer, from, size) : NULL;
}

static uint64_t at(uint32_t object)
{
    return object == SLABS * OBJECTS ? BASE + SLABS * PAGE
                                     : BASE + object / OBJECTS * PAGE + 16 + object % OBJECTS * 80;
}

/* Slabs of 32 objects with a gap before the first and behind each; and a large object behind them. */
static void add(void)
{
    fake.reach = reach_new(BASE, BASE + sizeof(fake.memory), fake_view, &fake);
    for (uint32_t i = 0; i < SLABS; i++)
        assert_true(reach_add(fake.reach, BASE + i * PAGE, PAGE, at(i * OBJECTS), 80, SIZE, OBJECTS,
                              i, fake.live + i * OBJECTS));
    assert_true(reach_add(fake.reach, BASE + SLABS * PAGE, LARGE_PAGES * PAGE, at(SLABS * OBJECTS),
                          LARGE_PAGES * PAGE, LARGE_PAGES * PAGE, 1, SLABS,
                          fake.live + SLABS * OBJECTS));
    reach_start(fake.reach);
}

static int setup(void **state)
{
    memset(&fake, 0, sizeof(fake));
    return 0;
}

static int teardown(void **state)
{
    reach_close(fake.reach);
    return 0;
}

static void live(uint32_t object)
{
    fake.live[object] = 1;
}

/* A word of an object. */
static void points(uint32_t from, unsigned word, uint64_t address)
{
    fake.memory[(at(from) - BASE) / 8 + word] = address;
}

static void note(uint64_t address, uint64_t size, uint32_t number, uint32_t index,
                 enum reach_kind kind, void *arg)
{
    uint32_t object = number * OBJECTS + index;

    assert_ptr_equal(arg, &fake);
    assert_int_equal(address, at(object));
    assert_int_equal(size, number == SLABS ? LARGE_PAGES * PAGE : SIZE);
    assert_int_equal(fake.live[object], 1);
    fake.live[object] = 2; /* once */
    fake.kind[object] = (uint8_t)kind;
}

static void search(void)
{
    reach_root_memory(fake.reach, ROOTS, sizeof(fake.roots));
    reach_sort(fake.reach);
    reach_each(fake.reach, note, &fake);
    for (uint32_t i = 0; i <= SLABS * OBJECTS; i++)
        assert_int_not_equal(fake.live[i], 1);
}

static void assert_kind(uint32_t object, enum reach_kind kind)
{
    assert_int_equal(fake.live[object], 2);
    assert_int_equal(fake.kind[object], kind);
}

TEST_WITH(addresses_are_found_in_objects_alone, setup, teardown)
{
    memset(fake.live, 1, sizeof(fake.live));
    fake.live[5] = 0;
    add();
    for (uint32_t i = 0; i <= SLABS * OBJECTS; i++) {
        assert_int_equal(reach_live(fake.reach, at(i)), i != 5);
        assert_int_equal(reach_live(fake.reach, at(i) + SIZE - 1), i != 5);
    }
    reach_free(fake.reach, at(7) + 8); /* no object begins there */
    assert_true(reach_live(fake.reach, at(7)));
    reach_free(fake.reach, at(7));
    assert_false(reach_live(fake.reach, at(7)));
    assert_false(reach_live(fake.reach, BASE)); /* before the first object */
    assert_false(reach_live(fake.reach, at(31) + 80));
    assert_false(reach_live(fake.reach, BASE - 1));
    assert_false(reach_live(fake.reach, BASE + sizeof(fake.memory)));
    assert_true(reach_live(fake.reach, BASE + sizeof(fake.memory) - 1));
    assert_false(reach_add(fake.reach, BASE, PAGE, BASE, 80, SIZE, 1, 9, fake.live));
}

TEST_WITH(what_roots_lead_to_is_reached, setup, teardown)
{
    for (uint32_t i = 0; i < 5; i++)
        live(i);
    live(SLABS * OBJECTS);
    fake.roots[63] = at(1); /* the last word */
    points(1, 7, at(33));   /* the object's last word; free */
    points(1, 0, at(SLABS * OBJECTS));
    points(SLABS * OBJECTS, LARGE_PAGES * PAGE / 8 - 1, at(3)); /* beyond one chunk */
    points(33, 0, at(4)); /* a free object's contents say nothing */
    add();
    search();
    assert_kind(1, REACH_IN_REACH);
    assert_kind(SLABS * OBJECTS, REACH_IN_REACH);
    assert_kind(3, REACH_IN_REACH);
    assert_kind(0, REACH_LOST);
    assert_kind(4, REACH_LOST);
    assert_int_equal(fake.refused, 0);
}

TEST_WITH(registers_are_roots_and_what_lies_behind_the_size_is_not, setup, teardown)
{
    uint64_t words[] = {1, at(2), 3};

    live(2);
    live(9);
    points(2, SIZE / 8, at(9)); /* in the gap */
    add();
    reach_root(fake.reach, words, 3);
    search();
    assert_kind(2, REACH_IN_REACH);
    assert_kind(9, REACH_LOST);
}

TEST_WITH(pointers_into_an_object_make_it_possible, setup, teardown)
{
    for (uint32_t i = 10; i < 15; i++)
        live(i);
    fake.roots[0] = at(10) + 8;
    points(10, 0, at(11));     /* behind a possible one */
    points(11, 0, at(12) + 1); /* and inside again */
    fake.roots[1] = at(13) + 8;
    fake.roots[2] = at(13); /* its start as well */
    add();
    search();
    assert_kind(10, REACH_PERHAPS);
    assert_kind(11, REACH_PERHAPS);
    assert_kind(12, REACH_PERHAPS);
    assert_kind(13, REACH_IN_REACH);
    assert_kind(14, REACH_LOST);
}

TEST_WITH(a_lost_structure_has_one_head, setup, teardown)
{
    unsigned heads = 0;

    for (uint32_t i = 40; i < 50; i++)
        live(i);
    points(40, 0, at(41)); /* a list, */
    points(41, 0, at(42) + 8);
    points(43, 0, at(44)); /* a ring, */
    points(44, 0, at(45));
    points(45, 0, at(43));
    points(46, 0, at(46)); /* an object that points to itself, */
    points(47, 0, at(48)); /* two that lead to one */
    points(49, 0, at(48));
    add();
    search();
    for (uint32_t i = 40; i < 50; i++)
        heads += fake.kind[i] == REACH_LOST;
    assert_kind(40, REACH_LOST);
    assert_kind(41, REACH_LOST_BEHIND);
    assert_kind(42, REACH_LOST_BEHIND);
    assert_kind(43, REACH_LOST);
    assert_kind(45, REACH_LOST_BEHIND);
    assert_kind(46, REACH_LOST);
    assert_kind(48, REACH_LOST_BEHIND);
    assert_int_equal(heads, 5);
}

TEST_WITH(memory_that_cannot_be_read_is_passed_over, setup, teardown)
{
    live(1);
    add();
    reach_root_memory(fake.reach, UINT64_C(0x999000), 3 * REACH_CHUNK);
    assert_int_equal(fake.refused, 4); /* chunks begin at multiples of their size */
    search();
    assert_kind(1, REACH_LOST);
}
