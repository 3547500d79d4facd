/* SPDX-License-Identifier: MIT */
/*
 * symbols.c - finds the function of an address in the symbol tables of the mapped ELF files.  It reads the files by
 * system calls into static buffers, and asks neither the loader nor libc.
 */
#include "debug/symbols.h"

#include "base/placed.h"
#include "base/raw.h"
#include "text/file.h"
#include "text/maps.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

enum {
    SYMBOLS_MOST = 96,     /* addresses of one call */
    SYMBOLS_SEGMENTS = 32, /* program headers that are looked at */
    SYMBOLS_SECTIONS = 128,
    SYMBOLS_ROWS = 256, /* of a symbol table, read at a time */
};

/* Of the one thread that is at it: it may run on a small stack. */
static struct {
    struct maps maps;
    ElfW(Phdr) segment[SYMBOLS_SEGMENTS];
    ElfW(Shdr) section[SYMBOLS_SECTIONS];
    ElfW(Sym) row[SYMBOLS_ROWS];
    uint64_t best[SYMBOLS_MOST];      /* value of the nearest symbol so far */
    uint32_t best_name[SYMBOLS_MOST]; /* of the table of strings; 0: none */
} work LARGE_BSS;

bool symbols_read(int fd, uint64_t at, void *to, size_t size)
{
    long n;

    do
        n = raw_result(SYS_pread64, fd, to, size, at);
    while (n == -EINTR);
    return n == (long)size;
}

/* The address in the file's own terms of a place in the file. */
static uint64_t symbols_value(unsigned segments, uint64_t place)
{
    for (unsigned i = 0; i < segments; i++) {
        const ElfW(Phdr) *p = &work.segment[i];
        if (p->p_type == PT_LOAD && place >= p->p_offset && place - p->p_offset < p->p_filesz)
            return place - p->p_offset + p->p_vaddr;
    }
    return place;
}

/* The nearest functions that begin at or before the addresses of this file. */
static void symbols_scan(int fd, const ElfW(Shdr) * table, struct symbol *symbols, unsigned n,
                         const struct maps_entry *entry)
{
    uint64_t rows = table->sh_size / sizeof(ElfW(Sym));

    for (uint64_t from = 0, k; from < rows; from += k) {
        k = rows - from < SYMBOLS_ROWS ? rows - from : SYMBOLS_ROWS;
        if (!symbols_read(fd, table->sh_offset + from * sizeof(ElfW(Sym)), work.row,
                          (size_t)k * sizeof(ElfW(Sym))))
            return;
        for (uint64_t r = 0; r < k; r++) {
            const ElfW(Sym) *row = &work.row[r];
            if (ELF64_ST_TYPE(row->st_info) != STT_FUNC || row->st_shndx == SHN_UNDEF)
                continue;
            for (unsigned i = 0; i < n; i++) {
                uint64_t call = symbols[i].offset - 1;
                if (symbols[i].address - 1 < entry->start || symbols[i].address - 1 >= entry->end ||
                    row->st_value > call || row->st_value < work.best[i] ||
                    (row->st_size > 0 && call - row->st_value >= row->st_size))
                    continue;
                work.best[i] = row->st_value;
                work.best_name[i] = row->st_name;
            }
        }
    }
}

static void symbols_names(int fd, const ElfW(Shdr) * strings, struct symbol *symbols, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        size_t room = sizeof(symbols[i].name) - 1;
        if (work.best_name[i] == 0 || work.best_name[i] >= strings->sh_size)
            continue;
        if (strings->sh_size - work.best_name[i] < room)
            room = (size_t)(strings->sh_size - work.best_name[i]);
        if (!symbols_read(fd, strings->sh_offset + work.best_name[i], symbols[i].name, room))
            room = 0;
        symbols[i].name[room] = '\0';
        symbols[i].within = symbols[i].offset - work.best[i];
        work.best_name[i] = 0;
    }
}

/* The symbol table of the file, the large one where it has that. */
static void symbols_of_file(int fd, const struct maps_entry *entry, struct symbol *symbols,
                            unsigned n)
{
    const ElfW(Shdr) *table = NULL;
    ElfW(Ehdr) header;

    if (!symbols_read(fd, 0, &header, sizeof(header)) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phnum > SYMBOLS_SEGMENTS ||
        header.e_phentsize != sizeof(work.segment[0]) ||
        !symbols_read(fd, header.e_phoff, work.segment, header.e_phnum * sizeof(work.segment[0])))
        return;
    for (unsigned i = 0; i < n; i++)
        if (symbols[i].address - 1 >= entry->start && symbols[i].address - 1 < entry->end)
            symbols[i].offset = symbols_value(header.e_phnum, symbols[i].offset);
    if (header.e_shnum > SYMBOLS_SECTIONS || header.e_shentsize != sizeof(work.section[0]) ||
        !symbols_read(fd, header.e_shoff, work.section, header.e_shnum * sizeof(work.section[0])))
        return;
    for (unsigned i = 0; i < header.e_shnum; i++)
        if (work.section[i].sh_type == SHT_SYMTAB ||
            (work.section[i].sh_type == SHT_DYNSYM && !table))
            table = &work.section[i];
    if (!table || table->sh_link >= header.e_shnum)
        return;
    symbols_scan(fd, table, symbols, n, entry);
    symbols_names(fd, &work.section[table->sh_link], symbols, n);
}

static const char *symbols_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

void symbols_find(struct symbol *symbols, unsigned n)
{
    struct maps_entry entry;
    unsigned left = n;
    int fd;

    if (n > SYMBOLS_MOST)
        n = SYMBOLS_MOST;
    for (unsigned i = 0; i < n; i++) {
        symbols[i].offset = symbols[i].within = 0;
        symbols[i].module[0] = symbols[i].name[0] = '\0';
        work.best[i] = 0;
        work.best_name[i] = 0;
    }
    maps_open(&work.maps);
    while (left > 0 && maps_next(&work.maps, &entry)) {
        unsigned here = 0;
        for (unsigned i = 0; i < n && entry.code; i++) {
            if (symbols[i].address - 1 < entry.start || symbols[i].address - 1 >= entry.end)
                continue;
            (void)snprintf(symbols[i].module, sizeof(symbols[i].module), "%s",
                           *entry.path ? symbols_base(entry.path) : "?");
            symbols[i].offset = symbols[i].address - entry.start + entry.offset;
            here++;
        }
        left -= here;
        if (here == 0 || entry.path[0] != '/')
            continue;
        fd = file_open_read(entry.path);
        if (fd < 0)
            continue;
        symbols_of_file(fd, &entry, symbols, n);
        (void)raw_close(fd);
    }
    maps_close(&work.maps);
}
