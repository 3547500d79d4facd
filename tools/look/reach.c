/* SPDX-License-Identifier: MIT */
/*
 * reach.c - the marking: roots first, then what they reach, then what of the rest points to what.
 *
 * One thread.  An object is a number; its run, which is a slab's or one large object, says where it lies.
 */
#include "look/reach.h"

#include "look/target.h"

#include <stdlib.h>

enum { REACH_PAGE_SHIFT = 12 };

/* Of an object, in reach.state. */
enum reach_state {
    REACH_LIVE = 1,     /* a user has it */
    REACH_REACHED = 2,  /* by words that are starts, from the roots on */
    REACH_INSIDE = 4,   /* what is reached has a word that lies within it */
    REACH_POSSIBLE = 8, /* by way of such a word only */
    REACH_POINTED = 16, /* lost, and another lost object points to it */
    REACH_HEAD =
        32, /* lost, and counted as such: nothing points to it, or it is the first of a ring */
    REACH_BEHIND = 64, /* lost, and reached from a head */
};

/* Objects of one size that follow each other. */
struct reach_run {
    uint64_t start, stride;
    uint64_t size; /* of an object, what its user may write to */
    uint32_t objects;
    uint32_t first;  /* number of its first object */
    uint32_t number; /* the caller's */
};

struct reach {
    reach_view view;
    void *context;
    uint64_t begin, end;   /* where objects lie */
    uint64_t last;         /* end of the last run's pages */
    uint32_t *page;        /* a page of that range: 1 + its run; 0: none */
    struct reach_run *run; /* in order of address */
    uint32_t runs, objects;
    size_t room_objects;
    uint8_t *state;   /* an object: enum reach_state */
    uint32_t *work;   /* objects whose contents are still to be read */
    uint32_t working; /* how many */
    void *buffer;     /* of REACH_CHUNK bytes */
};

/* ---- the tables ------------------------------------------------------------------------------- */

struct reach *reach_new(uint64_t begin, uint64_t end, reach_view view, void *context)
{
    struct reach *reach = target_need(calloc(1, sizeof(*reach)));

    reach->view = view;
    reach->context = context;
    reach->begin = begin;
    reach->end = end;
    reach->page =
        target_need(calloc(((end - begin) >> REACH_PAGE_SHIFT) + 1, sizeof(*reach->page)));
    reach->buffer = target_need(malloc(REACH_CHUNK));
    reach->last = begin;
    return reach;
}

void reach_close(struct reach *reach)
{
    free(reach->page);
    free(reach->run);
    free(reach->state);
    free(reach->work);
    free(reach->buffer);
    free(reach);
}

bool reach_add(struct reach *reach, uint64_t pages, uint64_t bytes, uint64_t start, uint64_t stride,
               uint64_t size, uint32_t objects, uint32_t number, const uint8_t *live)
{
    if (pages < reach->last || bytes > reach->end - pages || pages >= reach->end ||
        reach->objects + (uint64_t)objects > UINT32_MAX / 2)
        return false;
    reach->run = target_row(reach->run, reach->runs, sizeof(*reach->run));
    if (reach->objects + (size_t)objects > reach->room_objects) {
        reach->room_objects = 2 * reach->room_objects + objects + 4096;
        reach->state = target_need(realloc(reach->state, reach->room_objects));
    }
    reach->run[reach->runs++] =
        (struct reach_run){start, stride, size, objects, reach->objects, number};
    for (uint32_t i = 0; i < objects; i++)
        reach->state[reach->objects++] = live[i] ? REACH_LIVE : 0;
    for (uint64_t at = pages; at < pages + bytes; at += (uint64_t)1 << REACH_PAGE_SHIFT)
        reach->page[(at - reach->begin) >> REACH_PAGE_SHIFT] = reach->runs;
    reach->last = pages + bytes;
    return true;
}

static bool reach_find(const struct reach *reach, uint64_t address, uint32_t *object,
                       uint64_t *inside)
{
    const struct reach_run *run;
    uint64_t offset, index;
    uint32_t number;

    if (address - reach->begin >= reach->end - reach->begin)
        return false;
    number = reach->page[(address - reach->begin) >> REACH_PAGE_SHIFT];
    if (number == 0)
        return false;
    run = &reach->run[number - 1];
    offset = address - run->start; /* in the lead of a slab: larger than all of it */
    index = offset / run->stride;
    if (index >= run->objects)
        return false;
    *object = run->first + (uint32_t)index;
    *inside = offset - index * run->stride;
    return true;
}

static const struct reach_run *reach_run_of(const struct reach *reach, uint32_t object)
{
    uint32_t low = 0, high = reach->runs;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (reach->run[middle].first <= object)
            low = middle;
        else
            high = middle;
    }
    return &reach->run[low];
}

void reach_free(struct reach *reach, uint64_t address)
{
    uint32_t object;
    uint64_t inside;

    if (reach_find(reach, address, &object, &inside) && inside == 0)
        reach->state[object] &= (uint8_t)~REACH_LIVE;
}

void reach_start(struct reach *reach)
{
    reach->work = target_need(malloc(((size_t)reach->objects + 1) * sizeof(*reach->work)));
}

bool reach_live(const struct reach *reach, uint64_t word)
{
    uint32_t object;
    uint64_t inside;

    return reach_find(reach, word, &object, &inside) && (reach->state[object] & REACH_LIVE);
}

/* ---- the marking ------------------------------------------------------------------------------ */

/* What a word says in each of the passes; `from` is the object that has it. */
typedef void (*reach_pass)(struct reach *reach, uint32_t from, uint32_t object, bool inside);

