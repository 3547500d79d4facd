/* SPDX-License-Identifier: MIT */
/*
 * view.h - the description of the library's structures that every process carries, for readers outside of it
 * (tools/look/).  It is constant data that nothing in the process reads, and has no relocations.
 *
 * The library's ELF file has a note in its section .note.stook, with the owner "Stook" and the type VIEW_NOTE.  Its
 * descriptor is a struct view_note.  `strip` and `ld --gc-sections` keep it, and static programs have it, too.  A reader
 * finds it in the PT_NOTE segments of the mapped ELF files.
 *
 *   note -> table of names (struct view_name): offsets, sizes and constants, of view.def and of the counters
 *        -> table of variables (struct view_variable)
 *
 * A reference is the difference from its own place to what it refers to.
 */
#ifndef STOOK_VIEW_VIEW_H
#define STOOK_VIEW_VIEW_H

#include <stdint.h>

#define VIEW_OWNER "Stook"
enum {
    VIEW_NOTE = 2,   /* 1 is malloc/start.c's */
    VIEW_FORMAT = 1, /* grows when the structures refer to each other differently */
    VIEW_NAME_MAX = 40,
    VIEW_VARIABLE_MAX = 24,
};

/* The note's descriptor. */
struct view_note {
    uint32_t format;
    uint32_t bytes;                     /* of this, as the library has it: it grows at its end */
    uint32_t name_bytes, names;         /* of an entry of the table of names; how many */
    uint32_t variable_bytes, variables; /* the same of the variables */
    int32_t name_table[2],
        variable_table[2]; /* references of 64 bits, lower half first: a note is aligned to 4 */
};

struct view_name {
    char name
        [VIEW_NAME_MAX]; /* "slab", "slab.state", "SLAB_MIN", "stat.alloc_slab"; ends with a NUL */
    uint32_t value;      /* a field's offset, a constant's or counter's number; of a structure 0 */
    uint32_t size;       /* of a field or structure; 0: a constant, or an array without an end */
};

struct view_variable {
    int64_t place; /* a reference from here */
    char name[VIEW_VARIABLE_MAX];
};

#endif
