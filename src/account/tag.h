/* SPDX-License-Identifier: MIT */
/*
 * tag.h - call sites and what each of them has: calls and bytes, allocated and freed, by CPU.
 *
 * A tag is a number: of a site that a macro of <stook/stook.h> made, or of a return address.  Numbers
 * are given once and kept for the process's life.  0: none.
 */
#ifndef STOOK_ACCOUNT_TAG_H
#define STOOK_ACCOUNT_TAG_H

#include <stook/tag.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The tag of a site; 0 when there is no more room.  Any context, no lock. */
uint32_t tag_of_site(struct stook_site *site);
/* The tag of the code that a call returns to. */
uint32_t tag_of_address(const void *address);

/* `calls` objects of `bytes` in sum were allocated at, or freed that had been allocated at, the site.
 * Any context; one section on this CPU's counters. */
void tag_count_alloc(uint32_t tag, uint32_t calls, uint64_t bytes);
void tag_count_free(uint32_t tag, uint32_t calls, uint64_t bytes);

#endif
