#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""Limits of address space, data, file size, locked memory and descriptors, set before the start and
by the program on itself: what works under glibc's malloc works, and malloc stops where a limit is."""
import resource

from surroundings import BOTH, GIB, KIB, MIB, BUILD, check, finish, program, served, works

LIMITS = (("AS", GIB), ("DATA", 512 * MIB), ("FSIZE", 0), ("MEMLOCK", 0), ("NOFILE", 4))
ENOUGH = 0.75  # of what glibc's malloc gets out of the same limit


def number(name):
    return getattr(resource, "RLIMIT_" + name)


for name, value in LIMITS:
    works(f"RLIMIT_{name} {value} before the start", served(program("limits", "exercise"), True),
          limits=[(number(name), value)])
    works(f"RLIMIT_{name} {value} later", served(program("limits", "later", name, value), True))
works("no descriptor is left", served(program("limits", "later", "NOFILE", 0), True))


def fills(what, size, most, *arguments, limits=(), enough=ENOUGH):
    """As many objects as with glibc, nearly, never more than the limit, and as many again."""
    got = {}
    for who, stook in BOTH:
        argv = served(program("limits", *arguments), stook)
        got[who] = works(f"{what}, {who}", argv, limits=limits).figures()
    ours = got["stook"]
    print(what, got)
    check(ours.get("first", 0) * size <= most, f"{what}: {ours.get('first')} of {size} bytes")
    check(ours.get("first", 0) >= enough * got["glibc"].get("first", 0),
          f"{what}: {ours.get('first')} objects, with glibc {got['glibc'].get('first')}")
    check(ours.get("again", 0) >= 0.95 * ours.get("first", 1),
          f"{what}: {ours.get('again')} objects instead of {ours.get('first')} the second time")


for size in (1000, 1 * MIB):
    for name, value in (("AS", 512 * MIB), ("DATA", 256 * MIB)):
        fills(f"{size} bytes under RLIMIT_{name}", size, value, "fill", size,
              limits=[(number(name), value)])
        fills(f"{size} bytes under RLIMIT_{name}, later", size, value, "fill-later", name, value,
              size)
# Blocks of large objects have no metadata: what the limit refuses to those of small ones, free blocks give.
for mib in (100, 160):
    fills(f"1000 bytes, before and after 3 MiB, under RLIMIT_DATA of {mib} MiB", 1000, mib * MIB,
          "fill-between", 1000, 3 * MIB, limits=[(resource.RLIMIT_DATA, mib * MIB)], enough=0.6)
fills("a program that limits itself to 2 GiB", MIB, 2 * GIB, "space", 2 * GIB, "libresolv.so.2")
# Objects of 100 MiB: what is next to a limit is not lost to rounding.
fills("large objects under RLIMIT_AS", 100 * MIB, GIB + 64 * KIB, "fill", 100 * MIB,
      limits=[(resource.RLIMIT_AS, GIB)])
for mib in (100, 300):
    works(f"free memory in pieces under {mib} MiB", served(program("limits", "scatter", 3200000), True),
          limits=[(resource.RLIMIT_AS, mib * MIB)])


def rises(kind, first, last, step, argv, slack=0, **variables):
    """A limit that is enough is enough when it is larger, and then no less is to be had."""
    scan = [*program("scan", kind, first, last, step), *argv]
    done = works(f"limits of {first} to {last} KiB", served(scan, True, **variables))
    rows = [[int(word) for word in line.split()] for line in done.out.splitlines()]
    best, starts = 0, None
    counts = any(amount for _, _, amount in rows)
    for limit, status, amount in rows:
        if counts and status == 0 and amount == 0:
            continue  # the loader had no room for the library, and went on without it
        starts = starts or (limit if status == 0 else None)
        check(status == 0 or not starts, f"{argv}: {starts} KiB of {kind} are enough, and {limit} are not")
        check(amount + slack >= best, f"{argv}: {amount} under {limit} KiB of {kind}, and {best} under less")
        best = max(best, amount)
    print(f"{argv[0]} {variables}: {kind} from {starts} KiB on; {best}")
    check(starts and rows[0][1] != 0, f"{argv}: it starts with {starts} KiB of {kind}")


for kind, first, bare in (("AS", 5000, 3000), ("DATA", 3000, 600)):  # /bin/true needs neither areas nor an arena
    rises(kind, bare, first + 24000, 60, ["/bin/true"])
    rises(kind, first, first + 30000, 150, program("limits", "fill", 300000))
    rises(kind, first, first + 30000, 500, program("limits", "fill", 1000), slack=1000)
rises("AS", 60000, 90000, 200, program("bare", 20), slack=100, LD_PRELOAD=f"{BUILD}/lib/stook/sim/libstook-malloc.so", STOOK_TOPOLOGY="node:4 core:64 memory:0-3=16G")
finish()
