/* SPDX-License-Identifier: MIT */
/*
 * profile_maps.c - which files' code is mapped where, and the build ID of each, so that a profile's
 * addresses can be resolved later and elsewhere.
 *
 * Read from /proc/self/maps, since asking the loader takes its lock.  Headers are read through
 * /proc/self/mem, where a mapping that has gone meanwhile is an error and not a fault.
 */
#include "watch/profile.h"

#include "base/raw.h"
#include "debug/symbols.h"
#include "site/modules.h"
#include "site/tag.h"
#include "text/maps.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PROFILE_MAPS_HEADERS = 32, /* program headers that are looked at */
    PROFILE_MAPS_NOTES = 1024, /* bytes of notes */
    PROFILE_MAPS_ID = 64,      /* bytes of a build ID that are kept */
    PROFILE_MAPS_PATH = 1024,
};

/* The build ID among notes: its bytes, or 0. */
static size_t profile_maps_find_id(const unsigned char *notes, size_t size, unsigned char *id)
{
    ElfW(Nhdr) note;

    for (size_t at = 0; at + sizeof(note) <= size;) {
        size_t name, data;
        memcpy(&note, notes + at, sizeof(note));
        name = at + sizeof(note);
        data = name + (((size_t)note.n_namesz + 3) & ~(size_t)3);
        if (data > size || note.n_descsz > size - data)
            return 0;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(notes + name, "GNU", 4) == 0 && note.n_descsz <= PROFILE_MAPS_ID) {
            memcpy(id, notes + data, note.n_descsz);
            return note.n_descsz;
        }
        at = data + (((size_t)note.n_descsz + 3) & ~(size_t)3);
    }
    return 0;
}

/* The build ID of the file whose header is mapped at `header`: its bytes, or 0. */
static size_t profile_maps_id(int memory, uint64_t header, unsigned char *id)
{
    ElfW(Ehdr) ehdr;
    ElfW(Phdr) phdr;
    unsigned char notes[PROFILE_MAPS_NOTES];
    uint64_t base = 0;
    size_t n = 0;

    if (header == 0 || !symbols_read(memory, header, &ehdr, sizeof(ehdr)) ||
        memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 || ehdr.e_phentsize != sizeof(phdr))
        return 0;
    for (unsigned i = 0; i < ehdr.e_phnum && i < PROFILE_MAPS_HEADERS && n == 0; i++) {
        if (!symbols_read(memory, header + ehdr.e_phoff + i * sizeof(phdr), &phdr, sizeof(phdr)))
            return 0;
        if (phdr.p_type == PT_LOAD && phdr.p_offset == 0)
            base = header - phdr.p_vaddr;
        if (phdr.p_type != PT_NOTE)
            continue;
        size_t size = phdr.p_memsz < sizeof(notes) ? phdr.p_memsz : sizeof(notes);
        /* Program headers come in order of address: the notes lie behind the first segment. */
        uint64_t at = base != 0 ? base + phdr.p_vaddr : header + phdr.p_offset;
        if (symbols_read(memory, at, notes, size))
            n = profile_maps_find_id(notes, size, id);
    }
    return n;
}

struct profile_maps {
    struct writer *writer;
    bool some;
    bool there[MODULES_MOST]; /* modules that are mapped still */
};

static void profile_maps_write_one(struct profile_maps *maps, const struct maps_entry *map,
                                   const unsigned char *id, size_t n)
{
    struct writer *writer = maps->writer;

    writer_print(writer, maps->some ? ",\n  " : "\n  ");
    maps->some = true;
    writer_print(writer, "{\"start\": %llu, \"end\": %llu, \"offset\": %llu, \"build_id\": \"",
                 (unsigned long long)map->start, (unsigned long long)map->end,
                 (unsigned long long)map->offset);
    for (size_t i = 0; i < n; i++)
        writer_print(writer, "%02x", id[i]);
    writer_print(writer, "\", \"path\": ");
    writer_json(writer, map->path);
    writer_print(writer, "}");
}

/* A name may be relative: to where the program was when it opened the file, and mostly still is. */
static const char *profile_maps_path(const char *path, char *text, size_t size)
{
    size_t length;
    long n;

    while (path[0] == '.' && path[1] == '/')
        path += 2;
    length = strlen(path);
    n = path[0] == '/' ? 0 : raw_result(SYS_getcwd, text, size);

    if (n <= 0 || (size_t)n + length >= size) /* with its last byte, which is 0 */
        return path;
    text[n - 1] = '/';
    memcpy(text + n, path, length + 1);
    return text;
}

/* Files in which call sites lie, and that were closed. */
static void profile_maps_write_closed(struct profile_maps *maps)
{
    uint32_t used = atomic_load_explicit(&modules.used, memory_order_relaxed);
    char text[PROFILE_MAPS_PATH];

    for (uint32_t i = 0; i < used && i < MODULES_MOST; i++) {
        const struct module *module = &modules.module[i];
        struct maps_entry map = {
            .start = module->start, .end = module->end, .offset = module->offset};
        map.path = profile_maps_path(module->path, text, sizeof(text));
        if (!maps->there[i] && atomic_load_explicit(&module->ready, memory_order_acquire))
            profile_maps_write_one(maps, &map, module->id, module->id_bytes);
    }
}

void profile_maps_write(struct writer *writer)
{
    struct profile_maps maps = {.writer = writer};
    struct maps lines;
    int memory = raw_openat(AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC, 0);
    uint64_t header = 0, header_of = 0; /* address of the last header, and the hash of its path */
    struct maps_entry map;
    unsigned char id[PROFILE_MAPS_ID];

    writer_print(writer, "[");
    maps_open(&lines);
    while (maps_next(&lines, &map)) {
        if (map.offset == 0) {
            header = map.start;
            header_of = tag_hash(0, map.path);
        }
        for (unsigned i = 0; i < MODULES_MOST; i++)
            maps.there[i] |= map.code && modules.module[i].start == map.start;
        /* Not the kernel's own page at the end of the address space. */
        if (!map.code || map.end > (uint64_t)1 << 63)
            continue;
        if (map.path[0] == '\0')
            map.path = "[JIT]";
        profile_maps_write_one(&maps, &map, id,
                               memory >= 0 && header_of == tag_hash(0, map.path)
                                   ? profile_maps_id(memory, header, id)
                                   : 0);
    }
    profile_maps_write_closed(&maps);
    writer_print(writer, "]");
    maps_close(&lines);
    if (memory >= 0)
        (void)raw_close(memory);
}
