#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""A process has one allocator, whichever of libstook.so and libstook-malloc.so it loads, and in which order: objects of
malloc and of typed caches are freed by each other's calls, the library starts once, registers its fork handlers once
and reports once.  Where both files are loaded the second one does nothing (src/base/init.h)."""
import os
import pathlib
import re
import subprocess
import tempfile

from surroundings import BUILD, PRELOAD, can_trace, check, finish, run, skip, traced, works

SOURCE = os.environ["STOOK_SOURCE_DIR"]
LIB = os.path.join(BUILD, "lib")
PROGRAM = f"{SOURCE}/tests/surroundings/one.c"
BOTH = ("-lstook", "-lstook-malloc")
LINKS = {"the library": ["-lstook"], "malloc": ["-lstook-malloc"], "library, malloc": [*BOTH],
         "malloc, library": [*BOTH[::-1]]}


def built(path, links, *flags):
    works("cc", [os.environ["CC"], "-O1", "-w", "-D_GNU_SOURCE", f"-I{SOURCE}/include", "-o", path, PROGRAM, *flags,
                 f"-L{LIB}", "-Wl,--no-as-needed", *links, "-ldl", f"-Wl,-rpath,{LIB}", "-rdynamic"])
    return path


def starts(argv, env, work):
    """How often the library asks how many CPUs there are."""
    log = f"{work}/log"
    works("traced", traced("openat", argv, log), env=env)
    return len(re.findall("cpu/possible", pathlib.Path(log).read_text(encoding="utf-8")))


def one(what, argv, objects, work, preload="", trace=True):
    report = pathlib.Path(f"{work}/report")
    report.unlink(missing_ok=True)
    env = {**os.environ, "LD_PRELOAD": preload, "STOOK_REPORT": "1", "STOOK_REPORT_FILE": str(report)}
    done = run(argv, env=env)
    check(done.status == 0 and done.err == "", f"{what}: {done}")
    check(done.figures() == {"forks": 1, "objects": objects}, f"{what}: {done}")
    text = report.read_text(encoding="utf-8") if report.exists() else ""
    check(text.count(": process ") == 1 and "\nmalloc-32 " in text, f"{what}: reports: {text[:1000]}")
    if trace:
        if can_trace():
            env["LD_PRELOAD"] = ""
            found = starts(["env", f"LD_PRELOAD={preload}", *argv], env, work)
            check(found == 1, f"{what}: it started {found} times")
        else:
            skip("starts: strace cannot be used here")


with tempfile.TemporaryDirectory() as work:
    for what, links in LINKS.items():
        name = what.replace(", ", "-").replace(" ", "-")
        program = built(f"{work}/{name}", links)
        if what != "the library":
            one(f"linked with {what}", [program], len(links), work)
        one(f"linked with {what}, preloaded", [program], 2 if "-lstook" in links else 1, work, PRELOAD)
    # Plug-ins, opened locally and with RTLD_DEEPBIND.
    plugs = {what: built(f"{work}/{what}.so", links, "-DPLUG", "-shared", "-fPIC") for what, links in LINKS.items()}
    bare = built(f"{work}/bare", [], "-DBARE")
    for what, plug in plugs.items():
        one(f"a plug-in with {what}, preloaded", [bare, plug], 2 if what != "malloc" else 1, work, PRELOAD)
        one(f"a plug-in with {what}, in a program with malloc", [f"{work}/malloc", plug],
            2 if what != "malloc" else 1, work)
        one(f"a plug-in with {what}, in a program with both", [f"{work}/library-malloc", plug], 2, work)
    one("all", [bare, *plugs.values()], 2, work, PRELOAD)
    said = subprocess.run(["readelf", "-dW", PRELOAD], stdout=subprocess.PIPE, text=True, check=True).stdout
    check("[libstook.so" not in said.replace("libstook-malloc", ""), f"libstook-malloc.so needs another library: {said}")
finish()
