/* SPDX-License-Identifier: MIT */
/*
 * arena_span.h - spans: whole blocks of the arena in a row, for what is larger than a block.
 */
#ifndef STOOK_LARGE_ARENA_SPAN_H
#define STOOK_LARGE_ARENA_SPAN_H

#include "page/arena.h"

/* Whole blocks, contiguous; align is a power of two of at least BLOCK_SIZE. */
void *arena_span_alloc(unsigned zone, size_t blocks, size_t align, bool nospin, bool *zeroed);
/* hooks.span: each is one of runs, which the slab fills.  NULL beside a fork, too. */
void *arena_span_slab(unsigned zone, const struct arena_ask *ask, void **meta);
void arena_span_free(void *span, size_t blocks);
/* The same of what may be kept (kept.h): a span that is too large to stay warm without its pages, where address space has
 * no limit. */
void arena_span_keep(void *span, size_t blocks);
/* The same when the kernel refuses access to part of its last block, which is unmapped; or lost, where it refuses that. */
void arena_span_free_closed(void *span, size_t blocks);
/* The same when its pages were moved elsewhere: nothing of it is resident. */
void arena_span_free_clean(void *span, size_t blocks);
bool arena_span_extend(void *span, size_t blocks, size_t more);
/* Huge pages under blocks of a span are asked for, or refused; only what changes costs a call. */
void arena_span_advise(void *at, size_t blocks, bool huge);
/* The blocks' pages were moved to those of `to`: what was said of huge pages went with them. */
void arena_span_moved(void *from, void *to, size_t blocks);

/* HOOKS_DUE_SPAN: false while a fork has the lock, or in a handler that interrupted the library. */
bool arena_span_free_now(void *span, size_t blocks);

#endif
