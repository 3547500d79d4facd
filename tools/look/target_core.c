/* SPDX-License-Identifier: MIT */
/*
 * target_core.c - reads a core file: its notes, its segments, and the files that were mapped.
 */
#include "look/target_core.h"

#include "text/file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CORE_SEGMENTS = 1 << 20, CORE_WORDS = 1024 };

const char target_core_lacks[] =
    "core files have the library's own data only of processes that run with STOOK_CORE_DUMP=all; "
    "gcore leaves them out of others, unless gdb is told `set dump-excluded-mappings on`";

/* A file that the process had mapped. */
struct core_file {
    char *path;       /* then */
    const char *here; /* now; "": nowhere, or another build */
    const char *bytes;
    size_t size;
    bool tried;
};

/* A part of the process's memory, of one kind all through. */
struct core_part {
    uint64_t begin, end;
    uint64_t in_core; /* bytes of it that are in the core, from its beginning on … */
    uint64_t core;    /* … at this offset */
    struct core_file *file;
    uint64_t offset; /* of the beginning, in that file */
    uint32_t flags;  /* PF_* */
    bool listed;     /* it has a program header */
};

struct core {
    int fd;
    const char *bytes;
    size_t size;
    struct core_part *part; /* in the order of addresses */
    size_t parts;
    struct core_file *file;
    size_t files;
    const char *exe;  /* of --exe */
    uint64_t program; /* an address within the executable */
    struct {
        const char *at;
        size_t size;
    } * note; /* registers */
    size_t notes;
};

/* So many bytes of the file, or NULL: it may be cut short, and nothing that it says is believed. */
static const void *core_at(const struct core *core, uint64_t offset, uint64_t size)
{
    return offset <= core->size && size <= core->size - offset ? core->bytes + offset : NULL;
}

/* `keep`: where its descriptor is to stay; NULL: nowhere. */
static const char *core_map(const char *path, size_t *size, struct stat *st, int *keep)
{
    int fd = file_open_read(path);
    void *bytes = MAP_FAILED;

    if (fd < 0)
        return NULL;
    errno = ENOEXEC;
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode) && st->st_size > 0)
        bytes = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (keep && bytes != MAP_FAILED)
        *keep = fd;
    else
        close(fd);
    *size = (size_t)st->st_size;
    return bytes == MAP_FAILED ? NULL : bytes;
}

/* ---- files ------------------------------------------------------------------------------------ */

static const struct core_part *core_part(const struct core *core, uint64_t address)
{
    size_t n = target_rows_to(core->part, core->parts, begin, address);

    return n > 0 && address < core->part[n - 1].end ? &core->part[n - 1] : NULL;
}

/* The first page of it, where the core has that: it has the build's number, and is not written to. */
static bool core_same_build(const struct core *core, const struct core_file *file)
{
    for (size_t i = 0; i < core->parts; i++) {
        const struct core_part *part = &core->part[i];
        size_t n = file->size < TARGET_PAGE ? file->size : TARGET_PAGE;
        const char *page;
        if (part->file != file || part->offset != 0 || part->in_core < TARGET_PAGE ||
            (part->flags & PF_W) || !(page = core_at(core, part->core, TARGET_PAGE)) ||
            memcmp(page, ELFMAG, SELFMAG) != 0)
            continue;
        return memcmp(page, file->bytes, n) == 0;
    }
    return true;
}

static void core_open_file(struct core *core, struct core_file *file)
{
    const struct core_part *program = core_part(core, core->program);
    struct stat st;

    if (file->tried)
        return;
    file->tried = true;
    file->here = core->exe && program && program->file == file ? core->exe : file->path;
    if (file->here[0] == '/' || file->here == core->exe)
        file->bytes = core_map(file->here, &file->size, &st, NULL);
    if (file->bytes && !core_same_build(core, file)) {
        munmap((void *)(uintptr_t)file->bytes, file->size);
        file->bytes = NULL;
    }
    if (!file->bytes)
        file->here = "";
}

const char *target_core_file(struct target *target, const char *path)
{
    struct core *core = target->own;

    for (size_t i = 0; i < core->files; i++)
        if (strcmp(core->file[i].path, path) == 0) {
            core_open_file(core, &core->file[i]);
            return core->file[i].here;
        }
    return "";
}

