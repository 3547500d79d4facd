/* SPDX-License-Identifier: MIT */
/*
 * parse.h - values that people and the kernel write as text.  No memory, no locks, no locale.
 */
#ifndef STOOK_BASE_PARSE_H
#define STOOK_BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "64M", "2G", "4096" (K, M, G; either case); false, and *size stays, where it is none of these. */
bool parse_size(const char *text, size_t *size);

/* "17", "0x11"; as parse_size(). */
bool parse_number(const char *text, size_t *number);

/* "USR2", "SIGUSR2" or "12": a signal that a program can handle; 0 where it is none. */
int parse_signal(const char *text);

/*
 * "0-3,8": sets the bits of all numbers of the list, each of them below `end`, in `set`, which may be NULL.
 * Returns the highest, or -1 where the text is no such list or names no number.  Bits of the part before a
 * mistake are set by then.
 */
int parse_list(const char *text, unsigned end, uint64_t *set);

/*
 * The kernel's slab_debug syntax: blocks with a semicolon between them, each letters, and names with a comma
 * before each.  A name may end in '*'.  "-" is no letter at all; no letters are FZPU.
 */
#define PARSE_LETTERS "FZPUTAO"
enum { PARSE_LETTERS_MAX = 511 }; /* characters of the text */
struct parse_block {
    unsigned letters;  /* bit 0: the first of PARSE_LETTERS, and so on */
    const char *names; /* "trees*,leaves" */
    size_t length;     /* of the names; 0: for all */
};

/* The next block of *text, which moves on; false at the end, and at a mistake, where *text stays. */
bool parse_block(const char **text, struct parse_block *block);
/* Whether all of it is right. */
bool parse_letters(const char *text);
/* Whether one of the block's names is this one, or is its beginning and ends in '*'. */
bool parse_block_names(const struct parse_block *block, const char *name);

#endif
