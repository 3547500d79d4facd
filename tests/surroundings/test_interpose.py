#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload glibc
# modes: default locked
"""A preloaded library, or the program, defines functions of libc and allocates in them (interpose.h): the program starts
and ends as without, in any order of LD_PRELOAD; and Stook calls none of libc but those of support/libc_calls.def."""
import os
import re
import tempfile

from surroundings import FOLDER, PRELOAD, check, finish, program, works

PLUG = os.path.join(FOLDER, "plug_interpose.so")
DEFINES = os.path.join(os.environ["STOOK_SOURCE_DIR"], "tests", "support", "libc_calls.def")
SETTINGS = (  # each with what the interposing library does besides
    ("", {}), ("lock", {}), ("fork", {}), ("thread", {}), ("lock", {"STOOK_DEBUG": "FZPU"}),
    ("lock", {"STOOK_REPORT": "1", "STOOK_PROFILE": "profile", "STOOK_SAMPLE": "64K"}),
    ("", {"STOOK_TRACE": "trace"}), ("lock", {"STOOK_HARDEN": "full", "STOOK_GUARD": "64K"}),
    ("", {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}))


def interposed(preload, argv, asked="", **settings):
    names = dict(settings, INTERPOSE=asked, LD_PRELOAD=preload)
    return ["env", *(f"{name}={value}" for name, value in names.items()), *argv]


with open(DEFINES, encoding="utf-8") as file:
    listed = set(re.findall(r"^CALL\((\w+),", file.read(), re.M))
called = {}
with tempfile.TemporaryDirectory() as folder:
    for asked, settings in SETTINGS:
        for argv in (interposed(PLUG, program("interpose"), asked, **settings),
                     interposed("", program("defines"), asked, **settings)):
            done = works(" ".join(argv), argv, cwd=folder)
            check(done.out.endswith("done\n"), f"{argv}: {done}")
            called.update(done.figures())
for order in (f"{PLUG} {PRELOAD}", f"{PRELOAD} {PLUG}"):
    for argv in (["true"], program("start")):
        works(f"{order}: {argv}", interposed(order, argv))
print("called:", called)
check(len(called) > 5 or os.uname().machine not in ("x86_64", "aarch64"), "no call was seen: this test does not work")
check(not set(called) - listed, f"Stook calls {sorted(set(called) - listed)}")
finish()
