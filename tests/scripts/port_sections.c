/* SPDX-License-Identifier: MIT */
/*
 * Every section over a struct rseq of the program's own, which the kernel does not know: nothing aborts
 * them, so that each is plain code whose results are asserted.  It needs no test library and no rseq,
 * so it runs under an emulator of another architecture too (tests/scripts/test_port.py).  tests/unit/test_percpu_steps.c tests aborts,
 * on a machine of that kind.
 */
#define STOOK_SECTION_CLOBBERS "memory",
#include "charge/stock_sections.h"
#include "sheaf/slot_sections.h"
#include "site/rows_two.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef STOOK_INLINE_SECTIONS

struct percpu percpu;

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { CPU = 3, CAPACITY = 80, SHIFT = ROWS_LINE, SIGNATURE_AT = -4 };

static struct __attribute__((aligned(32))) {
    uint32_t cpu_id_start, cpu_id;
    uint64_t cs;
} own;
static char *area;
static struct slot *slot;
static intptr_t rseq;
static struct sheaf *sheaf;
static void *token[CAPACITY + 8], *got[CAPACITY + 8];

static struct sheaf *make_sheaf(void)
{
    struct sheaf *made = aligned_alloc(64, 1024);

    MUST(made);
    made->size = 0;
    made->capacity = CAPACITY;
    return made;
}

/* The slot is open with the sheaf, which has so many objects. */
static void open_with(uint32_t size)
{
    slot->begin = sheaf->object;
    slot->top = sheaf->object + size;
    slot->end = sheaf->object + CAPACITY;
}

static uint32_t size_now(void)
{
    return (uint32_t)(slot->top - sheaf->object);
}

/* What the kernel would read of the section that ran last. */
static void check_descriptor(void)
{
    const struct {
        uint32_t version, flags;
        uint64_t start, length, abort;
    } *cs = (const void *)(uintptr_t)own.cs;
    uint32_t signature;

    MUST(cs->version == 0 && cs->flags == 0 && (own.cs & 31) == 0);
    MUST(cs->length > 0 && cs->length < 4096);
    MUST(cs->abort < cs->start || cs->abort >= cs->start + cs->length);
    memcpy(&signature, (const char *)(uintptr_t)cs->abort + SIGNATURE_AT, sizeof(signature));
    MUST(signature == STOOK_RSEQ_SIG);
    own.cs = 0;
}

static void on(int cpu)
{
    own.cpu_id = (uint32_t)cpu;
}

static void pop_and_push(void)
{
    void *object;

    on(CPU);
    MUST(!stook_rseq_pop(area, rseq, &object)); /* no sheaf yet */
    check_descriptor();
    MUST(!stook_rseq_push(area, rseq, token[0]));
    open_with(0);
    MUST(!stook_rseq_pop(area, rseq, &object) && size_now() == 0);
    for (uint32_t i = 0; i < CAPACITY; i++)
        MUST(stook_rseq_push(area, rseq, token[i]) && size_now() == i + 1);
    check_descriptor();
    MUST(!stook_rseq_push(area, rseq, token[0]) && size_now() == CAPACITY);
    for (uint32_t i = CAPACITY; i-- > 0;)
        MUST(stook_rseq_pop(area, rseq, &object) && object == token[i] && size_now() == i);
    on(-1);
    MUST(!stook_rseq_push(area, rseq, token[0]));
    on(CPU);
}

/* Each number that is asked for, of each number that is there. */
static void bulk(void)
{
    for (uint32_t there = 0; there <= CAPACITY; there++)
        for (uint32_t asked = 1; asked <= CAPACITY + 8; asked++) {
            uint32_t room = CAPACITY - there, moves = asked < there ? asked : there, k = 0;
            open_with(there);
            memcpy(sheaf->object, token, there * sizeof(void *));
            memset(got, 0, sizeof(got));
            MUST(rseq_pop_bulk(area, rseq, got, asked, &k) == (moves ? RSEQ_DONE : RSEQ_LEFT));
            MUST(k == moves && size_now() == there - moves);
            MUST(memcmp(got, token + there - moves, moves * sizeof(void *)) == 0 && !got[moves]);
            open_with(there);
            moves = asked < room ? asked : room;
            k = 0;
            MUST(rseq_push_bulk(area, rseq, token, asked, &k) == (moves ? RSEQ_DONE : RSEQ_LEFT));
            MUST(k == moves && size_now() == there + moves);
            MUST(memcmp(sheaf->object + there, token, moves * sizeof(void *)) == 0);
        }
    check_descriptor();
    for (uint32_t n = 1; n < CAPACITY; n++)
        for (uint32_t null = 0; null < n; null++) {
            uint32_t k = 0;
            memcpy(got, token, sizeof(got));
            got[null] = NULL;
            open_with(0);
            MUST(rseq_push_bulk(area, rseq, got, n, &k) == RSEQ_LEFT && k == 0 && size_now() == 0);
        }
    open_with(CAPACITY + 4); /* more than its capacity: nothing comes, all goes */
    MUST(rseq_push_bulk(area, rseq, token, 1, &(uint32_t){0}) == RSEQ_LEFT);
    open_with(0);
}