/* Whether a mapping of this offset is one that the process may have written to: of those without a header. */
static bool core_file_is_written(const struct core_file *file, uint64_t offset)
{
    Elf64_Ehdr elf;
    Elf64_Phdr header;

    if (!file->bytes || file->size < sizeof(elf))
        return true;
    memcpy(&elf, file->bytes, sizeof(elf));
    if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_phentsize != sizeof(header))
        return false; /* a file of data, which has other users */
    for (unsigned i = 0; i < elf.e_phnum; i++) {
        if (elf.e_phoff > file->size || (i + 1) * sizeof(header) > file->size - elf.e_phoff)
            return true;
        memcpy(&header, file->bytes + elf.e_phoff + i * sizeof(header), sizeof(header));
        if (header.p_type == PT_LOAD && header.p_offset / TARGET_PAGE * TARGET_PAGE == offset)
            return (header.p_flags & PF_W) != 0;
    }
    return true;
}

/* ---- reading ---------------------------------------------------------------------------------- */

/* Of a part, what its file has at `at` bytes from its beginning. */
static size_t core_read_file(struct core *core, const struct core_part *part, uint64_t at, void *to,
                             size_t n)
{
    struct core_file *file = part->file;
    uint64_t from = part->offset + at;

    if (!file || (part->flags & PF_W))
        return 0;
    core_open_file(core, file);
    if (!file->bytes || (!part->listed && core_file_is_written(file, part->offset)))
        return 0;
    if (from >= (file->size + TARGET_PAGE - 1) / TARGET_PAGE * TARGET_PAGE)
        return 0;
    memset(to, 0, n);
    if (from < file->size)
        memcpy(to, file->bytes + from, n < file->size - from ? n : file->size - from);
    return n;
}

static size_t core_read(struct target *target, uint64_t address, void *to, size_t n)
{
    struct core *core = target->own;
    size_t done = 0;

    while (done < n) {
        const struct core_part *part = core_part(core, address + done);
        uint64_t at, most;
        const char *bytes;
        if (!part)
            break;
        at = address + done - part->begin;
        most = (at < part->in_core ? part->in_core : part->end - part->begin) - at;
        if (most > n - done)
            most = n - done;
        bytes = at < part->in_core ? core_at(core, part->core + at, most) : NULL;
        if (bytes)
            memcpy((char *)to + done, bytes, most);
        else if (at < part->in_core || /* the core was cut short */
                 core_read_file(core, part, at, (char *)to + done, most) != most)
            break;
        done += most;
    }
    target->reads++;
    target->read_bytes += done;
    return done;
}

/* What is a hole of the core's file is zeros. */
static void core_there(struct target *target, const uint64_t *pages, bool *there, size_t n)
{
    const struct core *core = target->own;
    off_t hole = 0, data = 0; /* a part of the file without data */

    for (size_t i = 0; i < n; i++) {
        const struct core_part *part = core_part(core, pages[i]);
        uint64_t at = part ? pages[i] - part->begin : 0, from = part ? part->core + at : 0;
        there[i] = true;
        if (!part || at + TARGET_PAGE > part->in_core || from + TARGET_PAGE > core->size)
            continue;
        if ((off_t)from < hole || (off_t)from >= data) {
            hole = (off_t)from;
            data = lseek(core->fd, hole, SEEK_DATA);
            data = data < 0 && errno == ENXIO ? (off_t)core->size : data;
        }
        there[i] = data < (off_t)(from + TARGET_PAGE);
    }
}

static void core_read_pages(struct target *target, const uint64_t *pages, char *const *to,
                            bool *got, size_t n)
{
    for (size_t i = 0; i < n; i++)
        got[i] = core_read(target, pages[i], to[i], TARGET_PAGE) == TARGET_PAGE;
}

static bool core_mappings(struct target *target,
                          bool (*fn)(const struct target_mapping *mapping, void *arg), void *arg,
                          bool resident)
{
    const struct core *core = target->own;

    for (size_t i = 0; i < core->parts; i++) {
        const struct core_part *part = &core->part[i];
        struct target_mapping mapping = {
            .begin = part->begin,
            .end = part->end,
            .offset = part->offset,
            .read = !part->listed || (part->flags & PF_R),
            .write = (part->flags & PF_W) != 0,
            .execute = (part->flags & PF_X) != 0,
            .inode = part->file ? 1 : 0,
            .path = part->file ? part->file->path : "",
        };
        if (!fn(&mapping, arg))
            break;
    }
    return core->parts > 0 && !resident;
}

static bool core_alive(struct target *target)
{
    (void)target;
    return true;
}

static void core_close(struct target *target)
{
    struct core *core = target->own;

    for (size_t i = 0; i < core->files; i++) {
        if (core->file[i].bytes)
            munmap((void *)(uintptr_t)core->file[i].bytes, core->file[i].size);
        free(core->file[i].path);
    }
    if (core->bytes) {
        munmap((void *)(uintptr_t)core->bytes, core->size);
        close(core->fd);
    }
    free(core->file);
    free(core->part);
    free(core->note);
    free(core);
}

