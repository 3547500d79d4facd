/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * The marking of leak/heap.h over a heap that is only numbers: at addresses that this process does not have, read
 * through a reader, as the heap of another process would be.
 */
#include "leak/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { SLABS = 3, OBJECTS = 32, SIZE = 64, PAGE = 4096, LARGE_PAGES = 20 };
#define BASE UINT64_C(0x7e5500000000)
#define ROOTS UINT64_C(0x1000)

static struct {
    struct heap heap;
    struct heap_run run[SLABS + 1];
    uint32_t page[SLABS + LARGE_PAGES], work[SLABS * OBJECTS + 1];
    uint8_t state[SLABS * OBJECTS + 1];
    uint64_t memory[(SLABS + LARGE_PAGES) * PAGE / 8], roots[64], buffer[HEAP_CHUNK / 8];
    unsigned reads, refused;
} fake;

static const void *fake_view(void *context, uint64_t address, size_t size, void *buffer)
{
    const char *from = NULL;

    assert_ptr_equal(context, &fake);
    assert_true(size > 0 && size <= HEAP_CHUNK && size % 8 == 0 && address % 8 == 0);
    fake.reads++;
    if (address >= BASE && address + size <= BASE + sizeof(fake.memory))
        from = (const char *)fake.memory + (address - BASE);
    else if (address >= ROOTS && address + size <= ROOTS + sizeof(fake.roots))
        from = (const char *)fake.roots + (address - ROOTS);
    else
        fake.refused++;
    return from ? memcpy(buffer, from, size) : NULL;
}

/* Slabs of 32 objects with a gap before the first, every second page; and a large object behind them. */
static int setup(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof(fake));
    fake.heap = (struct heap){.reader = {fake_view, &fake},
                              .begin = BASE,
                              .end = BASE + sizeof(fake.memory),
                              .page = fake.page,
                              .run = fake.run,
                              .runs = SLABS + 1,
                              .objects = SLABS * OBJECTS + 1,
                              .state = fake.state,
                              .work = fake.work,
                              .buffer = fake.buffer};
    for (uint32_t i = 0; i < SLABS; i++) {
        fake.run[i] =
            (struct heap_run){BASE + i * PAGE + 16, 80, SIZE, OBJECTS, i * OBJECTS, &fake};
        fake.page[i] = i + 1;
    }
    fake.run[SLABS] = (struct heap_run){
        BASE + SLABS * PAGE, LARGE_PAGES * PAGE, LARGE_PAGES * PAGE, 1, SLABS * OBJECTS, NULL};
    for (uint32_t i = 0; i < LARGE_PAGES; i++)
        fake.page[SLABS + i] = SLABS + 1;
    return 0;
}

static uint64_t at(uint32_t object)
{
    const struct heap_run *run = heap_run_of(&fake.heap, object);

    return run->start + (object - run->first) * run->stride;
}

static void live(uint32_t object)
{
    fake.state[object] = HEAP_LIVE;
}

/* A word of an object. */
static void points(uint32_t from, unsigned word, uint64_t address)
{
    fake.memory[(at(from) - BASE) / 8 + word] = address;
}

static void search(void)
{
    heap_root_memory(&fake.heap, ROOTS, sizeof(fake.roots));
    heap_settle(&fake.heap);
    assert_int_equal(fake.heap.working, 0);
}

static void assert_kind(uint32_t object, enum heap_kind kind)
{
    assert_true(fake.state[object] & HEAP_LIVE);
    assert_int_equal(heap_kind(fake.state[object]), kind);
}

static void addresses_are_found_in_objects_alone(void **state)
{
    uint64_t inside;
    uint32_t object;

    (void)state;
    for (uint32_t i = 0; i <= SLABS * OBJECTS; i++) {
        assert_true(heap_find(&fake.heap, at(i), &object, &inside));
        assert_int_equal(object, i);
        assert_int_equal(inside, 0);
        assert_true(heap_find(&fake.heap, at(i) + 63, &object, &inside));
        assert_int_equal(object, i);
        assert_int_equal(inside, 63);
    }
    assert_false(heap_find(&fake.heap, BASE, &object, &inside)); /* before the first object */
    assert_false(heap_find(&fake.heap, at(31) + 80, &object, &inside));
    assert_false(heap_find(&fake.heap, BASE - 1, &object, &inside));
    assert_false(heap_find(&fake.heap, fake.heap.end, &object, &inside));
    assert_true(heap_find(&fake.heap, fake.heap.end - 1, &object, &inside));
    assert_int_equal(inside, LARGE_PAGES * PAGE - 1);
}

