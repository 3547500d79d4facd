/* SPDX-License-Identifier: MIT */
/* needs: native */
/*
 * Locked mode: a thread keeps the number of its CPU while it moves, until it finds the slot taken or the CPU left; also
 * in a forked child.
 */
#include "support/must.h"
#undef MUST_FAILS
#define MUST_FAILS abort()
#include "support/percpu_fixture.h"
#include "support/test.h"

#include <pthread.h>
#include <sys/wait.h>

enum { SLOT = 1, ROUNDS = 20000 };

static uintptr_t offset;
static struct sheaf *sheaf;

static void *token(uintptr_t i)
{
    return (void *)(0x10000 + i * 16);
}

static struct slot *slot_of(unsigned i)
{
    return percpu_slot(fixture_cpu[i], offset);
}

/* This thread keeps the first CPU, whose slot has four objects, and runs on the second. */
static void keep(void)
{
    struct slot *slot;

    if (percpu.rseq || fixture_cpus < 2)
        skip();
    percpu_kept = -1;
    assert_true(fixture_pin(fixture_cpu[0]));
    percpu_slot_init(SLOT);
    for (uintptr_t i = 0; i < 4; i++)
        sheaf->object[i] = token(i);
    assert_non_null(slot_close(offset, &slot, false));
    sheaf->size = 4;
    slot_open(slot, sheaf);
    assert_ptr_equal(slot, slot_of(0));
    assert_true(fixture_pin(fixture_cpu[1]));
    assert_int_equal(percpu_cpu(), (int)fixture_cpu[0]);
}

static void pops_and_pushes(void)
{
    void *object = NULL;

    assert_true(slot_pop(offset, &object));
    assert_ptr_equal(object, token(3));
    assert_true(slot_push(offset, object));
    assert_int_equal(percpu_cpu(), (int)fixture_cpu[0]);
}

TEST(test_kept_while_it_moves)
{
    keep();
    pops_and_pushes();
    assert_int_equal(slot_look(slot_of(0))->size, 4);
}

TEST(test_asked_where_the_slot_is_taken)
{
    void *object;

    keep();
    assert_ptr_equal(slot_take(slot_of(0), true), sheaf);
    assert_false(slot_pop(offset, &object));
    assert_int_equal(percpu_kept, -1);
    assert_int_equal(percpu_cpu(), (int)fixture_cpu[1]);
    slot_reopen(slot_of(0));
    keep();
    assert_ptr_equal(slot_take(slot_of(0), true), sheaf);
    assert_false(slot_push(offset, token(5)));
    assert_int_equal(percpu_cpu(), (int)fixture_cpu[1]);
    slot_reopen(slot_of(0));
}

/* What the CPU had went back, and nothing may come to lie there; nor may the thread make it a used one again. */
TEST(test_asked_where_the_cpu_is_left)
{
    struct slot *slot;
    void *object;

    keep();
    percpu_change_use(fixture_cpu[0], PERCPU_USED, PERCPU_LEFT);
    assert_ptr_equal(slot_take(slot_of(0), true), sheaf);
    slot_open(slot_of(0), SHEAF_NONE);
    assert_false(slot_push(offset, token(5)));
    assert_false(slot_pop(offset, &object));
    assert_non_null(slot_close(offset, &slot, false));
    slot_reopen(slot);
    assert_ptr_equal(slot, slot_of(1));
    assert_int_equal(percpu_use_of(fixture_cpu[0]), PERCPU_LEFT);
    percpu_change_use(fixture_cpu[0], PERCPU_LEFT, PERCPU_USED);
}

/* The child has the number, and the slot, of the thread that forked; taken there, it asks as its parent does. */
TEST(test_kept_in_a_child)
{
    void *object;
    pid_t child;
    int status;

    keep();
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        MUST(percpu_kept == (int)fixture_cpu[0]);
        MUST(slot_pop(offset, &object) && object == token(3) && slot_push(offset, object));
        MUST(slot_take(slot_of(0), true) == sheaf && !slot_pop(offset, &object));
        MUST(percpu_cpu() == (int)fixture_cpu[1]);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pops_and_pushes();
}

/* Moves objects as long as both share one slot: each has the objects that it took, and no other. */
static void *share(void *arg)
{
    _Atomic bool *owned = arg;

    percpu_kept = (int)fixture_cpu[0];
    for (unsigned i = 0; i < ROUNDS; i++) {
        void *object;
        percpu_kept = (int)fixture_cpu[0]; /* whatever it found */
        if (!slot_pop(offset, &object))
            continue;
        MUST(!atomic_exchange(&owned[((uintptr_t)object - (uintptr_t)token(0)) / 16], true));
        atomic_store(&owned[((uintptr_t)object - (uintptr_t)token(0)) / 16], false);
        do
            percpu_kept = (int)fixture_cpu[0];
        while (!slot_push(offset, object));
    }
    return NULL;
}

TEST(test_two_threads_with_one_number)
{
    static _Atomic bool owned[4];
    pthread_t thread[2];

    keep();
    for (unsigned t = 0; t < 2; t++)
        assert_int_equal(pthread_create(&thread[t], NULL, share, owned), 0);
    for (unsigned t = 0; t < 2; t++)
        assert_int_equal(pthread_join(thread[t], NULL), 0);
    assert_int_equal(slot_look(slot_of(0))->size, 4);
}

int main(void)
{
    fixture_start();
    offset = percpu_offset(SLOT);
    sheaf = fixture_sheaf(8);
    return tests_run(NULL, NULL);
}
