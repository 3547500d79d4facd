/* SPDX-License-Identifier: MIT */
/*
 * look_names.c - resolves code addresses of a target, and prints where an object was allocated.
 */
#include "stook/look/look_names.h"

#include "look/target_core.h"
#include "look/watch.h"
#include "stook/command.h"
#include "stook/profile/profile.h"

#include <stook/stook.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES_SITE (UINT64_C(1) << 63)

const char *look_wrappers = "";

struct look_names {
    struct heap *heap;
    struct profile profile; /* its places are the addresses, in order once they are found */
    struct view_build build;
    bool found;
};

/* Where the file lies for this process: that of another container, or the one that --exe names. */
static const char *names_path(struct look_names *names, const char *path, char *here, size_t size)
{
    struct target *target = names->heap->target;

    if (target_is_core(target))
        return target_core_file(target, path);
    snprintf(here, size, "/proc/%d/%s%s", target->pid, *path == '/' ? "root" : "cwd/", path);
    return access(here, R_OK) == 0 ? here : path;
}

static void names_add(struct look_names *names, struct profile_map map, const char *path,
                      const char *build)
{
    struct profile *profile = &names->profile;
    char here[4096 + 32];
    const char *slash = strrchr(path, '/');

    map.path =
        *path == '[' ? path : profile_keep(profile, names_path(names, path, here, sizeof(here)));
    map.build_id = profile_keep(profile, build);
    map.name = profile_keep(profile, slash ? slash + 1 : path);
    profile->maps = target_row(profile->maps, profile->nr_maps, sizeof(map));
    profile->maps[profile->nr_maps++] = map;
}

static bool names_map(const struct target_mapping *mapping, void *arg)
{
    struct look_names *names = arg;
    const char *build = view_build_id(&names->build, names->heap->target, mapping);

    struct profile_map map = {
        .start = mapping->begin, .end = mapping->end, .offset = mapping->offset};

    if (mapping->path[0] && mapping->path[0] != '[')
        names_add(names, map, mapping->path, build);
    else if (mapping->execute && strncmp(mapping->path, "[v", 2) != 0) /* [vdso], [vsyscall] */
        names_add(names, map, PROFILE_JIT, "");
    return true;
}

/* Libraries that were closed, as the process remembers them (src/site/modules.h). */
static void names_closed(struct look_names *names)
{
    struct target *target = names->heap->target;
    const struct view *v = &names->heap->view;
    uint64_t at = view_value(v, VIEW_at_modules) + view_value(v, VIEW_modules_module), used, ready,
             bytes;
    unsigned char id[64];
    char path[256], build[2 * sizeof(id) + 1];

    if (!view_knows(v, VIEW_at_modules) ||
        !view_read(v, target, view_value(v, VIEW_at_modules), VIEW_modules_used, &used))
        return;
    for (uint64_t i = 0; i < used && i < view_value(v, VIEW_MODULES_MOST);
         i++, at += view_size(v, VIEW_module)) {
        struct profile_map map = {0};
        if (!view_read(v, target, at, VIEW_module_ready, &ready) || !ready ||
            !view_read(v, target, at, VIEW_module_start, &map.start) ||
            !view_read(v, target, at, VIEW_module_end, &map.end) ||
            !view_read(v, target, at, VIEW_module_offset, &map.offset) ||
            !view_read(v, target, at, VIEW_module_id_bytes, &bytes) || bytes > sizeof(id) ||
            !target_read(target, at + view_value(v, VIEW_module_id), id, sizeof(id), bytes) ||
            !target_read_text(target, at + view_value(v, VIEW_module_path), path, sizeof(path)))
            continue;
        for (uint64_t j = 0; j < bytes; j++)
            (void)snprintf(build + 2 * j, 3, "%02x", id[j]);
        build[2 * bytes] = '\0';
        names_add(names, map, path, build);
    }
}

struct look_names *look_names_new(struct heap *heap)
{
    struct look_names *names = target_need(calloc(1, sizeof(*names)));

    names->heap = heap;
    names->profile.pid = (uint64_t)heap->target->pid;
    (void)snprintf(names->profile.root, sizeof(names->profile.root), "/proc/%d/root",
                   heap->target->pid);
    watch_begin(); /* files are looked for */
    (void)target_for_each_mapping(heap->target, names_map, names);
    names_closed(names);
    watch_end();
    return names;
}

void look_names_free(struct look_names *names)
{
    if (!names)
        return;
    free(names->profile.places);
    names->profile.places = NULL;
    names->profile.nr_places = 0;
    profile_free(&names->profile);
    free(names);
}

void look_names_want(struct look_names *names, uint64_t address)
{
    if (address == 0 || address & NAMES_SITE)
        return;
    names->profile.places =
        target_row(names->profile.places, names->profile.nr_places, sizeof(*names->profile.places));
    names->profile.places[names->profile.nr_places++] = (struct profile_site){.address = address};
}

void look_names_find(struct look_names *names)
{
    struct profile *profile = &names->profile;
    size_t n = 0;

    if (profile->nr_places > 0)
        qsort(profile->places, profile->nr_places, sizeof(*profile->places), target_by_number);
    for (size_t i = 0; i < profile->nr_places; i++)
        if (n == 0 || profile->places[n - 1].address != profile->places[i].address)
            profile->places[n++] = profile->places[i];
    profile->nr_places = n;
    for (size_t i = 0; i < n; i++)
        if (!profile->places[i].map)
            profile_set_map(profile, &profile->places[i]);
    watch_begin();
    profile_resolve(profile);
    watch_end();
}

const struct profile_site *look_name_place(const struct look_names *names, uint64_t address)
{
    struct profile_site key = {.address = address};

    return names->profile.nr_places == 0
               ? NULL
               : bsearch(&key, names->profile.places, names->profile.nr_places, sizeof(key),
                         target_by_number);
}

