/* SPDX-License-Identifier: MIT */
/*
 * The contract of the percpu API, in whichever mode the process runs; slots and sheaves are made
 * by the test.  Every test uses slots of its own.
 */
#include "support/percpu_fixture.h"
#include "support/test.h"

static unsigned next_slot = 1;

static uintptr_t slot_new(void)
{
    percpu_slot_init(next_slot);
    return percpu_offset(next_slot++);
}

/* Installs a sheaf on this CPU; what was there. */
static struct sheaf *install(uintptr_t offset, struct sheaf *sheaf)
{
    struct slot *slot;
    struct sheaf *old = slot_close(offset, &slot, false);

    assert_non_null(old);
    slot_open(slot, sheaf);
    return old;
}

static void *token(uintptr_t i)
{
    return (void *)(0x10000 + i * 16);
}

/* KiB of the areas that have been written to. */
static unsigned long areas_own(void)
{
    unsigned long total = 0, from, to, kib;
    char line[512];
    bool ours = false;
    FILE *maps = fopen("/proc/self/smaps", "r");

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            ours = from < (uintptr_t)percpu.areas + percpu.rows * (uintptr_t)PERCPU_AREA_SIZE &&
                   to > (uintptr_t)percpu.areas - 2 * (uintptr_t)PERCPU_AREA_SIZE;
        else if (ours && sscanf(line, "Anonymous: %lu kB", &kib) == 1)
            total += kib;
    }
    fclose(maps);
    return total;
}

/* Before anything ran: no CPU is in use, no page taken, and every slot is empty and full. */
TEST(test_only_used_cpus_cost)
{
    uintptr_t offset = slot_new();
    struct slot *slot = NULL;
    void *object = NULL;

    for (unsigned cpu = 0; cpu < percpu.rows; cpu++)
        assert_null(percpu_slot(cpu, offset));
    assert_true(fixture_pin(fixture_cpu[0]));
    assert_false(slot_pop(offset, &object));
    assert_false(slot_push(offset, token(1)));
    assert_null(percpu_slot(fixture_cpu[0], offset));
    assert_int_equal(areas_own(), 0);

    /* The list of CPUs in use is changed under a lock, which a fork holds. */
    assert_true(lock_enter(&percpu.lock, LOCK_PERCPU, true));
    assert_null(slot_close(offset, &slot, true));
    lock_drop(&percpu.lock, LOCK_PERCPU);
    assert_null(percpu_slot(fixture_cpu[0], offset));

    assert_ptr_equal(slot_close(offset, &slot, true), SHEAF_NONE);
    assert_ptr_equal(slot, percpu_slot(fixture_cpu[0], offset));
    slot_open(slot, SHEAF_NONE);
    for (unsigned cpu = 0; cpu < percpu.rows; cpu++)
        assert_true((percpu_slot(cpu, offset) != NULL) == (cpu == fixture_cpu[0]));
    assert_int_equal(areas_own(), sysconf(_SC_PAGESIZE) / 1024);
}

/* Every CPU that the kernel may name, and the two of threads that are not registered. */
TEST(test_rows)
{
    uintptr_t offset = slot_new();

    assert_true(percpu.rows >= topology.cpus);
    for (int cpu = -2; cpu < (int)percpu.rows; cpu++) {
        struct slot *slot = percpu_slot_at(cpu, offset);
        assert_null(atomic_load(&slot->begin));
        assert_null(atomic_load(&slot->top));
        assert_null(atomic_load(&slot->end));
        assert_null(slot->spare);
        assert_null(slot->held);
    }
    assert_int_equal(SHEAF_NONE->size, 0);
    assert_int_equal(SHEAF_NONE->capacity, 0);
}

