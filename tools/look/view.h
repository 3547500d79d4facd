/* SPDX-License-Identifier: MIT */
/*
 * view.h - the description of the library's structures that a target carries (src/view/view.h), with the names of
 * src/view/view.def as numbers.  A library of another version has its own offsets, and may lack names.
 *
 *     uint64_t state;
 *     if (view_read(view, target, slab, VIEW_slab_state, &state)) ...
 *
 * The target may have written anything into it.  Offsets, sizes, counts and shifts are checked once, when the description is
 * copied here, and then hold (view_limits in view.c).  A structure that was copied here is a view_part, which knows its own
 * size.  Its fields are read by the functions below alone, and are 0 where they would lie outside of it.
 */
#ifndef STOOK_LOOK_VIEW_H
#define STOOK_LOOK_VIEW_H

#include "look/target.h"

enum view_id {
#define VIEW_VARIABLE(name) VIEW_at_##name, /* a variable's address */
#define VIEW_TYPE(name, type) VIEW_##name,
#define VIEW_FIELD(name, type, field) VIEW_##name##_##field,
#define VIEW_ARRAY(name, type, field) VIEW_##name##_##field,
#define VIEW_CONSTANT(name) VIEW_##name,
#include "view/view.def"
#undef VIEW_VARIABLE
#undef VIEW_TYPE
#undef VIEW_FIELD
#undef VIEW_ARRAY
#undef VIEW_CONSTANT
    VIEW_IDS
};

enum { VIEW_STATS = 128, VIEW_STAT_NAME = 40 };

struct view {
    uint64_t base; /* where the library's ELF file, or the static program, is mapped */
    uint64_t note; /* its note's descriptor */
    uint32_t format;
    struct {
        bool known;
        uint32_t size;
        uint64_t value; /* an address, an offset, a constant */
    } item[VIEW_IDS];
    unsigned stats; /* counters, by their numbers */
    char stat[VIEW_STATS][VIEW_STAT_NAME];
    char path[512]; /* of that file, as the target sees it */
};

/*
 * The description of the library that has started in the target.  False with an error: the target is not on Stook, the
 * library has not started yet, or is of a format or version that this reader does not know.
 */
bool view_find(struct view *view, struct target *target, struct target_error *error);
/* Whether it is still there: false when the process has become another program. */
bool view_holds(const struct view *view, struct target *target);

/*
 * The build ID of a mapping's file, in hexadecimal, or "".  It is read from the note in the target's memory, since the file of
 * that name may be another build by now, or in another container.  The caller passes the mappings in the order of addresses,
 * and *build is {0} at first.  The text is valid until the next call.
 */
enum { VIEW_BUILD_ID = 64 };
struct view_build {
    uint64_t inode;
    unsigned major, minor;
    char text[2 * VIEW_BUILD_ID + 1];
};
const char *view_build_id(struct view_build *build, struct target *target,
                          const struct target_mapping *mapping);

static inline bool view_knows(const struct view *view, enum view_id id)
{
    return view->item[id].known;
}

/* The address of a variable, the offset of a field, a constant; 0 for what is not known. */
static inline uint64_t view_value(const struct view *view, enum view_id id)
{
    return view->item[id].value;
}

static inline uint32_t view_size(const struct view *view, enum view_id id)
{
    return view->item[id].size;
}

enum {
    VIEW_ROOM = 128 << 10, /* offsets and sizes are at most that */
    VIEW_SHEAF_MAX = 1022, /* objects of a sheaf */
    VIEW_CACHES = 4096,
    VIEW_TAG_CHUNK = 4096, /* tags of a chunk */
};

/* A field of at most 8 bytes of the structure at `address`, as an unsigned number. */
bool view_read(const struct view *view, struct target *target, uint64_t address, enum view_id field,
               uint64_t *value);

/* A structure of the target's, or a part of one, that was copied here. */
struct view_part {
    const char *bytes;
    size_t size;
};
/* The first `size` bytes at `address`, copied to `room`, which is an array; without any where they cannot be read. */
#define view_copy(target, address, size, room)                                                     \
    view_copy_to(target, address, size, room, TARGET_ROOM(room))
struct view_part view_copy_to(struct target *target, uint64_t address, uint64_t size, char *to,
                              size_t room);
/* So many bytes of it from `offset` on, or as many as there are. */
struct view_part view_within(struct view_part part, uint64_t offset, uint64_t size);
/* The part that is a field, a structure, or an array. */
struct view_part view_field(const struct view *view, struct view_part part, enum view_id field);
/* A field of at most 8 bytes, as an unsigned number. */
uint64_t view_get(const struct view *view, struct view_part part, enum view_id field);
/* Element i of an array of numbers of so many bytes. */
uint64_t view_element(struct view_part part, uint64_t i, unsigned bytes);
/* A field that is text, cut to the room, with all but plain characters replaced. */
#define view_text(view, part, field, text) view_text_to(view, part, field, text, TARGET_ROOM(text))
void view_text_to(const struct view *view, struct view_part part, enum view_id field, char *text,
                  size_t size);

#endif