static void reach_words(struct reach *reach, const uint64_t *words, size_t n, uint32_t from,
                        reach_pass pass)
{
    uint64_t inside;
    uint32_t object;

    for (size_t i = 0; i < n; i++)
        if (reach_find(reach, words[i], &object, &inside) && (reach->state[object] & REACH_LIVE))
            pass(reach, from, object, inside != 0);
}

static void reach_memory(struct reach *reach, uint64_t address, uint64_t size, uint32_t from,
                         reach_pass pass)
{
    uint64_t end = (address + size) & ~(uint64_t)7;

    address = (address + 7) & ~(uint64_t)7;
    while (address < end) {
        /* Up to a multiple of the chunk: a part that cannot be read takes no others with it. */
        uint64_t most = REACH_CHUNK - address % REACH_CHUNK;
        size_t n = (size_t)(end - address < most ? end - address : most);
        const uint64_t *words = reach->view(reach->context, address, n, reach->buffer);
        if (words)
            reach_words(reach, words, n / 8, from, pass);
        address += n;
    }
}

static void reach_push(struct reach *reach, uint32_t object)
{
    reach->work[reach->working++] = object;
}

static void reach_contents(struct reach *reach, uint32_t object, reach_pass pass)
{
    const struct reach_run *run = reach_run_of(reach, object);

    reach_memory(reach, run->start + (object - run->first) * run->stride, run->size, object, pass);
}

static void reach_drain(struct reach *reach, reach_pass pass)
{
    while (reach->working > 0)
        reach_contents(reach, reach->work[--reach->working], pass);
}

/* ---- the passes: each pushes an object once, at most ------------------------------------------ */

static void reach_start_found(struct reach *reach, uint32_t from, uint32_t object, bool inside)
{
    (void)from;
    if (inside) {
        reach->state[object] |= REACH_INSIDE;
    } else if (!(reach->state[object] & REACH_REACHED)) {
        reach->state[object] |= REACH_REACHED;
        reach_push(reach, object);
    }
}

static void reach_inside_found(struct reach *reach, uint32_t from, uint32_t object, bool inside)
{
    (void)from;
    (void)inside;
    if (reach->state[object] & (REACH_REACHED | REACH_POSSIBLE))
        return;
    reach->state[object] |= REACH_POSSIBLE;
    reach_push(reach, object);
}

static bool reach_is_lost(const struct reach *reach, uint32_t object)
{
    return (reach->state[object] & (REACH_LIVE | REACH_REACHED | REACH_POSSIBLE)) == REACH_LIVE;
}

static void reach_lost_found(struct reach *reach, uint32_t from, uint32_t object, bool inside)
{
    (void)inside;
    if (from != object && reach_is_lost(reach, object))
        reach->state[object] |= REACH_POINTED;
}

static void reach_behind_found(struct reach *reach, uint32_t from, uint32_t object, bool inside)
{
    (void)from;
    (void)inside;
    if (!reach_is_lost(reach, object) || (reach->state[object] & (REACH_HEAD | REACH_BEHIND)))
        return;
    reach->state[object] |= REACH_BEHIND;
    reach_push(reach, object);
}

static void reach_head(struct reach *reach, uint32_t object)
{
    reach->state[object] |= REACH_HEAD;
    reach_push(reach, object);
    reach_drain(reach, reach_behind_found);
}

void reach_root(struct reach *reach, const uint64_t *words, size_t n)
{
    reach_words(reach, words, n, UINT32_MAX, reach_start_found);
    reach_drain(reach, reach_start_found);
}

void reach_root_memory(struct reach *reach, uint64_t address, uint64_t size)
{
    /* Contents are read into the same buffer: not before these words are done with. */
    reach_memory(reach, address, size, UINT32_MAX, reach_start_found);
    reach_drain(reach, reach_start_found);
}

void reach_sort(struct reach *reach)
{
    for (uint32_t i = 0; i < reach->objects; i++)
        if ((reach->state[i] & (REACH_LIVE | REACH_REACHED | REACH_INSIDE)) ==
            (REACH_LIVE | REACH_INSIDE)) {
            reach_inside_found(reach, UINT32_MAX, i, true);
            reach_drain(reach, reach_inside_found);
        }
    for (uint32_t i = 0; i < reach->objects; i++)
        if (reach_is_lost(reach, i))
            reach_contents(reach, i, reach_lost_found);
    for (uint32_t i = 0; i < reach->objects; i++)
        if (reach_is_lost(reach, i) && !(reach->state[i] & REACH_POINTED))
            reach_head(reach, i);
    /* Rings, which nothing points to from outside: one of each is its head. */
    for (uint32_t i = 0; i < reach->objects; i++)
        if (reach_is_lost(reach, i) && !(reach->state[i] & (REACH_HEAD | REACH_BEHIND)))
            reach_head(reach, i);
}

static enum reach_kind reach_kind(uint8_t state)
{
    return state & REACH_REACHED    ? REACH_IN_REACH
           : state & REACH_POSSIBLE ? REACH_PERHAPS
           : state & REACH_BEHIND   ? REACH_LOST_BEHIND
                                    : REACH_LOST;
}

void reach_each(const struct reach *reach,
                void (*fn)(uint64_t address, uint64_t size, uint32_t number, uint32_t index,
                           enum reach_kind kind, void *arg),
                void *arg)
{
    for (uint32_t r = 0; r < reach->runs; r++) {
        const struct reach_run *run = &reach->run[r];
        for (uint32_t i = 0; i < run->objects; i++)
            if (reach->state[run->first + i] & REACH_LIVE)
                fn(run->start + i * run->stride, run->size, run->number, i,
                   reach_kind(reach->state[run->first + i]), arg);
    }
}
