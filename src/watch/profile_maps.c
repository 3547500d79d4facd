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

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROFILE_MAPS_PATH = 1024 };

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
    const unsigned char *id;
    uint32_t n;
    char page[MODULES_HEAD];

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
        id = NULL;
        if (header_of == tag_hash(0, map.path) && symbols_read(memory, header, page, sizeof(page)))
            id = modules_build_id(page, &n);
        profile_maps_write_one(&maps, &map, id, id ? n : 0);
    }
    profile_maps_write_closed(&maps);
    writer_print(writer, "]");
    maps_close(&lines);
    if (memory >= 0)
        (void)raw_close(memory);
}