static void what_roots_lead_to_is_reached(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        live(i);
    live(SLABS * OBJECTS);
    fake.roots[63] = at(1); /* the last word */
    points(1, 7, at(33));   /* the object's last word; free */
    points(1, 0, at(SLABS * OBJECTS));
    points(SLABS * OBJECTS, LARGE_PAGES * PAGE / 8 - 1, at(3)); /* beyond one chunk */
    points(33, 0, at(4)); /* a free object's contents say nothing */
    search();
    assert_kind(1, HEAP_IN_REACH);
    assert_kind(SLABS * OBJECTS, HEAP_IN_REACH);
    assert_kind(3, HEAP_IN_REACH);
    assert_kind(0, HEAP_LOST);
    assert_kind(4, HEAP_LOST);
    assert_int_equal(fake.state[33], 0);
    assert_int_equal(fake.refused, 0);
}

static void registers_are_roots_and_what_lies_behind_the_size_is_not(void **state)
{
    uint64_t words[] = {1, at(2), 3};

    (void)state;
    live(2);
    live(9);
    points(2, SIZE / 8, at(9)); /* in the gap */
    heap_root(&fake.heap, words, 3);
    search();
    assert_kind(2, HEAP_IN_REACH);
    assert_kind(9, HEAP_LOST);
}

static void pointers_into_an_object_make_it_possible(void **state)
{
    (void)state;
    for (uint32_t i = 10; i < 15; i++)
        live(i);
    fake.roots[0] = at(10) + 8;
    points(10, 0, at(11));     /* behind a possible one */
    points(11, 0, at(12) + 1); /* and inside again */
    fake.roots[1] = at(13) + 8;
    fake.roots[2] = at(13); /* its start as well */
    search();
    assert_kind(10, HEAP_PERHAPS);
    assert_kind(11, HEAP_PERHAPS);
    assert_kind(12, HEAP_PERHAPS);
    assert_kind(13, HEAP_IN_REACH);
    assert_kind(14, HEAP_LOST);
}

static void a_lost_structure_has_one_head(void **state)
{
    unsigned heads = 0;

    (void)state;
    for (uint32_t i = 40; i < 50; i++)
        live(i);
    points(40, 0, at(41)); /* a list, */
    points(41, 0, at(42) + 8);
    points(43, 0, at(44)); /* a ring, */
    points(44, 0, at(45));
    points(45, 0, at(43));
    points(46, 0, at(46)); /* one that points to itself, */
    points(47, 0, at(48)); /* two that lead to one */
    points(49, 0, at(48));
    search();
    for (uint32_t i = 40; i < 50; i++)
        heads += heap_kind(fake.state[i]) == HEAP_LOST;
    assert_kind(40, HEAP_LOST);
    assert_kind(41, HEAP_LOST_BEHIND);
    assert_kind(42, HEAP_LOST_BEHIND);
    assert_kind(43, HEAP_LOST);
    assert_kind(45, HEAP_LOST_BEHIND);
    assert_kind(46, HEAP_LOST);
    assert_kind(48, HEAP_LOST_BEHIND);
    assert_int_equal(heads, 5);
}

static void memory_that_cannot_be_read_is_passed_over(void **state)
{
    (void)state;
    live(1);
    heap_root_memory(&fake.heap, UINT64_C(0x999000), 3 * HEAP_CHUNK);
    assert_int_equal(fake.refused, 4); /* chunks begin at multiples of their size */
    search();
    assert_kind(1, HEAP_LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(addresses_are_found_in_objects_alone, setup),
        cmocka_unit_test_setup(what_roots_lead_to_is_reached, setup),
        cmocka_unit_test_setup(registers_are_roots_and_what_lies_behind_the_size_is_not, setup),
        cmocka_unit_test_setup(pointers_into_an_object_make_it_possible, setup),
        cmocka_unit_test_setup(a_lost_structure_has_one_head, setup),
        cmocka_unit_test_setup(memory_that_cannot_be_read_is_passed_over, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
