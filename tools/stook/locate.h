/* SPDX-License-Identifier: MIT */
/*
 * locate.h - finding what `stook run` needs: the library to preload, and the program.
 */
#ifndef STOOK_TOOL_LOCATE_H
#define STOOK_TOOL_LOCATE_H

#include <stdbool.h>
#include <stddef.h>

#define LOCATE_LIBRARY "libstook-malloc.so"

/*
 * The library's path: beside the tool (../lib, ../LIBDIR of its own path), then the installed
 * directory.  False: it is nowhere; `path` says where it was looked for.
 */
bool locate_library(char *path, size_t size);

/* The file that execvp(name) would run: 0, or ENOENT, EACCES, … as errno. */
int locate_program(const char *name, char *path, size_t size);

/*
 * Why the loader will not preload into that file, as the end of a sentence that begins with its
 * name; or NULL.  Follows the interpreter of a script.
 */
const char *locate_obstacle(const char *path);

#endif