static const struct target_ops core_ops = {
    .read = core_read,
    .read_pages = core_read_pages,
    .there = core_there,
    .mappings = core_mappings,
    .alive = core_alive,
    .close = core_close,
};

bool target_is_core(const struct target *target)
{
    return target->ops == &core_ops;
}

/* ---- notes ------------------------------------------------------------------------------------ */

/* NT_FILE: count, page size, {begin, end, offset in pages} each, then the names. */
static void core_note_files(struct core *core, const char *note, size_t size)
{
    uint64_t head[2], entry[3];
    size_t at = sizeof(head), names;

    if (core->files > 0 || size < sizeof(head))
        return;
    memcpy(head, note, sizeof(head));
    if (head[0] > CORE_SEGMENTS || head[0] > (size - at) / sizeof(entry))
        return;
    names = at + head[0] * sizeof(entry);
    core->file = target_need(calloc(head[0] + 1, sizeof(*core->file)));
    core->part =
        target_need(realloc(core->part, (core->parts + 2 * head[0] + 1) * sizeof(*core->part)));
    for (uint64_t i = 0; i < head[0] && names < size; i++, at += sizeof(entry)) {
        size_t length = strnlen(note + names, size - names);
        struct core_file *file = NULL;
        memcpy(entry, note + at, sizeof(entry));
        for (size_t j = 0; j < core->files && !file; j++)
            if (strlen(core->file[j].path) == length &&
                memcmp(core->file[j].path, note + names, length) == 0)
                file = &core->file[j];
        if (!file) {
            file = &core->file[core->files++];
            file->path = target_need(strndup(note + names, length));
        }
        names += length + 1;
        if (entry[0] < entry[1])
            core->part[core->parts++] = (struct core_part){
                .begin = entry[0], .end = entry[1], .file = file, .offset = entry[2] * head[1]};
    }
}

static void core_note_auxv(struct core *core, const char *note, size_t size)
{
    uint64_t pair[2];

    for (size_t at = 0; at + sizeof(pair) <= size; at += sizeof(pair)) {
        memcpy(pair, note + at, sizeof(pair));
        if (pair[0] == AT_PHDR)
            core->program = pair[1];
    }
}

static void core_note(struct core *core, struct target *target, uint32_t type, const char *note,
                      size_t size)
{
    struct elf_prpsinfo info;
    struct elf_prstatus status;

    if (type == NT_FILE)
        core_note_files(core, note, size);
    if (type == NT_AUXV)
        core_note_auxv(core, note, size);
    if (type == NT_PRPSINFO && size >= sizeof(info)) {
        memcpy(&info, note, sizeof(info));
        memcpy(target->name, info.pr_fname,
               sizeof(info.pr_fname) < sizeof(target->name) ? sizeof(info.pr_fname)
                                                            : sizeof(target->name));
        target->pid = info.pr_pid;
    }
    if (type == NT_PRSTATUS && size >= sizeof(status)) {
        memcpy(&status, note, sizeof(status));
        if (target->pid == 0)
            target->pid = status.pr_pid;
    }
    if (type == NT_PRSTATUS || type == NT_FPREGSET || type == NT_X86_XSTATE) {
        core->note = target_row(core->note, core->notes, sizeof(*core->note));
        core->note[core->notes].at = note;
        core->note[core->notes++].size = size;
    }
}

static void core_read_notes(struct core *core, struct target *target, const Elf64_Phdr *header)
{
    const char *notes = core_at(core, header->p_offset, header->p_filesz);

    if (!notes)
        return;
    for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= header->p_filesz;) {
        Elf64_Nhdr note;
        uint64_t data;
        memcpy(&note, notes + at, sizeof(note));
        data = at + sizeof(note) + ((uint64_t)note.n_namesz + 3) / 4 * 4;
        if (data > header->p_filesz || note.n_descsz > header->p_filesz - data)
            return;
        core_note(core, target, note.n_type, notes + data, note.n_descsz);
        at = data + ((uint64_t)note.n_descsz + 3) / 4 * 4;
    }
}

void target_core_registers(struct target *target,
                           void (*fn)(const uint64_t *words, size_t n, void *arg), void *arg)
{
    const struct core *core = target->own;
    uint64_t words[CORE_WORDS];

    for (size_t i = 0; i < core->notes; i++)
        for (size_t at = 0; at + 8 <= core->note[i].size; at += sizeof(words)) {
            size_t n =
                core->note[i].size - at < sizeof(words) ? core->note[i].size - at : sizeof(words);
            memcpy(words, core->note[i].at + at, n);
            fn(words, n / 8, arg);
        }
}

