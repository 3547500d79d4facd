/* SPDX-License-Identifier: MIT */
/*
 * view.c - finds the library's description in a target, checks it, and reads fields by it.
 */
#include "look/view.h"

#include "look/target_core.h"
#include "view/view.h"

#include <elf.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIND_HEADERS = 64,     /* of a file that are looked at */
    FIND_NOTES = 16 << 10, /* bytes of a segment of notes */
    FIND_NAMES = 4096,     /* entries of a table */
    FIND_ENTRY = 256,      /* bytes of one */
    FIND_FILES = 4096,     /* files of a process */
};

enum view_kind { KIND_VARIABLE, KIND_CONSTANT, KIND_FIELD };

static const struct {
    const char *name;
    enum view_kind kind;
} view_known[VIEW_IDS] = {
#define VIEW_VARIABLE(name) {#name, KIND_VARIABLE},
#define VIEW_TYPE(name, type) {#name, KIND_FIELD},
#define VIEW_FIELD(name, type, field) {#name "." #field, KIND_FIELD},
#define VIEW_ARRAY(name, type, field) {#name "." #field, KIND_FIELD},
#define VIEW_CONSTANT(name) {#name, KIND_CONSTANT},
#include "view/view.def"
};

/* ---- the note of a file ----------------------------------------------------------------------- */

struct find_note {
    const char *owner; /* of three letters or more; its end counts */
    uint32_t type;
    uint64_t at; /* the descriptor; 0: not found yet */
    uint32_t bytes;
};

/* Among the notes in memory at `address`. */
static void find_in_notes(struct target *target, uint64_t address, uint64_t size,
                          struct find_note *wanted)
{
    static char notes[FIND_NOTES];
    size_t at = 0, end = size < sizeof(notes) ? (size_t)size : sizeof(notes);
    size_t owner = strlen(wanted->owner) + 1;

    if (!target_take_some(target, address, notes, end))
        return;
    while (at + sizeof(Elf64_Nhdr) <= end && !wanted->at) {
        Elf64_Nhdr note;
        size_t name = at + sizeof(note), data;
        memcpy(&note, notes + at, sizeof(note));
        if (note.n_namesz > end || note.n_descsz > end)
            return;
        data = name + (note.n_namesz + 3u) / 4 * 4;
        if (note.n_type == wanted->type && note.n_namesz == owner && name + owner <= end &&
            memcmp(notes + name, wanted->owner, owner) == 0 && data < end) {
            wanted->at = address + data;
            wanted->bytes = note.n_descsz;
        }
        at = data + (note.n_descsz + 3u) / 4 * 4;
    }
}

/* Of the ELF file whose beginning is mapped at `base`. */
static bool find_note(struct target *target, uint64_t base, struct find_note *wanted)
{
    Elf64_Ehdr elf;
    Elf64_Phdr header[FIND_HEADERS];
    uint64_t bias = 0;
    unsigned n;

    wanted->at = 0;
    if (!target_take(target, base, &elf) || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
        elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_phentsize != sizeof(Elf64_Phdr) ||
        elf.e_phoff > TARGET_PAGE)
        return false;
    n = elf.e_phnum < FIND_HEADERS ? elf.e_phnum : FIND_HEADERS;
    if (!target_take_some(target, base + elf.e_phoff, header, n))
        return false;
    for (unsigned i = 0; i < n; i++)
        if (header[i].p_type == PT_LOAD && header[i].p_offset == 0) {
            bias = base - header[i].p_vaddr;
            break;
        }
    for (unsigned i = 0; i < n && !wanted->at; i++)
        if (header[i].p_type == PT_NOTE)
            find_in_notes(target, bias + header[i].p_vaddr, header[i].p_memsz, wanted);
    return wanted->at != 0;
}

static bool find_own_note(struct target *target, uint64_t base, uint64_t *note)
{
    struct find_note wanted = {VIEW_OWNER, VIEW_NOTE, 0, 0};
    bool found = find_note(target, base, &wanted);

    *note = wanted.at;
    return found;
}

