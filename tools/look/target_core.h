/* SPDX-License-Identifier: MIT */
/*
 * target_core.h - the memory of a process that has ended, from its core file: the kernel's, or gcore's.
 *
 * Parts that a core leaves out come from the mapped files, if these are here and the same builds.  Memory that the process
 * could write to never comes from a file.
 */
#ifndef STOOK_LOOK_TARGET_CORE_H
#define STOOK_LOOK_TARGET_CORE_H

#include "look/target.h"

/* `exe`: where the program lies now; NULL: where it lay then.  NULL with an error. */
struct target *target_open_core(const char *core, const char *exe, struct target_error *error);
bool target_is_core(const struct target *target);
/* What is said where something is not in it: the library's own data are left out of cores, unless … */
extern const char target_core_lacks[];

/* Calls fn with the registers of each thread, as words. */
void target_core_registers(struct target *target,
                           void (*fn)(const uint64_t *words, size_t n, void *arg), void *arg);

/* Bytes that the core itself has of the mapping that begins there. */
uint64_t target_core_has(struct target *target, uint64_t begin);

/* The file on this machine of a path that was mapped; "": none, or it is another build. */
const char *target_core_file(struct target *target, const char *path);

#endif
