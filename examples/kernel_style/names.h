/* SPDX-License-Identifier: MIT */
#ifndef NAMES_H
#define NAMES_H

#include <linux/types.h>

/* A table of names, each with a file; a file's blocks are read through I/O contexts. */
int names_init(void);
void names_exit(void); /* no thread uses it any more */

int names_add(const char *name, u64 number);
/* All of them or none; one taking of the lock. */
int names_add_many(char *const *names, const u64 *numbers, unsigned n);
int names_remove(const char *name);
/* Finds a name without a lock: its file's number, or -ENOENT. */
int names_lookup(const char *name, u64 *number);

/* Reads n blocks of a file; their sum. */
int names_read(const char *name, unsigned n, u64 *sum);

struct names_counts {
    u64 names, files, bursts, singles;
};
void names_count(struct names_counts *counts);

#endif
