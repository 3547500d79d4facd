/* SPDX-License-Identifier: MIT */
/* modules.c - asks the loader for the library that an address lies in, and keeps its name, its code's place and its build ID. */
#include "site/modules.h"

#include "base/placed.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

struct modules modules LARGE_BSS;

enum {
    MODULES_HEADERS = 4096, /* of a file, which are read within this: a page */
    MODULES_BUILD_ID = 3,
};

/* Program headers of a file that is mapped from `start` on, and how many; NULL: it does not begin with them. */
static const char *modules_parts(const char *start, uint64_t size, unsigned *n)
{
    ElfW(Ehdr) header;

    if (size < MODULES_HEADERS)
        return NULL;
    memcpy(&header, start, sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phoff > MODULES_HEADERS / 2 ||
        header.e_phentsize != sizeof(ElfW(Phdr)) ||
        header.e_phnum > MODULES_HEADERS / 2 / sizeof(ElfW(Phdr)))
        return NULL;
    *n = header.e_phnum;
    return start + header.e_phoff;
}

/* Notes begin at multiples of 4. */
static const unsigned char *modules_find_id(const char *at, uint64_t size, uint32_t *bytes)
{
    ElfW(Nhdr) note;

    for (; size >= sizeof(note) + 4; at += 4, size -= 4) {
        memcpy(&note, at, sizeof(note));
        if (note.n_type != MODULES_BUILD_ID || note.n_namesz != 4 || note.n_descsz < 8 ||
            note.n_descsz > size - sizeof(note) - 4 || memcmp(at + sizeof(note), "GNU", 4) != 0)
            continue;
        *bytes = note.n_descsz;
        return (const unsigned char *)at + sizeof(note) + 4;
    }
    return NULL;
}

const unsigned char *modules_build_id(const char *start, uint64_t size, uint64_t bias,
                                      uint32_t *bytes)
{
    const unsigned char *id = NULL;
    unsigned n = 0;
    const char *parts = modules_parts(start, size, &n);
    ElfW(Phdr) part;

    for (unsigned i = 0; i < n && !id; i++) {
        memcpy(&part, parts + i * sizeof(part), sizeof(part));
        uint64_t at = bias + part.p_vaddr - (uintptr_t)start;
        if (part.p_type == PT_NOTE && part.p_memsz < MODULES_HEADERS && at < size &&
            part.p_memsz <= size - at)
            id = modules_find_id(start + at, part.p_memsz, bytes);
    }
    return id;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/* False: the address is in no code of the file. */
static bool modules_fill(struct module *module, const struct dl_find_object *found,
                         uint64_t address)
{
    const char *start = found->dlfo_map_start, *name = found->dlfo_link_map->l_name, *parts;
    uint64_t size = (uintptr_t)found->dlfo_map_end - (uintptr_t)start;
    const unsigned char *id;
    unsigned n = 0;
    ElfW(Phdr) part;

    if (!strchr(name, '/') || strlen(name) >= sizeof(module->path))
        return false;
    memcpy(module->path, name, strlen(name));
    parts = modules_parts(start, size, &n);
    for (unsigned i = 0; i < n; i++) {
        memcpy(&part, parts + i * sizeof(part), sizeof(part));
        uint64_t at = found->dlfo_link_map->l_addr + part.p_vaddr, off = at % MODULES_HEADERS;
        if (part.p_type != PT_LOAD || !(part.p_flags & PF_X) || address - at >= part.p_memsz)
            continue;
        module->start = at - off;
        module->end = (at + part.p_memsz + MODULES_HEADERS - 1) & -(uint64_t)MODULES_HEADERS;
        module->offset = part.p_offset - off;
    }
    id = modules_build_id(start, size, found->dlfo_link_map->l_addr, &module->id_bytes);
    if (id && module->id_bytes <= sizeof(module->id))
        memcpy(module->id, id, module->id_bytes);
    else
        module->id_bytes = 0;
    return module->end != 0;
}

static bool modules_have(const struct module *module, uint32_t used)
{
    for (uint32_t i = 0; i < used && i < MODULES_MOST; i++)
        if (atomic_load_explicit(&modules.module[i].ready, memory_order_acquire) &&
            modules.module[i].start == module->start &&
            strcmp(modules.module[i].path, module->path) == 0 &&
            memcmp(modules.module[i].id, module->id, sizeof(module->id)) == 0)
            return true;
    return false;
}

/* In a static program _dl_find_object() may allocate; it has no interpreter. */
void modules_note(uint64_t address)
{
    struct module module = {0};
    struct dl_find_object found;
    uint32_t used = atomic_load_explicit(&modules.used, memory_order_relaxed);

    if (used >= MODULES_MOST || getauxval(AT_BASE) == 0 ||
        _dl_find_object((void *)(uintptr_t)address, &found) != 0 || // NOLINT
        !modules_fill(&module, &found, address) || modules_have(&module, used))
        return;
    used = atomic_fetch_add_explicit(&modules.used, 1, memory_order_relaxed);
    if (used >= MODULES_MOST)
        return;
    module.ready = 0;
    memcpy(&modules.module[used], &module, sizeof(module));
    /* Release: the row, which is complete before others read it. */
    atomic_store_explicit(&modules.module[used].ready, 1, memory_order_release);
}
#else
void modules_note(uint64_t address)
{
    (void)address;
}
#endif