/* The last slot there is. */
TEST(test_last_slot)
{
    uintptr_t offset = percpu_offset(STOOK_CACHES_MAX - 1);
    struct sheaf *sheaf = fixture_sheaf(2);
    void *object = NULL;

    assert_int_equal(offset + SLOT_SIZE, PERCPU_AREA_SIZE);
    percpu_slot_init(STOOK_CACHES_MAX - 1);
    assert_ptr_equal(install(offset, sheaf), SHEAF_NONE);
    assert_true(slot_push(offset, token(5)));
    assert_true(slot_pop(offset, &object));
    assert_ptr_equal(object, token(5));
    assert_ptr_equal(install(offset, SHEAF_NONE), sheaf);
    free(sheaf);
}

TEST(test_none_is_empty_and_full)
{
    uintptr_t offset = slot_new();
    void *objects[4] = {0};
    struct slot *slot;

    assert_false(slot_pop(offset, objects));
    assert_int_equal(slot_pop_bulk(offset, objects, 4), 0);
    assert_false(slot_push(offset, token(1)));
    assert_int_equal(slot_push_bulk(offset, objects, 4), 0);
    assert_ptr_equal(slot_close(offset, &slot, false), SHEAF_NONE);
    slot_open(slot, SHEAF_NONE);
}

TEST(test_pop_push)
{
    static const uint32_t capacities[] = {1, 2, 3, 8, 60, 1022};

    for (size_t c = 0; c < sizeof(capacities) / sizeof(capacities[0]); c++) {
        uint32_t capacity = capacities[c];
        struct sheaf *sheaf = fixture_sheaf(capacity);
        uintptr_t offset = slot_new();
        void *object = NULL;

        assert_ptr_equal(install(offset, sheaf), SHEAF_NONE);
        assert_false(slot_pop(offset, &object));
        for (uint32_t i = 0; i < capacity; i++) {
            assert_true(slot_push(offset, token(i)));
            assert_int_equal(slot_look_size(offset), i + 1);
        }
        assert_false(slot_push(offset, token(capacity)));
        assert_int_equal(slot_look_size(offset), capacity);
        assert_int_equal((uintptr_t)sheaf->object[capacity], 0xa5a5a5a5a5a5a5a5u);
        for (uint32_t i = capacity; i-- > 0;) {
            assert_true(slot_pop(offset, &object));
            assert_ptr_equal(object, token(i));
        }
        object = NULL;
        assert_false(slot_pop(offset, &object));
        assert_null(object);
        assert_ptr_equal(install(offset, SHEAF_NONE), sheaf);
        free(sheaf);
    }
}

/* One bulk pop or push of k at every fill n: count, contents, order, and nothing beside. */
static void check_bulk(uintptr_t offset, struct sheaf *sheaf, uint32_t n, uint32_t k, bool pop)
{
    uint32_t room = sheaf->capacity - n, moved = pop ? (k < n ? k : n) : (k < room ? k : room);
    static void *array[1022 + 4];

    assert_true(sheaf->capacity <= 1022);
    for (uint32_t i = 0; i < sheaf->capacity + 1; i++)
        sheaf->object[i] = i < n ? token(i) : token(5000 + i);
    slot_set_size(offset, n);
    for (uint32_t i = 0; i < sheaf->capacity + 4; i++)
        array[i] = token(9000 + i);
    if (pop) {
        assert_int_equal(slot_pop_bulk(offset, array + 1, k), moved);
        for (uint32_t i = 0; i < moved; i++)
            assert_ptr_equal(array[1 + i], token(n - moved + i));
    } else {
        assert_int_equal(slot_push_bulk(offset, array + 1, k), moved);
        for (uint32_t i = 0; i < moved; i++)
            assert_ptr_equal(sheaf->object[n + i], token(9001 + i));
    }
    assert_int_equal(slot_look_size(offset), pop ? n - moved : n + moved);
    for (uint32_t i = 0; i < n; i++)
        assert_ptr_equal(sheaf->object[i], token(i));
    for (uint32_t i = pop ? n : n + moved; i < sheaf->capacity + 1; i++)
        assert_ptr_equal(sheaf->object[i], token(5000 + i));
    for (uint32_t i = 0; i < sheaf->capacity + 4; i++)
        if (!pop || i < 1 || i >= 1 + moved)
            assert_ptr_equal(array[i], token(9000 + i));
}

