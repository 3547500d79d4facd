/* SPDX-License-Identifier: MIT */
/* needs: whole */
/*
 * Large objects from below: descriptors come and go with them, they resize in place and move by
 * page tables, and what a handler frees is freed by the call it interrupted.
 */
#include "large/large.h"
#include "large/move.h"

#include "base/context.h"
#include "os/os.h"
#include "page/arena.h"
#include "page/arena_kept.h"
#include "support/stay.h"
#include "support/test.h"

#include <stook/stook.h>

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { MIB = 1 << 20 };

static size_t used(void)
{
    struct arena_stat stat;

    arena_stat(&stat);
    return stat.used;
}

static uint64_t alive(void)
{
    uint64_t objects, bytes;

    large_count(&objects, &bytes);
    return objects;
}

static void *make(size_t size)
{
    char *object = large_alloc(0, size, 1, false, NULL);

    assert_non_null(object);
    assert_int_equal((uintptr_t)object % PAGE_SIZE, 0);
    return object;
}

TEST(only_the_start_is_the_object)
{
    static const size_t sizes[] = {1, 4096, 40000, MIB, 2 * MIB, 2 * MIB + 1, 9 * MIB};
    size_t before = used();

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *object = make(sizes[i]);
        size_t size = large_size(object);
        assert_true(size >= sizes[i] && used() == before + size);
        memset(object, 1, size);
        for (size_t at = 16; at < size; at = at < 8192 ? at + 16 : at * 2)
            assert_int_equal(large_size(object + at), 0);
        assert_int_equal(large_size(object + size), 0);
        assert_false(large_free(object + (size > PAGE_SIZE ? PAGE_SIZE : 16)));
        assert_true(large_free(object));
        assert_int_equal(large_size(object), 0);
        assert_false(large_free(object));
        assert_int_equal(used(), before);
    }
    assert_false(large_free(NULL));
    assert_false(large_free(&before));
    assert_int_equal(alive(), 0);
}

TEST(alignment_beyond_a_block)
{
    for (size_t align = PAGE_SIZE; align <= 16 * MIB; align *= 2) {
        char *object = large_alloc(0, 5000, align, false, NULL);
        assert_non_null(object);
        assert_int_equal((uintptr_t)object % align, 0);
        assert_true(large_free(object));
    }
    errno = 0;
    assert_null(large_alloc(0, 5000, (size_t)1 << 60, false, NULL));
    assert_int_equal(errno, ENOMEM);
    assert_null(large_alloc(0, (size_t)1 << 60, 1, false, NULL));
}

TEST(runs_resize_in_place)
{
    size_t before = used();
    char *object = make(40000), *wall;
    size_t size = large_size(object);

    memset(object, 7, 40000);
    assert_true(large_resize(object, 400000));
    assert_true(large_size(object) >= 400000);
    for (size_t i = 0; i < 40000; i++)
        assert_int_equal(object[i], 7);
    wall = make(40000);
    if (wall == object + large_size(object)) /* something is in the way now */
        assert_false(large_resize(object, 500000));
    assert_true(large_resize(object, 40000));
    assert_int_equal(large_size(object), size);
    assert_false(large_resize(object, 0));
    assert_false(large_resize(object, 100 * MIB)); /* a run does not become a span */
    assert_int_equal(used(), before + size + large_size(wall));
    large_free(wall);
    large_free(object);
    assert_int_equal(used(), before);
}

TEST(spans_resize_and_move)
{
    size_t before = used();
    char *object, *wall, *moved;
    bool zeroed;

    arena_trim(); /* what is warm may lie where there is no more room */
    object = make(6 * MIB);
    for (size_t i = 0; i < 6 * MIB; i += PAGE_SIZE)
        object[i] = (char)(i >> 12);
    assert_true(large_resize(object, 9 * MIB));
    assert_int_equal(large_size(object), 10 * MIB);
    assert_true(large_resize(object, 5 * MIB + 1));
    assert_int_equal(large_size(object), 6 * MIB);
    assert_true(large_resize(object, 6 * MIB));
    wall = make(4 * MIB);
    moved = large_move(0, object, 20 * MIB);
    if (moved) { /* kernels before 5.7 cannot */
        assert_int_equal(large_size(object), 0);
        assert_true(large_size(moved) >= 20 * MIB);
        for (size_t i = 0; i < 5 * MIB; i += PAGE_SIZE)
            assert_int_equal(moved[i], (char)(i >> 12));
        memset(moved, 1, 20 * MIB);
        large_free(moved);
        /* What it left behind reads as zeros. */
        object = large_alloc(0, 6 * MIB, 1, false, &zeroed);
        for (size_t i = 0; zeroed && i < 6 * MIB; i += PAGE_SIZE)
            assert_int_equal(object[i], 0);
    }
    large_free(object);
    large_free(wall);
    assert_int_equal(used(), before);
}

TEST(the_tail_of_a_span_costs_nothing)
{
    static unsigned char pages[8 * MIB / 4096];
    char *object;
    size_t touched = 0;

    if (getenv("STOOK_EMULATED"))
        skip(); /* no mincore() there */
    arena_trim();
    object = make(4 * MIB + 4096); /* three blocks, the last nearly unused */
    memset(object, 1, 4 * MIB + 4096);
    assert_int_equal(mincore(object, 6 * MIB, pages), 0);
    for (size_t i = 0; i < 6 * MIB / 4096; i++)
        touched += pages[i] & 1;
    assert_true(touched * 4096 <= 4 * MIB + 4096 + MIB / 2);
    large_free(object);
}

