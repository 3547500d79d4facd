#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""What the start of a process costs with malloc preloaded (docs/decisions/0060-malloc-is-one-object.md), in counts: one
object for the loader, its relocations, and beyond glibc's system calls, page faults and memory of the process's own."""
import os
import subprocess
import tempfile

from surroundings import BOTH, BUILD, PRELOAD, can_trace, check, finish, program, run, served, skip, traced, works

# At most, of a program without an object, and of one with 20 of 40 to 800 bytes.
LIMITS = {0: {"own": 40, "faults": 20, "calls": 20}, 20: {"own": 150, "faults": 50, "calls": 36}}
RELATIVE_MOST, BOUND_MOST = 450, 125  # relocations; of the latter each is of a symbol or of thread-local memory
MAPPINGS = 3 if os.uname().machine == "x86_64" else 4  # elsewhere there is a hole between code and data


def mapped():
    maps = works("maps", served(["cat", "/proc/self/maps"], True)).out.splitlines()
    return [line for line in maps if "libstook" in line]


def calls(argv, work):
    works("traced", traced("all", argv, f"{work}/log"))
    with open(f"{work}/log", encoding="utf-8", errors="replace") as file:
        return sum("(" in line for line in file)


check(len({line.split()[-1] for line in mapped()}) == 1 and len(mapped()) <= MAPPINGS, f"mapped: {mapped()}")
kinds = [line.split()[2] for line in subprocess.run(["readelf", "-rW", PRELOAD], check=True, text=True,
                                                  stdout=subprocess.PIPE).stdout.splitlines() if " R_" in line]
relative = sum(kind.endswith("_RELATIVE") for kind in kinds)
print(f"relocations: {relative} relative, {len(kinds) - relative} others")
with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
    release = "CMAKE_BUILD_TYPE:STRING=Debug" not in file.read()
check(not release or (relative <= RELATIVE_MOST and len(kinds) - relative <= BOUND_MOST), "relocations")

for objects, limits in LIMITS.items():
    found = {who: works(who, served(program("bare", objects), stook)).figures() for who, stook in BOTH}
    with tempfile.TemporaryDirectory() as work:
        if can_trace():
            for who, stook in BOTH:
                found[who]["calls"] = calls(served(program("bare", objects), stook), work)
        else:
            skip("system calls: strace cannot be used here")
    more = {name: value - found["glibc"][name] for name, value in found["stook"].items()}
    print(f"{objects} objects, beyond glibc: {more}")
    for name, value in more.items():
        check(value <= limits[name], f"{objects} objects: {name} {value} beyond glibc's, at most {limits[name]}")

# The first object starts malloc, wherever it is allocated.
for where in ("child", "prepare", "handler", "sandbox"):
    done = run(served(program("first", where), True))
    check(done.status in (0, 77), f"the first object: {where}: {done}")  # 77: filters are refused
finish()
