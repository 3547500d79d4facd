#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""Objects of which little is touched stay as sparse as with glibc's malloc, page tables included, and a
heap of many GiB has few mappings, and address space for a quarter more than its objects."""
from surroundings import (BOTH, GIB, KIB, MIB, can_fake, check, faked, finish, program, run, served,
                          skip, works)

MAPPINGS_MOST = 1000
EDGES = 16  # large objects between pages without access at a time (EDGE_RUNS, src/large/edge.h), a few mappings each
# KiB that the library itself has resident before the first object (decision 35): 220 of code, which
# processes share, 170 of its data, of areas, of the window's parts and of first slabs, and what the loader touches
# in libc to bind two libraries more.
LIBRARY = 640
# KiB of code and unwind tables, most of them libc's, that the first sample of a profile reads, and 80 of its own tables.  Files'
# pages are shared by all processes (decision 52).
SAMPLED = 320

for size, count, *end in ((8 * MIB, 500), (64 << 10, 4000), (16 * MIB, 200), (MIB, 1000),
                          (300 << 10, 2000), (200000, 2000), (1600000, 1000), (8 * MIB, 500, "end"), (64 << 10, 4000, "end"), (3 * MIB, 300, "end")):
    what = f"{count} objects of {size} bytes {' '.join(end)}"
    found = {who: works(f"{what}, {who}",
                        served(program("sparse", size, count, *end), stook)).figures()
             for who, stook in BOTH}
    print(what, found)
    grown = {who: figures.get("resident", 1 << 30) - figures.get("before", 0)
             for who, figures in found.items()}
    check(grown["stook"] <= 1.1 * grown["glibc"] + SAMPLED,
          f"{what}: {grown['stook']} KiB more are resident, with glibc {grown['glibc']}")
    check(found["stook"].get("resident", 1 << 30) <=
          1.1 * found["glibc"].get("resident", 0) + LIBRARY + SAMPLED,
          f"{what}: {found['stook']}, with glibc {found['glibc']}")
    check(found["stook"].get("tables", 1 << 30) <= 1.5 * found["glibc"].get("tables", 0) + 64,
          f"{what}: {found['stook'].get('tables')} KiB of page tables more, with glibc "
          f"{found['glibc'].get('tables')}")

with open("/proc/sys/vm/overcommit_memory", encoding="ascii") as file:
    strict = file.read().strip() == "2"
if strict:
    skip("heaps of many GiB: the kernel does not overcommit")
else:
    start = works("the start, glibc", served(program("sparse", "start"), False)).figures()["virtual"]
    for gib, smallest, doublings in ((16, 64, 17), (1, 64, 17), (16, 64 * KIB, 6)):
        what = f"a heap of {gib} GiB, from {smallest} bytes on"
        done = works(what, served(program("sparse", "heap", gib, smallest, doublings), True)).figures()
        print(what, done)
        for moment in ("full", "half"):
            check(done.get(moment, MAPPINGS_MOST + 1) <= MAPPINGS_MOST,
                  f"{what}, {moment}: {done.get(moment)} mappings")
        check(done.get("virtual", 1 << 40) <= start + 64 * MIB // KIB + 1.25 * done.get("used", 0),
              f"{what}: {done}, glibc at the start {start} KiB")

# However many nodes a machine may have, one object and all of them get what glibc's get.
POSSIBLE = "/sys/devices/system/node/possible"
if not strict and can_fake(POSSIBLE):
    for nodes in ("0", "0-63"):
        for size, count in ((40 * GIB, 1), (GIB - 4 * MIB, 300)):
            plain, ours = (run(faked({POSSIBLE: nodes}, served(program("sparse", size, count), stook)))
                           for _, stook in BOTH)
            # The kernel refuses one request of more than the machine has.
            check(ours.status == 0 or plain.status == 1,
                  f"possible nodes {nodes}: {count} of {size} bytes: {ours}")
else:
    skip("64 possible nodes: the kernel does not overcommit, or files of sysfs cannot be imitated")

# Spans of 2.5 MiB, side by side.
found = {who: works(f"spans, {who}", served(program("sparse", 5 * MIB // 2, 200), stook)).figures()
         for who, stook in BOTH}
print(found)
check(found["stook"].get("mappings", 1000) <= found["glibc"].get("mappings", 0) + 20 + 2 * EDGES,
      f"200 objects of 2.5 MiB: {found}")
finish()
