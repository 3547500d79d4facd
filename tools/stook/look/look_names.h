/* SPDX-License-Identifier: MIT */
/*
 * look_names.h - functions, files and lines of a target's code addresses, as profile.h resolves them.
 *
 *     names = look_names_new(heap);
 *     look_names_want(names, address) ...
 *     look_names_find(names);
 *     look_name(names, address, text, sizeof(text)) ...
 *
 * An address is what a call returns to; one with bit 63 is that of a site that the call names itself (<stook/stook.h>).
 */
#ifndef STOOK_TOOL_LOOK_NAMES_H
#define STOOK_TOOL_LOOK_NAMES_H

#include "look/heap.h"

#include "text/writer.h"

enum { LOOK_NAME = 512, LOOK_FRAMES = 64 };

struct look_names;

struct look_names *look_names_new(struct heap *heap);
void look_names_free(struct look_names *names);
void look_names_want(struct look_names *names, uint64_t address);
/* Of all that is wanted, files are opened once. */
void look_names_find(struct look_names *names);
/* All that is known of an address that was wanted; NULL: nothing. */
struct profile_site;
const struct profile_site *look_name_place(const struct look_names *names, uint64_t address);
/* The function; "": unknown. */
const char *look_name_function(const struct look_names *names, uint64_t address);
/* "function at file:line", "function+0x12 [module]", "0x1234 [module+0x234]"; in `text`. */
const char *look_name(const struct look_names *names, uint64_t address, char *text, size_t size);
/* Wrappers of malloc beside those that profile.h knows, as patterns between commas. */
extern const char *look_wrappers;
/* The place that a call names, or its innermost frame that is no wrapper of malloc; "": neither is known. */
const char *look_site_name(const struct look_names *names, const struct heap_site *site,
                           char text[LOOK_NAME]);

/* Where an object was allocated: the frames of its track, else its tag. */
struct look_place {
    struct heap_site site;
    bool known;
};
void look_place(struct look_names *names, struct heap *heap, const struct heap_what *what,
                struct look_place *place);
/* Lines for people, each behind `indent`; what "allocated" or another word begins them. */
void look_show_place(struct writer *w, const struct look_names *names,
                     const struct look_place *place, const char *word);
/* "file": …, "function": …, "line": …, "stack": […], with no end. */
void look_json_place(struct writer *w, const struct look_names *names,
                     const struct look_place *place);

#endif
