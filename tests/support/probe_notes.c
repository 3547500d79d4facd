/* SPDX-License-Identifier: MIT */
#include "support/probe_notes.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <unistd.h>

enum { PROBE_NOTES_TYPE = 3 };

static size_t probe_notes_padded(size_t bytes)
{
    return (bytes + 3) & ~(size_t)3;
}

static int probe_notes_parse(const char *at, size_t left, struct probe_note *notes)
{
    int n = 0;

    while (left >= sizeof(Elf64_Nhdr) && n < PROBE_NOTES_MAX) {
        const Elf64_Nhdr *head = (const void *)at;
        const char *name = at + sizeof(*head), *body = name + probe_notes_padded(head->n_namesz);
        const char *end = body + head->n_descsz;
        size_t whole = (size_t)(body - at) + probe_notes_padded(head->n_descsz);
        struct probe_note *note = &notes[n++];
        uint64_t words[3];
        if (whole > left || head->n_type != PROBE_NOTES_TYPE || strcmp(name, "stapsdt") != 0 ||
            head->n_descsz < sizeof(words) + 3)
            return -1;
        memcpy(words, body, sizeof(words)); /* location, base, semaphore */
        note->at = words[0];
        note->semaphore = words[2];
        note->provider = body + sizeof(words);
        note->name = note->provider + strlen(note->provider) + 1;
        if (note->name >= end)
            return -1;
        note->args = note->name + strlen(note->name) + 1;
        if (note->args >= end || note->args + strlen(note->args) + 1 != end)
            return -1;
        at += whole;
        left -= whole;
    }
    return left == 0 ? n : -1;
}

int probe_notes_read(struct probe_note notes[PROBE_NOTES_MAX])
{
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat stat;
    const char *image;
    const Elf64_Ehdr *head;
    const Elf64_Shdr *sections;

    if (file < 0 || fstat(file, &stat) != 0)
        return -1;
    image = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (image == MAP_FAILED)
        return -1;
    head = (const void *)image;
    sections = (const void *)(image + head->e_shoff);
    for (unsigned i = 0; i < head->e_shnum; i++)
        if (strcmp(image + sections[head->e_shstrndx].sh_offset + sections[i].sh_name,
                   ".note.stapsdt") == 0)
            return probe_notes_parse(image + sections[i].sh_offset, sections[i].sh_size, notes);
    return 0;
}

static int probe_notes_first(struct dl_phdr_info *info, size_t size, void *arg)
{
    *(uint64_t *)arg = info->dlpi_addr;
    return 1;
}

uint64_t probe_notes_bias(void)
{
    uint64_t bias = 0;

    (void)dl_iterate_phdr(probe_notes_first, &bias);
    return bias;
}

#ifdef __x86_64__
/* Of a register by any of its names: its number in `names`, or -1. */
static int probe_notes_register(const char *name, size_t length)
{
    static const char *const names[16][4] = {
        {"rax", "eax", "ax", "al"},      {"rbx", "ebx", "bx", "bl"},
        {"rcx", "ecx", "cx", "cl"},      {"rdx", "edx", "dx", "dl"},
        {"rsi", "esi", "si", "sil"},     {"rdi", "edi", "di", "dil"},
        {"rbp", "ebp", "bp", "bpl"},     {"rsp", "esp", "sp", "spl"},
        {"r8", "r8d", "r8w", "r8b"},     {"r9", "r9d", "r9w", "r9b"},
        {"r10", "r10d", "r10w", "r10b"}, {"r11", "r11d", "r11w", "r11b"},
        {"r12", "r12d", "r12w", "r12b"}, {"r13", "r13d", "r13w", "r13b"},
        {"r14", "r14d", "r14w", "r14b"}, {"r15", "r15d", "r15w", "r15b"}};

    for (int i = 0; i < 16; i++)
        for (int width = 0; width < 4; width++)
            if (strlen(names[i][width]) == length && memcmp(names[i][width], name, length) == 0)
                return i;
    return -1;
}

static bool probe_notes_value(const struct user_regs_struct *regs, const char *percent,
                              uint64_t *value, const char **end)
{
    const uint64_t values[16] = {regs->rax, regs->rbx, regs->rcx, regs->rdx, regs->rsi, regs->rdi,
                                 regs->rbp, regs->rsp, regs->r8,  regs->r9,  regs->r10, regs->r11,
                                 regs->r12, regs->r13, regs->r14, regs->r15};
    size_t length = strspn(percent + 1, "abcdefghijklmnopqrstuvwxyz0123456789");
    int number = *percent == '%' ? probe_notes_register(percent + 1, length) : -1;

    *end = percent + 1 + length;
    if (number >= 0)
        *value = values[number];
    return number >= 0;
}

/* DISPLACEMENT(%base,%index,scale), of which all but the base may be left out. */
static bool probe_notes_memory(pid_t child, const struct user_regs_struct *regs, const char *text,
                               uint64_t *value, const char **end)
{
    char *rest;
    uint64_t address = (uint64_t)strtoll(text, &rest, 0), part;

    if (*rest != '(' || !probe_notes_value(regs, rest + 1, &part, end))
        return false;
    address += part;
    if (**end == ',') {
        if (!probe_notes_value(regs, *end + 1, &part, end))
            return false;
        address += part * (**end == ',' ? (uint64_t)strtoul(*end + 1, &rest, 10) : 1);
        if (**end == ',')
            *end = rest;
    }
    if (**end != ')')
        return false;
    (*end)++;
    *value = (uint64_t)ptrace(PTRACE_PEEKDATA, child, (void *)address, NULL);
    return true;
}

int probe_notes_args(pid_t child, const char *args, uint64_t values[PROBE_ARGS_MAX])
{
    struct user_regs_struct regs;
    int n = 0;

    if (ptrace(PTRACE_GETREGS, child, NULL, &regs) != 0)
        return -1;
    while (*args && n < PROBE_ARGS_MAX) {
        char *at;
        long size = strtol(args, &at, 10);
        unsigned bits = (unsigned)labs(size) * 8;
        const char *end;
        bool known;
        if (*at++ != '@' || bits == 0)
            return -1;
        if (*at == '$') {
            values[n] = (uint64_t)strtoll(at + 1, &at, 0);
            end = at;
            known = true;
        } else if (*at == '%') {
            known = probe_notes_value(&regs, at, &values[n], &end);
        } else {
            known = probe_notes_memory(child, &regs, at, &values[n], &end);
        }
        if (!known)
            return -1;
        if (bits < 64)
            values[n] &= ((uint64_t)1 << bits) - 1;
        n++;
        args = *end == ' ' ? end + 1 : end;
    }
    return *args ? -1 : n;
}
#else
int probe_notes_args(pid_t child, const char *args, uint64_t values[PROBE_ARGS_MAX])
{
    (void)child, (void)args, (void)values;
    return -1;
}
#endif
