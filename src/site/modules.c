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

enum { MODULES_BUILD_ID = 3 };

/* Program headers of a file, and how many; NULL: its first page does not have them. */
static const char *modules_parts(const char *page, unsigned *n)
{
    ElfW(Ehdr) header;

    memcpy(&header, page, sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phoff > MODULES_HEAD / 2 ||
        header.e_phentsize != sizeof(ElfW(Phdr)) ||
        header.e_phnum > MODULES_HEAD / 2 / sizeof(ElfW(Phdr)))
        return NULL;
    *n = header.e_phnum;
    return page + header.e_phoff;
}

const unsigned char *modules_build_id(const char *page, uint32_t *bytes)
{
    unsigned n = 0;
    const char *parts = modules_parts(page, &n);
    ElfW(Phdr) part;
    ElfW(Nhdr) note;

    for (unsigned i = 0; i < n; i++) {
        memcpy(&part, parts + i * sizeof(part), sizeof(part));
        if (part.p_type != PT_NOTE || part.p_offset > MODULES_HEAD ||
            part.p_filesz > MODULES_HEAD - part.p_offset)
            continue;
        const char *at = page + part.p_offset;
        /* Notes begin at multiples of 4. */
        for (uint64_t size = part.p_filesz; size >= sizeof(note) + 4; at += 4, size -= 4) {
            memcpy(&note, at, sizeof(note));
            if (note.n_type != MODULES_BUILD_ID || note.n_namesz != 4 || note.n_descsz < 8 ||
                note.n_descsz > MODULES_ID || note.n_descsz > size - sizeof(note) - 4 ||
                memcmp(at + sizeof(note), "GNU", 4) != 0)
                continue;
            *bytes = note.n_descsz;
            return (const unsigned char *)at + sizeof(note) + 4;
        }
    }
    return NULL;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/* False: the address is in no code of the file. */
static bool modules_fill(struct module *module, const struct dl_find_object *found,
                         uint64_t address)
{
    const char *start = found->dlfo_map_start, *name = found->dlfo_link_map->l_name, *parts;
    const unsigned char *id;
    unsigned n = 0;
    ElfW(Phdr) part;

    if (!strchr(name, '/') || strlen(name) >= sizeof(module->path))
        return false;
    memcpy(module->path, name, strlen(name));
    parts = modules_parts(start, &n);
    for (unsigned i = 0; i < n; i++) {
        memcpy(&part, parts + i * sizeof(part), sizeof(part));
        uint64_t at = found->dlfo_link_map->l_addr + part.p_vaddr, off = at % MODULES_PAGE;
        if (part.p_type != PT_LOAD || !(part.p_flags & PF_X) || address - at >= part.p_memsz)
            continue;
        module->start = at - off;
        module->end = (at + part.p_memsz + MODULES_PAGE - 1) & -(uint64_t)MODULES_PAGE;
        module->offset = part.p_offset - off;
    }
    id = modules_build_id(start, &module->id_bytes);
    if (id)
        memcpy(module->id, id, module->id_bytes);
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
