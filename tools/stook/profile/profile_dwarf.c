/* SPDX-License-Identifier: MIT */
/*
 * profile_dwarf.c - functions, lines and inlined calls of an address, by libdw; and stubs where
 * the build lacks it.
 */
#include "stook/profile/profile.h"
#include "stook/profile/profile_code.h"

#include "text/file.h"

#ifdef STOOK_HAS_LIBDW
#include "look/target.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const bool dwarf_is_there = true;

/* Addresses of a unit: a unit has some of these. */
struct dwarf_range {
    uint64_t start, end; /* with the bias */
    Dwarf_Addr bias;
    Dwarf_Die *unit;
};

struct dwarf_file {
    Dwfl *dwfl;
    Dwfl_Module *module;
    Dwarf_Addr base; /* libdwfl's address of what is linked to 0 */
    struct dwarf_range
        *ranges; /* by start; made when the first address is in no table of addresses */
    size_t nr_ranges, room;
    bool ranged;
};

/* Separate files of debugging information are looked for where Debian and others put them. */
static const Dwfl_Callbacks dwarf_callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo =
        dwfl_build_id_find_debuginfo, /* not by a name that the file says, which may be a FIFO's */
    .section_address = dwfl_offline_section_address,
};

struct dwarf_file *dwarf_open(const char *path)
{
    struct dwarf_file *file = calloc(1, sizeof(*file));
    GElf_Addr bias;

    if (!file)
        return NULL;
    file->dwfl = dwfl_begin(&dwarf_callbacks);
    if (file->dwfl) {
        int fd = file_open_read(path);
        file->module = fd < 0 ? NULL : dwfl_report_offline(file->dwfl, path, path, fd);
        if (!file->module && fd >= 0)
            close(fd);
        dwfl_report_end(file->dwfl, NULL, NULL);
    }
    if (!file->module || !dwfl_module_getelf(file->module, &bias)) {
        dwarf_close(file);
        return NULL;
    }
    file->base = bias;
    return file;
}

void dwarf_close(struct dwarf_file *file)
{
    if (!file)
        return;
    if (file->dwfl)
        dwfl_end(file->dwfl);
    free(file->ranges);
    free(file);
}

static void dwarf_line(struct dwarf_file *file, struct profile *profile, Dwarf_Addr address,
                       struct profile_frame *frame)
{
    Dwfl_Line *line = dwfl_module_getsrc(file->module, address);
    const char *name;
    int number;

    if (line && (name = dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL)) != NULL) {
        frame->file = profile_keep(profile, name);
        frame->line = (uint64_t)number;
    }
}

static const char *dwarf_name(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *linkage =
        dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute));

    return linkage ? linkage : dwarf_diename(die);
}

/* Where an inlined function was called: the line of the frame around it. */
static void dwarf_called(struct profile *profile, Dwarf_Die *unit, Dwarf_Die *inlined,
                         struct profile_frame *frame)
{
    Dwarf_Attribute attribute;
    Dwarf_Word number;
    Dwarf_Files *files;
    const char *name;

    if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &number) == 0 &&
        dwarf_getsrcfiles(unit, &files, NULL) == 0 &&
        (name = dwarf_filesrc(files, number, NULL, NULL)) != NULL)
        frame->file = profile_keep(profile, name);
    if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &number) == 0)
        frame->line = number;
}

static bool dwarf_range_add(struct dwarf_file *file, struct dwarf_range range)
{
    if (file->nr_ranges == file->room) {
        size_t room = file->room ? 2 * file->room : 1024;
        struct dwarf_range *ranges = reallocarray(file->ranges, room, sizeof(*ranges));
        if (!ranges)
            return false;
        file->ranges = ranges;
        file->room = room;
    }
    file->ranges[file->nr_ranges++] = range;
    return true;
}

/* Without memory for all there are the first ones. */
static void dwarf_ranges_make(struct dwarf_file *file)
{
    Dwarf_Addr bias, base, start, end;
    Dwarf_Die *unit = NULL;
    bool room = true;

    file->ranged = true;
    while (room && (unit = dwfl_module_nextcu(file->module, unit, &bias)) != NULL) {
        ptrdiff_t next = 0;
        while (room && (next = dwarf_ranges(unit, next, &base, &start, &end)) > 0)
            room =
                dwarf_range_add(file, (struct dwarf_range){start + bias, end + bias, bias, unit});
    }
    if (file->nr_ranges > 0)
        qsort(file->ranges, file->nr_ranges, sizeof(*file->ranges), target_by_number);
}

/*
 * The unit that has an address.  GCC writes a table of these (.debug_aranges); clang and rustc do not, but their units
 * say which addresses they have.
 */
static Dwarf_Die *dwarf_unit(struct dwarf_file *file, Dwarf_Addr address, Dwarf_Addr *bias)
{
    Dwarf_Die *unit = dwfl_module_addrdie(file->module, address, bias);
    size_t n;

    if (unit)
        return unit;
    if (!file->ranged)
        dwarf_ranges_make(file);
    n = target_rows_to(file->ranges, file->nr_ranges, start, address);
    if (n == 0 || address >= file->ranges[n - 1].end)
        return NULL;
    *bias = file->ranges[n - 1].bias;
    return file->ranges[n - 1].unit;
}

enum { DWARF_DEPTH = 64 };