TEST(test_bulk)
{
    static const uint32_t capacities[] = {1, 2, 3, 4, 5, 7, 8, 16, 31, 60};

    for (size_t c = 0; c < sizeof(capacities) / sizeof(capacities[0]); c++) {
        uint32_t capacity = capacities[c];
        struct sheaf *sheaf = fixture_sheaf(capacity);
        uintptr_t offset = slot_new();

        install(offset, sheaf);
        for (uint32_t n = 0; n <= capacity; n++) {
            for (uint32_t k = 0; k <= capacity + 2; k++) {
                check_bulk(offset, sheaf, n, k, true);
                check_bulk(offset, sheaf, n, k, false);
            }
        }
        install(offset, SHEAF_NONE);
        free(sheaf);
    }
    struct sheaf *sheaf = fixture_sheaf(1022);
    uintptr_t offset = slot_new();
    install(offset, sheaf);
    for (uint32_t n = 0; n <= 1022; n += 73)
        for (uint32_t k = 1; k <= 1024; k += 31)
            check_bulk(offset, sheaf, n, k, (k & 1) != 0);
    install(offset, SHEAF_NONE);
    free(sheaf);
}

TEST(test_closed_slot)
{
    uintptr_t offset = slot_new();
    struct sheaf *first = fixture_sheaf(8), *second = fixture_sheaf(8);
    void *objects[4];
    struct slot *slot, *other = NULL;

    install(offset, first);
    for (uintptr_t i = 0; i < 4; i++)
        assert_true(slot_push(offset, token(i)));

    assert_ptr_equal(slot_close(offset, &slot, false), first);
    assert_false(slot_pop(offset, objects));
    assert_int_equal(slot_pop_bulk(offset, objects, 4), 0);
    assert_false(slot_push(offset, token(9)));
    assert_int_equal(slot_push_bulk(offset, objects, 4), 0);
    assert_null(slot_close(offset, &other, false));
    assert_null(slot_take(slot, true));
    assert_int_equal(first->size, 4);

    second->object[0] = token(77);
    second->size = 1;
    slot_open(slot, second);
    assert_true(slot_pop(offset, objects));
    assert_ptr_equal(objects[0], token(77));
    assert_ptr_equal(install(offset, first), second);
    assert_int_equal(slot_pop_bulk(offset, objects, 4), 4);
    assert_ptr_equal(objects[3], token(3));
    install(offset, SHEAF_NONE);
    free(first);
    free(second);
}

/* From another CPU where there is one. */
TEST(test_take)
{
    uintptr_t offset = slot_new();
    struct sheaf *sheaf = fixture_sheaf(8);
    unsigned home = fixture_cpu[0], away = fixture_cpu[fixture_cpus - 1];
    struct slot *slot = percpu_slot(home, offset);
    void *object;

    install(offset, sheaf);
    assert_true(slot_push(offset, token(1)));
    assert_true(fixture_pin(away));
    uint64_t fences = atomic_load(&percpu.fences);
    assert_ptr_equal(slot_take(slot, true), sheaf);
    assert_ptr_equal(slot->held, sheaf);
    assert_true(percpu_fence(home));
    assert_int_equal(atomic_load(&percpu.fences) - fences, percpu.rseq ? 1 : 0);
    assert_null(slot_take(slot, true));
    assert_ptr_equal(slot_taken(slot), sheaf);
    assert_int_equal(sheaf->size, 1);

    assert_true(fixture_pin(home));
    assert_false(slot_pop(offset, &object));
    assert_false(slot_push(offset, token(2)));
    assert_true(fixture_pin(away));
    slot_open(slot, sheaf);
    assert_null(slot->held);
    assert_true(fixture_pin(home));
    assert_true(slot_pop(offset, &object));
    assert_ptr_equal(object, token(1));
    install(offset, SHEAF_NONE);
    free(sheaf);
}