const char *view_build_id(struct view_build *build, struct target *target,
                          const struct target_mapping *mapping)
{
    struct find_note wanted = {"GNU", NT_GNU_BUILD_ID, 0, 0};
    unsigned char bytes[VIEW_BUILD_ID];

    if (mapping->offset == 0 || mapping->inode != build->inode ||
        mapping->device_major != build->major || mapping->device_minor != build->minor) {
        *build =
            (struct view_build){mapping->inode, mapping->device_major, mapping->device_minor, ""};
        if (mapping->offset == 0 && mapping->inode != 0 && mapping->read &&
            find_note(target, mapping->begin, &wanted) &&
            target_take_some(target, wanted.at, bytes, wanted.bytes))
            for (uint32_t i = 0; i < wanted.bytes; i++)
                (void)snprintf(build->text + 2 * i, 3, "%02x", bytes[i]);
    }
    return build->text;
}

/* ---- what it describes ------------------------------------------------------------------------ */

static uint64_t load_reference(const int32_t half[2])
{
    return (uint32_t)half[0] | (uint64_t)(uint32_t)half[1] << 32;
}

static void load_stat(struct view *view, const char *name, uint32_t number)
{
    if (number >= VIEW_STATS || strlen(name) >= VIEW_STAT_NAME)
        return;
    strcpy(view->stat[number], name);
    if (number >= view->stats)
        view->stats = number + 1;
}

/* *next: where the name is looked for first, as a library of this version has them in order. */
static void load_item(struct view *view, bool variable, const char *name, uint64_t value,
                      uint32_t size, unsigned *next)
{
    if (!variable && strncmp(name, "stat.", 5) == 0)
        load_stat(view, name + 5, (uint32_t)value);
    for (unsigned i = 0; i < VIEW_IDS; i++) {
        unsigned id = (*next + i) % VIEW_IDS;
        if ((view_known[id].kind == KIND_VARIABLE) != variable ||
            strcmp(view_known[id].name, name) != 0)
            continue;
        view->item[id].known = true;
        view->item[id].value = value;
        view->item[id].size = size;
        *next = id + 1;
        return;
    }
}

static bool load_table(struct view *view, struct target *target, uint64_t address, uint32_t bytes,
                       uint32_t count, bool variables)
{
    char entry[FIND_ENTRY];
    unsigned next = 0;
    size_t least = variables ? sizeof(struct view_variable) : sizeof(struct view_name);

    if (bytes < least || bytes > sizeof(entry) || count > FIND_NAMES)
        return false;
    target_expect(target, address, (size_t)bytes * count);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = address + (uint64_t)i * bytes;
        if (!target_take_some(target, at, entry, bytes))
            return false;
        if (!variables) {
            struct view_name item;
            memcpy(&item, entry, sizeof(item));
            item.name[sizeof(item.name) - 1] = '\0';
            load_item(view, false, item.name, item.value, item.size, &next);
        } else {
            struct view_variable item;
            memcpy(&item, entry, sizeof(item));
            item.name[sizeof(item.name) - 1] = '\0';
            load_item(view, true, item.name, at + (uint64_t)item.place, 0, &next);
        }
    }
    return true;
}

/* What readers count with, shift by, or divide by.  Of what the library does not have, 0 is known. */
static const struct {
    enum view_id id;
    uint32_t least, most;
} view_limits[] = {
    {VIEW_PAGE_SHIFT, 12, 12},
    {VIEW_BLOCK_SHIFT, 21, 21},
    {VIEW_BLOCK_META, 0, 1 << 21},
    {VIEW_BLOCK_HEADER, 0, 1 << 21},
    {VIEW_BLOCK_NOTES, 0, 1 << 21},
    {VIEW_ARENA_NOTE, 0, 1 << 12},
    {VIEW_ARENA_GRANULE, 1, 1 << 12},
    {VIEW_PAGEMAP_ZONE_BITS, 1, 16},
    {VIEW_KEPT_CLEAN, 0, 1 << 13},
    {VIEW_LARGE_ROWS, 0, 1 << 14},
    {VIEW_LARGE_OBJECT_BITS, 1, 63},
    {VIEW_STOOK_AREA_SHIFT, 1, 32},
    {VIEW_SLOT_SHIFT, 1, 12},
    {VIEW_STOOK_CACHES_MAX, 1, VIEW_CACHES},
    {VIEW_LAYOUT_COLUMNS, 0, 16},
    {VIEW_STOOK_SHEAF_CAPACITY_MAX, 1, VIEW_SHEAF_MAX},
    {VIEW_SHEAF_CLASSES, 0, 64},
    {VIEW_ROWS_STAT, 1, 16},
    {VIEW_GROUP_PLACES, 0, 1 << 20},
    {VIEW_ROWS_LARGE, 1, 24},
    {VIEW_TAG_CHUNK_SHIFT, 1, 12},
    {VIEW_TAG_CHUNKS, 0, 1 << 12},
    {VIEW_QUARANTINE_STATES, 1, UINT32_MAX},
    {VIEW_DEPOT_CHUNK_SHIFT, 1, 30},
    {VIEW_DEPOT_CHUNKS, 0, VIEW_ROOM / 8},
    {VIEW_GUARD_STATE_BITS, 1, 8},
    {VIEW_MODULES_MOST, 0, 1 << 12},
};
_Static_assert(1 << 12 <= VIEW_TAG_CHUNK, "a chunk's tags");