uint64_t target_core_has(struct target *target, uint64_t begin)
{
    const struct core_part *part = core_part(target->own, begin);

    return part && part->begin == begin ? part->in_core : 0;
}

/* ---- parts ------------------------------------------------------------------------------------ */

static int core_order(const void *a, const void *b)
{
    const struct core_part *x = a, *y = b;

    return x->begin < y->begin ? -1 : x->begin > y->begin ? 1 : y->listed - x->listed;
}

static const struct core_part *core_named(const struct core_part *part, size_t n, uint64_t address)
{
    for (size_t i = 0; i < n; i++)
        if (address >= part[i].begin && address < part[i].end)
            return &part[i];
    return NULL;
}

/* Merges headers and names of files into one list without overlaps.  Of a part without a header only the file is known. */
static void core_join(struct core *core, struct core_part *load, size_t loads)
{
    struct core_part *named = core->part;
    size_t n = core->parts;

    for (size_t i = 0; i < loads; i++) {
        const struct core_part *name = core_named(named, n, load[i].begin);
        if (name) {
            load[i].file = name->file;
            load[i].offset = name->offset + (load[i].begin - name->begin);
        }
    }
    qsort(load, loads, sizeof(*load), core_order);
    core->part = target_need(calloc(loads + 2 * n + 1, sizeof(*core->part)));
    core->parts = 0;
    for (size_t i = 0; i < loads; i++)
        if (core->parts == 0 || load[i].begin >= core->part[core->parts - 1].end)
            core->part[core->parts++] = load[i];
    loads = core->parts;
    for (size_t i = 0; i < n; i++) {
        bool covered = false;
        for (size_t j = 0; j < loads && !covered; j++)
            covered = core->part[j].begin < named[i].end && core->part[j].end > named[i].begin;
        if (!covered)
            core->part[core->parts++] = named[i];
    }
    qsort(core->part, core->parts, sizeof(*core->part), core_order);
    free(named);
}

static bool core_parse(struct core *core, struct target *target)
{
    const Elf64_Ehdr *elf = core_at(core, 0, sizeof(*elf));
    const Elf64_Phdr *header;
    const Elf64_Shdr *section;
    struct core_part *load;
    size_t n, loads = 0;

    if (!elf || memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
        elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_type != ET_CORE ||
        elf->e_phentsize != sizeof(*header))
        return false;
    n = elf->e_phnum;
    if (n == PN_XNUM && (section = core_at(core, elf->e_shoff, sizeof(*section))))
        n = section->sh_info;
    header = n > CORE_SEGMENTS ? NULL : core_at(core, elf->e_phoff, n * sizeof(*header));
    if (!header)
        return false;
    load = target_need(calloc(n + 1, sizeof(*load)));
    for (size_t i = 0; i < n; i++) {
        if (header[i].p_type == PT_NOTE)
            core_read_notes(core, target, &header[i]);
        if (header[i].p_type == PT_LOAD && header[i].p_memsz > 0)
            load[loads++] = (struct core_part){
                .begin = header[i].p_vaddr,
                .end = header[i].p_vaddr + header[i].p_memsz,
                .in_core =
                    header[i].p_filesz < header[i].p_memsz ? header[i].p_filesz : header[i].p_memsz,
                .core = header[i].p_offset,
                .flags = header[i].p_flags,
                .listed = true,
            };
    }
    core_join(core, load, loads);
    free(load);
    return core->parts > 0;
}

struct target *target_open_core(const char *path, const char *exe, struct target_error *error)
{
    struct core *core = target_need(calloc(1, sizeof(*core)));
    struct stat st;
    const char *bytes = core_map(path, &core->size, &st, &core->fd);
    struct target *target = target_new(&core_ops, core, bytes ? core->size : 0);
    const struct core_part *program;

    core->exe = exe;
    core->bytes = bytes;
    if (!core->bytes) {
        (void)target_fail(error, "%.200s: %s", path,
                          errno == ENOEXEC ? "is no core file" : file_error(errno));
    } else if (!core_parse(core, target)) {
        (void)target_fail(error, "%.200s: is no core file of a 64-bit process", path);
    } else {
        target_clean_text(target->name, sizeof(target->name));
        program = core_part(core, core->program);
        if (!exe)
            return target;
        if (program && program->file) {
            core_open_file(core, program->file);
            if (program->file->bytes)
                return target;
        }
        (void)target_fail(error, "%.200s: is not the program of %.200s, or cannot be read", exe,
                          path);
    }
    target_close(target);
    return NULL;
}
