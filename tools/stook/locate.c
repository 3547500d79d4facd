/* SPDX-License-Identifier: MIT */
/*
 * locate.c - finds the library to preload and the program to run, and what preloading would do to
 * that program.
 */
#include "stook/locate.h"

#include "text/file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#if defined(__x86_64__)
#define LOCATE_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define LOCATE_MACHINE EM_AARCH64
#elif defined(__riscv)
#define LOCATE_MACHINE EM_RISCV
#else
#error "this machine's ELF number is not known here"
#endif

enum {
    LOCATE_SCRIPTS = 4,      /* interpreters of interpreters, as the kernel follows them */
    LOCATE_NAMES = 16 << 20, /* bytes of a program's first segment that are searched */
};

/* The directory above the one that holds this executable: PREFIX of PREFIX/bin/stook. */
static bool locate_prefix(char *prefix, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", prefix, size - 1);
    char *slash;

    if (n <= 0)
        return false;
    prefix[n] = '\0';
    for (int i = 0; i < 2; i++) {
        slash = strrchr(prefix, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    return true;
}

bool locate_library(char *path, size_t size)
{
    static const char *const beside[] = {"lib", STOOK_LIBDIR_NAME};
    const char *sim = getenv("STOOK_TOPOLOGY") ? "stook/sim/" : ""; /* which simulates machines */
    char prefix[PATH_MAX];

    if (locate_prefix(prefix, sizeof(prefix))) {
        for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
            if (beside[i][0] == '/')
                continue;
            snprintf(path, size, "%s/%s/%s" LOCATE_LIBRARY, prefix, beside[i], sim);
            if (access(path, R_OK) == 0)
                return true;
        }
    } else {
        prefix[0] = '\0';
    }
    snprintf(path, size, STOOK_LIBDIR "/%s" LOCATE_LIBRARY, sim);
    if (access(path, R_OK) == 0)
        return true;
    snprintf(path, size, "%s/lib/%s, " STOOK_LIBDIR "/%s", prefix, sim, sim);
    return false;
}

bool locate_script(const char *name, char *path, size_t size)
{
    char prefix[PATH_MAX];

    if (locate_prefix(prefix, sizeof(prefix)) && STOOK_LIBEXEC_NAME[0] != '/') {
        snprintf(path, size, "%s/" STOOK_LIBEXEC_NAME "/stook/%s", prefix, name);
        if (access(path, R_OK) == 0)
            return true;
    }
    snprintf(path, size, STOOK_LIBEXEC "/stook/%s", name);
    return access(path, R_OK) == 0;
}

static int locate_check(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    return access(path, X_OK) == 0 ? 0 : errno;
}

int locate_program(const char *name, char *path, size_t size)
{
    const char *list = getenv("PATH");
    int found = ENOENT;

    if (*name == '\0')
        return ENOENT;
    if (strchr(name, '/')) {
        snprintf(path, size, "%s", name);
        return locate_check(path);
    }
    if (!list)
        list = "/bin:/usr/bin";
    for (;;) {
        size_t n = strcspn(list, ":");
        int error;
        /* An empty entry is the current directory. */
        snprintf(path, size, "%.*s%s%s", (int)n, list, n ? "/" : "./", name);
        error = locate_check(path);
        if (error == 0)
            return 0;
        if (error == EACCES) /* as execvp: go on, but remember */
            found = EACCES;
        if (list[n] == '\0')
            return found;
        list += n + 1;
    }
}

/* Whether one of the notes of a segment is that of libstook-malloc.a (src/malloc/start.c). */
static bool locate_own_note(int fd, const Elf64_Phdr *segment)
{
    char notes[4096];
    ssize_t n =
        pread(fd, notes, segment->p_filesz < sizeof(notes) ? segment->p_filesz : sizeof(notes),
              (off_t)segment->p_offset);
    size_t at = 0, end = n > 0 ? (size_t)n : 0;

    while (at + sizeof(Elf64_Nhdr) <= end) {
        Elf64_Nhdr note;
        size_t name;
        memcpy(&note, notes + at, sizeof(note));
        name = at + sizeof(note);
        if (note.n_namesz == sizeof("Stook") && note.n_type == 1 && name + sizeof("Stook") <= end &&
            memcmp(notes + name, "Stook", sizeof("Stook")) == 0)
            return true;
        at = name + ((size_t)note.n_namesz + 3) / 4 * 4 + ((size_t)note.n_descsz + 3) / 4 * 4;
    }
    return false;
}

static bool locate_segment(int fd, const Elf64_Ehdr *header, unsigned i, Elf64_Phdr *segment)
{
    off_t at = (off_t)(header->e_phoff + (size_t)i * header->e_phentsize);

    return pread(fd, segment, sizeof(*segment), at) == (ssize_t)sizeof(*segment);
}

/* Whether the names that a program is linked by, which stand in its first segment, are those of a sanitizer that has a
 * malloc of its own. */
static bool locate_sanitizer(int fd, const Elf64_Phdr *segment)
{
    static const char *const names[] = {"__asan_init", "__hwasan_init", "__msan_init",
                                        "__tsan_init", "__lsan_init",   "liblsan.so.0"};
    size_t size = segment->p_filesz < LOCATE_NAMES ? segment->p_filesz : LOCATE_NAMES;
    char *text = malloc(size);
    ssize_t n = text ? pread(fd, text, size, (off_t)segment->p_offset) : 0;
    bool found = false;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && n > 0; i++)
        found |= memmem(text, (size_t)n, names[i], strlen(names[i]) + 1) != NULL;
    free(text);
    return found;
}

