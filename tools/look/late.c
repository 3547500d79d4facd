/* SPDX-License-Identifier: MIT */
/*
 * late.c - keeps words that pointed to no object in use, and follows those that a later snapshot
 * shows to be objects.
 */
#include "look/late.h"

#include "look/heap_own.h"

#include <stdlib.h>

enum {
    LATE_ROUNDS = 8,      /* a process that allocates all the time has some new object in each */
    LATE_WORDS = 1 << 20, /* further ones are not kept */
    LATE_SMALLEST = 1024,
};

struct late {
    uint64_t begin, end;
    uint64_t *table; /* all words, by hash; 0: free */
    uint64_t *word;  /* the same in the order in which they came */
    size_t room, words, followed;
};

struct late *late_new(uint64_t begin, uint64_t end)
{
    struct late *late = target_need(calloc(1, sizeof(*late)));

    late->begin = begin;
    late->end = end;
    return late;
}

void late_close(struct late *late)
{
    if (!late)
        return;
    free(late->table);
    free(late->word);
    free(late);
}

static uint64_t *late_place(const struct late *late, uint64_t word)
{
    size_t at = (size_t)(word * 0x9e3779b97f4a7c15u >> 20);

    while (late->table[at &= late->room - 1] != 0 && late->table[at] != word)
        at++;
    return &late->table[at];
}

static void late_grow(struct late *late)
{
    free(late->table);
    late->room = late->room ? 2 * late->room : LATE_SMALLEST;
    late->table = target_need(calloc(late->room, sizeof(*late->table)));
    late->word = target_need(realloc(late->word, late->room / 2 * sizeof(*late->word)));
    for (size_t i = 0; i < late->words; i++)
        *late_place(late, late->word[i]) = late->word[i];
}

/* False: it was there already. */
static bool late_add(struct late *late, uint64_t word)
{
    uint64_t *place;

    if (late->words >= late->room / 2) {
        if (late->words >= LATE_WORDS)
            return false;
        late_grow(late);
    }
    place = late_place(late, word);
    if (*place != 0)
        return false;
    *place = late->word[late->words++] = word;
    return true;
}

void late_note(struct late *late, const struct reach *reach, const uint64_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (words[i] >= late->begin && words[i] < late->end && !reach_live(reach, words[i]))
            (void)late_add(late, words[i]);
}

/* By the second snapshot. */
static bool late_in_use(struct heap *heap, uint64_t word, struct heap_what *what)
{
    heap_whatis(heap, word, what);
    return what->kind == HEAP_LARGE || (what->kind == HEAP_OBJECT && what->state == HEAP_LIVE);
}

/* True: some of what came up meanwhile is in no object of this snapshot, and perhaps of the next. */
static bool late_round(struct late *late, struct heap *heap, struct reach *reach)
{
    size_t begin = late->followed, end = late->words;
    bool more = false;

    for (size_t i = begin; i < late->words; i++) {
        struct heap_what what;
        if (!late_in_use(heap, late->word[i], &what))
            more |= i >= end;
        else if (what.start == late->word[i])
            reach_root_memory(reach, what.start, what.bytes);
        else
            (void)late_add(late, what.start);
    }
    late->followed = end;
    return more;
}

void late_follow(struct late *late, int pid, struct reach *reach, void (*renew)(void *context),
                 void *context)
{
    struct target_error error;
    bool more = true;

    for (int round = 0; round < LATE_ROUNDS && more && late->followed < late->words; round++) {
        struct heap *heap = heap_open(target_open_pid(pid, &error), &error);
        renew(context);
        more = heap && heap_read(heap, &error) && late_round(late, heap, reach);
        heap_close(heap);
    }
}
