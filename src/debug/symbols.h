/* SPDX-License-Identifier: MIT */
/*
 * symbols.h - which function of which file an address is in, read from the files that are mapped: no memory, no lock
 * of the loader's, any context.  One thread at a time: the buffers are static (debug/report.c sees to that).
 */
#ifndef STOOK_DEBUG_SYMBOLS_H
#define STOOK_DEBUG_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbol {
    uint64_t address; /* set by the caller; a return address: what is found is the call */
    uint64_t offset;  /* in the module: what addr2line takes */
    uint64_t within;  /* in the function */
    char module[48];  /* the file's name without its folders; "": none is mapped there */
    char name[80];    /* the function's, as the file has it; "": not known */
};

void symbols_find(struct symbol *symbols, unsigned n);
/* So many bytes of a file from there on; false: there are fewer. */
bool symbols_read(int fd, uint64_t at, void *to, size_t size);

#endif
