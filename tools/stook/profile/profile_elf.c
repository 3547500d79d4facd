/* SPDX-License-Identifier: MIT */
/*
 * profile_elf.c - reads build ID, segments and symbol tables of an ELF file that is not trusted.
 */
#include "stook/profile/profile_code.h"

#include "look/target.h"
#include "text/file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ELF_MOST ((off_t)1 << 33) /* bytes of a file, sparse ones too */

struct elf_symbol {
    uint64_t start, size;
    const char *name;
};

struct elf_file {
    const char *bytes;
    size_t size;
    ElfW(Ehdr) header;
    const char *segments;       /* at any address: elf_segment() */
    struct elf_symbol *symbols; /* functions, by start; NULL until they are asked for */
    size_t nr_symbols;
    bool searched;
    char build_id[2 * 64 + 1];
};

/* So many bytes of the file, or NULL: nothing that the file says of itself is believed. */
static const void *elf_at(const struct elf_file *file, uint64_t offset, uint64_t size)
{
    return offset <= file->size && size <= file->size - offset ? file->bytes + offset : NULL;
}

/* Longer names than this are none: a file may have one without an end for each symbol. */
enum { ELF_NAME = 64 << 10 };

static const char *elf_text(const struct elf_file *file, uint64_t offset)
{
    size_t left = offset < file->size ? file->size - (size_t)offset : 0;

    return left > 0 && memchr(file->bytes + offset, '\0', left < ELF_NAME ? left : ELF_NAME)
               ? file->bytes + offset
               : NULL;
}

static ElfW(Phdr) elf_segment(const struct elf_file *file, unsigned i)
{
    ElfW(Phdr) segment;

    memcpy(&segment, file->segments + i * sizeof(segment), sizeof(segment));
    return segment;
}

static void elf_find_id(struct elf_file *file)
{
    for (unsigned i = 0; i < file->header.e_phnum; i++) {
        ElfW(Phdr) segment = elf_segment(file, i);
        const char *notes = elf_at(file, segment.p_offset, segment.p_filesz);
        if (segment.p_type != PT_NOTE || !notes)
            continue;
        for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= segment.p_filesz;) {
            ElfW(Nhdr) note;
            size_t name = at + sizeof(note), data;
            memcpy(&note, notes + at, sizeof(note));
            data = name + (((size_t)note.n_namesz + 3) & ~(size_t)3);
            at = data + (((size_t)note.n_descsz + 3) & ~(size_t)3);
            if (data > segment.p_filesz || note.n_descsz > segment.p_filesz - data)
                break;
            if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
                memcmp(notes + name, "GNU", 4) != 0 ||
                2 * (size_t)note.n_descsz >= sizeof(file->build_id))
                continue;
            for (size_t byte = 0; byte < note.n_descsz; byte++)
                snprintf(file->build_id + 2 * byte, 3, "%02x", (unsigned char)notes[data + byte]);
            return;
        }
    }
}

struct elf_file *elf_open(const char *path)
{
    struct elf_file *file = calloc(1, sizeof(*file));
    struct stat st;
    int fd = file_open_read(path);
    void *bytes = MAP_FAILED;

    if (file && fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_size >= (off_t)sizeof(ElfW(Ehdr)) && st.st_size <= ELF_MOST)
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    else if (fd >= 0)
        errno = ENOEXEC;
    if (fd >= 0)
        close(fd);
    if (bytes == MAP_FAILED) {
        free(file);
        return NULL;
    }
    file->bytes = bytes;
    file->size = (size_t)st.st_size;
    memcpy(&file->header, bytes, sizeof(file->header));
    if (memcmp(file->header.e_ident, ELFMAG, SELFMAG) == 0 &&
        file->header.e_ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) &&
        file->header.e_phentsize == sizeof(ElfW(Phdr)))
        file->segments =
            elf_at(file, file->header.e_phoff, (uint64_t)file->header.e_phnum * sizeof(ElfW(Phdr)));
    if (!file->segments) {
        elf_close(file);
        errno = ENOEXEC;
        return NULL;
    }
    elf_find_id(file);
    return file;
}

