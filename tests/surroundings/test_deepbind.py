#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""A library that is opened with RTLD_DEEPBIND has the program's malloc: both sides free what the other one
allocated.  Else dlopen() and dlmopen() are glibc's: which object calls decides what is found, and errors are the
same.  STOOK_DEEPBIND=keep leaves the flag: then the plug-in has glibc's malloc, and its own symbols win."""
import os
import signal
import tempfile

from surroundings import BOTH, PRELOAD, check, finish, program, run, served, works

PLUG = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
const char *name(void);
const char *name(void) { return NAME; }
const char *who(void) { return name(); }
void *plug_get(size_t n) { return malloc(n); }
char *plug_copy(const char *text) { return strdup(text); }
void plug_put(void *p) { free(p); }
void *plug_malloc(void) { return (void *)malloc; }
const char *plug_look(const char *file, int flags)
{
    void *library = dlopen(file, flags);
    const char *(*find)(void) = (const char *(*)(void))(library ? dlsym(library, "inner_name") : NULL);

    return find ? find() : dlerror();
}
"""
INNER = 'const char *inner_name(void) { return NAME; }'
WRAP = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
void *dlopen(const char *file, int flags)
{
    (void)!write(2, flags & RTLD_DEEPBIND ? "deep\n" : "shallow\n", flags & RTLD_DEEPBIND ? 5 : 8);
    return ((void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen"))(file, flags);
}
"""


def library(text, path, *flags):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".c", "w", encoding="ascii") as file:
        file.write(text)
    works("a library", [os.environ["CC"], "-shared", "-fPIC", "-o", path, path + ".c", *flags])
    return path


def deepbind(what, *plugs, stook=True, **variables):
    return run(served(program("deepbind", what, *plugs), stook, **variables))


with tempfile.TemporaryDirectory() as work:
    first = library(PLUG, f"{work}/first.so", '-DNAME="first"', "-Wl,--enable-new-dtags,-rpath,$ORIGIN/inner")
    second = library(PLUG, f"{work}/second.so", '-DNAME="second"')
    for inner in ("inner", "other"):
        library(INNER, f"{work}/inner/lib{inner}.so", f'-DNAME="{inner}"')

    for what in ("frees", "gives", "inner", "threads", "errors"):
        done = {stook: works(f"{what}, {who}", served(program("deepbind", what, first), stook))
                for who, stook in BOTH}
        check(done[True].out == done[False].out != "", f"{what}: {done[True]}; glibc: {done[False]}")
    check("by RUNPATH: inner\nby $ORIGIN: other\nfrom here: lib" in deepbind("inner", first).out, "inner")
    check(deepbind("threads", first).out == "inner\n" * 8, "threads")

    spaces = deepbind("spaces", first)
    check(spaces.out == "another: 0\nthe base: 1\nhere: 1\n", f"spaces: {spaces}")

    # A symbol of the plug-in's own is the documented loss.
    check(deepbind("wins", first, second, stook=False).out == "second\n", "wins, glibc")
    check(deepbind("wins", first, second).out == "first\n", "wins")

    kept = {"STOOK_DEEPBIND": "keep"}
    check(deepbind("wins", first, second, **kept).out == "second\n", "wins, kept")
    check(deepbind("gives", first, **kept).out == "exchanged\n", "what glibc's malloc gave is taken back")
    done = deepbind("frees", first, **kept)
    check(done.status == -signal.SIGABRT, f"glibc's free of an object of ours: {done}")

    # Other libraries that interpose dlopen() are called before and behind.
    wrap = library(WRAP, f"{work}/wrap.so")
    for preload, seen in ((f"{PRELOAD} {wrap}", "shallow\n"), (f"{wrap} {PRELOAD}", "deep\n")):
        done = run(["env", f"LD_PRELOAD={preload}", *program("deepbind", "frees", first)])
        check(done.out == "exchanged\n" and done.err == seen, f"{preload}: {done}")
finish()
