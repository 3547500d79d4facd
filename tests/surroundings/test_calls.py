#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""docs/system-calls.md is true: every public call is in one row of its table, and what a row's calls do, in
this mode, makes no other system call and goes no deeper."""
import os
import pathlib
import re
import tempfile

from surroundings import can_trace, check, finish, program, run, skip, traced, works

ROOT = pathlib.Path(os.environ["STOOK_SOURCE_DIR"])
BOUND = {**os.environ, "LD_BIND_NOW": "1"}
MALLOC = {"malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign", "malloc_usable_size"}


def table():
    """The rows by their first call: calls, system calls, bytes."""
    text = (ROOT / "docs/system-calls.md").read_text(encoding="utf-8")
    rows = {}
    memory, more = (re.search(rf"^- {word} stands for (.*)\.$", text, re.M)[1] for word in ("MEMORY", "RECLAIM"))
    for calls, system, depth in re.findall(r"^\| (`.*) \| (.*) \| (\d+) \|$", text, re.M):
        names = re.findall(r"`(\w+)`", calls)
        rows[names[0]] = (names, set(re.findall(r"[a-z_0-9]+", system.replace("RECLAIM", more).replace("MEMORY", memory))), int(depth))
    return rows


def public_calls():
    found = set()
    for header in (ROOT / "include/stook").glob("*.h"):
        found |= set(re.findall(r"^STOOK_API [^;(]*?\b(stook_\w+)\(",
                                header.read_text(encoding="utf-8"), re.M))
    return found - set(re.findall(r"stook_\w+", (ROOT / "cmake/libstook-sim.map").read_text(encoding="utf-8")))


def made(name, log):
    """The names of the calls between the two marks, of the thread that made these."""
    thread, names = None, set()
    with open(log, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if match := re.match(r"(\d+) +write\(-1, \"(begin|end)\"", line):
                thread = match[1] if match[2] == "begin" else None
            elif match := re.match(r"(\d+) +(\w+)\(", line):
                if match[1] == thread:
                    names.add(match[2])
    return names


rows = table()
listed = [name for names, _, _ in rows.values() for name in names]
check(len(listed) == len(set(listed)), f"twice: {sorted(n for n in listed if listed.count(n) > 1)}")
wanted = public_calls() | MALLOC | {"fork", "STOOK_WAIT"}
check(wanted <= set(listed), f"not in the table: {sorted(wanted - set(listed))}")
unknown = {name for name in listed if name.startswith("stook_")} - wanted
check(not unknown,
      f"there are no such calls: {sorted(unknown)}")
known = works("list", program("calls", "list")).out.split()
check(set(known) == set(rows), f"rows that are not tried: {sorted(set(known) ^ set(rows))}")
check(rows["malloc"][2] <= 3712 and rows["stook_alloc"][2] <= 3712, "malloc may go too deep")

for name in known:
    _, system, depth = rows[name]
    done = works(name, program("calls", name), env=BOUND)
    used = done.figures().get("stack", 1 << 20)
    print(name, used, "bytes")
    check(used <= depth, f"{name}: {used} bytes of stack, {depth} are promised")

if can_trace():
    with tempfile.TemporaryDirectory() as folder:
        for name in known:
            log = os.path.join(folder, "log")
            done = run(traced("all", program("calls", name), log), env=BOUND)
            check(done.status == 0, f"{name}, traced: {done}")
            others = made(name, log) - rows[name][1]
            check(not others, f"{name}: {sorted(others)} are not in the table")
else:
    skip("system calls: strace cannot be used here")
finish()
