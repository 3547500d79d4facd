#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""A start costs as much on a machine with 4096 possible CPUs as on one with two: the mappings, the
address space; it creates no file, and runs where none may be written or sysfs says too little."""
import os
import resource
import tempfile

from surroundings import (BOTH, KIB, MIB, can_fake, can_trace, check, cpus, faked, finish, program,
                          run, served, skip, traced, works)

POSSIBLE = "/sys/devices/system/cpu/possible"
MAPPINGS_MORE = 18  # than glibc's: two libraries of four each, and what Stook keeps (decision 20)
VIRTUAL_MORE = 64 * MIB
VIRTUAL_A_CPU = 256 * KIB  # beyond 64 possible CPUs

plain = {who: works(f"start, {who}", served(program("start"), stook)).figures()
         for who, stook in BOTH}
print(plain)


def figures_are_near(figures, possible, what):
    more = VIRTUAL_MORE + max(possible - 64, 0) * VIRTUAL_A_CPU
    check(figures.get("done") == 1, f"{what}: it did not come to its end")
    check(figures.get("mappings", 1 << 30) <= plain["glibc"]["mappings"] + MAPPINGS_MORE,
          f"{what}: {figures.get('mappings')} mappings, glibc {plain['glibc']['mappings']}")
    check(figures.get("virtual", 1 << 40) * KIB <= plain["glibc"]["virtual"] * KIB + more,
          f"{what}: {figures.get('virtual')} KiB of addresses, glibc {plain['glibc']['virtual']}")


with open(POSSIBLE, encoding="ascii") as file:
    figures_are_near(plain["stook"], int(file.read().strip().split("-")[-1].split(",")[-1]) + 1,
                     "here")

if can_fake(POSSIBLE):
    counts = {}
    for possible in (2, 512, 4096):
        done = works(f"{possible} possible CPUs",
                     faked({POSSIBLE: f"0-{possible - 1}"}, served(program("start"), True)))
        figures_are_near(done.figures(), possible, f"{possible} possible CPUs")
        counts[possible] = done.figures().get("mappings")
    # One more or less by chance: the library is aligned, and a gap beside it is a neighbour's part or none's.
    check(max(counts.values()) - min(counts.values()) <= 1, f"mappings by the number of possible CPUs: {counts}")
    # The file says that there is one CPU, and the program runs on another.
    last = cpus()[-1]
    if last > 0:
        works("a CPU beyond what sysfs says", faked({POSSIBLE: "0"},
                                                    served(program("start", last), True)))
    else:
        skip("a CPU beyond what sysfs says: there is one CPU")
else:
    skip("possible CPUs: files of sysfs cannot be imitated here")

for blocks in (0, 255):
    works(f"a file may have {blocks} KiB", served(program("start"), True),
          limits=[(resource.RLIMIT_FSIZE, blocks * KIB)])

CREATES = "open,openat,openat2,creat,memfd_create,mkdir,mkdirat,mknod,mknodat,link,linkat,symlink," \
    "symlinkat,rename,renameat,renameat2,ftruncate,truncate,shmget,unlink,unlinkat"
if can_trace():
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        # "?": a call that this machine does not have.
        calls = ",".join("?" + call for call in CREATES.split(","))
        works("traced", traced(calls, served(program("start"), True), log))
        with open(log, encoding="utf-8", errors="replace") as file:
            made = [line.strip() for line in file
                    if "O_CREAT" in line or "O_TMPFILE" in line or
                    ("(" in line and "open" not in line.split("(")[0])]
    check(not made, f"files are made at the start: {made}")
else:
    skip("files made at the start: strace cannot be used here")
finish()