const char *look_name_function(const struct look_names *names, uint64_t address)
{
    const struct profile_site *site = look_name_place(names, address);

    return site && site->nr_frames > 0 && site->frames[0].function ? site->frames[0].function : "";
}

/* The site that the call names. */
static bool names_read_site(const struct look_names *names, uint64_t address, struct heap_site *to)
{
    struct target *target = names->heap->target;
    struct stook_site site;

    address &= ~NAMES_SITE;
    if (!target_take(target, address, &site) ||
        !target_read_text(target, (uintptr_t)site.file, to->file, sizeof(to->file)))
        return false;
    to->line = site.line;
    (void)target_read_text(target, (uintptr_t)site.function, to->function, sizeof(to->function));
    return true;
}

/* As look_name(), of one of the functions that are inlined there. */
static const char *names_frame(const struct look_names *names, uint64_t address, size_t inlined,
                               char *text, size_t size)
{
    const struct profile_site *site = look_name_place(names, address);
    const struct profile_frame *frame =
        site && inlined < site->nr_frames ? &site->frames[inlined] : NULL;
    uint64_t at = address;
    struct heap_site own = {0};

    if (address & NAMES_SITE && names_read_site(names, address, &own))
        snprintf(text, size, "%s at %s:%lu", own.function, own.file, own.line);
    else if (frame && frame->function && frame->file && frame->line)
        snprintf(text, size, "%s at %s:%lu [%s]", frame->function, frame->file, frame->line,
                 site->map->name);
    else if (frame && frame->function)
        snprintf(text, size, "%s+0x%lx [%s]", frame->function, frame->offset, site->map->name);
    else if (site && site->map)
        snprintf(text, size, "0x%lx [%s+0x%lx]", at, site->map->name,
                 (address - site->map->start + site->map->offset));
    else
        snprintf(text, size, "0x%lx", at);
    return text;
}

const char *look_name(const struct look_names *names, uint64_t address, char *text, size_t size)
{
    return names_frame(names, address, 0, text, size);
}

/* The innermost frame that is no wrapper, and which of the functions inlined there; the first one if all are. */
static unsigned names_caller(const struct look_names *names, const struct heap_site *site,
                             size_t *inlined)
{
    for (unsigned i = 0; i < site->depth; i++) {
        const struct profile_site *place = look_name_place(names, site->frames[i]);
        *inlined = place ? profile_wraps(place, look_wrappers) : 0;
        if (!place || place->nr_frames == 0 || *inlined < place->nr_frames)
            return i;
    }
    *inlined = 0;
    return 0;
}

const char *look_site_name(const struct look_names *names, const struct heap_site *site,
                           char text[LOOK_NAME])
{
    size_t inlined;
    unsigned caller = names_caller(names, site, &inlined);

    text[0] = '\0';
    if (site->file[0])
        (void)snprintf(text, LOOK_NAME, "%.80s at %.120s:%lu", site->function, site->file,
                       site->line);
    else if (site->depth > 0)
        (void)names_frame(names, site->frames[caller], inlined, text, LOOK_NAME);
    return text;
}

/* ---- where an object was allocated ------------------------------------------------------------ */

void look_place(struct look_names *names, struct heap *heap, const struct heap_what *what,
                struct look_place *place)
{
    struct heap_site *site = &place->site;

    *place = (struct look_place){0};
    if (what->who[0].known && what->who[0].depth > 0) {
        place->known = true;
        for (unsigned i = 0; i < what->who[0].depth && i < LOOK_FRAMES; i++) {
            uint64_t frame = what->who[0].frames[i];
            if (!(frame & NAMES_SITE) || !names_read_site(names, frame, site))
                site->frames[site->depth++] = frame;
        }
    } else if (what->tag) {
        place->known = heap_site(heap, what->tag, site);
    }
    for (unsigned i = 0; place->known && i < site->depth; i++)
        look_names_want(names, site->frames[i]);
}

void look_show_place(struct writer *w, const struct look_names *names,
                     const struct look_place *place, const char *word)
{
    const struct heap_site *site = &place->site;
    char text[LOOK_NAME];
    size_t inlined;

    if (!place->known)
        return;
    writer_print(w, "  %s in %.220s\n", word, look_site_name(names, site, text));
    for (unsigned i = site->file[0] ? 0 : names_caller(names, site, &inlined) + 1; i < site->depth;
         i++)
        writer_print(w, "    %.220s\n", look_name(names, site->frames[i], text, 220));
}

void look_json_place(struct writer *w, const struct look_names *names,
                     const struct look_place *place)
{
    const struct heap_site *site = &place->site;

    if (place->known && site->file[0]) {
        output_word(w, "file", site->file, ", ");
        output_word(w, "function", site->function, ", ");
        writer_key(w, "line", site->line, ", ");
    }
    writer_print(w, "\"stack\": [");
    for (unsigned i = 0; place->known && i < site->depth; i++) {
        const struct profile_site *found = look_name_place(names, site->frames[i]);
        const struct profile_frame *frame = found && found->nr_frames ? &found->frames[0] : NULL;
        writer_print(w, i ? ", {" : "{");
        writer_key(w, "address", site->frames[i], ", ");
        output_word(w, "module", found && found->map ? found->map->name : "", ", ");
        output_word(w, "symbol", frame && frame->function ? frame->function : "", "");
        if (frame && frame->file && frame->line) {
            writer_print(w, ", ");
            output_word(w, "file", frame->file, ", ");
            writer_key(w, "line", frame->line, "");
        }
        writer_print(w, "}");
    }
    writer_print(w, "]");
}
