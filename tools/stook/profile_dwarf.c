/* SPDX-License-Identifier: MIT */
#include "stook/profile.h"
#include "stook/profile_code.h"

#ifdef STOOK_HAS_LIBDW
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <stdlib.h>

const bool dwarf_is_there = true;

struct dwarf_file {
    Dwfl *dwfl;
    Dwfl_Module *module;
    Dwarf_Addr base; /* libdwfl's address of what is linked to 0 */
};

/* Separate files of debugging information are looked for where Debian and others put them. */
static const Dwfl_Callbacks dwarf_callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
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
        file->module = dwfl_report_offline(file->dwfl, path, path, -1);
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

/* The functions around an address, innermost first; the first frame's line is known. */
static unsigned dwarf_scopes(struct dwarf_file *file, struct profile *profile, Dwarf_Addr address,
                             struct profile_frame *frames)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = dwfl_module_addrdie(file->module, address, &bias), *scopes = NULL, *chain;
    unsigned n = 0;
    int count = unit ? dwarf_getscopes(unit, address - bias, &scopes) : 0, length;

    if (count <= 0)
        return 0;
    length = dwarf_getscopes_die(&scopes[0], &chain); /* as the code lies, not as it was written */
    free(scopes);
    for (int i = 0; i < length && n < PROFILE_FRAMES; i++) {
        int tag = dwarf_tag(&chain[i]);
        const char *name;
        if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
            continue;
        name = dwarf_name(&chain[i]);
        frames[n++].function = name ? profile_keep(profile, name) : NULL;
        if (tag == DW_TAG_subprogram)
            break;
        if (n < PROFILE_FRAMES)
            dwarf_called(profile, unit, &chain[i], &frames[n]);
    }
    if (length > 0)
        free(chain);
    return n;
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