/* The functions around an address as the code lies, outermost first; dwarf_getscopes() finds none of rustc's. */
static unsigned dwarf_around(Dwarf_Die *die, Dwarf_Addr address, Dwarf_Die *found, unsigned depth)
{
    Dwarf_Die child;
    unsigned n = 0;

    if (depth == 0 || dwarf_child(die, &child) != 0)
        return 0;
    do {
        int tag = dwarf_tag(&child);
        bool function = tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
        if (function || tag == DW_TAG_lexical_block) {
            if (dwarf_haspc(&child, address) != 1)
                continue;
            if (function)
                *found = child;
            return function + dwarf_around(&child, address, found + function, depth - 1);
        }
        if (tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_structure_type ||
            tag == DW_TAG_class_type || tag == DW_TAG_enumeration_type)
            n = dwarf_around(&child, address, found, depth - 1);
    } while (n == 0 && dwarf_siblingof(&child, &child) == 0);
    return n;
}

/* The functions around an address, innermost first; the first frame's line is known. */
static unsigned dwarf_scopes(struct dwarf_file *file, struct profile *profile, Dwarf_Addr address,
                             struct profile_frame *frames)
{
    Dwarf_Die chain[DWARF_DEPTH], *unit;
    Dwarf_Addr bias;
    unsigned length, n = 0;

    unit = dwarf_unit(file, address, &bias);
    length = unit ? dwarf_around(unit, address - bias, chain, DWARF_DEPTH) : 0;
    for (; length > 0 && n < PROFILE_FRAMES; length--) {
        Dwarf_Die *die = &chain[length - 1];
        const char *name = dwarf_name(die);
        frames[n++].function = name ? profile_keep(profile, name) : NULL;
        if (dwarf_tag(die) == DW_TAG_subprogram)
            break;
        if (n < PROFILE_FRAMES)
            dwarf_called(profile, unit, die, &frames[n]);
    }
    return n;
}

static bool dwarf_is_library(const char *crate, size_t length)
{
    static const char *const crates[] = {"stook", "stook_sys", "alloc", "core", "std", "__rustc"};

    for (size_t i = 0; i < sizeof(crates) / sizeof(*crates); i++)
        if (strlen(crates[i]) == length && strncmp(crates[i], crate, length) == 0)
            return true;
    return false;
}

/*
 * Whether a function is of a Rust library whose callers are what a profile is about: these crates' or the standard
 * library's.  The older mangling is C++'s and ends with a hash (_ZN5stook5cache...17h0123456789abcdefE); the newer
 * one has the crate behind its own hash (_RNvMs_NtCs1a2b_5stook5cache...).
 */
static bool dwarf_is_rust_library(const char *name)
{
    size_t length = strlen(name), n;
    const char *crate, *trait;
    char *end;

    if (strstr(name, "10__pop_fast")) /* of cache!, in the crate of the cache */
        return true;
    if (strncmp(name, "_R", 2) == 0) {
        crate = strstr(name, "Cs");
        crate = crate ? strchr(crate, '_') : NULL;
        n = crate ? strtoul(crate + 1, &end, 10) : 0;
        return n > 0 && dwarf_is_library(end + (*end == '_'),
                                         n); /* between a number and a name that begins with _ */
    }
    if (strncmp(name, "_ZN", 3) != 0 || length < 23 || strncmp(name + length - 20, "17h", 3) != 0)
        return false;
    n = strtoul(name + 3, &end, 10);
    if (strncmp(end, "_$LT$", 5) != 0)
        return dwarf_is_library(end, n);
    crate = end + 5;
    end = strstr(crate, "..");
    trait = strstr(crate, "$u20$as$u20$");
    if (trait && end && trait < end) /* of a type without a crate: u8, T */
        crate = trait + strlen("$u20$as$u20$");
    return end && dwarf_is_library(crate, (size_t)(end - crate));
}

/* Inlined functions of libraries: the caller's line is the call site. */
static void dwarf_skip_libraries(struct profile_site *site)
{
    unsigned n = 0;

    while (n + 1 < site->nr_frames && site->frames[n].function &&
           dwarf_is_rust_library(site->frames[n].function))
        n++;
    site->nr_frames -= n;
    memmove(site->frames, site->frames + n, site->nr_frames * sizeof(*site->frames));
}

bool dwarf_resolve(struct dwarf_file *file, struct profile *profile, struct profile_site *site)
{
    Dwarf_Addr address = site->place + file->base;
    GElf_Off offset = 0;
    GElf_Sym symbol;
    const char *name =
        dwfl_module_addrinfo(file->module, address, &offset, &symbol, NULL, NULL, NULL);

    dwarf_line(file, profile, address, &site->frames[0]);
    site->nr_frames = dwarf_scopes(file, profile, address, site->frames);
    /* A symbol without a size may be far away, with others between that were stripped. */
    if (name && (symbol.st_size > offset || site->frames[0].file)) {
        unsigned last = site->nr_frames > 0 ? site->nr_frames - 1 : 0;
        site->frames[last].function = profile_keep(profile, name); /* with its linkage name */
        site->frames[last].offset = offset;
        site->nr_frames = last + 1;
    }
    if (site->nr_frames > 1)
        dwarf_skip_libraries(site);
    return site->nr_frames > 0;
}
#else
const bool dwarf_is_there = false;

struct dwarf_file *dwarf_open(const char *path)
{
    (void)path;
    return NULL;
}

void dwarf_close(struct dwarf_file *file)
{
    (void)file;
}

bool dwarf_resolve(struct dwarf_file *file, struct profile *profile, struct profile_site *site)
{
    (void)file;
    (void)profile;
    (void)site;
    return false;
}
#endif
