/* SPDX-License-Identifier: MIT */
/*
 * placed.h - where code and zeroed data of the shared library lie.  A process that only calls malloc then
 * touches few pages of them.  The linker's script cmake/first.ld.in is the other half; without it they lie
 * elsewhere, and nothing else changes.
 */
#ifndef STOOK_BASE_PLACED_H
#define STOOK_BASE_PLACED_H

/* Code above the layers that malloc needs, of which every process runs this part: at its start, its end, or
 * with each large object, also where that changes its size.  It lies beside their code. */
#define FIRST_TEXT __attribute__((section(".text.stook_first")))

/* The same of what small programs do not run: children of forks, spans of blocks, memory of programs that idle. */
#define SECOND_TEXT __attribute__((section(".text.stook_second")))

/* A constant that FIRST_TEXT reads. */
#define FIRST_DATA __attribute__((section(".rodata.stook_first")))

/* Tables of which a start writes one end alone: behind all small data.  In the order of the layers, so that the end of
 * `topology` and of the first caches shares a page with the head of the next table. */
#define HEAD_BSS __attribute__((section(".bss.stook_head")))

/* Tables that few programs use: behind these. */
#define LARGE_BSS __attribute__((section(".bss.stook_large")))

#endif
