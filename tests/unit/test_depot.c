/* SPDX-License-Identifier: MIT */
/* needs: whole native */
/* Stacks by number, of several threads at a time; the stack of a thread; the functions that addresses are in. */
#include "debug/depot.h"
#include "debug/symbols.h"

#include "base/where.h"
#include "support/test.h"

#include <stook/stook.h>

#include <pthread.h>

enum { STACKS = 20000, THREADS = 4 };

static unsigned stack_of(uint32_t n, uint64_t frames[DEPOT_DEPTH])
{
    unsigned depth = 1 + n % DEPOT_DEPTH;

    for (unsigned i = 0; i < depth; i++)
        frames[i] = 0x1000 + (uint64_t)n * 64 + i;
    return depth;
}

static uint32_t number[THREADS][STACKS];

/* Each thread begins elsewhere, so that they meet at stacks that none has put yet. */
static void *put_all(void *arg)
{
    size_t self = (size_t)(uintptr_t)arg;
    uint64_t frames[DEPOT_DEPTH];

    for (uint32_t i = 0; i < STACKS; i++) {
        uint32_t n = (uint32_t)((i + self * (STACKS / THREADS / 8)) % STACKS);
        number[self][n] = depot_put(frames, stack_of(n, frames));
    }
    return NULL;
}

TEST(numbers)
{
    uint64_t frames[DEPOT_DEPTH], wanted[DEPOT_DEPTH];
    pthread_t thread[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, put_all, (void *)(uintptr_t)i), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (uint32_t n = 0; n < STACKS; n++) {
        unsigned depth = stack_of(n, wanted);
        for (unsigned i = 0; i < THREADS; i++) { /* one number, whichever thread was first */
            assert_int_not_equal(number[i][n], 0);
            assert_int_equal(number[i][n], number[0][n]);
        }
        assert_int_equal(depot_get(number[0][n], frames), depth);
        assert_memory_equal(frames, wanted, depth * sizeof(frames[0]));
    }
}

TEST(wrong_numbers)
{
    uint64_t frames[DEPOT_DEPTH] = {0};

    assert_int_equal(depot_put(frames, 0), 0);
    assert_int_equal(depot_get(0, frames), 0);
    assert_int_equal(depot_get(UINT32_MAX, frames), 0);
    /* Any number that an overrun may leave in a track. */
    for (uint32_t n = 1; n < 1u << 22; n += 7)
        assert_true(depot_get(n, frames) <= DEPOT_DEPTH);
}

static __attribute__((noinline)) uint32_t callee(uint64_t *where)
{
    *where = where_address(__builtin_return_address(0));
    return depot_here(*where);
}

static __attribute__((noinline)) uint32_t caller(uint64_t *where)
{
    uint32_t stack = callee(where);

    __asm__ volatile("" ::: "memory"); /* no tail call */
    return stack;
}

TEST(this_thread)
{
    static struct stook_site site = {"trees.c", "plant", 12, 0};
    uint64_t frames[DEPOT_DEPTH], where;
    struct symbol symbol[2];
    uint32_t stack = 0, before = 0;

    for (volatile int i = 0; i < 2; i++) {
        before = stack;
        stack = caller(&where);
    }
    assert_int_equal(stack, before); /* the same place */
    assert_true(depot_get(stack, frames) > 2);
    assert_int_equal(frames[0], where >> 1); /* it begins at the call … */
    symbol[0].address = frames[0];
    symbol[1].address = frames[1];
    symbols_find(symbol, 2);
    assert_string_equal(symbol[0].name, "caller"); /* … which is in there */
    assert_string_equal(symbol[1].name, "this_thread");
    assert_non_null(strstr(symbol[0].module, "test_depot"));
    assert_true(symbol[0].within > 0 && symbol[0].within < 100);
    assert_true(symbol[0].offset > symbol[0].within);

    stack = depot_here(where_site(&site, NULL));
    assert_true(depot_get(stack, frames) > 1);
    assert_int_equal(frames[0], DEPOT_SITE | (uintptr_t)&site);

    stack = depot_here(where_address((const void *)(uintptr_t)0x1234)); /* of no frame: itself */
    assert_int_equal(depot_get(stack, frames), 1);
    assert_int_equal(frames[0], 0x1234);
}

TEST(addresses)
{
    struct symbol symbol[3];
    int local = 0;

    symbol[0].address = (uintptr_t)&local;
    symbol[1].address = 16;
    symbol[2].address = (uintptr_t)memcpy + 1;
    symbols_find(symbol, 3);
    assert_string_equal(symbol[0].name, ""); /* no code */
    assert_string_equal(symbol[0].module, "");
    assert_string_equal(symbol[1].module, "");
    assert_non_null(strstr(symbol[2].module, "lib")); /* of C, or of a sanitizer */
}