static void close_and_defer(void)
{
    const void *closed = SLOT_CLOSED;
    void *object = NULL, *begin = NULL;

    open_with(1);
    MUST(rseq_close(slot, rseq, CPU + 1, closed, &begin) == RSEQ_ABORTED && slot->end);
    MUST(rseq_close(slot, rseq, CPU, closed, &begin) == RSEQ_DONE && begin == sheaf->object);
    check_descriptor();
    MUST(slot->begin == SLOT_CLOSED && !slot->end && size_now() == 1);
    MUST(rseq_close(slot, rseq, CPU, closed, &begin) == RSEQ_LEFT);
    MUST(!stook_rseq_pop(area, rseq, &object) && !stook_rseq_push(area, rseq, token[0]));
    MUST(rseq_pop_bulk(area, rseq, got, 1, &(uint32_t){0}) == RSEQ_LEFT);
    MUST(rseq_push_bulk(area, rseq, token, 1, &(uint32_t){0}) == RSEQ_LEFT);
    slot->rcu = make_sheaf();
    MUST(rseq_defer(area, rseq, closed, token[0]) == RSEQ_LEFT && slot->rcu->size == 0);
    open_with(0);
    for (uint32_t i = 0; i < CAPACITY - 1; i++) {
        MUST(rseq_defer(area, rseq, closed, token[i]) == RSEQ_DONE);
        MUST(slot->rcu->size == i + 1 && slot->rcu->object[i] == token[i]);
    }
    check_descriptor();
    MUST(rseq_defer(area, rseq, closed, token[0]) == RSEQ_LEFT && slot->rcu->size == CAPACITY - 1);
    slot->rcu = NULL;
    MUST(rseq_defer(area, rseq, closed, token[0]) == RSEQ_LEFT);
}

static void rows(void)
{
    static char memory[(CPU + 2) << SHIFT] __attribute__((aligned(64)));
    static char sums[(CPU + 1) << ROWS_LARGE] __attribute__((aligned(64)));
    uint64_t *word = rows_at(memory, SHIFT, CPU);
    uint32_t *stock = rows_at(memory, SHIFT, CPU);
    struct rows_two *two = rows_at(sums, ROWS_LARGE, CPU);
    op_two more = {2, 3};
    int done;

    MUST(rseq_add(memory, SHIFT, rseq, UINT64_MAX - 4) == RSEQ_DONE && *word == UINT64_MAX - 4);
    MUST(rseq_add(memory, SHIFT, rseq, 7) == RSEQ_DONE && *word == 2);
    check_descriptor();
    done = rseq_add_two(sums, rseq, more);
    MUST(done == RSEQ_DONE ? two->count == 2 && two->bytes == 3
                           : done == RSEQ_LEFT && two->count == 0 && two->bytes == 0);
    check_descriptor();
    stock[0] = 0xfffffff0;
    stock[1] = 100;
    MUST(rseq_take(memory, SHIFT, rseq, 0xfffffff1, 1) == RSEQ_LEFT && stock[1] == 100);
    MUST(rseq_take(memory, SHIFT, rseq, 0xfffffff0, 101) == RSEQ_LEFT && stock[1] == 100);
    MUST(rseq_take(memory, SHIFT, rseq, 0xfffffff0, 100) == RSEQ_DONE && stock[1] == 0);
    MUST(rseq_give(memory, SHIFT, rseq, 0xfffffff1, 1, 50) == RSEQ_LEFT && stock[1] == 0);
    MUST(rseq_give(memory, SHIFT, rseq, 0xfffffff0, 51, 50) == RSEQ_LEFT && stock[1] == 0);
    MUST(rseq_give(memory, SHIFT, rseq, 0xfffffff0, 50, 50) == RSEQ_DONE && stock[1] == 50);
    check_descriptor();
    on(-1);
    MUST(rseq_add(memory, SHIFT, rseq, 1) == RSEQ_LEFT);
    MUST(rseq_take(memory, SHIFT, rseq, 0xfffffff0, 1) == RSEQ_LEFT && stock[1] == 50);
    on(CPU);
}

int main(void)
{
    char *areas = aligned_alloc(64, (CPU + 4) * (size_t)PERCPU_AREA_SIZE);

    MUST(areas);
    memset(areas, 0, (CPU + 4) * (size_t)PERCPU_AREA_SIZE);
    area = areas + 2 * (size_t)PERCPU_AREA_SIZE + SLOT_SIZE;
    slot = (struct slot *)(void *)(area + CPU * (size_t)PERCPU_AREA_SIZE);
    rseq = (char *)&own - (char *)__builtin_thread_pointer();
    for (uintptr_t i = 0; i < sizeof(token) / sizeof(token[0]); i++)
        token[i] = (void *)(0x100000010 + i * 16);
    sheaf = make_sheaf();
    pop_and_push();
    for (int wide = 0; wide < 2; wide++) {
#ifdef __x86_64__
        percpu.wide = wide && __builtin_cpu_supports("avx2");
#endif
        bulk();
    }
    close_and_defer();
    rows();
    puts("every section does what it says");
    return 0;
}

#else
int main(void)
{
    puts("built without sections");
    return 77;
}
#endif