TEST(test_isolated_cpu_is_not_fenced)
{
    static uint64_t isolated[TOPOLOGY_CPUS_MAX / 64];
    unsigned cpu = fixture_cpu[0];

    if (!percpu.rseq)
        skip(); /* nothing to fence */
    assert_true(percpu_may_fence(cpu));
    isolated[cpu / 64] |= (uint64_t)1 << cpu % 64;
    percpu.isolated = isolated;
    uint64_t fences = atomic_load(&percpu.fences);
    assert_false(percpu_may_fence(cpu));
    assert_false(percpu_fence(cpu));
    assert_int_equal(atomic_load(&percpu.fences), fences);
    percpu.isolated = NULL;
    assert_true(percpu_fence(cpu));
}

#if defined(STOOK_INLINE_SECTIONS)
/* What the inlined fast path does, through the head of a cache. */
TEST(test_inlined)
{
    uintptr_t offset = slot_new();
    struct stook_cache_head head = {.slots = percpu.areas + offset,
                                    .rseq_offset = percpu.rseq_offset};
    struct sheaf *sheaf = fixture_sheaf(3);
    struct slot *slot;
    void *object = NULL;

    install(offset, sheaf);
    if (percpu.rseq) {
        for (uintptr_t i = 0; i < 3; i++)
            assert_true(stook_rseq_push(head.slots, head.rseq_offset, token(i)));
        assert_false(stook_rseq_push(head.slots, head.rseq_offset, token(3)));
        assert_int_equal(slot_look_size(offset), 3);
        assert_true(stook_rseq_pop(head.slots, head.rseq_offset, &object));
        assert_ptr_equal(object, token(2));
        assert_true(slot_pop(offset, &object));
        assert_ptr_equal(object, token(1));
    } else {
        assert_true(slot_push(offset, token(0)));
        assert_false(stook_rseq_push(head.slots, head.rseq_offset, token(3)));
        assert_false(stook_rseq_pop(head.slots, head.rseq_offset, &object));
        assert_int_equal(slot_look_size(offset), 1);
    }
    assert_ptr_equal(slot_close(offset, &slot, false), sheaf);
    assert_false(stook_rseq_pop(head.slots, head.rseq_offset, &object));
    sheaf->size = 0;
    assert_false(stook_rseq_push(head.slots, head.rseq_offset, token(3)));
    slot_open(slot, SHEAF_NONE);
    assert_false(stook_rseq_pop(head.slots, head.rseq_offset, &object));
    assert_false(stook_rseq_push(head.slots, head.rseq_offset, token(3)));
    free(sheaf);
}
#endif

/* Slots are neighbours in an area: what is done to one shows in no other. */
TEST(test_slots_are_apart)
{
    uintptr_t offset[3];
    struct sheaf *sheaf[3];
    void *object;

    for (unsigned i = 0; i < 3; i++) {
        offset[i] = slot_new();
        sheaf[i] = fixture_sheaf(4);
        install(offset[i], sheaf[i]);
        assert_true(slot_push(offset[i], token(i)));
    }
    struct slot *slot;
    assert_ptr_equal(slot_close(offset[1], &slot, false), sheaf[1]);
    for (unsigned i = 0; i < 3; i += 2) {
        assert_true(slot_pop(offset[i], &object));
        assert_ptr_equal(object, token(i));
    }
    assert_int_equal(sheaf[1]->size, 1);
    slot_open(slot, sheaf[1]);
    assert_true(slot_pop(offset[1], &object));
    assert_ptr_equal(object, token(1));
    for (unsigned i = 0; i < 3; i++) {
        install(offset[i], SHEAF_NONE);
        free(sheaf[i]);
    }
}

int main(void)
{
    fixture_start();
    print_message("mode: %s (%s)\n", percpu.rseq ? "rseq" : "locked", percpu.why);
    return tests_run(NULL, NULL);
}
