/* SPDX-License-Identifier: MIT */
/*
 * reach.h - which objects of a target can be reached: a conservative marking over tables that leaks.c fills.
 *
 *   a word that is the start of a live object      that object is reached, and its contents are read
 *   a word that lies within one                    the object is only possibly in use
 *
 * Words lie at multiples of 8.  In order: reach_add() by address, reach_free(), reach_start(), roots, reach_sort(),
 * reach_each().
 */
#ifndef STOOK_LOOK_REACH_H
#define STOOK_LOOK_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum reach_kind { REACH_LOST, REACH_LOST_BEHIND, REACH_PERHAPS, REACH_IN_REACH, REACH_KINDS };

enum { REACH_CHUNK = 1 << 16 };

struct reach;

/* Reads `size` bytes, REACH_CHUNK at most: where they lie, in `buffer` or elsewhere; NULL: they cannot be read. */
typedef const void *(*reach_view)(void *context, uint64_t address, size_t size, void *buffer);

/* Objects lie in [begin, end). */
struct reach *reach_new(uint64_t begin, uint64_t end, reach_view view, void *context);
void reach_close(struct reach *reach);

/* Objects that follow each other on these pages.  `number` is the caller's, live[i] whether a user has it.  False: it
 * does not lie behind the last one. */
bool reach_add(struct reach *reach, uint64_t pages, uint64_t bytes, uint64_t start, uint64_t stride,
               uint64_t size, uint32_t objects, uint32_t number, const uint8_t *live);
/* The object that begins there is free, after all. */
void reach_free(struct reach *reach, uint64_t address);
void reach_start(struct reach *reach);

/* Whether a word points to an object in use, or into one. */
bool reach_live(const struct reach *reach, uint64_t word);

void reach_root(struct reach *reach, const uint64_t *words, size_t n);
void reach_root_memory(struct reach *reach, uint64_t address, uint64_t size);

/* After all roots: gives every live object its kind. */
void reach_sort(struct reach *reach);
void reach_each(const struct reach *reach,
                void (*fn)(uint64_t address, uint64_t size, uint32_t number, uint32_t index,
                           enum reach_kind kind, void *arg),
                void *arg);

#endif
