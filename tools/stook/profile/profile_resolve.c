/* SPDX-License-Identifier: MIT */
/*
 * profile_resolve.c - from addresses to functions, files and lines, by the files that were mapped, as
 * long as they are the same builds.
 */
#include "stook/profile/profile.h"

#include "look/target.h"
#include "stook/profile/profile_code.h"
#include "text/file.h"

#include <rustc-demangle/demangle.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESOLVE_NAME = 4096, RESOLVE_LINE = 1024 }; /* bytes of a name, of a line of a perf map */

struct resolve_module {
    struct elf_file *elf;
    struct dwarf_file *dwarf;
    const char *path;
};

/* Readable names of Rust, of both manglings; NULL: it is none, or stands for a text without end. */
static char *resolve_rust(const char *mangled)
{
    struct demangle name;
    char text[RESOLVE_NAME];

    rust_demangle_demangle(mangled, &name);
    if (!rust_demangle_is_known(&name) ||
        rust_demangle_display_demangle(&name, text, sizeof(text), true) != OverflowOk)
        return NULL;
    return strdup(text);
}

/* Readable names of C++, where its library is on this machine. */
static const char *resolve_demangle(struct profile *profile, const char *name)
{
    static char *(*demangle)(const char *, char *, size_t *, int *);
    static bool asked;
    const char *kept = name;
    char *readable;

    if (strncmp(name, "_Z", 2) != 0 && strncmp(name, "_R", 2) != 0)
        return name;
    readable = resolve_rust(name);
    if (!readable && !asked) {
        void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
        void *symbol = library ? dlsym(library, "__cxa_demangle") : NULL;
        memcpy(&demangle, &symbol, sizeof(demangle));
        asked = true;
    }
    if (!readable && demangle)
        readable = demangle(name, NULL, NULL, NULL);
    if (readable)
        kept = profile_keep(profile, readable);
    free(readable);
    return kept;
}

static const char *resolve_open(struct profile_map *map, struct resolve_module *module)
{
    if (strcmp(map->path, PROFILE_JIT) == 0)
        return "is code made at run time, and no /tmp/perf-PID.map names it";
    if (map->path[0] != '/')
        return "is no file";
    module->path = map->path;
    module->elf = elf_open(map->path);
    if (!module->elf)
        return errno == ENOEXEC ? "is no ELF file of this machine's kind" : strerror(errno);
    if (*map->build_id && strcmp(map->build_id, elf_build_id(module->elf)) != 0)
        return "is another build here than in the process";
    module->dwarf = dwarf_open(map->path);
    return NULL;
}

/* One for all mappings of a file. */
static struct resolve_module *resolve_module(struct profile *profile, struct profile_map *map)
{
    struct resolve_module *module;

    if (map->module || map->trouble)
        return map->module;
    for (size_t i = 0; i < profile->nr_maps; i++)
        if (profile->maps[i].module && strcmp(profile->maps[i].path, map->path) == 0)
            return map->module = profile->maps[i].module;
    module = calloc(1, sizeof(*module));
    map->trouble = module ? resolve_open(map, module) : "no memory";
    if (map->trouble) {
        if (module)
            elf_close(module->elf);
        free(module);
        return NULL;
    }
    return map->module = module;
}

static void resolve_symbol(struct profile *profile, struct elf_file *elf, struct profile_site *site)
{
    uint64_t offset;
    const char *name = elf_function(elf, site->place, &offset);

    if (!name)
        return;
    site->nr_frames = 1;
    site->frames[0].function = profile_keep(profile, name);
    site->frames[0].offset = offset;
}

static void resolve_site(struct profile *profile, struct profile_site *site)
{
    struct profile_map *map = (struct profile_map *)(uintptr_t)site->map;
    struct resolve_module *module = map ? resolve_module(profile, map) : NULL;
    uint64_t within = site->address - 1; /* in the call, not behind it */

    if (!map)
        return;
    site->place = within - map->start + map->offset; /* until it is known better */
    if (module && elf_address(module->elf, site->place, &site->place)) {
        if (!module->dwarf || !dwarf_resolve(module->dwarf, profile, site))
            resolve_symbol(profile, module->elf, site);
    }
    map->unresolved += site->nr_frames == 0;
    for (unsigned i = 0; i < site->nr_frames; i++)
        if (site->frames[i].function)
            site->frames[i].function = resolve_demangle(profile, site->frames[i].function);
}

/* ---- code that was made at run time ----------------------------------------------------------- */

static void resolve_line(struct profile *profile, struct profile_site *site, uint64_t start,
                         uint64_t size, const char *name)
{
    struct profile_map *map = (struct profile_map *)(uintptr_t)site->map;

    if (!map || site->address - 1 - start >= size || strcmp(map->path, PROFILE_JIT) != 0)
        return;
    map->unresolved -= site->nr_frames == 0;
    site->nr_frames = 1;
    site->frames[0].function = profile_keep(profile, name);
    site->frames[0].offset = site->address - 1 - start;
}

/* The names that its compiler writes for perf: lines of start, size and name, the last one of an address is right. */
static void resolve_jit(struct profile *profile)
{
    char path[96], line[RESOLVE_LINE], name[RESOLVE_LINE];
    bool some = false;
    unsigned long start, size;
    FILE *file;

    for (size_t i = 0; i < profile->nr_maps; i++)
        some |= profile->maps[i].unresolved > 0 && strcmp(profile->maps[i].path, PROFILE_JIT) == 0;
    (void)snprintf(path, sizeof(path), "%s/tmp/perf-%lu.map", profile->root, profile->pid);
    if (!some || !(file = file_stream(path)))
        return;
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%lx %lx %[^\n]", &start, &size, name) != 3)
            continue;
        target_clean_text(name, sizeof(name));
        for (size_t i = 0; i < profile->nr_sites; i++)
            resolve_line(profile, &profile->sites[i], start, size, name);
        for (size_t i = 0; i < profile->nr_places; i++)
            resolve_line(profile, &profile->places[i], start, size, name);
    }
    (void)fclose(file);
}

void profile_resolve(struct profile *profile)
{
    for (size_t i = 0; i < profile->nr_sites; i++)
        if (profile->sites[i].address != 0)
            resolve_site(profile, &profile->sites[i]);
    for (size_t i = 0; i < profile->nr_places; i++)
        if (profile->places[i].address != 0)
            resolve_site(profile, &profile->places[i]);
    resolve_jit(profile);
    for (size_t i = 0; i < profile->nr_maps; i++) {
        struct resolve_module *module = profile->maps[i].module;
        for (size_t j = i; module && j < profile->nr_maps; j++)
            if (profile->maps[j].module == module)
                profile->maps[j].module = NULL;
        if (module) {
            dwarf_close(module->dwarf);
            elf_close(module->elf);
            free(module);
        }
    }
}
