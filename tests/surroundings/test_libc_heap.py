#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""Objects of glibc's own malloc are freed and resized by glibc when they come to ours; wrong pointers are reported
as before, but for those that are nobody's: glibc judges those once its heap is in use.  And programs with a malloc of
their own over glibc's other names, which leave the rest of the calls to libc."""
import os
import signal
import tempfile

from surroundings import BOTH, BUILD, check, finish, program, run, served, works

FREED_BY_OURS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t), *__libc_valloc(size_t), *__libc_pvalloc(size_t);
extern void __libc_free(void *);
static size_t calls;
void *malloc(size_t n) { calls++; return __libc_malloc(n); }
void *calloc(size_t n, size_t size) { calls++; return __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { calls++; return __libc_realloc(p, n); }
#ifdef OWN_FREE
void free(void *p) { calls++; __libc_free(p); }
#endif
int main(int argc, char **argv)
{
    FILE *lines = fopen(argv[argc - 1], "r");
    char *line = NULL, *text = strdup("text");
    size_t room = 0;
    void *aligned;

    for (size_t n = 1; n < 1 << 20; n *= 3) {
        void *some[] = {__libc_memalign(64, n), __libc_valloc(n), __libc_pvalloc(n), aligned_alloc(64, 64 * n)};
        for (int i = 0; i < 4; i++)
            free(i % 2 ? some[i] : realloc(some[i], 2 * n));
        if (posix_memalign(&aligned, 256, n) != 0)
            return 1;
        free(realloc(aligned, 3 * n));
        free(calloc(n, 3));
    }
    while (getline(&line, &room, lines) > 0)
        text = realloc(text, room + 10);
    free(line);
    free(text);
    puts(calls > 50 ? "done" : "its malloc is not used");
}
"""

for what in ("calls", "threads"):
    for settings in ({}, {"STOOK_DEBUG": "FZPU"}, {"STOOK_HARDEN": "full"},
                     {"STOOK_GUARD": "4K", "STOOK_SAMPLE": "1K", "STOOK_LIMIT": "1G"}):
        works(f"{what}, {settings}", served(program("libc_heap", what), True, **settings))
for what, text in (("foreign", "free(): invalid pointer"), ("twice", "is freed twice; it lies 0 bytes into"),
                   ("large", "is in no object: freed already, or never handed out"),
                   ("inside", "is not the start of an object; it lies 16 bytes into object")):
    done = run(served(program("libc_heap", what), True))
    check(done.status == -signal.SIGABRT and text in done.err, f"{what}: {done}")

STATIC = r"""
#include <stdlib.h>
extern void *__libc_malloc(size_t);
int main(int argc, char **argv)
{
    free(__libc_malloc(100));
    if (argc > 1)
        free(argv);
}
"""
ARCHIVE = os.path.join(BUILD, "lib", "libstook-malloc.a")
TESTS = os.path.join(os.environ["STOOK_SOURCE_DIR"], "tests")


def built(*words):
    works("a program", [os.environ["CC"], "-O1", "-w", "-D_GNU_SOURCE", "-I", TESTS, *words, "-pthread"])


with tempfile.TemporaryDirectory() as work:
    # The archive, in a dynamic program and in a static one, which has no other malloc.
    built("-o", f"{work}/linked", f"{TESTS}/surroundings/prog_libc_heap.c", ARCHIVE)
    for what in ("calls", "threads"):
        works(f"{what}, linked", [f"{work}/linked", what])
    with open(f"{work}/static.c", "w", encoding="ascii") as file:
        file.write(STATIC)
    built("-static", "-o", f"{work}/static", f"{work}/static.c", ARCHIVE)
    works("static", [f"{work}/static"])
    done = run([f"{work}/static", "wrong"])
    check(done.status == -signal.SIGABRT and "is not of this malloc" in done.err, f"static: {done}")

    with open(f"{work}/own.c", "w", encoding="ascii") as file:
        file.write(FREED_BY_OURS)
    for flags in ([], ["-DOWN_FREE"]):
        built(*flags, "-o", f"{work}/own", f"{work}/own.c")
        for who, stook in BOTH:
            done = works(f"own malloc {flags}, {who}", served([f"{work}/own", f"{work}/own.c"], stook))
            check(done.out == "done\n", f"own malloc {flags}, {who}: {done}")
finish()