TEST(what_a_handler_frees_is_freed_by_the_interrupted)
{
    size_t before = used();
    char *run = make(100000), *span = make(40 * MIB); /* which is not kept */

    assert_false(context_enter()); /* a call of the library … */
    assert_true(context_enter());  /* … is interrupted */
    assert_true(large_free(run));
    assert_true(large_free(span));
    assert_int_equal(large_size(run), 0);
    assert_true(used() > before);
    context_leave();
    assert_true(used() > before);
    context_leave();
    assert_int_equal(used(), before);
    assert_int_equal(alive(), 0);
}

/* It is kept out of its block, and is no object meanwhile; and others' frees do not make more of it. */
TEST(a_run_is_had_again)
{
    size_t before, kept;
    cpu_set_t before_test;
    char *run, *more[4];

    stay_begin(&before_test);
    arena_trim();
    before = used();
    run = make(25 * PAGE_SIZE);
    assert_true(large_free(run));
    assert_int_equal(large_size(run), 0);
    assert_false(large_free(run));
    assert_ptr_equal(make(25 * PAGE_SIZE), run);
    assert_true(large_free(run));
    assert_ptr_equal(make(20 * PAGE_SIZE), run); /* cut from it */
    assert_int_equal(large_size(run), 20 * PAGE_SIZE);
    assert_int_equal(arena_kept(0), 5);
    assert_true(large_free(run)); /* one again */
    assert_int_equal(arena_kept(0), 25);
    assert_ptr_equal(make(25 * PAGE_SIZE), run);
    assert_true(large_free(run));
    for (int i = 0; i < 4; i++)
        more[i] = make(25 * PAGE_SIZE);
    for (int i = 0; i < 4; i++)
        assert_true(large_free(more[i]));
    kept = arena_kept(0);
    assert_int_equal(kept, 2 * 25);
    assert_int_equal(used(), before);
    run = make(26 * PAGE_SIZE); /* none fits: they go back first */
    assert_int_equal(arena_kept(0), 0);
    assert_true(large_free(run));
    assert_int_equal(arena_kept(0), 26);
    arena_trim();
    assert_int_equal(arena_kept(0), 0);
    assert_int_equal(used(), before);
    assert_int_equal(alive(), 0);
    stay_end(&before_test);
}

/*
 * One buffer at a time, from a fifth to nine fifths of the mean, written to: once the program has had a large one, its
 * memory serves all of them.  So none comes from the kernel or goes there, and no page has to be faulted in again.
 */
static void changes_in_size(size_t mean)
{
    enum { LEARNS = 200, ROUNDS = 1000 };
    struct arena_stat learned = {0}, end;
    struct rusage from = {0}, to;
    uint64_t random = 88172645463325252;
    cpu_set_t before_test;

    stay_begin(&before_test);
    arena_trim();
    for (int i = 0; i < LEARNS + ROUNDS; i++) {
        size_t size = mean / 5 + (random >> 16) % (mean / 5 * 8);
        char *object = large_alloc_any(i == 0 ? mean / 5 * 9 : size, 1, false, NULL);
        random = random * 6364136223846793005 + 1442695040888963407;
        assert_non_null(object);
        for (size_t at = 0; at < size; at += PAGE_SIZE)
            object[at] = 1;
        assert_true(large_free(object));
        if (i == LEARNS) {
            arena_stat(&learned);
            getrusage(RUSAGE_SELF, &from);
        }
    }
    getrusage(RUSAGE_SELF, &to);
    arena_stat(&end);
    assert_int_equal(end.purged, learned.purged);
    assert_int_equal(end.committed, learned.committed);
    assert_true(to.ru_minflt - from.ru_minflt < 20);
    stay_end(&before_test);
}

TEST(runs_that_change_in_size_cost_no_faults)
{
    changes_in_size(60000);
    changes_in_size(1000000);
}

TEST(spans_that_change_in_size_cost_no_faults)
{
    changes_in_size(1900000);
    changes_in_size(6000000);
    changes_in_size(16000000);
}

static int start(void **unused)
{
    return stook_mode(NULL) == NULL;
}

/* ---- moving pages --------------------------------------------------------------------------- */

TEST(moves_pages)
{
    const size_t size = 1 << 16;
    char *from = os_map(size), *to = os_map(size);

    assert_true(from && to);
    memset(from, 0x33, size);
    errno = 17;
    if (!move_range(from, to, size)) {
        assert_int_equal(errno, 17);
        skip(); /* before Linux 5.7 */
    }
    for (size_t i = 0; i < size; i += 1000)
        assert_int_equal(to[i], 0x33);
    assert_int_equal(from[0], 0); /* stays mapped, and empty */
    from[1] = 1;
}

/* What advice on huge pages leaves: neighbours in mappings of their own, which old kernels do not move. */
TEST(moves_several_mappings)
{
    const size_t step = 2 << 20, size = 3 * step;
    char *area = os_reserve(2 * size, step), *from = area, *to = area + size;

    assert_non_null(area);
    assert_true(os_unguard(area, 2 * size));
    os_huge(from, 2 * step, true);
    os_huge(from + 2 * step, step, false);
    for (size_t i = 0; i < size; i += 4096)
        memset(from + i, (int)(i >> 12) + 1, 4096);
    memset(to, 0x77, size);
    errno = 17;
    if (move_range(from, to, size)) {
        for (size_t i = 0; i < size; i += 500)
            assert_int_equal(to[i], (char)((i >> 12) + 1));
        for (size_t i = 0; i < size; i += 500)
            assert_int_equal(from[i], 0);
    } else { /* before Linux 5.7: the caller copies */
        memcpy(to, from, size);
    }
    assert_int_equal(errno, 17);
    memset(from, 1, size); /* both are there */
    memset(to, 2, size);
    os_unmap(area, 2 * size);
}

int main(void)
{
    return tests_run(start, NULL);
}
