/* SPDX-License-Identifier: MIT */
/*
 * profile_code.h - what a file with code says about an address of it: by its symbol tables
 * (profile_elf.c), and where libdw is there, by its debugging information, inlined functions included
 * (profile_dwarf.c).
 */
#ifndef STOOK_TOOL_PROFILE_CODE_H
#define STOOK_TOOL_PROFILE_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile;
struct profile_site;

/* A file, mapped.  NULL with errno, ENOEXEC for one that is no ELF file of this machine's kind. */
struct elf_file;
struct elf_file *elf_open(const char *path);
void elf_close(struct elf_file *file);
/* In hexadecimal; "" where there is none. */
const char *elf_build_id(const struct elf_file *file);
/* The address as linked of what lies at an offset of the file; false: it is not loaded. */
bool elf_address(const struct elf_file *file, uint64_t offset, uint64_t *address);
/* The function that holds the address, and how far from its start; NULL: none is known. */
const char *elf_function(struct elf_file *file, uint64_t address, uint64_t *offset);

/* NULL where there is no libdw, or it finds nothing. */
struct dwarf_file;
struct dwarf_file *dwarf_open(const char *path);
void dwarf_close(struct dwarf_file *file);
/* Frames of the site, whose `place` is known; false: it knows nothing of it. */
bool dwarf_resolve(struct dwarf_file *file, struct profile *profile, struct profile_site *site);
/* Whether libdw is in this build. */
extern const bool dwarf_is_there;

#endif