static bool load_check(const struct view *view)
{
    bool good = true;

    for (unsigned id = 0; id < VIEW_IDS; id++)
        if (view_known[id].kind == KIND_FIELD)
            good &= view->item[id].value <= VIEW_ROOM && view->item[id].size <= VIEW_ROOM;
    for (size_t i = 0; i < sizeof(view_limits) / sizeof(view_limits[0]); i++) {
        uint64_t value = view->item[view_limits[i].id].value;
        good &= !view->item[view_limits[i].id].known ||
                (value >= view_limits[i].least && value <= view_limits[i].most);
    }
    return good;
}

enum view_load { LOAD_DONE, LOAD_NOT_STARTED, LOAD_UNKNOWN, LOAD_DAMAGED, LOAD_BROKEN };

static enum view_load load_view(struct view *view, struct target *target, uint64_t note)
{
    struct view_note head;
    uint64_t size = 0, names, variables;

    memset(view->item, 0, sizeof(view->item));
    memset(view->stat, 0, sizeof(view->stat));
    view->stats = 0;
    view->note = note;
    if (!target_take(target, note, &head))
        return LOAD_BROKEN;
    view->format = head.format;
    if (head.format != VIEW_FORMAT || head.bytes < sizeof(head))
        return LOAD_UNKNOWN;
    names = note + offsetof(struct view_note, name_table) + load_reference(head.name_table);
    variables =
        note + offsetof(struct view_note, variable_table) + load_reference(head.variable_table);
    if (!load_table(view, target, names, head.name_bytes, head.names, false) ||
        !load_table(view, target, variables, head.variable_bytes, head.variables, true))
        return LOAD_BROKEN;
    if (!load_check(view))
        return LOAD_DAMAGED;
    if (!view_read(view, target, view_value(view, VIEW_at_pagemap), VIEW_pagemap_size, &size))
        return LOAD_BROKEN;
    return size == 0 ? LOAD_NOT_STARTED : LOAD_DONE;
}

/* ---- among the files of a process ------------------------------------------------------------- */

struct find_file {
    uint64_t base;
    char path[512];
};

struct find_files {
    struct find_file *file;
    size_t n;
};

static bool find_add(const struct target_mapping *mapping, void *arg)
{
    struct find_files *files = arg;
    struct find_file *file;

    if (mapping->offset != 0 || mapping->inode == 0 || !mapping->read || mapping->shared ||
        files->n == FIND_FILES)
        return files->n < FIND_FILES;
    files->file = target_row(files->file, files->n, sizeof(*file));
    file = &files->file[files->n++];
    file->base = mapping->begin;
    strncpy(file->path, mapping->path, sizeof(file->path) - 1);
    file->path[sizeof(file->path) - 1] = '\0';
    target_clean_text(file->path, sizeof(file->path));
    return true;
}

static void find_files(struct target *target, struct find_files *files)
{
    *files = (struct find_files){0};
    (void)target_for_each_mapping(target, find_add, files);
    for (size_t i = 0; i < files->n; i++)
        target_expect(target, files->file[i].base, sizeof(Elf64_Ehdr));
}

