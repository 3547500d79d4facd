/* SPDX-License-Identifier: MIT */
/*
 * profile_resolve.c - from addresses to functions, files and lines, by the files that were mapped, as
 * long as they are the same builds.
 */
#include "stook/profile/profile.h"

#include "stook/profile/profile_code.h"

#ifdef STOOK_HAS_IBERTY
#include <libiberty/demangle.h>
#endif

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

struct resolve_module {
    struct elf_file *elf;
    struct dwarf_file *dwarf;
    const char *path;
};

#ifdef STOOK_HAS_IBERTY
enum { RESOLVE_NAME = 4096 };

struct resolve_name {
    jmp_buf full;
    size_t n;
    char text[RESOLVE_NAME];
};

/* Names of few bytes can stand for texts without end.  The demangler has no memory of its own that would be lost. */
static void resolve_put(const char *text, size_t n, void *to)
{
    struct resolve_name *name = to;

    if (n >= sizeof(name->text) - name->n)
        longjmp(name->full, 1);
    memcpy(name->text + name->n, text, n);
    name->n += n;
}

/* Readable names of Rust, of both manglings; NULL: it is none. */
static char *resolve_rust(const char *mangled)
{
    static struct resolve_name name;

    name.n = 0;
    if (setjmp(name.full) != 0 || !rust_demangle_callback(mangled, DMGL_PARAMS, resolve_put, &name))
        return NULL;
    return strndup(name.text, name.n);
}
#else
static char *resolve_rust(const char *mangled)
{
    (void)mangled;
    return NULL;
}
#endif

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

void profile_resolve(struct profile *profile)
{
    for (size_t i = 0; i < profile->nr_sites; i++)
        if (profile->sites[i].address != 0)
            resolve_site(profile, &profile->sites[i]);
    for (size_t i = 0; i < profile->nr_places; i++)
        if (profile->places[i].address != 0)
            resolve_site(profile, &profile->places[i]);
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
