/* SPDX-License-Identifier: MIT */
/*
 * Bulk pops and pushes of every length, from and to every place of a cache line, by every way of
 * copying; with NULLs among what is pushed; with sheaves that hold more than their capacity.
 */
#include "support/percpu_fixture.h"
#include "support/test.h"

static unsigned next_slot = 1;

static uintptr_t slot_new(void)
{
    percpu_slot_init(next_slot);
    return percpu_offset(next_slot++);
}

static void install(uintptr_t offset, struct sheaf *sheaf)
{
    struct slot *slot;

    assert_non_null(slot_close(offset, &slot, false));
    slot_open(slot, sheaf);
}

static void *token(uintptr_t i)
{
    return (void *)(0x10000 + i * 16);
}

enum { LONG = 200, LONG_CAPACITY = 300 };

/* Runs a test as the CPU is, and again as one without AVX2. */
static void both_ways(void (*body)(uintptr_t offset, struct sheaf *sheaf))
{
    struct sheaf *sheaf = fixture_sheaf(LONG_CAPACITY);
    uintptr_t offset = slot_new();
    bool wide = percpu.wide;

    install(offset, sheaf);
    body(offset, sheaf);
    percpu.wide = false;
    body(offset, sheaf);
    percpu.wide = wide;
    install(offset, SHEAF_NONE);
    free(sheaf);
}

/* Arrays and sheaves at all places of a cache line, as pointers can lie. */
static void every_length(uintptr_t offset, struct sheaf *sheaf)
{
    static void *space[LONG + 32] __attribute__((aligned(64)));

    for (uint32_t k = 1; k <= LONG; k++) {
        for (uint32_t place = 0; place < 64; place++) {
            uint32_t n = k + place / 8; /* in the sheaf, before the pop and after the push */
            void **array = space + 8 + place % 8;
            for (uint32_t i = 0; i < LONG_CAPACITY + 1; i++)
                sheaf->object[i] = token(i);
            for (uint32_t i = 0; i < LONG + 32; i++)
                space[i] = token(9000 + i);
            slot_set_size(offset, n);
            assert_int_equal(slot_pop_bulk(offset, array, k), k);
            assert_int_equal(slot_look_size(offset), n - k);
            for (uint32_t i = 0; i < k; i++)
                assert_ptr_equal(array[i], token(n - k + i));
            assert_ptr_equal(array[-1], token(9000 + 7 + place % 8));
            assert_ptr_equal(array[k], token(9000 + 8 + place % 8 + k));
            for (uint32_t i = 0; i < k; i++)
                array[i] = token(4000 + i);
            assert_int_equal(slot_push_bulk(offset, array, k), k);
            assert_int_equal(slot_look_size(offset), n);
            for (uint32_t i = 0; i < k; i++) {
                assert_ptr_equal(sheaf->object[n - k + i], token(4000 + i));
                assert_ptr_equal(array[i], token(4000 + i));
            }
            if (n > k)
                assert_ptr_equal(sheaf->object[n - k - 1], token(n - k - 1));
            assert_ptr_equal(sheaf->object[n], token(n));
        }
    }
}

TEST(test_every_length)
{
    both_ways(every_length);
}

/* A NULL among what is pushed: nothing goes.  Behind what there is room for it is not seen. */
static void every_null(uintptr_t offset, struct sheaf *sheaf)
{
    static void *array[LONG];

    for (uint32_t k = 1; k <= LONG; k++) {
        for (uint32_t i = 0; i < k; i++)
            array[i] = token(i);
        for (uint32_t null = 0; null < k; null++) {
            array[null] = NULL;
            slot_set_size(offset, 5);
            assert_int_equal(slot_push_bulk(offset, array, k), 0);
            assert_int_equal(slot_look_size(offset), 5);
            slot_set_size(offset, LONG_CAPACITY - null);
            assert_int_equal(slot_push_bulk(offset, array, k), null);
            assert_int_equal(slot_look_size(offset), LONG_CAPACITY);
            for (uint32_t i = 0; i < null; i++)
                assert_ptr_equal(sheaf->object[LONG_CAPACITY - null + i], token(i));
            array[null] = token(null);
        }
    }
}

TEST(test_every_null)
{
    both_ways(every_null);
}

#if defined(__aarch64__)
enum { LOOKS_AT_ALL = true };
#else
enum { LOOKS_AT_ALL = false };
#endif

/*
 * An address whose low 32 bits are zero may be taken for NULL, and then nothing goes; it may as
 * well be seen to be none.  The other half being zero is nothing special.
 */
static void every_round_address(uintptr_t offset, struct sheaf *sheaf)
{
    static void *array[LONG];
    void *const round = (void *)(uintptr_t)0x7f0000000000;

    for (uint32_t k = 1; k <= LONG; k++) {
        for (uint32_t i = 0; i < k; i++)
            array[i] = token(i); /* the high half is zero in all of them */
        for (uint32_t at = 0; at < k; at++) {
            uint32_t put;
            array[at] = round;
            slot_set_size(offset, 3);
            put = slot_push_bulk(offset, array, k);
            assert_true(put == 0 || put == k);
            assert_int_equal(slot_look_size(offset), 3 + put);
            for (uint32_t i = 0; i < put; i++)
                assert_ptr_equal(sheaf->object[3 + i], i == at ? round : token(i));
            if (!percpu.rseq || LOOKS_AT_ALL || k <= 4 ||
                at >= (k & ~3u)) /* looked at as a whole */
                assert_int_equal(put, k);
            else if (!percpu.wide)
                assert_int_equal(put, 0);
            array[at] = token(at);
        }
    }
}

TEST(test_every_round_address)
{
    both_ways(every_round_address);
}

/* More objects than the capacity: pops take them, pushes wait. */
static void over_capacity(uintptr_t offset, struct sheaf *sheaf)
{
    static void *array[LONG];
    uint32_t capacity = 60;

    for (uint32_t size = capacity; size <= LONG_CAPACITY; size += 7) {
        for (uint32_t k = 1; k <= LONG; k += 3) {
            uint32_t taken = k < size ? k : size, room, put;
            for (uint32_t i = 0; i < LONG_CAPACITY; i++)
                sheaf->object[i] = token(i);
            for (uint32_t i = 0; i < LONG; i++)
                array[i] = token(7000 + i);
            sheaf->capacity = capacity;
            slot_set_size(offset, size);
            assert_int_equal(slot_push_bulk(offset, array, k), 0);
            assert_false(slot_push(offset, array[0]));
            assert_int_equal(slot_look_size(offset), size);
            assert_ptr_equal(sheaf->object[size - 1], token(size - 1));
            assert_int_equal(slot_pop_bulk(offset, array, k), taken);
            for (uint32_t i = 0; i < taken; i++)
                assert_ptr_equal(array[i], token(size - taken + i));
            room = size - taken < capacity ? capacity - (size - taken) : 0;
            put = slot_push_bulk(offset, array, k);
            assert_int_equal(put, k < room ? k : room);
            assert_int_equal(slot_look_size(offset), size - taken + put);
        }
    }
    sheaf->capacity = LONG_CAPACITY;
}

TEST(test_over_capacity)
{
    both_ways(over_capacity);
}

int main(void)
{
    fixture_start();
    fixture_pin(fixture_cpu[0]);
    return tests_run(NULL, NULL);
}
