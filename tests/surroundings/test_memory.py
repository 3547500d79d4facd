#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""Out of memory under a limit of address space: malloc says so by NULL and ENOMEM, and what a program frees it can
have again.  By default, with debug flags, with the guard, and hardened."""
import os
import resource
import tempfile

from surroundings import MIB, can_trace, check, finish, program, served, traced, works

LIMIT = 128 * MIB
SETTINGS = (
    {},
    {"STOOK_DEBUG": "FZPU"},
    {"STOOK_GUARD": "4K"},
    {"STOOK_HARDEN": "full"},
)
AGAIN = 0.9  # of what there was the first time: a quarantine and kept stacks have their share

for settings in SETTINGS:
    for size in (300, 5000, 40000, MIB):
        if size == 300 and settings.get("STOOK_DEBUG"):
            continue  # a stack each for millions of objects takes a minute
        what = f"{size} bytes, {settings}"
        done = works(what, served(program("limits", "fill", size), True, **settings),
                     limits=[(resource.RLIMIT_AS, LIMIT)])
        got = done.figures()
        print(what, got)
        check(0 < got.get("first", 0) * size <= LIMIT, f"{what}: {got}")
        check(got.get("again", 0) >= AGAIN * got.get("first", 0), f"{what}: {got}")
        check("stook: BUG" not in done.err, f"{what}: {done}")

# A free that finds no memory for a sheaf does not ask the kernel again each time: of a million objects that are
# allocated and freed twice, one call in twenty would be many.
if can_trace():
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "calls")
        done = works("calls where memory is refused",
                     traced("mmap,mprotect,madvise,munmap", served(program("limits", "fill", 300), True), log),
                     limits=[(resource.RLIMIT_AS, LIMIT)])
        with open(log, encoding="utf-8") as lines:
            calls = sum(1 for _ in lines)
    objects = sum(done.figures().get(which, 0) for which in ("first", "again"))
    print(f"{calls} calls, {objects} objects")
    check(0 < calls < objects / 20, f"{calls} calls of the kernel for {objects} objects")
finish()
