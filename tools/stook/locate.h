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

/* A file of libexec/stook, found in the same way. */
bool locate_script(const char *name, char *path, size_t size);

/* The file that execvp(name) would run: 0, or ENOENT, EACCES, … as errno. */
int locate_program(const char *name, char *path, size_t size);

enum locate_kind {
    LOCATE_PRELOADS, /* into it */
    LOCATE_OWN,      /* it is linked statically with Stook's malloc: all works but the preloading */
    LOCATE_OTHER,    /* the loader will not preload; its children's may */
    LOCATE_BREAKS,   /* its loader would try, and fail to start it */
};

/*
 * What preloading does to that file.  *why: for LOCATE_OTHER and LOCATE_BREAKS the end of a sentence that
 * begins with its name.  Follows the interpreter of a script.
 */
enum locate_kind locate_kind(const char *path, const char **why);

#endif