void elf_close(struct elf_file *file)
{
    if (!file)
        return;
    munmap((void *)(uintptr_t)file->bytes, file->size);
    free(file->symbols);
    free(file);
}

const char *elf_build_id(const struct elf_file *file)
{
    return file->build_id;
}

bool elf_address(const struct elf_file *file, uint64_t offset, uint64_t *address)
{
    for (unsigned i = 0; i < file->header.e_phnum; i++) {
        ElfW(Phdr) segment = elf_segment(file, i);
        if (segment.p_type == PT_LOAD && offset >= segment.p_offset &&
            offset - segment.p_offset < segment.p_filesz) {
            *address = offset - segment.p_offset + segment.p_vaddr;
            return true;
        }
    }
    return false;
}

static int elf_compare(const void *left, const void *right)
{
    const struct elf_symbol *a = left, *b = right;

    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    /* Of several names for one place, the same each time. */
    return a->size != b->size ? (a->size < b->size ? -1 : 1) : -strcmp(a->name, b->name);
}

static void elf_add_table(struct elf_file *file, const ElfW(Shdr) * table, uint64_t strings)
{
    size_t count = table->sh_size / sizeof(ElfW(Sym));
    /* Its sections may all be the same table. */
    const char *symbols = file->nr_symbols + count <= file->size / sizeof(ElfW(Sym))
                              ? elf_at(file, table->sh_offset, table->sh_size)
                              : NULL;
    struct elf_symbol *more =
        symbols ? realloc(file->symbols, (file->nr_symbols + count + 1) * sizeof(*more)) : NULL;

    if (!more)
        return;
    file->symbols = more;
    for (size_t i = 0; i < count; i++) {
        ElfW(Sym) symbol;
        const char *name;
        memcpy(&symbol, symbols + i * sizeof(symbol), sizeof(symbol));
        name = elf_text(file, strings + symbol.st_name);
        if ((ELF64_ST_TYPE(symbol.st_info) == STT_FUNC ||
             ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC) &&
            symbol.st_shndx != SHN_UNDEF && name && *name)
            more[file->nr_symbols++] = (struct elf_symbol){symbol.st_value, symbol.st_size, name};
    }
}

static ElfW(Shdr) elf_section(const char *sections, unsigned i)
{
    ElfW(Shdr) section;

    memcpy(&section, sections + i * sizeof(section), sizeof(section));
    return section;
}

static void elf_read_symbols(struct elf_file *file)
{
    unsigned n = file->header.e_shnum;
    const char *sections = elf_at(file, file->header.e_shoff, (uint64_t)n * sizeof(ElfW(Shdr)));

    file->searched = true;
    if (!sections || file->header.e_shentsize != sizeof(ElfW(Shdr)))
        return;
    for (unsigned i = 0; i < n; i++) {
        ElfW(Shdr) section = elf_section(sections, i);
        if ((section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM) && section.sh_link < n)
            elf_add_table(file, &section, elf_section(sections, section.sh_link).sh_offset);
    }
    if (file->symbols)
        qsort(file->symbols, file->nr_symbols, sizeof(*file->symbols), elf_compare);
}

const char *elf_function(struct elf_file *file, uint64_t address, uint64_t *offset)
{
    size_t n;

    if (!file->searched)
        elf_read_symbols(file);
    n = target_rows_to(file->symbols, file->nr_symbols, start, address);
    /* Functions whose symbol was stripped lie between: the nearest name would be wrong. */
    if (n == 0 || address - file->symbols[n - 1].start >= file->symbols[n - 1].size)
        return NULL;
    *offset = address - file->symbols[n - 1].start;
    return file->symbols[n - 1].name;
}