bool view_find(struct view *view, struct target *target, struct target_error *error)
{
    struct find_files files;
    enum view_load found = LOAD_BROKEN;
    bool any = false;

    find_files(target, &files);
    for (size_t i = 0; i < files.n && found != LOAD_DONE; i++) {
        uint64_t note;
        enum view_load load;
        if (!find_own_note(target, files.file[i].base, &note))
            continue;
        any = true;
        load = load_view(view, target, note);
        if (load <= found || load == LOAD_UNKNOWN)
            found = load;
        view->base = files.file[i].base;
        memcpy(view->path, files.file[i].path, sizeof(view->path));
    }
    free(files.file);
    if (found == LOAD_DONE)
        return true;
    if (!target_alive(target))
        return target_fail(error, "process %d (%s) has ended", target->pid, target->name);
    if (!any)
        return target_fail(
            error,
            "process %d (%s) does not run on Stook, or on a version that does not describe "
            "itself; `stook run` starts programs on Stook",
            target->pid, target->name);
    if (!target->live && (found == LOAD_NOT_STARTED || found == LOAD_BROKEN))
        return target_fail(error, "the core file of process %d (%s) lacks the library's data: %s",
                           target->pid, target->name, target_core_lacks);
    if (found == LOAD_NOT_STARTED) {
        (void)target_fail(error, "process %d (%s) has Stook, but has allocated nothing with it yet",
                          target->pid, target->name);
        return !(error->idle = true);
    }
    if (found == LOAD_UNKNOWN)
        return target_fail(
            error,
            "the Stook of process %d (%s) describes itself in format %u; this stook knows format "
            "%d.  Use the stook of that version",
            target->pid, target->name, view->format, VIEW_FORMAT);
    if (found == LOAD_DAMAGED || target->over)
        return target_damaged(target, error);
    return target_fail(error, "the description of Stook in process %d (%s) cannot be read",
                       target->pid, target->name);
}

bool view_holds(const struct view *view, struct target *target)
{
    struct view_note head;
    uint64_t size = 0;
    uint64_t at = view_value(view, VIEW_at_pagemap) + view_value(view, VIEW_pagemap_size);

    return target_read_now(target, view->note, &head, sizeof(head), sizeof(head)) &&
           head.format == view->format && head.bytes >= sizeof(head) &&
           target_read_now(target, at, &size, sizeof(size), sizeof(size)) && size != 0;
}

/* ---- fields ----------------------------------------------------------------------------------- */

bool view_read(const struct view *view, struct target *target, uint64_t address, enum view_id field,
               uint64_t *value)
{
    *value = 0; /* little-endian, as all that Stook runs on */
    return view->item[field].known && target_read(target, address + view->item[field].value, value,
                                                  sizeof(*value), view->item[field].size);
}

struct view_part view_copy_to(struct target *target, uint64_t address, uint64_t size, char *to,
                              size_t room)
{
    struct view_part part = {to, (size_t)size};

    return target_read(target, address, to, room, (size_t)size) ? part : (struct view_part){0};
}

struct view_part view_within(struct view_part part, uint64_t offset, uint64_t size)
{
    if (offset >= part.size)
        return (struct view_part){0};
    part.bytes += offset;
    part.size -= offset;
    part.size = part.size < size ? part.size : (size_t)size;
    return part;
}

struct view_part view_field(const struct view *view, struct view_part part, enum view_id field)
{
    return view_within(part, view->item[field].value, view->item[field].size);
}

uint64_t view_element(struct view_part part, uint64_t i, unsigned bytes)
{
    uint64_t value = 0;

    if (bytes <= sizeof(value) && i < part.size / (bytes ? bytes : 1))
        memcpy(&value, part.bytes + i * bytes, bytes);
    return value;
}

uint64_t view_get(const struct view *view, struct view_part part, enum view_id field)
{
    uint32_t bytes = view->item[field].size;

    part = view_field(view, part, field);
    return part.size == bytes ? view_element(part, 0, bytes) : 0;
}

void view_text_to(const struct view *view, struct view_part part, enum view_id field, char *text,
                  size_t size)
{
    part = view_field(view, part, field);
    memset(text, 0, size);
    if (part.size > 0)
        memcpy(text, part.bytes, part.size < size ? part.size : size);
    target_clean_text(text, size);
}
