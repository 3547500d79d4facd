/* SPDX-License-Identifier: MIT */
/*
 * kmalloc.h - stook_kmalloc() for the library's own callers.
 */
#ifndef STOOK_KMALLOC_KMALLOC_H
#define STOOK_KMALLOC_KMALLOC_H

#include <stddef.h>
#include <stdint.h>

/* For a call from there (where_site(), where_address()). */
void *stook_kmalloc_from(size_t size, unsigned flags, uint64_t where);

/* Whole pages: of a node, or (-1) of any. */
void *stook_kmalloc_large(size_t size, unsigned flags, int node, uint64_t where);

#endif
