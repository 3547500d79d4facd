#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: preload
# modes: default locked
"""mlockall(): an ordinary user's succeeds under glibc's virtual size and 128 MiB, and what it makes
resident is near what it makes resident with glibc; MCL_FUTURE leaves malloc working."""
from surroundings import BOTH, KIB, MIB, check, finish, program, run, served, skip, works

ROOM = 128 * MIB
MORE = 64 * MIB  # resident, when everything is

figures = works("figures", served(program("lock", "figures"), False)).figures()
# Threads' stacks are locked too: 8 MiB each, of the family's three and what they leave cached; and the
# heap that glibc makes for each.
threads = 4 * (8 + 64) * MIB
limit = figures["virtual"] * KIB + ROOM + threads


def locks(kind, stook):
    """Under the limit; where it cannot be set that high, with the right to lock everything."""
    for value in (limit, 0):
        done = run(served(program("lock", kind, value), stook))
        if done.status != 77:
            break
    return done


for kind in ("all", "future"):
    found = {}
    for who, stook in BOTH:
        done = locks(kind, stook)
        if done.status == 77:
            skip("so much cannot be locked here")
            finish(False)
        check(done.status == 0, f"{kind}, {who}: {done}")
        found[who] = done.figures()
    print(kind, found)
    more = (found["stook"].get("resident", 1 << 30) - found["glibc"].get("resident", 0)) * KIB
    check(more <= MORE, f"{kind}: {more >> 20} MiB more are resident than with glibc")
    # What is locked counts by addresses, not by what is resident.
    more = (found["stook"].get("virtual", 1 << 40) - found["glibc"].get("virtual", 0)) * KIB
    check(more <= ROOM, f"{kind}: {more >> 20} MiB of addresses more than with glibc")
finish()