static enum locate_kind locate_kind_elf(int fd, const Elf64_Ehdr *header, const char **why)
{
    char interpreter[256];
    bool dynamic = false, own = false, loads = false;

    *why = "is of another machine or word size than the library";
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != LOCATE_MACHINE)
        return LOCATE_OTHER;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        ssize_t n;
        if (!locate_segment(fd, header, i, &segment))
            return LOCATE_PRELOADS;
        own |= segment.p_type == PT_NOTE && locate_own_note(fd, &segment);
        *why = "has a sanitizer, which needs its own malloc";
        if (segment.p_type == PT_LOAD && !loads && locate_sanitizer(fd, &segment))
            return LOCATE_BREAKS;
        loads |= segment.p_type == PT_LOAD;
        if (segment.p_type != PT_INTERP)
            continue;
        dynamic = true;
        n = pread(fd, interpreter, sizeof(interpreter) - 1, (off_t)segment.p_offset);
        interpreter[n > 0 ? n : 0] = '\0';
#ifdef __GLIBC__
        *why = "runs on musl, while the library was built for glibc";
        if (strstr(interpreter, "ld-musl"))
            return LOCATE_BREAKS;
#endif
    }
    *why = "is linked statically, so no library can be preloaded";
    return dynamic ? LOCATE_PRELOADS : own ? LOCATE_OWN : LOCATE_OTHER;
}

/* The loader ignores LD_PRELOAD where execution gains privileges. */
static bool locate_gains_privileges(int fd)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return false;
    if ((st.st_mode & S_ISUID) && st.st_uid != geteuid())
        return true;
    if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getegid())
        return true;
    return geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

enum locate_kind locate_kind(const char *path, const char **why)
{
    char script[PATH_MAX], head[PATH_MAX];
    enum locate_kind kind = LOCATE_PRELOADS;

    snprintf(script, sizeof(script), "%s", path);
    for (int i = 0; i < LOCATE_SCRIPTS; i++) {
        int fd = file_open_read(script);
        ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof(head) - 1, 0);
        bool again = false;
        head[n > 0 ? n : 0] = '\0';
        if (n >= (ssize_t)sizeof(Elf64_Ehdr) && memcmp(head, ELFMAG, SELFMAG) == 0) {
            Elf64_Ehdr header;
            memcpy(&header, head, sizeof(header));
            kind = locate_kind_elf(fd, &header, why);
            if (kind != LOCATE_OTHER && locate_gains_privileges(fd)) {
                *why =
                    "gains privileges (set-uid, set-gid or capabilities), so the loader preloads "
                    "nothing";
                kind = LOCATE_OTHER;
            }
        } else if (n > 2 && head[0] == '#' && head[1] == '!') {
            char *start = head + 2 + strspn(head + 2, " \t");
            start[strcspn(start, " \t\r\n")] = '\0';
            snprintf(script, sizeof(script), "%s", start);
            again = *start != '\0';
        }
        if (fd >= 0)
            close(fd);
        if (!again)
            break;
    }
    return kind;
}
