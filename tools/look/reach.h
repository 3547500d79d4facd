/* SPDX-License-Identifier: MIT */
/*
 * reach.h - which objects of a target can be reached: the library's own marking (src/leak/heap.h) over tables that
 * leaks.c fills from outside.
 *
 * In order: reach_add() by address, reach_free(), reach_start(), roots, reach_settle(), reach_each().
 */
#ifndef STOOK_LOOK_REACH_H
#define STOOK_LOOK_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum reach_kind { REACH_LOST, REACH_LOST_BEHIND, REACH_PERHAPS, REACH_IN_REACH, REACH_KINDS };

struct reach;

/* Objects lie in [begin, end); `view` reads as struct heap_reader's. */
struct reach *reach_new(uint64_t begin, uint64_t end,
                        const void *(*view)(void *context, uint64_t address, size_t size,
                                            void *buffer),
                        void *context);
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

void reach_settle(struct reach *reach);
void reach_each(const struct reach *reach,
                void (*fn)(uint64_t address, uint64_t size, uint32_t number, uint32_t index,
                           enum reach_kind kind, void *arg),
                void *arg);

#endif
